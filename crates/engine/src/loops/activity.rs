//! Stores changes of activity, at most one transaction per interval for all sessions.

use std::sync::Arc;
use std::time::Duration;

use coven_holder::clock;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Engine;
use crate::activity::STORE_INTERVAL;

const STORE_RETRY: Duration = Duration::from_secs(1);

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let mut next_due: Option<Instant> = None;
    loop {
        tokio::select! {
            () = engine.activity.notify.notified() => {}
            () = sleep_until(next_due.unwrap_or_else(Instant::now)), if next_due.is_some() => {}
            () = engine.stopped() => return,
        }
        let started = Instant::now();
        let now = clock::now();
        next_due = engine.apply_due_activity(now).map(|due| started + due.since(now));
        if let Err(error) = engine.store_activity().await {
            tracing::warn!(%error, "cannot store the activity of sessions; retrying");
            next_due = Some(Instant::now() + STORE_RETRY);
        }
        tokio::select! {
            () = sleep(STORE_INTERVAL.saturating_sub(started.elapsed())) => {}
            () = engine.stopped() => return,
        }
    }
}
