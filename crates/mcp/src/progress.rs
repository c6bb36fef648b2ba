//! Signs of life while a human thinks, for clients that gave a token to send them under.

use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::{Interval, MissedTickBehavior};

pub struct Progress {
    to: Option<(ProgressToken, Peer<RoleServer>)>,
    ticks: Interval,
    since: Instant,
    count: u32,
}

impl Progress {
    /// The first one goes out at once.
    pub fn new(context: &RequestContext<RoleServer>, every: Duration) -> Self {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let to = context.meta.get_progress_token().map(|token| (token, context.peer.clone()));
        Self { to, ticks, since: Instant::now(), count: 0 }
    }

    /// Waits until the next one is due and sends it. Without a token it never is.
    pub async fn next(&mut self) {
        let Some((token, peer)) = &self.to else { return std::future::pending().await };
        self.ticks.tick().await;
        self.count += 1;
        let seconds = self.since.elapsed().as_secs();
        let message = match seconds {
            0 => "waiting for the human; `coven answer` shows the questions".to_owned(),
            _ => format!("waiting for the human for {seconds} s; `coven answer` shows the questions"),
        };
        let param = ProgressNotificationParam::new(token.clone(), f64::from(self.count)).with_message(message);
        // Fails where the client has gone, which ends the call anyway.
        let _ = peer.notify_progress(param).await;
    }
}
