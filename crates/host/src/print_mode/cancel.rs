//! Calls a turn off, from another thread or from a signal's handler.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// One for each turn: what was called off stays called off.
#[derive(Debug, Clone)]
pub struct Cancel {
    pipe: Arc<(OwnedFd, OwnedFd)>,
}

impl Cancel {
    pub fn new() -> io::Result<Self> {
        Ok(Self { pipe: Arc::new(pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?) })
    }

    /// Nothing but one write(2), so that a signal's handler may do it.
    pub fn cancel(&self) {
        // It fails only when the pipe is full, and then it was called off often enough.
        let _ = rustix::io::write(&self.pipe.1, &[1]);
    }

    pub fn is_cancelled(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.pipe.0, PollFlags::IN)], Some(&at_once)).is_ok_and(|ready| ready > 0)
    }
}

/// Readable once it was called off.
impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_called_off_stays_so_however_often() {
        let cancel = Cancel::new().expect("two descriptors");
        assert!(!cancel.is_cancelled());
        for _ in 0..100_000 {
            cancel.clone().cancel();
        }
        assert!(cancel.is_cancelled() && cancel.is_cancelled());
    }
}
