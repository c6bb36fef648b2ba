//! Waiting for an observed state. This is the only place where tests sleep.

use std::time::{Duration, Instant};

/// Much longer than any step takes, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(4);

/// Polls `poll` until it returns a value, and returns that.
#[track_caller]
pub fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < until, "timed out waiting until {what}");
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

/// Waits until `is_true` returns true.
#[track_caller]
pub fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    eventually(what, || is_true().then_some(()));
}
