//! The terminal app: one screen that shows which agent needs the user, and lets them answer, type, review and come back.
//!
//! `app` decides and does no I/O, `draw` paints, `feed` talks to the daemon; this file joins them.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod app;
mod dialog;
mod draw;
mod feed;
pub mod frame;
mod kept_layout;
mod layout;
mod outer;
mod pane;
mod setup;
mod view;
mod world;

use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coven_domain::{SessionId, Timestamp};
use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{sleep, sleep_until, timeout};

use self::app::{App, Effect, Message};
use self::feed::{Command, Feed};
pub use self::frame::keymap::{Key, Keymap};
use self::outer::Outer;
pub use self::pane::form::details;
pub use self::setup::{Connect, Export, LaunchContext, Settings, Setup, View};
pub use self::view::inbox::kind_word;

/// News of the daemon are painted together at most this often.
const FRAME_TIME: Duration = Duration::from_millis(33);
/// Output of the focused terminal this soon after a key is its echo.
const ECHO_TIME: Duration = Duration::from_millis(250);
/// How long leaving the app may wait for the daemon.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long reports are applied before keys are looked at again.
const BATCH_TIME: Duration = Duration::from_millis(3);
const MAX_EVENTS: usize = 1024;

/// How the app ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Quit,
    /// A signal asked the program to end.
    Signal(i32),
}

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// Shows the app until the user leaves it. The terminal is as it was before, however this ends.
pub fn run(setup: Setup) -> Result<Ended, AppError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(show(setup));
    // Drops requests whose answers nobody reads.
    runtime.shutdown_background();
    ended
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

struct Frame {
    app: App,
    outer: Outer,
    feed: Feed,
    export: Export,
    exported: Sender<Result<String, String>>,
    layout_file: Option<PathBuf>,
    kept_layout: String,
    last_key: Option<Instant>,
    has_rows: bool,
    is_urgent: bool,
}

async fn show(setup: Setup) -> Result<Ended, AppError> {
    let connect = setup.connect.clone();
    let (ended, looks) = follow(setup).await?;
    // The terminal is the user's again. The daemon may be gone, or busy.
    let _ = timeout(LEAVE_TIMEOUT, feed::stop_looking(connect, looks)).await;
    Ok(ended)
}

/// Runs until the user leaves. Returns the conversations that were on the screen.
async fn follow(setup: Setup) -> Result<(Ended, Vec<SessionId>), AppError> {
    // Before the terminal is changed, so that no signal finds it changed and unguarded.
    let mut ending = Endings::listen()?;
    let mut continued = signal(SignalKind::from_raw(signal_hook::consts::SIGCONT))?;
    let outer = Outer::take(setup.settings.is_mouse_on)?;
    let (event_sender, mut events) = mpsc::channel(MAX_EVENTS);
    let (exported, mut exports) = mpsc::channel(16);
    let feed = Feed::start(setup.connect.clone());
    let (export, layout_file) = (setup.export.clone(), setup.settings.layout_file.clone());
    let mut app = App::new(setup, outer::size()?, now());
    let kept_layout = layout_file.as_deref().map(|file| kept_layout::restore(&mut app, file)).unwrap_or_default();
    let mut frame = Frame {
        app,
        outer,
        feed,
        export,
        exported,
        layout_file,
        kept_layout,
        last_key: None,
        has_rows: false,
        is_urgent: true,
    };
    frame.paint()?;
    let hung_up = event_sender.clone();
    thread::Builder::new().name("hang-up".to_owned()).spawn(move || watch_for_hang_up(&hung_up))?;
    thread::Builder::new().name("keys".to_owned()).spawn(move || read_events(&event_sender))?;
    let mut painted_at = Instant::now();
    let mut is_dirty = false;
    loop {
        let next_tick = sleep(Duration::from_millis(frame.app.next_tick_millis()));
        let next_paint = sleep_until((painted_at + FRAME_TIME).into());
        tokio::select! {
            biased;
            number = ending.next() => return Ok((Ended::Signal(number), frame.looks())),
            event = events.recv() => {
                let Some(event) = event else { return Ok((Ended::Signal(signal_hook::consts::SIGHUP), frame.looks())) };
                frame.tick()?;
                if let Some(ended) = frame.user_events(event, &mut events)? {
                    return Ok((ended, frame.looks()));
                }
                (is_dirty, frame.is_urgent) = (true, true);
            }
            _ = continued.recv() => {
                frame.outer.retake()?;
                (is_dirty, frame.is_urgent) = (true, true);
            }
            () = next_paint, if is_dirty => frame.is_urgent = true,
            Some(result) = exports.recv() => {
                frame.app.update(Message::Exported(result));
                is_dirty = true;
            }
            Some(report) = frame.feed.next() => {
                frame.tick()?;
                frame.reports(report)?;
                is_dirty = true;
            }
            () = next_tick => {
                frame.tick()?;
                (is_dirty, frame.is_urgent) = (true, true);
            }
        }
        if is_dirty && (frame.is_urgent || painted_at.elapsed() >= FRAME_TIME) {
            frame.paint()?;
            painted_at = Instant::now();
            is_dirty = false;
        }
    }
}

impl Frame {
    fn looks(&self) -> Vec<SessionId> {
        self.app.looks().filter(|_| self.app.is_connected()).collect()
    }

    fn tick(&mut self) -> Result<(), AppError> {
        let effects = self.app.update(Message::Tick(now()));
        self.perform(effects).map(drop)
    }

