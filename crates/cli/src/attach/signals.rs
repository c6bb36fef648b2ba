//! Makes signals available to a poll loop.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::low_level::{pipe, unregister};

/// Signals that end the command after it has restored the terminal.
const ENDINGS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

pub struct Signals {
    wake: UnixStream,
    resized: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
    ending: Arc<AtomicUsize>,
    registered: Vec<SigId>,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        let (wake, bell) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut signals = Self {
            wake,
            resized: Arc::default(),
            continued: Arc::default(),
            ending: Arc::default(),
            registered: Vec::new(),
        };
        let flag = signal_hook::flag::register;
        signals.registered.push(flag(SIGWINCH, Arc::clone(&signals.resized))?);
        signals.registered.push(flag(SIGCONT, Arc::clone(&signals.continued))?);
        for signal in ENDINGS {
            let value = usize::try_from(signal).expect("signal numbers are positive");
            let ending = Arc::clone(&signals.ending);
            signals.registered.push(signal_hook::flag::register_usize(signal, ending, value)?);
        }
        // Register the pipe last: handlers run in this order, so the flags are set before the loop wakes.
        for signal in ENDINGS.into_iter().chain([SIGWINCH, SIGCONT]) {
            signals.registered.push(pipe::register(signal, bell.try_clone()?)?);
        }
        Ok(signals)
    }

    /// Empties the pipe. Call it when the descriptor is readable.
    pub fn drain(&mut self) {
        let mut discarded = [0; 64];
        while matches!(self.wake.read(&mut discarded), Ok(count) if count > 0) {}
    }

    pub fn take_resized(&self) -> bool {
        self.resized.swap(false, Ordering::Relaxed)
    }

    /// Returns whether the command was continued after a stop: the shell may have changed the terminal.
    pub fn take_continued(&self) -> bool {
        self.continued.swap(false, Ordering::Relaxed)
    }

    /// Returns the signal that asked this command to end.
    pub fn ending(&self) -> Option<i32> {
        match self.ending.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }

    /// Returns that signal and clears it, for a command that continues.
    pub fn take_ending(&self) -> Option<i32> {
        match self.ending.swap(0, Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}
