//! Terminal models of running sessions. One low-priority thread feeds them from the logs and may lag.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use coven_screen::{Screen, TerminalSignal};
use coven_store::Keyframe;
use tokio::sync::watch;

use super::log_file::LogFile;
use super::view::SharedScreen;

/// Bytes between two keyframes: attaching and seeking never parse more than that.
pub const KEYFRAME_BYTES: u64 = 1 << 20;
/// Bytes that are fed before another model gets its turn.
const SLICE: usize = 128 << 10;
/// Maximum bytes of queued terminal replies; later replies are dropped.
const MAX_REPLIES: usize = 4096;
/// Maximum number of queued signals; the oldest ones are dropped.
const MAX_SIGNALS: usize = 256;

/// The screen of one session as far as its log has been fed.
pub struct Model {
    state: Mutex<State>,
    /// The known end of the log.
    target: AtomicU64,
    is_queued: AtomicBool,
    has_signals: AtomicBool,
    /// Increases with every slice that may have changed the screen.
    version: watch::Sender<u64>,
    pub(crate) shared: SharedScreen,
}

struct State {
    screen: Screen,
    offset: u64,
    reader: LogFile,
    /// Sizes with the log offset where each takes effect.
    resizes: VecDeque<(u64, u16, u16)>,
    keyframes: Vec<Keyframe>,
    last_keyframe: u64,
    /// Terminal queries before this offset get no reply: an earlier daemon handled them.
    answers_from: u64,
    replies: Vec<u8>,
    /// `None` if the harness has no rules.
    signals: Option<SignalQueue>,
    buffer: Vec<u8>,
}

/// The signals in the output from an offset on.
struct SignalQueue {
    /// An earlier daemon judged the signals before this offset.
    from: u64,
    /// The screen has reached that offset.
    has_started: bool,
    new: NewSignals,
}

/// The signals since the last call.
#[derive(Debug, Default)]
pub(crate) struct NewSignals {
    /// The title at the offset from which signals are kept; returned once.
    pub earlier_title: Option<String>,
    pub signals: VecDeque<TerminalSignal>,
}

/// A rendered screen and its log offset.
pub struct ScreenSnapshot {
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
    pub ansi: Vec<u8>,
}

