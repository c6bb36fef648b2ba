//! A session as one subscriber sees it: its log, or the rows of its screen, within a window that the subscriber acknowledges.
//! The log is read on demand, so a subscriber that does not acknowledge keeps nothing here and delays no other.

mod control;
mod pace;
mod shared;
mod source;
mod update;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coven_domain::SessionId;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

pub use coven_screen::{Color, CursorView, Span, Style, Underline};

use self::control::Said;
pub use self::control::ViewControl;
use self::pace::{FRAME_TIME, Pace};
pub(crate) use self::shared::SharedScreen;
use self::source::{Piece, Source, read_piece};
pub use self::update::{OnLag, ScreenContent, ScreenView, ViewMode, ViewRequest, ViewUpdate};
use crate::Engine;
use crate::blocking::blocking;
use crate::error::EngineError;
use crate::log_file::LogFile;
use crate::model::Model;
use crate::output::MAX_CATCH_UP_BYTES;
use crate::sizes::Size;

/// The most output of one update.
const MAX_OUTPUT: u64 = 64 << 10;
/// How long changes of rows are collected before they are sent.
const ROWS_EVERY: Duration = Duration::from_millis(33);

pub struct SessionView {
    engine: Arc<Engine>,
    id: SessionId,
    wanted: ViewRequest,
    control: Arc<ViewControl>,
    said: watch::Receiver<Said>,
    jumps: u64,
    source: Source,
    /// Open while there is something to read.
    log: Option<LogFile>,
    updates: VecDeque<ViewUpdate>,
    sent: u64,
    acked: u64,
    is_lagging: bool,
    pace: Pace,
    /// Held while output is in memory.
    turn: Option<OwnedSemaphorePermit>,
    /// The next of the session's sizes, and the size that the subscriber knows.
    next_size: usize,
    shown_size: Option<(u16, u16)>,
    shown: Option<ShownRows>,
    is_over: bool,
}

/// The rows that the subscriber has.
struct ShownRows {
    lines: Vec<Vec<Span>>,
    cursor: CursorView,
    /// The model's version that they come from, or a later one that looked the same.
    version: Option<u64>,
    sent_at: Instant,
    is_last: bool,
}

impl Engine {
    /// Opens a view of a session, running or not. `control` belongs to this view alone.
    pub async fn view_session(
        self: &Arc<Self>,
        id: SessionId,
        wanted: ViewRequest,
        control: Arc<ViewControl>,
    ) -> Result<SessionView, EngineError> {
        let source = Source::find(self, id).await?;
        let has_rows = self.config.sessions.screen_model || source.has_ended();
        if wanted.mode == ViewMode::Rows && !has_rows {
            let why = "this daemon keeps no screens; subscribe to bytes, or set sessions.screenModel to true";
            return Err(EngineError::Invalid(why.to_owned()));
        }
        let mut view = SessionView {
            engine: self.clone(),
            id,
            wanted,
            said: control.said.subscribe(),
            control,
            jumps: 0,
            source,
            log: None,
            updates: VecDeque::new(),
            sent: 0,
            acked: 0,
            is_lagging: false,
            pace: Pace::new(wanted.window),
            turn: None,
            next_size: 0,
            shown_size: None,
            shown: None,
            is_over: false,
        };
        view.start().await?;
        Ok(view)
    }
}

