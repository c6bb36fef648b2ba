//! A session: one supervised harness process and its lifecycle.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::activity::ActivityStatus;
use crate::launch_queue::QUEUED;
use crate::lifecycle::{Lifecycle, Refused};
use crate::{RepoId, SessionId, Timestamp, string_enum};

string_enum! {
    pub enum SessionState {
        /// The record exists; the harness is not running yet.
        Created = "created",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Killed = "killed",
        /// The session ran under an earlier daemon and its process is gone.
        Orphaned = "orphaned",
    }
}

string_enum! {
    pub enum SessionFact {
        Spawned = "spawned",
        LaunchFailed = "launch_failed",
        ExitedWithZero = "exited_with_zero",
        ExitedAbnormally = "exited_otherwise",
        /// The session ended after a request to finish.
        Finished = "finished",
        IdledOut = "idled_out",
        Killed = "killed",
        Orphaned = "orphaned",
    }
}

impl Lifecycle for SessionState {
    type Fact = SessionFact;

    const NOUN: &'static str = "session";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [SessionFact] = SessionFact::ALL;
    const TRANSITIONS: &'static [(Self, SessionFact, Self)] = {
        use SessionFact as On;
        use SessionState::*;
        &[
            (Created, On::Spawned, Running),
            (Created, On::LaunchFailed, Failed),
            (Running, On::ExitedWithZero, Completed),
            (Running, On::ExitedAbnormally, Failed),
            (Running, On::Finished, Completed),
            (Running, On::IdledOut, Completed),
            (Running, On::Killed, Killed),
            (Running, On::Orphaned, Orphaned),
            (Killed, On::ExitedWithZero, Killed),
            (Killed, On::ExitedAbnormally, Killed),
        ]
    };
}

string_enum! {
    /// How coven communicates with the harness.
    pub enum Channel { Terminal = "terminal", Acp = "acp" }
}

string_enum! {
    /// How a session was asked to end, stored so that a restarted daemon repeats the request.
    pub enum EndIntent { Finish = "finish", IdleTimeout = "idle_timeout" }
}

/// Key in `metadata` for the pids that survived SIGKILL.
const SURVIVORS: &str = "still_alive";

/// `metadata.reason` of a session whose ACP handshake failed.
const UNOPENED: &str = "open_failed";

/// Identifies a process even if another one later gets its pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// Start time in clock ticks since boot, as reported by the kernel.
    pub started_ticks: u64,
    pub boot_id: String,
}

/// The exit status of the harness process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
}

impl ExitStatus {
    /// Returns the exit code as a shell reports it: 128 plus the signal number after a signal.
    pub const fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }

    const fn fact(self) -> SessionFact {
        match self {
            Self::Code(0) => SessionFact::ExitedWithZero,
            Self::Code(_) | Self::Signal(_) => SessionFact::ExitedAbnormally,
        }
    }
}

/// Everything needed to start the harness later, except the environment, which is never stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    pub argv: Vec<String>,
    /// Text that the command line of the running process must contain; empty if any command is allowed.
    #[serde(default)]
    pub identity: String,
    /// Typed into the terminal once the harness runs, for harnesses that accept no prompt as an argument.
    #[serde(default)]
    pub typed: String,
    pub rows: u16,
    pub cols: u16,
    pub grace_seconds: f64,
    /// Number of arguments at the end that contain the prompt. Hooks are added in front of them.
    #[serde(default)]
    pub prompt_args: usize,
    /// The agent's hooks are added at launch.
    #[serde(default)]
    pub takes_hooks: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub harness: String,
    pub channel: Channel,
    pub title: String,
    pub state: SessionState,
    pub exit_code: Option<i32>,
    pub process: Option<ProcessIdentity>,
    pub project_root: String,
    pub cwd: String,
    pub repo_id: Option<RepoId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub archived_at: Option<Timestamp>,
    /// Set when the launch starts; `None` in a record created with `--detach`.
    pub launching_at: Option<Timestamp>,
    pub end_intent: Option<EndIntent>,
    pub launch: Launch,
    pub metadata: Map<String, Value>,
    /// What the agent is doing; meaningful while the session is live.
    #[serde(default)]
    pub activity: ActivityStatus,
}

/// Why the state of a session does not allow an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionStateError {
    #[error("the session is running; kill it, or wait until it ends")]
    Running,
    #[error("the processes of the session are still ending; wait until they are gone")]
    Ending,
    #[error("the session is being launched; kill it, or wait until it runs")]
    Launching,
    #[error("the session is already archived")]
    AlreadyArchived,
    #[error("the session is not archived")]
    NotArchived,
    #[error("the session is archived; restore it with `coven summon`")]
    Archived,
    #[error("the session has not been started; start it with `coven start`")]
    NotStarted,
    #[error("the session already waits for its launch; launch it immediately with `coven start --now`")]
    Queued,
    #[error("the session was already launched; only a session created with --detach can be started")]
    AlreadyLaunched,
}

