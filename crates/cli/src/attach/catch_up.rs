//! A viewer that falls behind gets the newest screen instead of every byte up to it.

use std::time::{Duration, Instant};

use coven_host::home::Home;
use tokio::runtime::Runtime;

use super::screen::{self, PaintedScreen};
use crate::daemon_client::{self, DaemonClient};

/// Further behind than this a person could not follow anyway.
const MAX_LAG_BYTES: u64 = 512 << 10;
/// A person does not see more pictures a second than this.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(50);
/// A daemon that needs longer does not help; the viewer follows on.
const SCREEN_TIMEOUT: Duration = Duration::from_millis(250);
/// After a daemon did not answer it is left alone for a while.
const RETRY_DELAY: Duration = Duration::from_secs(2);

pub struct CatchUp {
    home: Home,
    id: String,
    /// Made when it is first needed.
    runtime: Option<Runtime>,
    next_at: Option<Instant>,
}

impl CatchUp {
    pub fn new(home: Home, id: String) -> Self {
        Self { home, id, runtime: None, next_at: None }
    }

    /// Whether to jump, for a viewer that has shown the log up to `shown` of `end` bytes.
    pub fn is_due(&mut self, shown: u64, end: u64, now: Instant) -> bool {
        let is_due = end.saturating_sub(shown) > MAX_LAG_BYTES && self.next_at.is_none_or(|at| now >= at);
        if is_due {
            self.next_at = Some(now + MIN_FRAME_INTERVAL);
        }
        is_due
    }

    /// Until when a viewer that is far behind does better to read nothing: the next screen will have it all.
    pub fn rest_until(&self, shown: u64, end: u64, now: Instant) -> Option<Instant> {
        self.next_at
            .filter(|at| end.saturating_sub(shown) > MAX_LAG_BYTES && now < *at && *at - now <= MIN_FRAME_INTERVAL)
    }

    /// The newest screen, if the daemon gives it in time.
    pub fn screen(&mut self) -> Option<PaintedScreen> {
        self.fetch(None)
    }

    /// The screen as it was when the log stood at `offset`, if the daemon gives it in time.
    pub fn screen_at(&mut self, offset: u64) -> Option<PaintedScreen> {
        self.fetch(Some(offset))
    }

    fn fetch(&mut self, at: Option<u64>) -> Option<PaintedScreen> {
        let runtime = match &self.runtime {
            Some(runtime) => runtime,
            None => self.runtime.insert(daemon_client::runtime().ok()?),
        };
        let task = async {
            // Not started if it is gone: who attached has seen it running, and who stopped it meant it.
            let mut link = DaemonClient::running(&self.home).await?.ok_or_else(daemon_client::not_running)?;
            match at {
                Some(offset) => screen::fetch_at(&mut link, &self.id, offset).await,
                None => screen::fetch(&mut link, &self.id).await,
            }
        };
        // The timer must be made inside the runtime.
        let answer = runtime.block_on(async { tokio::time::timeout(SCREEN_TIMEOUT, task).await });
        match answer {
            Ok(Ok(screen)) => Some(screen),
            Ok(Err(_)) | Err(_) => {
                self.next_at = Some(Instant::now() + RETRY_DELAY);
                None
            }
        }
    }
}
