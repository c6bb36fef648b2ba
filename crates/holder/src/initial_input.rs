//! Types the initial input into the harness's terminal: the text once output pauses, then Enter as a separate write.

use std::time::{Duration, Instant};

/// A program that has written nothing for this long is assumed to be ready for input.
const QUIET_PERIOD: Duration = Duration::from_millis(400);
/// After this long the text is typed even if the program has written nothing or never pauses.
const READY_TIMEOUT: Duration = Duration::from_secs(4);
/// Delay between text and Enter: programs treat both in one read as a paste.
const ENTER_DELAY: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct InitialInput {
    text: Vec<u8>,
    at: Instant,
    latest: Instant,
}

impl InitialInput {
    pub fn new(text: String, now: Instant) -> Option<Self> {
        let latest = now + READY_TIMEOUT;
        (!text.is_empty()).then(|| Self { text: text.into_bytes(), at: latest, latest })
    }

    /// Restarts the quiet period after output of the harness.
    pub fn on_output(&mut self, now: Instant) {
        if !self.text.is_empty() {
            self.at = (now + QUIET_PERIOD).min(self.latest);
        }
    }

    pub const fn next_deadline(&self) -> Instant {
        self.at
    }

    /// Returns the bytes to type now, if any, and whether they are the last ones.
    pub fn due(&mut self, now: Instant) -> Option<(Vec<u8>, bool)> {
        if now < self.at {
            return None;
        }
        match std::mem::take(&mut self.text) {
            // Enter sends a carriage return; the terminal settings decide how the program receives it.
            text if text.is_empty() => Some((vec![b'\r'], true)),
            text => {
                self.at = now + ENTER_DELAY;
                Some((text, false))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_the_text_after_a_quiet_period_and_enter_separately() {
        let start = Instant::now();
        let mut input = InitialInput::new("hello".into(), start).expect("the text is not empty");
        input.on_output(start + Duration::from_millis(100));
        input.on_output(start + Duration::from_millis(300));
        assert_eq!(input.due(start + Duration::from_millis(500)), None);
        let typed_at = start + Duration::from_millis(701);
        assert_eq!(input.due(typed_at), Some((b"hello".to_vec(), false)));
        input.on_output(typed_at);
        assert_eq!(input.due(typed_at + Duration::from_millis(299)), None);
        assert_eq!(input.due(typed_at + ENTER_DELAY), Some((b"\r".to_vec(), true)));
        assert!(InitialInput::new(String::new(), start).is_none());
    }

    #[test]
    fn types_the_text_after_the_timeout_if_output_never_pauses() {
        let start = Instant::now();
        let mut input = InitialInput::new("hello".into(), start).expect("the text is not empty");
        for tick in 0..50 {
            input.on_output(start + Duration::from_millis(100 * tick));
        }
        assert!(input.due(start + READY_TIMEOUT).is_some());
    }
}
