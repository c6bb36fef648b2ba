//! Waiting on observed state: the one place that lets time pass.

use std::time::{Duration, Instant};

/// Far beyond what any step takes, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(4);

/// Waits until `look` finds something, and gives it.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::park_timeout(BETWEEN_LOOKS);
    }
}

/// Waits until `is_so` says yes.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(()));
}