impl Session {
    /// Reports whether the session accepts input and signals.
    pub fn is_live(&self) -> bool {
        self.state == SessionState::Running && self.archived_at.is_none()
    }

    /// Reports whether the session has ended and its outcome is known.
    pub fn is_over(&self) -> bool {
        match self.state {
            SessionState::Created | SessionState::Running => false,
            SessionState::Killed => self.exit_code.is_some(),
            SessionState::Completed | SessionState::Failed | SessionState::Orphaned => true,
        }
    }

    /// Reports whether the session was created without being launched.
    pub fn is_detached(&self) -> bool {
        self.state == SessionState::Created && self.launching_at.is_none() && !self.is_queued()
    }

    /// Reports whether the harness is being started.
    pub fn is_launching(&self) -> bool {
        self.state == SessionState::Created && self.launching_at.is_some()
    }

    /// Reports whether some processes of a killed session survived SIGKILL.
    pub fn has_survivors(&self) -> bool {
        self.state == SessionState::Killed && self.exit_code.is_none() && self.metadata.contains_key(SURVIVORS)
    }

    /// Records processes that survived SIGKILL, most likely because they are in uninterruptible sleep.
    pub fn not_ended(&mut self, pids: &[u32], now: Timestamp) {
        self.metadata.insert(SURVIVORS.into(), json!(pids));
        self.touch(now);
    }

    pub fn launching(&mut self, now: Timestamp) -> Result<(), SessionStateError> {
        match (self.state, self.launching_at) {
            (SessionState::Created, None) => {
                self.metadata.remove(QUEUED);
                self.launching_at = Some(now);
                self.touch(now);
                Ok(())
            }
            (SessionState::Created, Some(_)) => Err(SessionStateError::Launching),
            _ => Err(SessionStateError::AlreadyLaunched),
        }
    }

    pub fn spawned(&mut self, process: ProcessIdentity, now: Timestamp) -> Result<(), Refused<SessionState>> {
        self.state = self.state.after(SessionFact::Spawned)?;
        self.process = Some(process);
        self.touch(now);
        Ok(())
    }

    pub fn launch_failed(&mut self, reason: &str, now: Timestamp) -> Result<(), Refused<SessionState>> {
        self.state = self.state.after(SessionFact::LaunchFailed)?;
        self.metadata.remove(QUEUED);
        self.metadata.insert("reason".into(), json!("launch_failed"));
        self.metadata.insert("error".into(), json!(reason));
        self.touch(now);
        Ok(())
    }

    /// Records the exit status. An earlier request to end decides the resulting state.
    pub fn exited(&mut self, status: ExitStatus, now: Timestamp) -> Result<(), Refused<SessionState>> {
        let fact = match self.end_intent.filter(|_| self.state == SessionState::Running) {
            Some(EndIntent::Finish) => SessionFact::Finished,
            Some(EndIntent::IdleTimeout) => SessionFact::IdledOut,
            // A failed handshake fails the session regardless of the exit status.
            None if self.is_unopened() => SessionFact::ExitedAbnormally,
            None => status.fact(),
        };
        self.state = self.state.after(fact)?;
        self.exit_code = Some(status.code());
        self.metadata.remove(SURVIVORS);
        if let ExitStatus::Signal(signal) = status {
            self.metadata.insert("signal".into(), json!(signal));
        }
        if let Some(intent) = self.end_intent {
            let reason = match intent {
                EndIntent::Finish => "finished",
                EndIntent::IdleTimeout => "idle_timeout",
            };
            self.metadata.insert("reason".into(), json!(reason));
        }
        self.touch(now);
        Ok(())
    }

    /// Records that the ACP handshake failed; the caller ends the agent.
    pub fn open_failed(&mut self, reason: &str, now: Timestamp) {
        self.metadata.insert("reason".into(), json!(UNOPENED));
        self.metadata.insert("error".into(), json!(reason));
        self.touch(now);
    }

    pub fn is_unopened(&self) -> bool {
        self.metadata.get("reason").is_some_and(|reason| reason == UNOPENED)
    }

    pub fn killed(&mut self, now: Timestamp) -> Result<(), Refused<SessionState>> {
        self.state = self.state.after(SessionFact::Killed)?;
        // A kill overrides an earlier request to end.
        self.end_intent = None;
        self.touch(now);
        Ok(())
    }

    pub fn orphaned(&mut self, reason: &str, now: Timestamp) -> Result<(), Refused<SessionState>> {
        self.state = self.state.after(SessionFact::Orphaned)?;
        self.metadata.insert("reason".into(), json!("orphaned"));
        self.metadata.insert("error".into(), json!(reason));
        self.touch(now);
        Ok(())
    }

