//! Named points at which a test can have the daemon die as if by `kill -9`. Not in release builds.

/// Dies here if `COVEN_FAULT` names this point.
pub(crate) fn point(name: &str) {
    if cfg!(debug_assertions) && std::env::var_os("COVEN_FAULT").is_some_and(|wanted| wanted == name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
