//! Recovery at daemon startup: tables that map findings to verdicts.

use crate::agent::AgentState;
use crate::session::{ExitStatus, SessionState};

/// The state of a session's holder and harness at startup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderStatus {
    /// The holder responds, and pid, start time, boot id and command line match the record.
    Verified,
    /// A process exists but does not match the record.
    Mismatch,
    /// The socket accepts connections but does not respond in time.
    Silent,
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionVerdict {
    /// No action is needed.
    Leave,
    /// The session is alive: follow it again.
    Adopt,
    /// The session is alive although it was killed: signal it again.
    KillAgain,
    /// The session ended while no daemon was running.
    Ended(ExitStatus),
    LaunchFailed,
    Orphaned,
    /// The state is still unknown: probe again later.
    RetryProbe,
}

/// Decides how to recover a session. `exit` comes from the log's last record; `is_launching` distinguishes an
/// interrupted launch from a detached record.
pub fn session_verdict(
    state: SessionState,
    is_launching: bool,
    holder: HolderStatus,
    exit: Option<ExitStatus>,
) -> SessionVerdict {
    use HolderStatus::{Gone, Mismatch, Silent, Verified};
    match (state, holder, exit) {
        (SessionState::Created, _, _) if !is_launching => SessionVerdict::Leave,
        (SessionState::Created | SessionState::Running, Verified, None) => SessionVerdict::Adopt,
        (SessionState::Created | SessionState::Running, _, Some(status)) => SessionVerdict::Ended(status),
        (SessionState::Created | SessionState::Running | SessionState::Killed, Silent, None) => {
            SessionVerdict::RetryProbe
        }
        (SessionState::Created, Gone | Mismatch, None) => SessionVerdict::LaunchFailed,
        (SessionState::Running, Gone | Mismatch, None) => SessionVerdict::Orphaned,
        (SessionState::Killed, Verified, None) => SessionVerdict::KillAgain,
        (SessionState::Killed, _, Some(status)) => SessionVerdict::Ended(status),
        (SessionState::Killed, Gone | Mismatch, None) => SessionVerdict::Leave,
        (SessionState::Completed | SessionState::Failed | SessionState::Orphaned, _, _) => SessionVerdict::Leave,
    }
}

/// The state of an agent's worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorktreeFinding {
    /// Uncommitted changes, with or without commits.
    Uncommitted,
    /// Only commits that are not in the base branch.
    Committed,
    Clean,
    Gone,
}

/// The state of an agent's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentFinding {
    /// The process is running and matches the record.
    Lives,
    /// The process exited with 0 while no daemon was running.
    Succeeded,
    /// All other cases.
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentVerdict {
    Leave,
    Reattach,
    /// The step is done: continue the run.
    AdvanceRun,
    /// Marks the agent failed with this error and blocks its task for a human.
    FailAndBlock(&'static str),
    /// The work is ready for review.
    AwaitMerge,
    /// Marks the agent failed with this error and reopens its task.
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
        // A starting agent can be alive: the daemon stopped before it recorded the launch.
        (AgentState::Starting | AgentState::Running, Lives, _) => AgentVerdict::Reattach,
        (AgentState::Starting | AgentState::Running, Succeeded, _) => AgentVerdict::AdvanceRun,
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
    use HolderStatus::*;
    use SessionVerdict as V;

    #[test]
    fn a_running_session_is_adopted_only_when_verified() {
        assert_eq!(session_verdict(SessionState::Running, false, Verified, None), V::Adopt);
        assert_eq!(session_verdict(SessionState::Running, false, Mismatch, None), V::Orphaned);
        assert_eq!(session_verdict(SessionState::Running, false, Gone, None), V::Orphaned);
    }

    #[test]
    fn the_exit_in_the_log_decides_regardless_of_the_process() {
        let exit = ExitStatus::Code(3);
        for holder in [Verified, Mismatch, Gone] {
            assert_eq!(session_verdict(SessionState::Running, false, holder, Some(exit)), V::Ended(exit));
            assert_eq!(session_verdict(SessionState::Killed, false, holder, Some(exit)), V::Ended(exit));
        }
    }

    #[test]
    fn an_interrupted_launch_is_adopted_or_failed_and_a_detached_record_is_left() {
        assert_eq!(session_verdict(SessionState::Created, true, Verified, None), V::Adopt);
        assert_eq!(session_verdict(SessionState::Created, true, Gone, None), V::LaunchFailed);
        assert_eq!(session_verdict(SessionState::Created, false, Gone, None), V::Leave);
    }

    #[test]
    fn an_interrupted_kill_is_repeated() {
        assert_eq!(session_verdict(SessionState::Killed, false, Verified, None), V::KillAgain);
        assert_eq!(session_verdict(SessionState::Killed, false, Mismatch, None), V::Leave);
    }

    #[test]
    fn a_slow_holder_is_never_considered_dead() {
        for state in [SessionState::Running, SessionState::Killed] {
            assert_eq!(session_verdict(state, false, Silent, None), V::RetryProbe);
        }
        assert_eq!(session_verdict(SessionState::Created, true, Silent, None), V::RetryProbe);
    }

    #[test]
    fn finished_sessions_are_left_alone() {
        for state in [SessionState::Completed, SessionState::Failed, SessionState::Orphaned] {
            for holder in [Verified, Mismatch, Gone] {
                assert_eq!(session_verdict(state, false, holder, None), V::Leave);
            }
        }
    }

    #[test]
    fn agents_are_recovered_according_to_the_table() {
        use AgentFinding::{Dead, Lives, Succeeded};
        use WorktreeFinding::{Clean, Committed, Uncommitted};
        for (state, found, worktree, verdict) in [
            (AgentState::Running, Lives, Clean, A::Reattach),
            (AgentState::Running, Lives, WorktreeFinding::Gone, A::Reattach),
            (AgentState::Running, Succeeded, Uncommitted, A::AdvanceRun),
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
