//! Lets a viewer that falls behind skip to the newest screen.

use std::time::{Duration, Instant};

use coven_host::home::Home;
use tokio::runtime::Runtime;

use super::screen::{self, PaintedScreen};
use crate::daemon_client::{self, DaemonClient};

/// A viewer that is further behind skips to the newest screen.
const MAX_LAG_BYTES: u64 = 512 << 10;
/// Time between two screens: a person cannot see faster changes.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait for the daemon; after that the viewer keeps reading the log.
const SCREEN_TIMEOUT: Duration = Duration::from_millis(250);
/// Delay before the next request to a daemon that did not answer.
const RETRY_DELAY: Duration = Duration::from_secs(2);

pub struct CatchUp {
    home: Home,
    id: String,
    /// Created on first use.
    runtime: Option<Runtime>,
    next_at: Option<Instant>,
}

impl CatchUp {
    pub fn new(home: Home, id: String) -> Self {
        Self { home, id, runtime: None, next_at: None }
    }

    /// Returns whether a viewer that has shown `shown` of `end` bytes must skip ahead now.
    pub fn is_due(&mut self, shown: u64, end: u64, now: Instant) -> bool {
        let is_due = end.saturating_sub(shown) > MAX_LAG_BYTES && self.next_at.is_none_or(|at| now >= at);
        if is_due {
            self.next_at = Some(now + MIN_FRAME_INTERVAL);
        }
        is_due
    }

    /// Returns until when a viewer that is far behind can stop reading: the next screen contains everything before it.
    pub fn rest_until(&self, shown: u64, end: u64, now: Instant) -> Option<Instant> {
        self.next_at
            .filter(|at| end.saturating_sub(shown) > MAX_LAG_BYTES && now < *at && *at - now <= MIN_FRAME_INTERVAL)
    }

    /// Fetches the newest screen, if the daemon answers in time.
    pub fn screen(&mut self) -> Option<PaintedScreen> {
        self.fetch(None)
    }

    /// Fetches the screen at this log offset, if the daemon answers in time.
    pub fn screen_at(&mut self, offset: u64) -> Option<PaintedScreen> {
        self.fetch(Some(offset))
    }

    fn fetch(&mut self, at: Option<u64>) -> Option<PaintedScreen> {
        let runtime = match &self.runtime {
            Some(runtime) => runtime,
            None => self.runtime.insert(daemon_client::runtime().ok()?),
        };
        let task = async {
            // Do not start the daemon: if it is gone now, the user stopped it on purpose.
            let mut link = DaemonClient::running(&self.home).await?.ok_or_else(daemon_client::not_running)?;
            match at {
                Some(offset) => screen::fetch_at(&mut link, &self.id, offset).await,
                None => screen::fetch(&mut link, &self.id).await,
            }
        };
        // The timer must be created inside the runtime.
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