    fn paint(&mut self) -> Result<(), AppError> {
        self.is_urgent = false;
        let effects = self.app.settle();
        self.perform(effects)?;
        let app = &self.app;
        self.outer.draw(app.size, |buffer| draw::draw(app, buffer))?;
        let effects = self.app.painted();
        self.perform(effects)?;
        self.keep_layout();
        Ok(())
    }

    /// Writes the layout when it changed, so that the next start has it.
    fn keep_layout(&mut self) {
        let Some(file) = &self.layout_file else { return };
        let layout = kept_layout::write(&self.app);
        if layout != self.kept_layout {
            if let Err(why) = kept_layout::save(file, &layout) {
                self.app.problem(format!("cannot keep the layout in {}: {why}", file.display()));
            }
            self.kept_layout = layout;
        }
    }

    /// Applies an event of the terminal and those that wait behind it.
    fn user_events(
        &mut self,
        first: io::Result<Event>,
        events: &mut Receiver<io::Result<Event>>,
    ) -> Result<Option<Ended>, AppError> {
        let mut next = Some(first);
        while let Some(event) = next {
            // The terminal is gone: this is how a hang-up ends a program.
            let Ok(event) = event else { return Ok(Some(Ended::Signal(signal_hook::consts::SIGHUP))) };
            let message = match event {
                Event::Key(key) => {
                    self.last_key = Some(Instant::now());
                    Message::Key(key)
                }
                Event::Mouse(mouse) => Message::Mouse(mouse),
                Event::Paste(text) => Message::Paste(text),
                Event::Resize(..) => Message::Resized(outer::size()?),
                Event::FocusGained => Message::Focus(true),
                Event::FocusLost => Message::Focus(false),
            };
            let effects = self.app.update(message);
            if self.perform(effects)? {
                return Ok(Some(Ended::Quit));
            }
            next = events.try_recv().ok();
        }
        Ok(None)
    }

    /// Applies a report of the daemon and those that wait behind it, until something has to be painted immediately.
    fn reports(&mut self, first: feed::Report) -> Result<(), AppError> {
        let begin = Instant::now();
        let mut next = Some(first);
        while let Some(report) = next {
            let is_echo =
                self.last_key.is_some_and(|at| at.elapsed() < ECHO_TIME) && self.app.is_focused_output(&report);
            // The first rows are what the user waits for at the start.
            let has_rows = matches!(&report, feed::Report::Sessions(rows) if !rows.is_empty());
            let is_first = has_rows && !std::mem::replace(&mut self.has_rows, true);
            let effects = self.app.update(Message::Report(report));
            self.perform(effects)?;
            if is_echo || is_first {
                self.is_urgent = true;
                return Ok(());
            }
            next = if begin.elapsed() < BATCH_TIME { self.feed.try_next() } else { None };
        }
        Ok(())
    }

    /// Performs effects. Reports whether the user quits.
    fn perform(&mut self, effects: Vec<Effect>) -> Result<bool, AppError> {
        for effect in effects {
            match effect {
                Effect::Live(request) => {
                    if self.feed.send(Command::Live(request)).is_err() {
                        self.app.problem("the daemon does not keep up; press the key again");
                    }
                }
                Effect::Call(call) => {
                    if let Err(Command::Call(call)) = self.feed.send(Command::Call(call)) {
                        let result = Err("the daemon does not keep up; try again".to_owned());
                        let effects = self.app.update(Message::Report(feed::Report::Answered { call, result }));
                        self.perform(effects)?;
                    }
                }
                Effect::Bell => self.outer.ring()?,
                Effect::Copy(text) => self.outer.copy(&text)?,
                Effect::Export { session, path } => {
                    let (export, exported) = (self.export.clone(), self.exported.clone());
                    thread::Builder::new().name("export".to_owned()).spawn(move || {
                        let result = export(session, path.as_ref()).map(|()| path);
                        // The app may have ended.
                        let _ = exported.blocking_send(result);
                    })?;
                }
                Effect::Redraw => self.outer.forget(self.app.size)?,
                Effect::Suspend => {
                    self.outer.suspend()?;
                    self.app.update(Message::Resized(outer::size()?));
                }
                Effect::Quit => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// Reads keys, mouse and sizes until the terminal is gone.
fn read_events(events: &Sender<io::Result<Event>>) {
    // A terminal that does not answer has no such protocol.
    let _ = outer::enable_keyboard_flags();
    loop {
        let event = event::read();
        let is_over = event.is_err();
        if events.blocking_send(event).is_err() || is_over {
            return;
        }
    }
}

/// Waits until the terminal is gone. Without a controlling terminal no signal says so, and the reader of keys would spin.
fn watch_for_hang_up(events: &Sender<io::Result<Event>>) {
    let stdin = io::stdin();
    let is_gone = loop {
        let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) => break fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break false,
        }
    };
    if is_gone {
        // The app may have ended.
        let _ = events.blocking_send(Err(io::ErrorKind::UnexpectedEof.into()));
    }
}

/// The signals that ask a program to end.
struct Endings {
    signals: Vec<(i32, tokio::signal::unix::Signal)>,
}

impl Endings {
    fn listen() -> io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        let listen = |number| Ok((number, signal(SignalKind::from_raw(number))?));
        Ok(Self { signals: [SIGTERM, SIGHUP, SIGINT, SIGQUIT].into_iter().map(listen).collect::<io::Result<_>>()? })
    }

    async fn next(&mut self) -> i32 {
        let waiting = self.signals.iter_mut().map(|(number, signal)| {
            Box::pin(async move {
                signal.recv().await;
                *number
            })
        });
        futures_util::future::select_all(waiting).await.0
    }
}
