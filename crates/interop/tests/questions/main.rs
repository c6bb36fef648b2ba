//! Tests question sets with real files, locks, processes and file systems.

mod cleaning;
mod concurrency;
mod crash_points;
mod files;
mod finishing;
mod fixture;
mod foreign;
mod hostile;
mod waiting;
mod watching;

/// Entry point of the child processes that other tests start. Does nothing in a normal test run.
#[test]
fn other_process() {
    if let Ok(role) = std::env::var(fixture::ROLE) {
        fixture::run_role(&role);
    }
}
