//! Terminal models of running sessions, fed from their logs by one thread of low priority that may lag behind.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use coven_screen::Screen;
use coven_store::Keyframe;
use tokio::sync::watch;

use super::log_file::LogFile;

/// A keyframe every so many bytes: attaching and seeking never parse more than that.
pub const KEYFRAME_BYTES: u64 = 1 << 20;
/// How much is fed before others get their turn.
const SLICE: usize = 128 << 10;
/// Answers beyond this are left out: nobody asks so much and reads it.
const MAX_REPLIES: usize = 4096;

/// The screen of one session as far as its log has been fed.
pub struct Model {
    state: Mutex<State>,
    /// How far the log is known to reach.
    target: AtomicU64,
    is_queued: AtomicBool,
    /// Grows with every step that may have changed the screen.
    version: watch::Sender<u64>,
}

struct State {
    screen: Screen,
    offset: u64,
    reader: LogFile,
    /// Sizes that take effect when the log stands at an offset.
    resizes: VecDeque<(u64, u16, u16)>,
    keyframes: Vec<Keyframe>,
    last_keyframe: u64,
    /// Questions in what came before this were answered long ago, or never will be.
    answers_from: u64,
    replies: Vec<u8>,
    buffer: Vec<u8>,
}

/// A screen at a byte of the log.
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
                buffer: Vec::new(),
            }),
            target: AtomicU64::new(start.offset),
            is_queued: AtomicBool::new(false),
            version: watch::Sender::new(0),
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

    /// How many bytes are waiting to be fed.
    pub fn lag(&self) -> u64 {
        self.target.load(Ordering::Acquire).saturating_sub(self.lock().offset)
    }

    /// Feeds at most one slice; true while there is more.
    fn feed_slice(&self) -> io::Result<bool> {
        self.feed_slice_to(self.target.load(Ordering::Acquire))
    }

    fn feed_slice_to(&self, target: u64) -> io::Result<bool> {
        let has_more = self.lock().feed_slice(target);
        self.version.send_modify(|version| *version += 1);
        has_more
    }

    /// Wakes with every step that may have changed the screen.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// How far the log has been fed.
    pub(crate) fn offset(&self) -> u64 {
        self.lock().offset
    }

    /// Feeds up to where the log is known to reach now; a flood that goes on is not waited for.
    pub fn catch_up(&self) -> io::Result<()> {
        let target = self.target.load(Ordering::Acquire);
        while self.feed_slice_to(target)? {}
        Ok(())
    }

    /// The log reaches to `end`.
    pub fn reach(&self, end: u64) {
        self.target.fetch_max(end, Ordering::AcqRel);
    }

    pub fn snapshot(&self) -> ScreenSnapshot {
        let mut state = self.lock();
        let (rows, cols) = state.screen.size();
        ScreenSnapshot { offset: state.offset, rows, cols, ansi: state.screen.snapshot() }
    }

    /// Reads the screen itself, with the byte of the log that it belongs to.
    pub(crate) fn with_screen<T>(&self, read: impl FnOnce(&mut Screen, u64) -> T) -> T {
        let mut state = self.lock();
        let offset = state.offset;
        read(&mut state.screen, offset)
    }

    pub fn take_keyframes(&self) -> Vec<Keyframe> {
        std::mem::take(&mut self.lock().keyframes)
    }

    /// Keyframes that could not be stored come back to be tried again.
    pub fn requeue_keyframes(&self, mut keyframes: Vec<Keyframe>) {
        let mut state = self.lock();
        keyframes.append(&mut state.keyframes);
        state.keyframes = keyframes;
    }

    pub fn take_replies(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().replies)
    }

    /// The screen as it is now becomes a keyframe.
    pub fn close(&self) {
        let mut state = self.lock();
        if state.last_keyframe != state.offset || state.offset == 0 {
            state.keep();
        }
    }
}

impl State {
    fn feed_slice(&mut self, target: u64) -> io::Result<bool> {
        while let Some((at, rows, cols)) = self.resizes.front().copied().filter(|(at, ..)| *at <= self.offset) {
            debug_assert!(at <= self.offset);
            self.resizes.pop_front();
            self.screen.resize(rows, cols);
            self.keep();
        }
        let next_resize = self.resizes.front().map_or(u64::MAX, |(at, ..)| *at);
        // Old questions and new ones are never in one slice.
        let last_old = if self.offset < self.answers_from { self.answers_from } else { u64::MAX };
        let stop = target.min(next_resize).min(self.last_keyframe + KEYFRAME_BYTES).min(last_old);
        let wanted = usize::try_from(stop.saturating_sub(self.offset)).unwrap_or(SLICE).min(SLICE);
        if wanted == 0 {
            return Ok(false);
        }
        self.buffer.resize(wanted, 0);
        let count = self.reader.read_at(self.offset, &mut self.buffer)?;
        if count == 0 {
            // The oldest segments went before they were seen: go on with what is left.
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

    fn keep(&mut self) {
        let (rows, cols) = self.screen.size();
        self.last_keyframe = self.offset;
        self.keyframes.push(Keyframe { offset: self.offset, rows, cols, screen: self.screen.snapshot() });
    }
}

/// The thread that feeds all models, a slice at a time, each model at most once in its queue.
pub struct Screens {
    queue: Sender<Job>,
}

struct Job {
    model: Arc<Model>,
    /// Told when the model has caught up and something waits to be fetched from it.
    done: Arc<dyn Fn() + Send + Sync>,
}

impl Screens {
    pub fn start() -> io::Result<Self> {
        let (queue, jobs) = mpsc::channel();
        let requeue = queue.clone();
        thread::Builder::new().name("screens".into()).spawn(move || work(&jobs, &requeue))?;
        Ok(Self { queue })
    }

    /// The log reaches to `target` now; `done` is called on the screens' thread once the model has it.
    pub fn advance(&self, model: &Arc<Model>, target: u64, done: Arc<dyn Fn() + Send + Sync>) {
        model.reach(target);
        if !model.is_queued.swap(true, Ordering::AcqRel) {
            let _ = self.queue.send(Job { model: model.clone(), done });
        }
    }
}

fn work(jobs: &Receiver<Job>, requeue: &Sender<Job>) {
    // The harnesses come first: a screen may lag, they may not.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 5);
    while let Ok(job) = jobs.recv() {
        // Cleared first: what comes from now on queues it again.
        job.model.is_queued.store(false, Ordering::Release);
        // One session's screen must not take the others' along.
        let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.model.feed_slice()));
        let has_more = match stepped.unwrap_or_else(|_| Err(io::Error::other("the terminal model panicked"))) {
            Ok(has_more) => has_more,
            Err(error) => {
                tracing::warn!(%error, "a session's log could not be read for its screen");
                false
            }
        };
        if !has_more {
            (job.done)();
        } else if !job.model.is_queued.swap(true, Ordering::AcqRel) {
            let _ = requeue.send(job);
        }
    }
}
