//! Conversations against real files, locks, processes and signals.

mod cleaning;
mod crowd;
mod cuts;
mod damage;
mod files;
mod hostile;
mod listing;
mod soup;
mod stand;

/// Not a test: another process, when this binary is started as one.
#[test]
fn other_process() {
    if let Ok(role) = std::env::var(stand::ROLE) {
        stand::play(&role);
    }
}
