//! Identifies the sender of a request: the coven sessions that its process runs in.

use std::fs;

use coven_domain::SessionId;
use coven_domain::request::{AnsweredBy, SettledFrom};
use coven_holder::process::{self, HOLDER_NAME};

use crate::error::EngineError;

/// Longer chains of parents do not occur; the bound guards against a chain that changes while it is read.
const MAX_PARENTS: usize = 1000;

/// The sender of a request, as far as the daemon can find out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The sessions that it runs in, the innermost first.
    sessions: Vec<SessionId>,
    /// Those of them that its parents prove.
    traced: Vec<SessionId>,
    pid: Option<u32>,
    /// Whether its process could be inspected. Over TCP it cannot, so the claimed session counts.
    is_traced: Traced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traced {
    Yes,
    /// Over TCP the process of the caller is unknown.
    NoProcess,
    /// The process that connected has ended, or runs where this daemon cannot see it.
    Hidden,
}

impl Caller {
    /// A client on the Unix socket. `claimed` is the session that it says it runs in.
    ///
    /// Every process of a session is a descendant of the session's holder, which adopts those whose parents end. So the
    /// chain of parents leads to the holder even if the process cleared its environment or started its own terminal session (`setsid`).
    pub fn on_socket(pid: Option<u32>, claimed: Option<SessionId>) -> Self {
        let traced = pid.filter(|pid| *pid > 0).and_then(sessions_around);
        let is_traced = if traced.is_some() { Traced::Yes } else { Traced::Hidden };
        let traced = traced.unwrap_or_default();
        let mut sessions = traced.clone();
        sessions.extend(claimed.filter(|claimed| !sessions.contains(claimed)));
        Self { sessions, traced, pid, is_traced }
    }

    /// A client over TCP; only the session that it claims is known.
    pub fn over_tcp(claimed: Option<SessionId>) -> Self {
        let sessions = claimed.into_iter().collect();
        Self { sessions, traced: Vec::new(), pid: None, is_traced: Traced::NoProcess }
    }

    pub fn answered_by(&self) -> AnsweredBy {
        self.sessions.first().map_or(AnsweredBy::Human, |session| AnsweredBy::From(*session))
    }

    /// Returns the caller's name for the history of a task; `None` for a human.
    pub fn name(&self) -> Option<String> {
        self.sessions.first().map(|session| AnsweredBy::From(*session).to_string())
    }

    /// Checks that the caller is a process of this session. What it claims does not count.
    pub fn ensure_in(&self, session: SessionId) -> Result<(), EngineError> {
        match self.is_traced == Traced::Yes && self.traced.contains(&session) {
            true => Ok(()),
            false => Err(EngineError::ForeignHook(session)),
        }
    }

    /// Returns how the request reached the daemon.
    pub const fn origin(&self) -> SettledFrom {
        match self.is_traced {
            Traced::NoProcess => SettledFrom::Tcp,
            Traced::Yes | Traced::Hidden => SettledFrom::Socket,
        }
    }

    pub const fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Rejects an answer from inside the session that asks.
    pub fn ensure_not_in(&self, asking: SessionId) -> Result<(), EngineError> {
        if self.sessions.contains(&asking) {
            return Err(EngineError::SelfAnswer(asking));
        }
        match self.is_traced {
            Traced::Yes | Traced::NoProcess => Ok(()),
            Traced::Hidden => Err(EngineError::UnknownCaller(asking)),
        }
    }
}

/// The sessions whose holders are among the parents of a process; `None` if the process cannot be inspected.
fn sessions_around(pid: u32) -> Option<Vec<SessionId>> {
    let mut sessions = Vec::new();
    let mut next = process::stat(pid).ok()?;
    for _ in 0..MAX_PARENTS {
        if next.is_coven {
            sessions.extend(held_by(next.pid).filter(|session| !sessions.contains(session)));
        }
        if next.parent == 0 {
            break;
        }
        match process::stat(next.parent) {
            Ok(parent) => next = parent,
            // The parent just exited and its children were adopted; read the new parent.
            Err(_) => next = process::stat(next.pid).ok()?,
        }
    }
    Some(sessions)
}

/// The session that a holder holds: `coven hold <session>`, or `coven hold <session>/<terminal>`.
fn held_by(pid: u32) -> Option<SessionId> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    if name.trim_ascii_end() != HOLDER_NAME.to_bytes() {
        return None;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).skip_while(|word| *word != b"hold").skip(1);
    let name = std::str::from_utf8(words.next()?).ok()?;
    name.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u128) -> SessionId {
        SessionId::from_uuid(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn a_process_outside_all_sessions_counts_as_the_human() {
        let caller = Caller::on_socket(Some(std::process::id()), None);
        assert_eq!(caller.is_traced, Traced::Yes);
        assert_eq!(caller.answered_by(), AnsweredBy::Human);
        caller.ensure_not_in(session(1)).expect("this process is in no session");
    }

    #[test]
    fn the_session_that_a_caller_claims_is_trusted() {
        for caller in [Caller::over_tcp(Some(session(1))), Caller::on_socket(Some(1), Some(session(1)))] {
            assert_eq!(caller.answered_by(), AnsweredBy::From(session(1)));
            caller.ensure_not_in(session(1)).expect_err("the caller is inside");
            caller.ensure_not_in(session(2)).expect("session 2 is another session");
            caller.ensure_in(session(1)).expect_err("a claim proves nothing");
        }
    }

    #[test]
    fn a_process_that_cannot_be_inspected_may_not_answer() {
        for pid in [None, Some(0), Some(u32::MAX >> 1)] {
            Caller::on_socket(pid, None).ensure_not_in(session(1)).expect_err("the caller could be inside");
        }
        Caller::over_tcp(None).ensure_not_in(session(1)).expect("TCP callers are identified by their token");
    }
}