impl SessionView {
    /// The next update, or `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<ViewUpdate>, EngineError> {
        loop {
            if let Some(update) = self.updates.pop_front() {
                return Ok(Some(update));
            }
            // The caller has sent everything so far.
            self.turn = None;
            if self.is_over {
                return Ok(None);
            }
            self.proceed().await?;
        }
    }

    async fn start(&mut self) -> Result<(), EngineError> {
        self.take_turn().await;
        if let Some(from) = self.wanted.from {
            let end = self.log_end().await?;
            if from > end {
                return Err(EngineError::Invalid(format!("from: the log has {end} bytes; {from} is beyond its end")));
            }
            self.move_to(from);
        }
        let screen = match (self.wanted.mode, self.wanted.from) {
            (ViewMode::Bytes, Some(from)) => {
                self.next_size = self.source.sizes.place_at(from, None);
                self.updates.push_back(ViewUpdate::Started { offset: from });
                return Ok(());
            }
            (ViewMode::Rows, Some(from)) => self.stored_screen(Some(from)).await?,
            (_, None) => self.screen_after(0).await?,
        };
        self.updates.push_back(ViewUpdate::Started { offset: screen.offset });
        self.show(screen);
        Ok(())
    }

    /// Adds at least one update, or waits for a reason to.
    async fn proceed(&mut self) -> Result<(), EngineError> {
        // Marked as seen before anything is read: a later change ends the wait.
        let said = *self.said.borrow_and_update();
        self.source.mark_seen();
        let has_ended = self.source.has_ended();
        if said.jumps != self.jumps {
            self.jumps = said.jumps;
            self.pace.stop();
            self.take_turn().await;
            return self.jump().await;
        }
        if said.acked > self.acked {
            self.acked = said.acked.min(self.sent);
            if std::mem::take(&mut self.is_lagging)
                && self.wanted.on_lag == OnLag::Jump
                && self.log_end().await?.saturating_sub(self.acked) > self.wanted.window
            {
                self.pace.jump(Instant::now());
                self.take_turn().await;
                return self.jump().await;
            }
        }
        if self.is_lagging {
            let _ = self.said.changed().await;
            return Ok(());
        }
        match self.wanted.mode {
            ViewMode::Bytes => {
                if self.wanted.on_lag == OnLag::Jump && self.is_paced(said.acked).await? {
                    return Ok(());
                }
                self.take_turn().await;
                self.read_on(has_ended).await
            }
            ViewMode::Rows => self.look_again(has_ended).await,
        }
    }

    /// Keeps a subscriber that may jump to the frames of a screen while its session floods. Returns true if there is
    /// nothing to read now: it waited, or jumped.
    async fn is_paced(&mut self, acked: u64) -> Result<bool, EngineError> {
        // Without a model the daemon has no screen to jump to: an ended session is sent as fast as the subscriber reads.
        if self.source.model().is_none() {
            return Ok(false);
        }
        if let Some(until) = self.pace.held_until(Instant::now()) {
            tokio::select! {
                _ = self.said.changed() => {}
                () = sleep_until(until) => {}
            }
            return Ok(true);
        }
        if !self.pace.is_flooded() {
            return Ok(false);
        }
        if self.known_end().await?.saturating_sub(self.sent) <= self.wanted.window {
            self.pace.stop();
            return Ok(false);
        }
        // A whole window of bytes would be outdated when it is painted, a screen is not.
        if acked >= self.sent
            && let Some(screen) = self.newer_screen().await
        {
            self.pace.jump(Instant::now());
            self.jump_to(screen);
            return Ok(true);
        }
        Ok(false)
    }

    async fn take_turn(&mut self) {
        if self.turn.is_none() {
            // Fails only if it is closed, which it never is.
            self.turn = self.control.readers.clone().acquire_owned().await.ok();
        }
    }

    async fn wait(&mut self) -> Result<(), EngineError> {
        // A view that waits keeps no file open.
        self.log = None;
        self.turn = None;
        let is_pending = self.source.is_pending();
        tokio::select! {
            _ = self.said.changed() => {}
            () = self.source.more(self.wanted.mode) => if is_pending {
                self.source = Source::find(&self.engine, self.id).await?;
                self.next_size = self.source.sizes.place_at(self.sent, self.shown_size);
            },
        }
        Ok(())
    }

    async fn end(&mut self) -> Result<(), EngineError> {
        let code = self.engine.session(self.id).await?.exit_code;
        let end = self.log_end().await?.max(self.sent);
        self.updates.push_back(ViewUpdate::Exited { code, end });
        self.is_over = true;
        Ok(())
    }

    /// Everything before `offset` was sent, and there is nothing to acknowledge before it.
    fn move_to(&mut self, offset: u64) {
        self.acked = offset;
        self.advance_to(offset);
    }

    fn advance_to(&mut self, offset: u64) {
        self.sent = offset;
        self.control.sent.fetch_max(offset, Ordering::AcqRel);
    }

    fn room(&self) -> u64 {
        self.wanted.window.saturating_sub(self.sent.saturating_sub(self.acked))
    }

    async fn lag(&mut self) -> Result<(), EngineError> {
        self.is_lagging = true;
        self.log = None;
        let end = self.log_end().await?.max(self.sent);
        self.updates.push_back(ViewUpdate::Lagging { offset: self.sent, end });
        Ok(())
    }

    /// Skips to the screen as it is now.
    async fn jump(&mut self) -> Result<(), EngineError> {
        let mut screen = self.screen_after(self.sent).await?;
        // The screen leaves out the start of a character. A subscriber that has it already does not get it again.
        screen.offset = screen.offset.max(self.sent);
        self.jump_to(screen);
        Ok(())
    }

    fn jump_to(&mut self, screen: ScreenView) {
        self.is_lagging = false;
        if self.shown_size.is_some() {
            self.tell_size(screen.rows, screen.cols);
        }
        self.updates.push_back(ViewUpdate::Jumped { from: self.sent, to: screen.offset });
        self.show(screen);
    }

    fn tell_size(&mut self, rows: u16, cols: u16) {
        if self.shown_size != Some((rows, cols)) {
            self.shown_size = Some((rows, cols));
            self.updates.push_back(ViewUpdate::Resized { rows, cols });
        }
    }

    fn show(&mut self, screen: ScreenView) {
        self.move_to(screen.offset);
        self.shown_size = Some((screen.rows, screen.cols));
        self.next_size = self.source.sizes.place_at(screen.offset, self.shown_size);
        if let ScreenContent::Lines(lines) = &screen.content {
            let (lines, cursor) = (lines.clone(), screen.cursor);
            let is_last = self.shown.as_ref().is_some_and(|shown| shown.is_last);
            self.shown = Some(ShownRows { lines, cursor, version: None, sent_at: Instant::now(), is_last });
        }
        self.updates.push_back(ViewUpdate::Screen(screen));
    }

    async fn log_end(&self) -> Result<u64, EngineError> {
        let dir = self.source.dir.clone();
        let range = blocking(move || LogFile::new(&dir).range()).await;
        Ok(range.map_err(|source| EngineError::Log { id: self.id, source })?.end)
    }

    /// Where the log ends, as far as the daemon knows without looking.
    async fn known_end(&self) -> Result<u64, EngineError> {
        match &self.source.progress {
            Some(progress) if !self.source.has_ended() => Ok(*progress.borrow()),
            _ => self.log_end().await,
        }
    }

    // --- bytes -------------------------------------------------------------------------------------------------

    async fn read_on(&mut self, has_ended: bool) -> Result<(), EngineError> {
        let next_size = self.source.sizes.from(self.next_size);
        if let Some((place, Size { rows, cols, .. })) = next_size.filter(|(_, size)| size.offset <= self.sent) {
            self.next_size = place + 1;
            self.tell_size(rows, cols);
            return Ok(());
        }
        let until_resize = next_size.map_or(u64::MAX, |(_, size)| size.offset - self.sent);
        // One byte beyond a full window shows whether there is anything to lag behind.
        let wanted = self.room().clamp(1, MAX_OUTPUT).min(until_resize);
        match self.read(usize::try_from(wanted).unwrap_or(0)).await? {
            Piece::Bytes(_) if self.room() == 0 => self.lag().await,
            Piece::Bytes(bytes) => {
                let offset = self.sent;
                self.advance_to(offset + bytes.len() as u64);
                self.pace.sent(bytes.len() as u64, Instant::now());
                self.updates.push_back(ViewUpdate::Output { offset, bytes: bytes.into() });
                Ok(())
            }
            Piece::Missing { next } => {
                // The screen there is as good as what is left of the log allows.
                let screen = self.stored_screen(Some(next)).await?;
                self.jump_to(ScreenView { offset: next, ..screen });
                Ok(())
            }
            Piece::Nothing if has_ended => self.end().await,
            Piece::Nothing => self.wait().await,
        }
    }

    async fn read(&mut self, wanted: usize) -> Result<Piece, EngineError> {
        let mut log = self.log.take().unwrap_or_else(|| LogFile::new(&self.source.dir));
        let at = self.sent;
        let (log, piece) = blocking(move || {
            let piece = read_piece(&mut log, at, wanted);
            (log, piece)
        })
        .await;
        self.log = Some(log);
        piece.map_err(|source| EngineError::Log { id: self.id, source })
    }

    // --- rows --------------------------------------------------------------------------------------------------

    async fn look_again(&mut self, has_ended: bool) -> Result<(), EngineError> {
        let Some(shown) = &self.shown else { return self.wait().await };
        if shown.is_last {
            return self.end().await;
        }
        let model = self.source.model().cloned();
        let has_more = has_ended || model.as_ref().is_some_and(|model| Some(model.version()) != shown.version);
        if !has_more {
            return self.wait().await;
        }
        if self.room() == 0 && self.log_end().await? > self.sent {
            return self.lag().await;
        }
        let due = shown.sent_at + ROWS_EVERY;
        sleep_until(due).await;
        self.take_turn().await;
        let (version, screen) = match model {
            None => (None, self.stored_screen(None).await?),
            Some(model) => {
                if has_ended {
                    // The journal is complete now, so the model may be fed to the end of the log.
                    model.reach(self.log_end().await?);
                }
                let looked = self.model_screen(&model, has_ended.then_some(u64::MAX)).await?;
                (Some(looked.version), looked.screen)
            }
        };
        self.compare(version, screen);
        if let Some(shown) = self.shown.as_mut() {
            shown.is_last = has_ended;
        }
        Ok(())
    }

    /// Sends what differs from the rows that the subscriber has.
    fn compare(&mut self, version: Option<u64>, screen: ScreenView) {
        let ScreenContent::Lines(lines) = &screen.content else { return };
        let Some(shown) = self.shown.as_mut() else { return };
        if Some((screen.rows, screen.cols)) != self.shown_size {
            self.tell_size(screen.rows, screen.cols);
            self.show(screen);
        } else {
            let pairs = lines.iter().zip(&shown.lines).enumerate();
            let changed: Vec<(usize, Vec<Span>)> =
                pairs.filter(|(_, (now, before))| now != before).map(|(row, (now, _))| (row, now.clone())).collect();
            let (offset, cursor) = (screen.offset, screen.cursor);
            if !changed.is_empty() || cursor != shown.cursor {
                for (row, spans) in &changed {
                    shown.lines[*row].clone_from(spans);
                }
                (shown.cursor, shown.sent_at) = (cursor, Instant::now());
                self.advance_to(offset);
                self.updates.push_back(ViewUpdate::Rows { offset, cursor, changed });
            }
        }
        if let Some(shown) = self.shown.as_mut() {
            shown.version = version;
        }
    }

    // --- screens -----------------------------------------------------------------------------------------------

    /// The screen as it is now, with everything before `offset` of the log. Its offset is less by the start of a character,
    /// if the log ends with one.
    async fn screen_after(&mut self, offset: u64) -> Result<ScreenView, EngineError> {
        let Some(model) = self.source.model().cloned() else { return self.stored_screen(None).await };
        if self.source.has_ended() {
            model.reach(self.log_end().await?);
        }
        let mut versions = model.versions();
        loop {
            versions.borrow_and_update();
            let has_ended = self.source.has_ended();
            let looked = self.model_screen(&model, Some(offset)).await?;
            if looked.fed >= offset || has_ended {
                return Ok(looked.screen);
            }
            // The bytes were read before the journal had them; the model follows the journal.
            self.turn = None;
            let live = self.source.live.clone().expect("a model belongs to a live session");
            tokio::select! {
                _ = versions.changed() => {}
                () = live.ended() => model.reach(self.log_end().await?),
            }
            self.take_turn().await;
        }
    }

    /// A screen that is newer than the bytes that were sent, if the model has one without catching up. It is at most a
    /// frame time old, and one rendering serves all subscribers of the session.
    async fn newer_screen(&mut self) -> Option<ScreenView> {
        let model = self.source.model().cloned()?;
        self.take_turn().await;
        let sent = self.sent;
        blocking(move || {
            model.shared.get(Instant::now().checked_sub(FRAME_TIME), sent, || {
                model.with_screen(|screen, fed| (fed > sent).then(|| ScreenView::of(screen, fed, ViewMode::Bytes)))
            })
        })
        .await
        .filter(|screen| screen.offset > sent)
    }

    /// What the model shows. With `fed_to` the model is fed first, if it is before that byte or little is left.
    async fn model_screen(&self, model: &Arc<Model>, fed_to: Option<u64>) -> Result<Looked, EngineError> {
        let (model, mode) = (model.clone(), self.wanted.mode);
        let looked = blocking(move || -> io::Result<Looked> {
            let lag = model.lag();
            if lag > 0 && fed_to.is_some_and(|offset| lag <= MAX_CATCH_UP_BYTES || model.offset() < offset) {
                model.catch_up()?;
            }
            // Read before the screen: a change after it is looked at again.
            let version = model.version();
            Ok(model.with_screen(|screen, fed| Looked { version, fed, screen: ScreenView::of(screen, fed, mode) }))
        });
        looked.await.map_err(|source| EngineError::Log { id: self.id, source })
    }

    /// The screen from the log and the stored keyframes.
    async fn stored_screen(&self, at: Option<u64>) -> Result<ScreenView, EngineError> {
        let mut shown = self.engine.screen(self.id, at).await?;
        Ok(ScreenView::of(&mut shown.screen, shown.offset, self.wanted.mode))
    }
}

/// What a model showed.
struct Looked {
    version: u64,
    /// How far the log had been fed.
    fed: u64,
    screen: ScreenView,
}
