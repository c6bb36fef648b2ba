//! Read backoff for pipes: no user is waiting for an echo from a pipe, and a stream of short lines should not cost a
//! wake-up and a sync per line.

use std::time::{Duration, Instant};

/// The first delay, also used between requests of a client that waits for each response.
const MIN_DELAY: Duration = Duration::from_millis(2);
/// The delay of a steady stream. Meanwhile the kernel buffers the output; it is read before an exit is recorded.
const MAX_DELAY: Duration = Duration::from_millis(48);
/// A read this large means that the delay slows the harness down.
const FLOOD_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub struct PipeBackoff {
    length: Duration,
    /// When the current delay ends; `None` while reading is allowed.
    until: Option<Instant>,
    over_at: Option<Instant>,
}

impl PipeBackoff {
    pub const fn is_over(&self) -> bool {
        self.until.is_none()
    }

    pub const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns the delay chosen after the last read.
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// Chooses the next delay after a read of `bytes` bytes.
    pub fn read(&mut self, bytes: usize, now: Instant) {
        // Output that arrives during the delay, or within the same time after it, is a stream.
        let is_stream = self.over_at.is_some_and(|over| now < over + self.length);
        self.length = match (bytes >= FLOOD_BYTES, is_stream) {
            (true, _) => Duration::ZERO,
            (false, true) => (self.length * 2).clamp(MIN_DELAY, MAX_DELAY),
            (false, false) => MIN_DELAY,
        };
        let until = now + self.length;
        self.over_at = Some(until);
        self.until = Some(until).filter(|_| !self.length.is_zero());
    }

    pub fn tick(&mut self, now: Instant) {
        self.until = self.until.filter(|until| now < *until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the delay after each read, given its size and how many milliseconds after the previous delay it happens.
    fn delays(reads: &[(usize, u64)]) -> Vec<u128> {
        let (mut rest, mut now) = (PipeBackoff::default(), Instant::now());
        let mut lengths = Vec::new();
        for (bytes, later) in reads {
            now = rest.over_at.unwrap_or(now) + Duration::from_millis(*later);
            rest.tick(now);
            assert!(rest.is_over());
            rest.read(*bytes, now);
            lengths.push(rest.until().map_or(0, |until| (until - now).as_millis()));
        }
        lengths
    }

    #[test]
    fn the_delay_grows_for_a_steady_stream() {
        assert_eq!(delays(&[(80, 0); 7]), [2, 4, 8, 16, 32, 48, 48]);
    }

    #[test]
    fn the_delay_stays_short_for_request_and_response() {
        assert_eq!(delays(&[(80, 0), (80, 0), (80, 0), (80, 8), (80, 0), (80, 1000)]), [2, 4, 8, 2, 4, 2]);
    }

    #[test]
    fn a_flood_has_no_delay() {
        assert_eq!(delays(&[(80, 0), (80, 0), (65536, 0), (65536, 0), (80, 0), (80, 0)]), [2, 4, 0, 0, 2, 4]);
    }
}
