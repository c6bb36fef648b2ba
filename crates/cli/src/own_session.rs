//! The session that this command runs in, if it runs in one.

use crate::failure::Failure;
use crate::format::short_id;

/// The whole id, from the environment that every harness gets.
pub fn id() -> Option<String> {
    std::env::var("COVEN_SESSION_ID").ok().filter(|id| !id.is_empty())
}

/// Refuses to show the session on its own terminal: everything shown would be new output to show.
pub fn must_not_be(shown: &str) -> Result<(), Failure> {
    match id() {
        Some(own) if own == shown => Err(Failure::refused(
            format!(
                "this terminal belongs to session {}, and a session cannot be shown inside itself",
                short_id(shown)
            ),
            "Run the command in another terminal, or name another session",
        )),
        _ => Ok(()),
    }
}
