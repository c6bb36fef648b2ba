//! How long a pipe is left alone after it was read: nobody waits for an echo from it, and a stream of short lines should
//! cost neither a wake-up nor a sync each.

use std::time::{Duration, Instant};

/// The first rest, and that of somebody who asks and waits for an answer.
const SHORTEST: Duration = Duration::from_millis(2);
/// That of a steady stream. What waits in the pipe meanwhile is the kernel's to keep, and read before an exit is noted.
const LONGEST: Duration = Duration::from_millis(48);
/// So much at once means that the rest slows it down.
const FLOOD_BYTES: usize = 32 << 10;

#[derive(Debug, Default)]
pub struct PipeRest {
    length: Duration,
    /// Nothing is read until then.
    until: Option<Instant>,
    over_at: Option<Instant>,
}

impl PipeRest {
    pub const fn is_over(&self) -> bool {
        self.until.is_none()
    }

    pub const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Of the rest since the last read.
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// So much was read now.
    pub fn read(&mut self, bytes: usize, now: Instant) {
        // What came within the rest, or as long after it, is a stream.
        let is_stream = self.over_at.is_some_and(|over| now < over + self.length);
        self.length = match (bytes >= FLOOD_BYTES, is_stream) {
            (true, _) => Duration::ZERO,
            (false, true) => (self.length * 2).clamp(SHORTEST, LONGEST),
            (false, false) => SHORTEST,
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

    /// The rests after reads of so many bytes, each so long after the end of the rest before.
    fn rests(reads: &[(usize, u64)]) -> Vec<u128> {
        let (mut rest, mut now) = (PipeRest::default(), Instant::now());
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
    fn a_steady_stream_is_read_ever_more_seldom() {
        assert_eq!(rests(&[(80, 0); 7]), [2, 4, 8, 16, 32, 48, 48]);
    }

    #[test]
    fn who_waits_for_answers_is_read_soon() {
        assert_eq!(rests(&[(80, 0), (80, 0), (80, 0), (80, 8), (80, 0), (80, 1000)]), [2, 4, 8, 2, 4, 2]);
    }

    #[test]
    fn a_flood_does_not_rest() {
        assert_eq!(rests(&[(80, 0), (80, 0), (65536, 0), (65536, 0), (80, 0), (80, 0)]), [2, 4, 0, 0, 2, 4]);
    }
}
