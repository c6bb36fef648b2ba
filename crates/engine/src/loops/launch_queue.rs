//! Launches sessions that wait for the limits of the config. Does nothing while the queue is empty.

use std::sync::Arc;
use std::time::Duration;

use crate::Engine;

/// How often memory and load are checked while a launch waits for them.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Combines changes that follow each other.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let mut changes = engine.changes();
    loop {
        // Marked as seen before the look, so that a later commit wakes this task.
        changes.borrow_and_update();
        if engine.launch_queue.len() > 0
            && let Err(error) = engine.launch_waiting().await
        {
            tracing::error!(%error, "cannot launch the sessions that wait; retrying");
        }
        let is_waiting = engine.launch_queue.len() > 0;
        tokio::select! {
            // A session may have ended.
            changed = changes.changed(), if is_waiting => if changed.is_err() { return },
            () = engine.launch_queue.changed.notified() => {}
            () = tokio::time::sleep(CHECK_INTERVAL), if is_waiting && engine.launch_limits().needs_measuring() => {}
            () = engine.stopped() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(MIN_INTERVAL) => {}
            () = engine.stopped() => return,
        }
    }
}
