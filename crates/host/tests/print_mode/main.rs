//! Turns with real programs: concurrent input and output, streaming, cancelling, timeouts, failures, resuming.

mod ending;
mod failing;
mod fixture;
mod flowing;
mod resuming;

/// Not a test: the entry point when a test starts this binary as another process.
#[test]
fn other_process() {
    if let Ok(role) = std::env::var(ending::ROLE) {
        ending::run_as(&role);
    }
}
