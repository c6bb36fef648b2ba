//! The output of a session: its ledger with bytes, its log, and its screen at any offset.

use std::sync::Arc;

use bytes::Bytes;
use coven_domain::SessionId;
use coven_domain::entry::Entry;
use coven_screen::Screen;
use coven_store::Keyframe;

use super::Engine;
use super::live::UnstoredEntries;
use super::log_file::LogFile;
use super::model::Model;
use super::session::ensure_terminal;
use crate::blocking::blocking;
use crate::error::EngineError;

/// A model that is at most this far behind catches up before it is shown; else it is shown as it is.
pub(crate) const MAX_CATCH_UP_BYTES: u64 = 2 << 20;
/// Maximum bytes of output in one page of entries.
const PAGE_BYTES: u64 = 8 << 20;

/// Maximum bytes of a log in one send.
const SEND_BYTES: usize = 256 << 10;

/// A screen and its log offset.
pub struct ScreenAt {
    pub screen: Screen,
    pub offset: u64,
}

impl Engine {
    /// Returns a page of the ledger. Output entries include their bytes.
    pub async fn entries(
        self: &Arc<Self>,
        id: SessionId,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<(Entry, Option<Bytes>)>, u64), EngineError> {
        self.session(id).await?;
        self.refresh(id).await;
        let mut entries = self.store.entries(id, after, limit).await?;
        let mut bytes = 0;
        let fitting = entries.iter().take_while(|entry| {
            bytes += entry.length;
            bytes <= PAGE_BYTES
        });
        // At least one, or a reader could never get past it.
        entries.truncate(fitting.count().max(1));
        let next = entries.last().map_or(after, |entry| entry.seq);
        let dir = self.home.session_dir(id);
        let read = blocking(move || -> std::io::Result<Vec<(Entry, Option<Bytes>)>> {
            let outputs = entries.iter().filter(|entry| entry.length > 0);
            let (from, to) = (outputs.clone().map(|it| it.offset).min(), outputs.map(|it| it.offset + it.length).max());
            let (Some(from), Some(to)) = (from, to) else {
                return Ok(entries.into_iter().map(|entry| (entry, None)).collect());
            };
            // One read for the page: its outputs are adjacent in the log.
            let mut log = LogFile::new(&dir);
            let first = log.range()?.start.max(from);
            let wanted = usize::try_from(to.saturating_sub(first)).unwrap_or(0);
            let bytes = Bytes::from(log.read_range(first, wanted)?);
            let is_whole = bytes.len() == wanted;
            let mut piece_of = |entry: &Entry| match is_whole {
                true => {
                    let start = usize::try_from(entry.offset.saturating_sub(first)).unwrap_or(0).min(bytes.len());
                    let end = usize::try_from((entry.offset + entry.length).saturating_sub(first)).unwrap_or(0);
                    Ok(bytes.slice(start..end.clamp(start, bytes.len())))
                }
                // Part of the log is missing, so read each entry by itself.
                false => log.read_range(entry.offset, usize::try_from(entry.length).unwrap_or(0)).map(Bytes::from),
            };
            let with_piece = |entry: Entry| {
                let piece = (entry.length > 0).then(|| piece_of(&entry)).transpose()?;
                Ok((entry, piece))
            };
            entries.into_iter().map(with_piece).collect()
        })
        .await
        .map_err(|source| EngineError::Log { id, source })?;
        Ok((read, next))
    }

