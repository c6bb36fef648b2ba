//! The session that this command runs in, if any.

use crate::failure::Failure;
use crate::format::short_id;

/// Returns the session id from the environment that coven sets for every harness.
pub fn id() -> Option<String> {
    std::env::var("COVEN_SESSION_ID").ok().filter(|id| !id.is_empty())
}

/// Fails if `shown` is this session: showing it on its own terminal would produce endless output.
pub fn ensure_other(shown: &str) -> Result<(), Failure> {
    match id() {
        Some(own) if own == shown => Err(Failure::refused(
            format!("cannot show session {} inside itself", short_id(shown)),
            "Run the command in another terminal, or choose another session",
        )),
        _ => Ok(()),
    }
}
