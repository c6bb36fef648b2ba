//! Limits `session.output` events to ten per second for each session. The last output is always announced.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(1);
/// One less than the limit, because the announcement with a session's end does not wait.
const MAX_IN_WINDOW: usize = 9;

#[derive(Debug, Default)]
pub(crate) struct OutputAnnouncer {
    /// The ledger has entries that no event has announced.
    has_news: bool,
    recent: VecDeque<Instant>,
}

impl OutputAnnouncer {
    pub fn add_news(&mut self) {
        self.has_news = true;
    }

    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Returns when new entries may be announced, if there are any.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let is_full = self.recent.len() == MAX_IN_WINDOW;
        self.has_news.then(|| if is_full { now.max(self.recent[0] + WINDOW) } else { now })
    }

    pub fn announced(&mut self, now: Instant) {
        self.has_news = false;
        if self.recent.len() == MAX_IN_WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_announced_nine_times_a_second_and_its_end_too() {
        let (mut announcer, mut times) = (OutputAnnouncer::default(), Vec::new());
        let mut now = Instant::now();
        assert_eq!(announcer.due(now), None);
        // Output every 10 ms for almost three seconds, then none.
        for _ in 0..295 {
            announcer.add_news();
            if announcer.due(now) == Some(now) {
                announcer.announced(now);
                times.push(now);
            }
            now += Duration::from_millis(10);
        }
        assert_eq!(times.len(), 27);
        assert!(times.windows(10).all(|ten| ten[9] - ten[0] >= WINDOW), "{times:?}");
        let due = announcer.due(now).expect("the last output was not announced");
        assert!(due > now && due <= now + WINDOW);
        announcer.announced(due);
        assert_eq!(announcer.due(due), None);
    }
}
