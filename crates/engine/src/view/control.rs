//! Acknowledgements and jumps of a subscriber.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, watch};

/// What the subscriber says to its view while it is open.
#[derive(Debug)]
pub struct ViewControl {
    /// A view holds output in memory only with a permit of this.
    pub(super) readers: Arc<Semaphore>,
    pub(super) said: watch::Sender<Said>,
    /// Bytes before this were sent.
    pub(super) sent: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Said {
    pub(super) acked: u64,
    pub(super) jumps: u64,
}

impl Default for ViewControl {
    fn default() -> Self {
        Self::sharing(Arc::new(Semaphore::new(1)))
    }
}

impl ViewControl {
    /// Views that share `readers` hold output in memory in turn, so that many of them need as much memory as a few.
    pub fn sharing(readers: Arc<Semaphore>) -> Self {
        Self { readers, said: watch::Sender::default(), sent: AtomicU64::new(0) }
    }

    /// Everything before `offset` is painted. Fails with the first byte that was not sent if `offset` is beyond it.
    pub fn ack(&self, offset: u64) -> Result<(), u64> {
        let sent = self.sent.load(Ordering::Acquire);
        if offset > sent {
            return Err(sent);
        }
        self.said.send_modify(|said| said.acked = said.acked.max(offset));
        Ok(())
    }

    /// Asks for the screen as it is now.
    pub fn jump(&self) {
        self.said.send_modify(|said| said.jumps += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_beyond_what_was_sent_is_refused_and_acks_only_grow() {
        let control = ViewControl::default();
        assert_eq!(control.ack(1), Err(0));
        control.sent.store(10, Ordering::Release);
        assert_eq!((control.ack(10), control.ack(4)), (Ok(()), Ok(())));
        assert_eq!(control.said.borrow().acked, 10);
    }
}