    /// Returns the screen now, or at log offset `at`.
    pub async fn screen(self: &Arc<Self>, id: SessionId, at: Option<u64>) -> Result<ScreenAt, EngineError> {
        let session = self.session(id).await?;
        if let (None, Some(live)) = (at, self.live_session(id))
            && let Some(model) = live.model.clone()
        {
            if model.lag() <= MAX_CATCH_UP_BYTES {
                let model = model.clone();
                let _ = blocking(move || model.catch_up()).await;
            }
            let snapshot = model.snapshot();
            return Ok(ScreenAt {
                screen: Screen::restore(snapshot.rows, snapshot.cols, &snapshot.ansi),
                offset: snapshot.offset,
            });
        }
        self.refresh(id).await;
        let last = self.store.keyframe_before(id, u64::MAX).await?;
        let keyframe = match at {
            None => last.clone(),
            Some(at) => self.store.keyframe_before(id, at).await?,
        };
        let (rows, cols) = (session.launch.rows, session.launch.cols);
        let start = keyframe.unwrap_or(Keyframe { offset: 0, rows, cols, screen: Vec::new() });
        let (dir, seen) = (self.home.session_dir(id), last.map_or(0, |last| last.offset));
        blocking(move || rebuild(&dir, start, at, seen)).await.map_err(|source| EngineError::Log { id, source })
    }

    /// Returns the bytes that repaint a live screen, or `None` if it has no model.
    pub async fn live_snapshot(&self, id: SessionId) -> Option<super::model::ScreenSnapshot> {
        let model = self.live_session(id)?.model.clone()?;
        match model.lag() {
            0 => {}
            1..=MAX_CATCH_UP_BYTES => {
                let behind = model.clone();
                let _ = blocking(move || behind.catch_up()).await;
            }
            _ => {}
        }
        Some(model.snapshot())
    }

    /// Reads the journal of a session that has no follower, and records the session's end.
    pub(crate) async fn reconcile_from_journal(
        self: &Arc<Self>,
        id: SessionId,
        orphaned: &str,
    ) -> Result<(), EngineError> {
        let stored = self.store.last_entry(id).await?;
        let journal = self.home.session_dir(id).join(coven_holder::JOURNAL);
        let mut unstored = match UnstoredEntries::open(&journal, stored) {
            Ok(unstored) => unstored,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return self.end_without_journal(id).await,
            Err(source) => return Err(EngineError::Log { id, source }),
        };
        if let Err(error) = unstored.read(None) {
            tracing::error!(session = %id, %error, "the journal is damaged; using the readable part");
        }
        self.record_end(id, &mut unstored, orphaned).await?;
        self.end_terminals(id).await;
        self.compress_later(id);
        Ok(())
    }

    /// Stores pending entries. On a full disk, readers get what is already stored.
    pub(super) async fn refresh(self: &Arc<Self>, id: SessionId) {
        if let Some(live) = self.live_session(id)
            && let Err(error) = self.sync_ledger(&live).await
        {
            tracing::warn!(session = %id, %error, "cannot store the entries of the journal");
        }
    }

    /// Feeds the rest of an ended session's log to a model and stores the keyframes, so that later reads parse less.
    pub(crate) async fn close_screen(self: &Arc<Self>, id: SessionId) {
        let (true, Ok(Some(session))) = (self.config.sessions.screen_model, self.store.session(id).await) else {
            return;
        };
        if ensure_terminal(&session).is_err() {
            return;
        }
        let Ok(keyframe) = self.store.keyframe_before(id, u64::MAX).await else { return };
        let (rows, cols) = (session.launch.rows, session.launch.cols);
        let start = keyframe.unwrap_or(Keyframe { offset: 0, rows, cols, screen: Vec::new() });
        let dir = self.home.session_dir(id);
        let fed = blocking(move || -> std::io::Result<Vec<Keyframe>> {
            let end = LogFile::new(&dir).range()?.end;
            if start.offset >= end {
                return Ok(Vec::new());
            }
            let model = Model::new(&dir, start, u64::MAX);
            if let Ok(mut unstored) = UnstoredEntries::open(&dir.join(coven_holder::JOURNAL), u64::MAX) {
                unstored.read(Some(&model))?;
            }
            model.reach(end);
            model.catch_up()?;
            model.close();
            Ok(model.take_keyframes())
        });
        let keyframes = match fed.await {
            Ok(keyframes) => keyframes,
            other => return tracing::warn!(session = %id, ?other, "cannot compute the last screen"),
        };
        if let Err(error) = self.keep_keyframes(id, &keyframes).await {
            tracing::warn!(session = %id, %error, "cannot store the last screen");
        }
    }

