//! Reads the hook calls that `coven hook` stores for live sessions while the daemon is slow.

use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::Engine;

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let Some(events) = engine.stored_calls.events() else { return };
    // SAFETY: the value owns its descriptor, and neither closes nor replaces it while it lives.
    let registered = unsafe { AsyncFd::register_with_interest(events, Interest::READABLE) };
    let Ok(events) = registered.inspect_err(|error| tracing::warn!(%error, "cannot watch for stored hook calls"))
    else {
        return;
    };
    loop {
        tokio::select! {
            ready = events.readable() => {
                let Ok(mut ready) = ready else { return };
                // Before the read: an event that arrives during it wakes the loop again.
                ready.clear_ready();
                engine.read_new_stored_calls();
            }
            () = engine.stopped() => return,
        }
    }
}
