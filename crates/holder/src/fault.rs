//! Named points at which a test can have the process die as if by `kill -9`, or have a step fail. Not in release builds.

use std::io;

/// Dies here if `COVEN_FAULT` is `<file> <step>`; fails here if it is `<file> <step> fails`.
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
            Err(io::Error::other("a fault that a test asked for"))
        }
        _ => Ok(()),
    }
}

/// Dies here if `COVEN_FAULT` names this point.
pub fn point(name: &str) {
    if cfg!(debug_assertions) && std::env::var_os("COVEN_FAULT").is_some_and(|wanted| wanted == name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