impl Model {
    pub fn new(dir: &Path, start: Keyframe, answers_from: u64) -> Self {
        Self {
            state: Mutex::new(State {
                screen: Screen::restore(start.rows, start.cols, &start.screen),
                offset: start.offset,
                reader: LogFile::new(dir),
                resizes: VecDeque::new(),
                keyframes: Vec::new(),
                last_keyframe: start.offset,
                answers_from,
                replies: Vec::new(),
                signals: None,
                buffer: Vec::new(),
            }),
            target: AtomicU64::new(start.offset),
            is_queued: AtomicBool::new(false),
            has_signals: AtomicBool::new(false),
            version: watch::Sender::new(0),
            shared: SharedScreen::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn resize_at(&self, offset: u64, rows: u16, cols: u16) {
        let mut state = self.lock();
        if offset >= state.offset {
            state.resizes.push_back((offset, rows, cols));
        }
    }

    /// Returns the number of bytes to be fed.
    pub fn lag(&self) -> u64 {
        self.target.load(Ordering::Acquire).saturating_sub(self.lock().offset)
    }

    /// Keeps the signals of output from this offset on. Called before the model is fed.
    pub(crate) fn keep_signals_from(&self, from: u64) {
        self.lock().signals = Some(SignalQueue { from, has_started: false, new: NewSignals::default() });
    }

    pub(crate) fn take_signals(&self) -> NewSignals {
        // Cleared before the read, so that later signals set it again.
        self.has_signals.store(false, Ordering::Release);
        self.lock().signals.as_mut().map(|queue| std::mem::take(&mut queue.new)).unwrap_or_default()
    }

    /// Returns the text of the screen; `None` while it shows old output that an earlier daemon judged.
    pub(crate) fn new_screen_text(&self) -> Option<String> {
        let state = self.lock();
        state.signals.as_ref().is_some_and(|queue| queue.has_started).then(|| state.screen.text())
    }

    /// Feeds at most one slice. Returns true if there is more.
    fn feed_slice(&self) -> io::Result<bool> {
        self.feed_slice_to(self.target.load(Ordering::Acquire))
    }

    fn feed_slice_to(&self, target: u64) -> io::Result<bool> {
        let mut state = self.lock();
        let has_more = state.feed_slice(target);
        let has_signals = state.signals.as_ref().is_some_and(|queue| !queue.new.signals.is_empty());
        drop(state);
        if has_signals {
            self.has_signals.store(true, Ordering::Release);
        }
        self.version.send_modify(|version| *version += 1);
        has_more
    }

    /// Receives every change of the version.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Returns the log offset of the screen.
    pub(crate) fn offset(&self) -> u64 {
        self.lock().offset
    }

    /// Feeds up to the end of the log that is known now, even if more output keeps arriving.
    pub fn catch_up(&self) -> io::Result<()> {
        let target = self.target.load(Ordering::Acquire);
        while self.feed_slice_to(target)? {}
        Ok(())
    }

    /// Raises the known end of the log.
    pub fn reach(&self, end: u64) {
        self.target.fetch_max(end, Ordering::AcqRel);
    }

    pub fn snapshot(&self) -> ScreenSnapshot {
        let mut state = self.lock();
        let (rows, cols) = state.screen.size();
        ScreenSnapshot { offset: state.offset, rows, cols, ansi: state.screen.snapshot() }
    }

    /// Calls `read` with the screen and its log offset.
    pub(crate) fn with_screen<T>(&self, read: impl FnOnce(&mut Screen, u64) -> T) -> T {
        let mut state = self.lock();
        let offset = state.offset;
        read(&mut state.screen, offset)
    }

    pub fn take_keyframes(&self) -> Vec<Keyframe> {
        std::mem::take(&mut self.lock().keyframes)
    }

    /// Returns keyframes that could not be stored to the queue.
    pub fn requeue_keyframes(&self, mut keyframes: Vec<Keyframe>) {
        let mut state = self.lock();
        keyframes.append(&mut state.keyframes);
        state.keyframes = keyframes;
    }

    pub fn take_replies(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().replies)
    }

    /// Makes the current screen a keyframe.
    pub fn close(&self) {
        let mut state = self.lock();
        if state.last_keyframe != state.offset || state.offset == 0 {
            state.keep();
        }
    }
}

impl State {
    fn feed_slice(&mut self, target: u64) -> io::Result<bool> {
        self.start_signals();
        let has_more = self.feed(target);
        self.collect_signals();
        // Without new output this call is the only one.
        self.start_signals();
        has_more
    }

    fn feed(&mut self, target: u64) -> io::Result<bool> {
        while let Some((at, rows, cols)) = self.resizes.front().copied().filter(|(at, ..)| *at <= self.offset) {
            debug_assert!(at <= self.offset);
            self.resizes.pop_front();
            self.screen.resize(rows, cols);
            self.keep();
        }
        let next_resize = self.resizes.front().map_or(u64::MAX, |(at, ..)| *at);
        // Queries that get no reply and those that do are never in one slice; nor are old signals and new ones.
        let signals_from = self.signals.as_ref().map_or(0, |queue| queue.from);
        let last_old = [self.answers_from, signals_from].into_iter().filter(|from| self.offset < *from).min();
        let last_old = last_old.unwrap_or(u64::MAX);
        let stop = target.min(next_resize).min(self.last_keyframe + KEYFRAME_BYTES).min(last_old);
        let wanted = usize::try_from(stop.saturating_sub(self.offset)).unwrap_or(SLICE).min(SLICE);
        if wanted == 0 {
            return Ok(false);
        }
        self.buffer.resize(wanted, 0);
        let count = self.reader.read_at(self.offset, &mut self.buffer)?;
        if count == 0 {
            // The oldest segments were deleted before they were read; continue with the first that is left.
            let first = self.reader.range()?.start;
            if first <= self.offset {
                return Ok(false);
            }
            self.offset = first;
            self.last_keyframe = first;
            return Ok(true);
        }
        self.screen.feed(&self.buffer[..count]);
        self.offset += count as u64;
        let replies = self.screen.take_replies();
        if self.offset > self.answers_from && self.replies.len() + replies.len() <= MAX_REPLIES {
            self.replies.extend_from_slice(&replies);
        }
        if self.offset >= self.last_keyframe + KEYFRAME_BYTES {
            self.keep();
        }
        if self.offset >= target {
            // An idle session keeps no buffer.
            self.buffer = Vec::new();
        }
        Ok(self.offset < target || !self.resizes.is_empty())
    }

