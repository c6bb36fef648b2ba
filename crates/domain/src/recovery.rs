//! What a starting daemon makes of what it finds: tables from findings to verdicts.

use crate::agent::AgentState;
use crate::session::{ExitStatus, SessionState};

/// What was found of a session's holder and harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderFinding {
    /// The holder answers, and pid, start time, boot id and command line are as recorded.
    Verified,
    /// Something lives there that is not what was recorded.
    Mismatch,
    /// Something listens there and does not answer in time.
    Silent,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionVerdict {
    /// Nothing to do.
    Leave,
    /// It lives: follow it again.
    Adopt,
    /// It lives although it was killed: signal it again.
    KillAgain,
    /// It ended while no daemon looked.
    Ended(ExitStatus),
    LaunchFailed,
    Orphaned,
    /// Nothing can be said yet.
    LookAgain,
}

/// `exit` is what the log's last record says; `is_launching` tells a record on its way from a detached one.
pub fn session_verdict(
    state: SessionState,
    is_launching: bool,
    holder: HolderFinding,
    exit: Option<ExitStatus>,
) -> SessionVerdict {
    use HolderFinding::{Gone, Mismatch, Silent, Verified};
    match (state, holder, exit) {
        (SessionState::Created, _, _) if !is_launching => SessionVerdict::Leave,
        (SessionState::Created | SessionState::Running, Verified, None) => SessionVerdict::Adopt,
        (SessionState::Created | SessionState::Running, _, Some(status)) => SessionVerdict::Ended(status),
        (SessionState::Created | SessionState::Running | SessionState::Killed, Silent, None) => {
            SessionVerdict::LookAgain
        }
        (SessionState::Created, Gone | Mismatch, None) => SessionVerdict::LaunchFailed,
        (SessionState::Running, Gone | Mismatch, None) => SessionVerdict::Orphaned,
        (SessionState::Killed, Verified, None) => SessionVerdict::KillAgain,
        (SessionState::Killed, _, Some(status)) => SessionVerdict::Ended(status),
        (SessionState::Killed, Gone | Mismatch, None) => SessionVerdict::Leave,
        (SessionState::Completed | SessionState::Failed | SessionState::Orphaned, _, _) => SessionVerdict::Leave,
    }
}

/// What was found of the folder an agent worked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorktreeFinding {
    /// Changes that are in no commit, whether or not there are commits too.
    Uncommitted,
    /// Commits that are not in the base branch, and nothing else.
    Committed,
    Clean,
    Gone,
}

