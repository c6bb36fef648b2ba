//! Tests conversations with real files, locks, processes and signals.

mod cleaning;
mod concurrency;
mod crash_points;
mod damage;
mod files;
mod fixture;
mod hostile;
mod listing;
mod random_damage;

/// Entry point of the child processes that other tests start. Does nothing in a normal test run.
#[test]
fn other_process() {
    if let Ok(role) = std::env::var(fixture::ROLE) {
        fixture::run_role(&role);
    }
}
