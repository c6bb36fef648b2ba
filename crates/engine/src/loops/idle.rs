//! Ends ACP sessions that reached the idle timeout.

use std::sync::Arc;
use std::time::Duration;

use coven_domain::Timestamp;
use coven_holder::clock;

use crate::Engine;

const MAX_INTERVAL: Duration = Duration::from_secs(30);
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let Some(timeout) = engine.config.agents.idle_timeout() else { return };
    let every = (timeout / 8).clamp(MIN_INTERVAL, MAX_INTERVAL);
    loop {
        tick(&engine, timeout, clock::now()).await;
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = engine.stopped() => return,
        }
    }
}

pub async fn tick(engine: &Arc<Engine>, timeout: Duration, now: Timestamp) {
    for live in engine.live_sessions() {
        let Some(acp) = &live.acp else { continue };
        let Some(since) = acp.idle_since() else { continue };
        if now.since(since) < timeout {
            continue;
        }
        tracing::info!(session = %live.id, minutes = timeout.as_secs_f64() / 60.0, "the session reached its idle timeout");
        if let Err(error) = engine.idle_out(live.id).await {
            tracing::warn!(session = %live.id, %error, "cannot end an idle session");
        }
    }
}
