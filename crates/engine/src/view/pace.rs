//! The pace of a subscriber that may jump. A terminal shows at most 60 frames a second, so more output than fits a window
//! in that time is replaced by a fresh screen, and the cores are left to the session.

use std::time::Duration;

use tokio::time::Instant;

/// The time between two frames of a screen.
pub(super) const FRAME_TIME: Duration = Duration::from_micros(16_667);
/// A frame time has room for this much output, or for a window if it is larger.
const MIN_BUDGET: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct Pace {
    budget: u64,
    frame: Option<Instant>,
    sent: u64,
    is_flooded: bool,
    hold_until: Option<Instant>,
}

impl Pace {
    pub fn new(window: u64) -> Self {
        Self { budget: window.max(MIN_BUDGET), frame: None, sent: 0, is_flooded: false, hold_until: None }
    }

    /// Output was sent. The rest of the frame time is a pause if there was too much of it.
    pub fn sent(&mut self, bytes: u64, now: Instant) {
        let frame = match self.frame {
            Some(frame) if now < frame + FRAME_TIME => frame,
            _ => {
                self.sent = 0;
                *self.frame.insert(now)
            }
        };
        self.sent += bytes;
        if self.is_flooded {
            // One piece in a frame time, as long as the subscriber has not acknowledged it.
            self.hold_until = Some(now + FRAME_TIME);
        } else if self.sent >= self.budget {
            self.is_flooded = true;
            self.hold_until = Some(frame + FRAME_TIME);
        }
    }

    /// A screen is sent instead of output. Nothing follows it for a frame time.
    pub fn jump(&mut self, now: Instant) {
        self.is_flooded = true;
        self.hold_until = Some(now + FRAME_TIME);
    }

    /// The subscriber is near the end of the log: output is sent as it comes.
    pub fn stop(&mut self) {
        (self.is_flooded, self.hold_until) = (false, None);
        (self.frame, self.sent) = (None, 0);
    }

    pub fn is_flooded(&self) -> bool {
        self.is_flooded
    }

    pub fn held_until(&mut self, now: Instant) -> Option<Instant> {
        self.hold_until = self.hold_until.filter(|until| now < *until);
        self.hold_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 64 << 10;

    #[test]
    fn output_within_the_budget_is_never_held() {
        let (mut pace, start) = (Pace::new(1), Instant::now());
        for piece in 0..100 {
            let now = start + FRAME_TIME * piece / 3;
            pace.sent(PIECE, now);
            assert_eq!((pace.held_until(now), pace.is_flooded()), (None, false), "piece {piece}");
        }
    }

    #[test]
    fn a_flood_is_held_until_the_next_frame_and_then_gets_a_piece_for_each_frame() {
        let (mut pace, start) = (Pace::new(1), Instant::now());
        for _ in 0..4 {
            assert_eq!(pace.held_until(start), None);
            pace.sent(PIECE, start);
        }
        let next = start + FRAME_TIME;
        assert_eq!((pace.held_until(start), pace.is_flooded()), (Some(next), true));
        assert_eq!(pace.held_until(next), None);
        pace.sent(PIECE, next);
        assert_eq!(pace.held_until(next), Some(next + FRAME_TIME));
        pace.stop();
        assert_eq!((pace.held_until(next), pace.is_flooded()), (None, false));
        pace.sent(PIECE, next);
        assert_eq!(pace.held_until(next), None);
    }

    #[test]
    fn nothing_follows_a_screen_for_a_frame_time_and_a_large_window_is_not_cut() {
        let (mut pace, now) = (Pace::new(u64::MAX), Instant::now());
        pace.sent(1 << 40, now);
        assert_eq!(pace.held_until(now), None);
        pace.jump(now);
        assert_eq!(pace.held_until(now), Some(now + FRAME_TIME));
    }
}
