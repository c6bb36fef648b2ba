//! Signals to the holder itself, delivered through a pollable descriptor.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGTERM};

#[derive(Debug)]
pub struct Signals {
    woken: UnixStream,
    stop_requested: Arc<AtomicBool>,
}

impl Signals {
    pub fn watch() -> io::Result<Self> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let stop_requested = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, stop_requested.clone())?;
        signal_hook::low_level::pipe::register(SIGTERM, wake.try_clone()?)?;
        // SIGCHLD reports the end of a child or an adopted orphan. A handler also overrides an inherited "ignore", with
        // which the kernel would discard the exit status.
        signal_hook::low_level::pipe::register(SIGCHLD, wake)?;
        Ok(Self { woken, stop_requested })
    }

    /// Drains the wake-up descriptor. Call it before checking for exited children, so that no signal is missed.
    pub fn clear(&self) {
        let mut sink = [0; 64];
        while (&self.woken).read(&mut sink).is_ok_and(|count| count == sink.len()) {}
    }

    /// Returns and clears whether the holder received SIGTERM, for example at a system shutdown.
    pub fn take_stop(&self) -> bool {
        self.stop_requested.swap(false, Ordering::Relaxed)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
