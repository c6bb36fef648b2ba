//! Progress notifications while a call waits for the user, for clients that sent a progress token.

use std::sync::LazyLock;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::time::{Instant, sleep_until};

/// Common start of all intervals, so that a hundred calls notify at the same time and wake the process once.
static BEAT: LazyLock<Instant> = LazyLock::new(Instant::now);

pub struct ProgressNotifier {
    to: Option<(ProgressToken, Peer<RoleServer>)>,
    every: Duration,
    since: Instant,
    next_at: Instant,
    count: u32,
}

impl ProgressNotifier {
    /// The first notification is due immediately.
    pub fn new(context: &RequestContext<RoleServer>, every: Duration) -> Self {
        let to = context.meta.get_progress_token().map(|token| (token, context.peer.clone()));
        let now = Instant::now();
        Self { to, every, since: now, next_at: now, count: 0 }
    }

    /// Waits until the next notification is due and sends it. Never completes without a token.
    pub async fn next(&mut self) {
        let Some((token, peer)) = &self.to else { return std::future::pending().await };
        sleep_until(self.next_at).await;
        self.next_at = following(*BEAT, Instant::now(), self.every);
        self.count += 1;
        let seconds = self.since.elapsed().as_secs();
        let message = match seconds {
            0 => "waiting for the user; answer with `coven answer`".to_owned(),
            _ => format!("waiting for the user for {seconds} s; answer with `coven answer`"),
        };
        let param = ProgressNotificationParam::new(token.clone(), f64::from(self.count)).with_message(message);
        // This fails if the client has disconnected, which ends the call anyway.
        let _ = peer.notify_progress(param).await;
    }
}

/// Returns the first beat after `now`.
fn following(beat: Instant, now: Instant, every: Duration) -> Instant {
    let into = (now - beat).as_nanos() % every.as_nanos().max(1);
    now + every - Duration::from_nanos(u64::try_from(into).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_calls_share_the_same_beat() {
        let (beat, every) = (Instant::now(), Duration::from_secs(10));
        let at = |seconds: u64| following(beat, beat + Duration::from_secs(seconds), every) - beat;
        assert_eq!([at(0), at(3), at(9), at(10), at(25)].map(|it| it.as_secs()), [10, 10, 10, 20, 30]);
    }
}