    pub fn end_requested(&mut self, intent: EndIntent, now: Timestamp) {
        self.end_intent = Some(intent);
        self.touch(now);
    }

    pub fn renamed(&mut self, title: String, now: Timestamp) {
        self.title = title;
        self.touch(now);
    }

    pub fn archived(&mut self, now: Timestamp) -> Result<(), SessionStateError> {
        self.ensure_not_running()?;
        if self.archived_at.is_some() {
            return Err(SessionStateError::AlreadyArchived);
        }
        // An archived session is not launched.
        self.metadata.remove(QUEUED);
        self.archived_at = Some(now);
        self.touch(now);
        Ok(())
    }

    pub fn summoned(&mut self, now: Timestamp) -> Result<(), SessionStateError> {
        if self.archived_at.take().is_none() {
            return Err(SessionStateError::NotArchived);
        }
        self.touch(now);
        Ok(())
    }

    /// Checks that the session is not running, which archiving and deletion require.
    pub fn ensure_not_running(&self) -> Result<(), SessionStateError> {
        match self.state {
            SessionState::Running => Err(SessionStateError::Running),
            SessionState::Created if self.launching_at.is_some() => Err(SessionStateError::Launching),
            SessionState::Created
            | SessionState::Completed
            | SessionState::Failed
            | SessionState::Killed
            | SessionState::Orphaned => Ok(()),
        }
    }

    /// Returns the actions that a user can take now, for the browser's menu.
    pub fn actions(&self) -> Vec<Action> {
        Action::ALL.iter().copied().filter(|action| self.allows(*action)).collect()
    }

    fn allows(&self, action: Action) -> bool {
        let (archived, is_stopped) = (self.archived_at.is_some(), self.ensure_not_running().is_ok());
        match action {
            Action::Attach => self.is_live(),
            Action::Replay => self.process.is_some(),
            Action::Input | Action::Finish => self.is_live(),
            Action::Kill => self.is_live() || self.is_launching() || self.is_queued(),
            Action::Start => self.is_detached() && !archived,
            Action::Archive => is_stopped && !archived,
            Action::Summon => archived,
            Action::Export => self.process.is_some(),
            Action::Sacrifice => is_stopped,
        }
    }

    fn touch(&mut self, now: Timestamp) {
        // `updated_at` must not decrease when the clock goes back.
        self.updated_at = now.not_before(self.updated_at);
    }
}

string_enum! {
    /// A user action on a session.
    pub enum Action {
        Attach = "attach",
        Replay = "replay",
        Input = "input",
        Start = "start",
        Finish = "finish",
        Kill = "kill",
        Archive = "archive",
        Summon = "summon",
        Export = "export",
        Sacrifice = "sacrifice",
    }
}

string_enum! {
    /// Session states as the compatibility API names them.
    pub enum CompatStatus { Active = "active", Completed = "completed", Cancelled = "cancelled", Error = "error" }
}

impl From<SessionState> for CompatStatus {
    fn from(state: SessionState) -> Self {
        match state {
            SessionState::Created | SessionState::Running => Self::Active,
            SessionState::Completed => Self::Completed,
            SessionState::Killed => Self::Cancelled,
            SessionState::Failed | SessionState::Orphaned => Self::Error,
        }
    }
}

