//! What is typed for the caller once the harness is up: text when it has gone quiet, then the enter key by itself.

use std::time::{Duration, Instant};

/// A program that has said nothing for so long waits for its user.
const QUIET: Duration = Duration::from_millis(400);
/// One that never says anything, or never stops, gets the text all the same.
const PATIENCE: Duration = Duration::from_secs(4);
/// Text and enter in one piece would be taken for a paste.
const BEFORE_ENTER: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct FirstWords {
    text: Vec<u8>,
    at: Instant,
    latest: Instant,
}

impl FirstWords {
    pub fn new(text: String, now: Instant) -> Option<Self> {
        let latest = now + PATIENCE;
        (!text.is_empty()).then(|| Self { text: text.into_bytes(), at: latest, latest })
    }

    /// The harness wrote something: it is up, and perhaps not ready yet.
    pub fn heard(&mut self, now: Instant) {
        if !self.text.is_empty() {
            self.at = (now + QUIET).min(self.latest);
        }
    }

    pub const fn next_deadline(&self) -> Instant {
        self.at
    }

    /// What is to be typed now, and whether that was all.
    pub fn due(&mut self, now: Instant) -> Option<(Vec<u8>, bool)> {
        if now < self.at {
            return None;
        }
        match std::mem::take(&mut self.text) {
            // The key is a carriage return; what a program gets for it is its terminal's business.
            text if text.is_empty() => Some((vec![b'\r'], true)),
            text => {
                self.at = now + BEFORE_ENTER;
                Some((text, false))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_waits_for_quiet_and_the_key_comes_by_itself() {
        let start = Instant::now();
        let mut words = FirstWords::new("hello".into(), start).expect("something to type");
        words.heard(start + Duration::from_millis(100));
        words.heard(start + Duration::from_millis(300));
        assert_eq!(words.due(start + Duration::from_millis(500)), None);
        let typed_at = start + Duration::from_millis(701);
        assert_eq!(words.due(typed_at), Some((b"hello".to_vec(), false)));
        words.heard(typed_at);
        assert_eq!(words.due(typed_at + Duration::from_millis(299)), None);
        assert_eq!(words.due(typed_at + BEFORE_ENTER), Some((b"\r".to_vec(), true)));
        assert!(FirstWords::new(String::new(), start).is_none());
    }

    #[test]
    fn a_program_that_never_stops_gets_it_all_the_same() {
        let start = Instant::now();
        let mut words = FirstWords::new("hello".into(), start).expect("something to type");
        for tick in 0..50 {
            words.heard(start + Duration::from_millis(100 * tick));
        }
        assert!(words.due(start + PATIENCE).is_some());
    }
}
