//! Cancels a turn from another thread or from a signal handler.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// Cancellation of one turn; it cannot be undone.
#[derive(Debug, Clone)]
pub struct Cancel {
    pipe: Arc<(OwnedFd, OwnedFd)>,
}

impl Cancel {
    pub fn new() -> io::Result<Self> {
        Ok(Self { pipe: Arc::new(pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?) })
    }

    /// Performs a single write(2), so that a signal handler can call it.
    pub fn cancel(&self) {
        // This fails only if the pipe is full, and then the turn is already cancelled.
        let _ = rustix::io::write(&self.pipe.1, &[1]);
    }

    pub fn is_cancelled(&self) -> bool {
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.pipe.0, PollFlags::IN)], Some(&no_wait)).is_ok_and(|ready| ready > 0)
    }
}

/// The descriptor is readable once the turn is cancelled.
impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelling_many_times_does_not_block() {
        let cancel = Cancel::new().expect("two descriptors");
        assert!(!cancel.is_cancelled());
        for _ in 0..100_000 {
            cancel.clone().cancel();
        }
        assert!(cancel.is_cancelled() && cancel.is_cancelled());
    }
}