    /// Starts to keep signals once the screen has reached their first offset.
    fn start_signals(&mut self) {
        let offset = self.offset;
        if let Some(queue) = self.signals.as_mut().filter(|queue| !queue.has_started && offset >= queue.from) {
            self.screen.take_signals();
            queue.has_started = true;
            queue.new.earlier_title = self.screen.title().map(str::to_owned);
        }
    }

    fn collect_signals(&mut self) {
        if let Some(queue) = self.signals.as_mut().filter(|queue| queue.has_started) {
            queue.new.signals.extend(self.screen.take_signals());
            let excess = queue.new.signals.len().saturating_sub(MAX_SIGNALS);
            queue.new.signals.drain(..excess);
        }
    }

    fn keep(&mut self) {
        let (rows, cols) = self.screen.size();
        self.last_keyframe = self.offset;
        self.keyframes.push(Keyframe { offset: self.offset, rows, cols, screen: self.screen.snapshot() });
    }
}

/// The thread that feeds all models, one slice at a time. Each model is in its queue at most once.
pub struct Screens {
    queue: Sender<Job>,
}

struct Job {
    model: Arc<Model>,
    /// Called when the model has caught up and may have replies or keyframes.
    done: Arc<dyn Fn() + Send + Sync>,
}

impl Screens {
    pub fn start() -> io::Result<Self> {
        let (queue, jobs) = mpsc::channel();
        let requeue = queue.clone();
        thread::Builder::new().name("screens".into()).spawn(move || work(&jobs, &requeue))?;
        Ok(Self { queue })
    }

    /// Raises the known end of the log to `target`. The thread calls `done` once the model has caught up.
    pub fn advance(&self, model: &Arc<Model>, target: u64, done: Arc<dyn Fn() + Send + Sync>) {
        model.reach(target);
        if !model.is_queued.swap(true, Ordering::AcqRel) {
            let _ = self.queue.send(Job { model: model.clone(), done });
        }
    }
}

fn work(jobs: &Receiver<Job>, requeue: &Sender<Job>) {
    // Harnesses have priority: a screen may lag.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 5);
    while let Ok(job) = jobs.recv() {
        // Cleared before the read, so that later output queues the model again.
        job.model.is_queued.store(false, Ordering::Release);
        // A panic in one model must not end the thread.
        let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.model.feed_slice()));
        let has_more = match stepped.unwrap_or_else(|_| Err(io::Error::other("the terminal model panicked"))) {
            Ok(has_more) => has_more,
            Err(error) => {
                tracing::warn!(%error, "cannot read a session's log for its screen");
                false
            }
        };
        if !has_more {
            (job.done)();
            continue;
        }
        // Signals are read during a flood, not only after it.
        if job.model.has_signals.load(Ordering::Acquire) {
            (job.done)();
        }
        if !job.model.is_queued.swap(true, Ordering::AcqRel) {
            let _ = requeue.send(job);
        }
    }
}
