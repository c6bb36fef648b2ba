//! Fault injection for tests: kills the process with SIGKILL at named points, or fails a step. Debug builds only.

use std::io;

/// Kills the process if `COVEN_FAULT` is `<file> <step>`; returns an error if it is `<file> <step> fails`.
pub fn before(file: &str, step: &str) -> io::Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let Ok(wanted) = std::env::var("COVEN_FAULT") else { return Ok(()) };
    match wanted.split(' ').collect::<Vec<_>>()[..] {
        [wanted_file, wanted_step] if (wanted_file, wanted_step) == (file, step) => {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            Ok(())
        }
        [wanted_file, wanted_step, "fails"] if (wanted_file, wanted_step) == (file, step) => {
            Err(io::Error::other("injected fault"))
        }
        _ => Ok(()),
    }
}

/// Kills the process if `COVEN_FAULT` names this point.
pub fn point(name: &str) {
    if cfg!(debug_assertions) && std::env::var_os("COVEN_FAULT").is_some_and(|wanted| wanted == name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