/// Which keys typed into a terminal are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordInput {
    /// Every key.
    All,
    /// Every key, except at a prompt that does not echo: only the number of characters.
    #[default]
    HiddenSecrets,
    /// Only the number of characters.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch_queue::QueuedLaunch;

    fn session(state: SessionState) -> Session {
        Session {
            id: SessionId::from_uuid(uuid::Uuid::from_u128(7)),
            harness: "demo".into(),
            channel: Channel::Terminal,
            title: "t".into(),
            state,
            exit_code: None,
            process: Some(ProcessIdentity { pid: 4, started_ticks: 5, boot_id: "b".into() }),
            project_root: "/p".into(),
            cwd: "/p".into(),
            repo_id: None,
            created_at: Timestamp::from_millis(10),
            updated_at: Timestamp::from_millis(10),
            archived_at: None,
            launching_at: None,
            end_intent: None,
            launch: Launch {
                argv: vec!["x".into()],
                identity: String::new(),
                typed: String::new(),
                rows: 24,
                cols: 80,
                grace_seconds: 5.0,
                prompt_args: 0,
                takes_hooks: false,
            },
            metadata: Map::new(),
            activity: ActivityStatus::default(),
        }
    }

    #[test]
    fn exit_zero_completes_and_anything_else_fails() {
        let now = Timestamp::from_millis(20);
        for (status, state, code) in [
            (ExitStatus::Code(0), SessionState::Completed, 0),
            (ExitStatus::Code(3), SessionState::Failed, 3),
            (ExitStatus::Signal(9), SessionState::Failed, 137),
        ] {
            let mut it = session(SessionState::Running);
            it.exited(status, now).expect("running may exit");
            assert_eq!((it.state, it.exit_code), (state, Some(code)));
        }
    }

    #[test]
    fn a_killed_session_keeps_its_state_and_gains_its_exit_code() {
        let mut it = session(SessionState::Running);
        it.killed(Timestamp::from_millis(20)).expect("running may be killed");
        it.exited(ExitStatus::Signal(15), Timestamp::from_millis(30)).expect("killed may exit");
        assert_eq!((it.state, it.exit_code), (SessionState::Killed, Some(143)));
    }

    #[test]
    fn a_requested_end_means_completed_regardless_of_the_exit_code() {
        for (intent, reason) in [(EndIntent::Finish, "finished"), (EndIntent::IdleTimeout, "idle_timeout")] {
            let mut it = session(SessionState::Running);
            it.end_requested(intent, Timestamp::from_millis(20));
            it.exited(ExitStatus::Signal(15), Timestamp::from_millis(30)).expect("running may end");
            assert_eq!(it.state, SessionState::Completed);
            assert_eq!(it.metadata["reason"], reason);
        }
    }

    #[test]
    fn a_session_that_was_asked_to_finish_and_then_killed_is_killed() {
        let mut it = session(SessionState::Running);
        it.end_requested(EndIntent::Finish, Timestamp::from_millis(20));
        it.killed(Timestamp::from_millis(30)).expect("running may be killed");
        it.exited(ExitStatus::Signal(9), Timestamp::from_millis(40)).expect("killed may exit");
        assert_eq!((it.state, it.metadata.get("reason")), (SessionState::Killed, None));
    }

    #[test]
    fn the_menu_offers_only_allowed_actions() {
        use Action::*;
        let running = session(SessionState::Running);
        assert_eq!(running.actions(), [Attach, Replay, Input, Finish, Kill, Export]);
        let done = session(SessionState::Completed);
        assert_eq!(done.actions(), [Replay, Archive, Export, Sacrifice]);
        let mut archived = session(SessionState::Orphaned);
        archived.archived(Timestamp::from_millis(20)).expect("orphaned may be archived");
        assert_eq!(archived.actions(), [Replay, Summon, Export, Sacrifice]);
        let mut record = session(SessionState::Created);
        record.process = None;
        assert_eq!(record.actions(), [Start, Archive, Sacrifice]);
    }

    #[test]
    fn a_queued_session_waits_until_it_is_launched_or_taken_off_the_queue() {
        let mut it = session(SessionState::Created);
        it.process = None;
        let place = QueuedLaunch { since: Timestamp::from_millis(20), place: 2, reason: "full".to_owned() };
        it.queued(&place);
        assert_eq!((it.queued_launch().as_ref(), it.is_detached(), it.is_launching()), (Some(&place), false, false));
        assert_eq!(it.actions(), [Action::Kill, Action::Archive, Action::Sacrifice]);
        let now = Timestamp::from_millis(30);
        let mut launched = it.clone();
        launched.launching(now).expect("a queued session may be launched");
        assert!(launched.is_launching() && launched.queued_launch().is_none() && launched.metadata.is_empty());
        let mut failed = it.clone();
        failed.launch_failed("killed", now).expect("a queued session may fail");
        assert!(failed.is_over() && !failed.metadata.contains_key(QUEUED));
        it.archived(now).expect("a queued session may be archived");
        assert!(!it.is_queued() && it.is_detached());
    }

    #[test]
    fn a_killed_session_reports_its_surviving_processes_until_they_exit() {
        let mut it = session(SessionState::Running);
        it.killed(Timestamp::from_millis(20)).expect("running may be killed");
        it.not_ended(&[7, 8], Timestamp::from_millis(30));
        assert!(it.has_survivors() && !it.is_over());
        assert_eq!(it.metadata["still_alive"], json!([7, 8]));

        it.exited(ExitStatus::Signal(9), Timestamp::from_millis(40)).expect("a killed session may exit");
        assert!(!it.has_survivors() && it.is_over());
        assert!(!it.metadata.contains_key("still_alive"));
    }

    #[test]
    fn a_clock_going_back_never_lowers_updated_at() {
        let mut it = session(SessionState::Running);
        it.killed(Timestamp::from_millis(1)).expect("running may be killed");
        assert_eq!(it.updated_at, Timestamp::from_millis(10));
    }

    #[test]
    fn the_compat_api_has_a_name_for_every_state() {
        let words: Vec<_> = SessionState::ALL.iter().map(|state| CompatStatus::from(*state).as_str()).collect();
        assert_eq!(words, ["active", "active", "completed", "error", "cancelled", "error"]);
    }
}
