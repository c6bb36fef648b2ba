//! Question sets against real files, locks, processes and file systems.

mod cleaning;
mod crowd;
mod cuts;
mod files;
mod finishing;
mod foreign;
mod hostile;
mod stand;
mod waiting;
mod watching;

/// Not a test: another process, when this binary is started as one.
#[test]
fn other_process() {
    if let Ok(role) = std::env::var(stand::ROLE) {
        stand::play(&role);
    }
}