    async fn keep_keyframes(&self, id: SessionId, keyframes: &[Keyframe]) -> Result<(), EngineError> {
        if keyframes.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.begin_unsynced().await?;
        for it in keyframes {
            tx.put_keyframe(id, it.offset, it.rows, it.cols, &it.screen).await?;
        }
        Ok(self.commit_output(tx).await?)
    }
}

/// Rebuilds a screen from a keyframe, which parses about a megabyte at most. Sizes after `seen` come from the journal.
fn rebuild(dir: &std::path::Path, start: Keyframe, at: Option<u64>, seen: u64) -> std::io::Result<ScreenAt> {
    let end = LogFile::new(dir).range()?.end;
    let model = Model::new(dir, start, u64::MAX);
    if (at.is_none() || seen < end)
        && let Ok(mut unstored) = UnstoredEntries::open(&dir.join(coven_holder::JOURNAL), u64::MAX)
    {
        unstored.read(Some(&model))?;
    }
    model.reach(at.unwrap_or(end).min(end));
    model.catch_up()?;
    let snapshot = model.snapshot();
    Ok(ScreenAt { screen: Screen::restore(snapshot.rows, snapshot.cols, &snapshot.ansi), offset: snapshot.offset })
}

/// The part of a log that is still to be sent.
struct LogStream {
    log: LogFile,
    at: u64,
    to: u64,
    live: Option<Arc<super::live::LiveSession>>,
    progress: Option<tokio::sync::watch::Receiver<u64>>,
}

impl Engine {
    /// Streams the log from offset `from`; with `is_following` until the session ends. Returns the first offset too.
    pub async fn log_stream(
        self: &Arc<Self>,
        id: SessionId,
        from: u64,
        to: Option<u64>,
        is_following: bool,
    ) -> Result<(u64, impl futures_util::Stream<Item = std::io::Result<bytes::Bytes>> + Send + use<>), EngineError>
    {
        self.session(id).await?;
        let log = LogFile::new(&self.home.session_dir(id));
        let range = log.range().map_err(|source| EngineError::Log { id, source })?;
        let at = from.max(range.start);
        let live = self.live_session(id).filter(|_| is_following);
        let to = to.unwrap_or(if is_following { u64::MAX } else { range.end });
        let progress = live.as_ref().map(|live| live.progress());
        let sending = LogStream { log, at, to, live, progress };
        let engine = self.clone();
        let stream = futures_util::stream::unfold((engine, sending), |(engine, mut sending)| async move {
            loop {
                let wanted =
                    usize::try_from(sending.to.saturating_sub(sending.at)).unwrap_or(SEND_BYTES).min(SEND_BYTES);
                if wanted == 0 {
                    return None;
                }
                // Marked as seen before the read, so that later output wakes this task.
                if let Some(progress) = &mut sending.progress {
                    progress.borrow_and_update();
                }
                let has_ended = sending.live.as_ref().is_none_or(|live| live.has_ended());
                let at = sending.at;
                let read = blocking(move || {
                    let read = sending.log.read_range(at, wanted);
                    (sending, read)
                });
                let (back, read) = read.await;
                sending = back;
                match read {
                    Ok(bytes) if bytes.is_empty() => {
                        // There may be more after a gap.
                        if let Ok(Some(next)) = sending.log.next_start(sending.at) {
                            sending.at = next;
                            continue;
                        }
                        if has_ended {
                            return None;
                        }
                        let (Some(live), Some(progress)) = (&sending.live, &mut sending.progress) else { return None };
                        tokio::select! {
                            changed = progress.changed() => if changed.is_err() { return None },
                            () = live.ended() => {}
                            () = engine.stopped() => return None,
                        }
                    }
                    Ok(bytes) => {
                        sending.at += bytes.len() as u64;
                        return Some((Ok(bytes::Bytes::from(bytes)), (engine, sending)));
                    }
                    Err(error) => return Some((Err(error), (engine, LogStream { to: 0, ..sending }))),
                }
            }
        });
        Ok((at, stream))
    }
}