/// What was found of an agent's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentFinding {
    /// It runs, and is what was recorded.
    Lives,
    /// It ended by itself with 0 while no daemon looked.
    Succeeded,
    /// Everything else.
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentVerdict {
    Leave,
    Reattach,
    /// Its step is done, and the run goes on.
    GoOn,
    /// The agent failed with this error and its task waits for a human.
    FailAndBlock(&'static str),
    /// The work is there to be reviewed.
    AwaitMerge,
    /// The agent failed and the task can be given out again.
    FailAndReopen(&'static str),
}

pub const UNCOMMITTED_WORK: &str = "daemon restarted with uncommitted work";
pub const NEVER_RAN: &str = "daemon restarted before the agent ran";
pub const AGENT_GONE: &str = "daemon restarted and the agent was gone";
pub const WORKTREE_GONE: &str = "daemon restarted and the worktree was gone";

pub fn agent_verdict(state: AgentState, found: AgentFinding, worktree: WorktreeFinding) -> AgentVerdict {
    use AgentFinding::{Dead, Lives, Succeeded};
    match (state, found, worktree) {
        (AgentState::Completed | AgentState::Failed | AgentState::Killed, _, _) => AgentVerdict::Leave,
        // Launched, and the daemon stopped before it was written down.
        (AgentState::Starting | AgentState::Running, Lives, _) => AgentVerdict::Reattach,
        (AgentState::Starting | AgentState::Running, Succeeded, _) => AgentVerdict::GoOn,
        (AgentState::Starting, Dead, _) => AgentVerdict::FailAndReopen(NEVER_RAN),
        (AgentState::Running, Dead, WorktreeFinding::Uncommitted) => AgentVerdict::FailAndBlock(UNCOMMITTED_WORK),
        (AgentState::Running, Dead, WorktreeFinding::Committed) => AgentVerdict::AwaitMerge,
        (AgentState::Running, Dead, WorktreeFinding::Clean) => AgentVerdict::FailAndReopen(AGENT_GONE),
        (AgentState::Running, Dead, WorktreeFinding::Gone) => AgentVerdict::FailAndBlock(WORKTREE_GONE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AgentVerdict as A;
    use HolderFinding::*;
    use SessionVerdict as V;

    #[test]
    fn a_running_session_is_adopted_only_when_verified() {
        assert_eq!(session_verdict(SessionState::Running, false, Verified, None), V::Adopt);
        assert_eq!(session_verdict(SessionState::Running, false, Mismatch, None), V::Orphaned);
        assert_eq!(session_verdict(SessionState::Running, false, Gone, None), V::Orphaned);
    }

    #[test]
    fn the_exit_in_the_log_decides_whatever_lives_there_now() {
        let exit = ExitStatus::Code(3);
        for holder in [Verified, Mismatch, Gone] {
            assert_eq!(session_verdict(SessionState::Running, false, holder, Some(exit)), V::Ended(exit));
            assert_eq!(session_verdict(SessionState::Killed, false, holder, Some(exit)), V::Ended(exit));
        }
    }

    #[test]
    fn a_launch_that_was_cut_off_is_adopted_or_failed_and_a_detached_record_is_left() {
        assert_eq!(session_verdict(SessionState::Created, true, Verified, None), V::Adopt);
        assert_eq!(session_verdict(SessionState::Created, true, Gone, None), V::LaunchFailed);
        assert_eq!(session_verdict(SessionState::Created, false, Gone, None), V::Leave);
    }

    #[test]
    fn a_kill_that_was_cut_off_is_repeated() {
        assert_eq!(session_verdict(SessionState::Killed, false, Verified, None), V::KillAgain);
        assert_eq!(session_verdict(SessionState::Killed, false, Mismatch, None), V::Leave);
    }

    #[test]
    fn a_slow_holder_is_never_taken_for_a_dead_one() {
        for state in [SessionState::Running, SessionState::Killed] {
            assert_eq!(session_verdict(state, false, Silent, None), V::LookAgain);
        }
        assert_eq!(session_verdict(SessionState::Created, true, Silent, None), V::LookAgain);
    }

    #[test]
    fn finished_sessions_need_nothing() {
        for state in [SessionState::Completed, SessionState::Failed, SessionState::Orphaned] {
            for holder in [Verified, Mismatch, Gone] {
                assert_eq!(session_verdict(state, false, holder, None), V::Leave);
            }
        }
    }

    #[test]
    fn agents_are_recovered_as_the_table_says() {
        use AgentFinding::{Dead, Lives, Succeeded};
        use WorktreeFinding::{Clean, Committed, Uncommitted};
        for (state, found, worktree, verdict) in [
            (AgentState::Running, Lives, Clean, A::Reattach),
            (AgentState::Running, Lives, WorktreeFinding::Gone, A::Reattach),
            (AgentState::Running, Succeeded, Uncommitted, A::GoOn),
            (AgentState::Running, Dead, Uncommitted, A::FailAndBlock("daemon restarted with uncommitted work")),
            (AgentState::Running, Dead, Committed, A::AwaitMerge),
            (AgentState::Running, Dead, Clean, A::FailAndReopen(AGENT_GONE)),
            (AgentState::Running, Dead, WorktreeFinding::Gone, A::FailAndBlock(WORKTREE_GONE)),
            (AgentState::Starting, Dead, Uncommitted, A::FailAndReopen(NEVER_RAN)),
            (AgentState::Starting, Lives, Clean, A::Reattach),
            (AgentState::Completed, Dead, Uncommitted, A::Leave),
            (AgentState::Failed, Dead, Committed, A::Leave),
            (AgentState::Killed, Lives, Clean, A::Leave),
        ] {
            assert_eq!(agent_verdict(state, found, worktree), verdict);
        }
    }
}
