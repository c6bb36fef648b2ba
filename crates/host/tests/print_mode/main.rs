//! Turns by real programs: both directions at once, streaming, cancelling, timeouts, failures, resuming.

mod ending;
mod failing;
mod flowing;
mod resuming;
mod stand;

/// Not a test: another process, when this binary is started as one.
#[test]
fn other_process() {
    if let Ok(role) = std::env::var(ending::ROLE) {
        ending::play(&role);
    }
}
