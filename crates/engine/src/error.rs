//! Errors of the engine: a small closed set that the server translates to status and code.

use coven_domain::agent::AgentState;
use coven_domain::conversation::ConversationId;
use coven_domain::lifecycle::Refused;
use coven_domain::operation::{OperationKind, OperationState};
use coven_domain::request::AnswerError;
use coven_domain::session::{SessionState, SessionStateError};
use coven_domain::task::{BadTask, NotReady, TaskState};
use coven_domain::text::BadText;
use coven_domain::workflow::WorkflowState;
use coven_domain::{RepoId, RequestId, SessionId, TaskId};
use coven_harness::Missing;
use coven_host::git::GitError;
use coven_host::{Home, WorkDirError};
use coven_interop::conversations::ConversationError;
use coven_interop::questions::QuestionError;
use coven_store::StoreError;
use coven_workflow::Problem;

use crate::workflow::merge::NotMerged;

/// Number of tasks of a cycle that a message names.
const MAX_CYCLE_TASKS: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("no session has the id or title {0:?}; see `coven sessions --all`")]
    SessionNotFound(String),
    #[error("{0} is a conversation, not a session; resume it with `coven spawn --resume {0}`")]
    IsConversation(ConversationId),
    #[error("{0}")]
    Conversation(#[from] ConversationError),
    #[error("id prefix {prefix:?} matches several sessions; use a longer prefix: {}", ids(candidates))]
    AmbiguousId { prefix: String, candidates: Vec<SessionId> },
    #[error("several sessions have the title {title:?}; use an id instead: {}", ids(candidates))]
    AmbiguousTitle { title: String, candidates: Vec<SessionId> },
    #[error("session {id} is {state} and cannot receive input or signals; view it with `coven replay {id}`")]
    NotLive { id: SessionId, state: String },
    #[error("{source}: {id}")]
    SessionState { id: SessionId, source: SessionStateError },
    #[error("{0}")]
    Refused(#[from] Refused<SessionState>),
    #[error("{0}")]
    Text(#[from] BadText),
    #[error(
        "unknown harness {id:?}; known: {known}. If you just added it to the config, run `coven daemon restart`; \
             to run another command, use `coven run -- <program> …`"
    )]
    UnknownHarness { id: String, known: String },
    #[error("harness {id:?} is not installed: {program:?} was not found in PATH; {hint}")]
    NotInstalled { id: String, program: String, hint: String },
    #[error("the program {0:?} was not found; check its name, or give its full path")]
    ProgramNotFound(String),
    #[error(
        "no agent is named and none is installed; install one of {known}, name a harness, or set defaultHarness in the config"
    )]
    NoAgentInstalled { known: String },
    #[error("{0}")]
    WorkDir(#[from] WorkDirError),
    #[error("no task has the id {0:?}; see `coven task list`")]
    TaskNotFound(String),
    #[error("id prefix {prefix:?} matches several tasks; use a longer prefix: {}", ids(candidates))]
    AmbiguousTask { prefix: String, candidates: Vec<TaskId> },
    #[error("{0}")]
    Task(#[from] BadTask),
    #[error("{0}")]
    TaskRefused(#[from] Refused<TaskState>),
    #[error("dependency cycle: {}; remove one of these links", format_cycle(relation, way))]
    TaskCycle { relation: &'static str, way: Vec<String> },
    #[error("cannot delete task {id}: it has {}; delete them first or add --recursive", subtasks(*count))]
    TaskHasChildren { id: TaskId, count: usize },
    #[error("cannot delete task {id}: it is {state}; close it first")]
    TaskActive { id: TaskId, state: TaskState },
    #[error("cannot delete task {id}: task {by} depends on it; close {id}, or remove the dependency from {by}")]
    TaskHasDependents { id: TaskId, by: TaskId },
    #[error("cannot start task {id}: {}", why.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    TaskNotReady { id: TaskId, why: Vec<NotReady> },
    #[error(
        "cannot start the task: {active} of {limit} tasks are in progress; wait until one ends, or raise scheduler.maxConcurrentAgents"
    )]
    TooManyTasks { active: u64, limit: u64 },
    #[error("unknown workflow {name:?}; known: {known}; to add it, create grimoires/{name}.yaml in the coven home")]
    UnknownDefinition { name: String, known: String },
    #[error("workflow {name:?} is not valid: {}; see `coven workflow lint {name}`", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    BadDefinition { name: String, problems: Vec<Problem> },
    #[error("no workflow run has id {0:?}; list them with `coven workflow list`")]
    WorkflowNotFound(String),
    #[error("no agent has the id {0:?}; see `coven state`")]
    AgentNotFound(String),
    #[error("{0}")]
    WorkflowRefused(#[from] Refused<WorkflowState>),
    #[error("{0}")]
    AgentRefused(#[from] Refused<AgentState>),
    #[error("task {0} is being merged; wait for the merge to finish, then retry")]
    BeingMerged(TaskId),
    #[error("no operation has the id {0:?}; see `coven operation list`")]
    OperationNotFound(String),
    #[error("{0}")]
    OperationRefused(#[from] Refused<OperationState>),
    #[error("the daemon stopped before the operation finished; {}", next_step(*kind))]
    Interrupted { kind: OperationKind },
    #[error("the operation failed because of a bug in coven; see `coven daemon logs`, then retry")]
    OperationPanicked,
    #[error("task {id} was not merged: {why}")]
    NotMerged { id: TaskId, why: NotMerged },
    #[error("no tasks were created: task {place} of {count}: {source}")]
    BulkItem { place: usize, count: usize, source: Box<EngineError> },
    #[error("no repository has the id {0}; see `coven repo list`")]
    RepoNotFound(RepoId),
    #[error("the repository {} is outside the workspace {}; move it there or set AGENT_WORKSPACE_ROOT", path.display(), root.display())]
    RepoOutsideRoot { path: std::path::PathBuf, root: std::path::PathBuf },
    #[error("cannot remove repository {id}: {sessions} active session(s) use it; end them first")]
    RepoInUse { id: RepoId, sessions: u64 },
    #[error("{0}")]
    Git(#[from] GitError),
    #[error(
        "{} is not inside a Git repository; create one with `git init`, or set another folder with `coven task edit {id} --repo DIR`",
        path.display()
    )]
    TaskOutsideGit { id: TaskId, path: std::path::PathBuf },
    #[error("{active} of {limit} agent sessions are active; wait until one ends or cancel one, then retry")]
    TooManyAcpSessions { active: u64, limit: u64 },
    #[error("harness {0:?} has no ACP mode; set harnesses.{0}.acpArgs in the config, or omit --acp")]
    NoAcp(String),
    #[error("harness {id:?} cannot run in a terminal: {reason}, or use --acp")]
    NoTerminalMode { id: String, reason: Missing },
    #[error("session {0} runs in a terminal and cannot receive prompts; type into it with `coven input {0}`")]
    NotAcp(SessionId),
    #[error("session {0} uses ACP and has no terminal; open it with `coven chat {0}`")]
    NoTerminal(SessionId),
    #[error("cannot resume session {id}: {why}")]
    CannotResume { id: SessionId, why: String },
    #[error("session {0} is busy; retry in a moment")]
    Busy(SessionId),
    #[error("session {0} has no running turn to cancel")]
    NoTurn(SessionId),
    #[error("the agent of session {0} has not opened its session yet; retry in a moment")]
    NotOpenYet(SessionId),
    #[error("no inbox item has id {0:?}; list them with `coven inbox`")]
    QuestionNotFound(String),
    #[error("id prefix {prefix:?} matches several {what}; use a longer prefix: {}", candidates.join(", "))]
    AmbiguousItem { what: &'static str, prefix: String, candidates: Vec<String> },
    #[error("{0}")]
    Questions(#[from] QuestionError),
    #[error("{source}: {id}")]
    RequestAnswer { id: RequestId, source: AnswerError },
    #[error("the hook was not called by a process of session {0}; hooks are accepted only from inside their session")]
    ForeignHook(SessionId),
    #[error(
        "session {0} cannot answer its own request; answer from another terminal, or set permissions.allowSelfAnswer"
    )]
    SelfAnswer(SessionId),
    #[error(
        "cannot check whether session {0} answers its own request: the process that connected has ended or is not \
             visible to the daemon; answer from a process that keeps running, or set permissions.allowSelfAnswer"
    )]
    UnknownCaller(SessionId),
    #[error("cannot read {what} of session {id}; see `coven daemon logs`")]
    Unreadable { id: SessionId, what: &'static str, source: serde_json::Error },
    #[error(
        "{what} in {home} came with a repository or archive, so coven does not use it; review it, then run `coven trust {home}`"
    )]
    Untrusted { what: String, home: String },
    #[error("{0}")]
    Invalid(String),
    #[error("cannot launch the harness: {reason}; the record is kept as {id}")]
    LaunchFailed { id: SessionId, reason: String },
    #[error("the holder of session {0} does not answer; the session may be ending, so retry in a moment")]
    HolderGone(SessionId),
    #[error(
        "session {0}: timed out; the harness is not reading its input. Some of it may still be queued in the terminal"
    )]
    HolderBusy(SessionId),
    #[error("cannot read the log of session {id}; see `coven daemon logs`")]
    Log { id: SessionId, source: std::io::Error },
    #[error("{}", store_text(.0))]
    Store(#[from] StoreError),
    #[error("the daemon is stopping; retry in a moment")]
    Stopping,
}

/// Kinds of errors that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    AgentNotFound,
    AlreadyAnswered,
    AmbiguousId,
    ConversationDamaged,
    ConversationNotFound,
    CwdMissing,
    CwdOutsideRoot,
    DiskFull,
    ForeignHook,
    GitFailed,
    HarnessNotInstalled,
    Internal,
    Interrupted,
    InvalidBase,
    InvalidPrompt,
    InvalidRequest,
    InvalidTask,
    InvalidTitle,
    InvalidWorkflow,
    LaunchFailed,
    NotARepository,
    MergeFailed,
    OperationNotFound,
    QuestionBroken,
    InboxItemNotFound,
    RepoInUse,
    RepoNotFound,
    RepoOutsideRoot,
    RootNotAFolder,
    SelfAnswer,
    SessionNotFound,
    SessionNotLive,
    SessionConflict,
    SessionRunning,
    TaskCycle,
    TaskNotFound,
    TaskNotReady,
    TaskConflict,
    TooManySessions,
    TrustRequired,
    Unavailable,
    UnknownHarness,
    WorkflowNotFound,
    WorkflowRefused,
}

fn format_cycle(relation: &str, way: &[String]) -> String {
    let join = |way: &[String]| way.join(&format!(" {relation} "));
    match way {
        [start @ .., last] if start.len() > MAX_CYCLE_TASKS => {
            let left_out = start.len() - MAX_CYCLE_TASKS;
            format!("{} {relation} … ({left_out} more) {relation} {}", join(&start[..MAX_CYCLE_TASKS]), last)
        }
        all => join(all),
    }
}

fn subtasks(count: usize) -> String {
    if count == 1 { "1 subtask".to_owned() } else { format!("{count} subtasks") }
}

fn ids(candidates: &[impl ToString]) -> String {
    candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the next step after an operation that the daemon did not finish.
const fn next_step(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::TaskAdd => "no task was added, so add them again",
        OperationKind::MigrateRun => "run `coven db import` again; it imports only the rest",
        OperationKind::RetentionRun => "run `coven db sweep` again",
        OperationKind::TaskApprove => "approve the task again",
    }
}

fn store_text(error: &StoreError) -> String {
    match error {
        StoreError::Full => "the disk is full and nothing was written; free some space, then retry".to_owned(),
        other => format!("database operation failed: {other}; see `coven daemon logs`"),
    }
}

impl EngineError {
    /// Adds which of several items failed.
    pub fn bulk_item(self, index: usize, count: usize) -> Self {
        match count {
            1 => self,
            _ => Self::BulkItem { place: index + 1, count, source: Box::new(self) },
        }
    }

    pub fn untrusted(what: impl Into<String>, home: &Home) -> Self {
        Self::Untrusted { what: what.into(), home: home.path().display().to_string() }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> Kind {
        match self {
            Self::SessionNotFound(_) | Self::IsConversation(_) => Kind::SessionNotFound,
            Self::Conversation(error) => conversation_kind(error),
            Self::AmbiguousId { .. }
            | Self::AmbiguousTitle { .. }
            | Self::AmbiguousItem { .. }
            | Self::AmbiguousTask { .. } => Kind::AmbiguousId,
            Self::TaskNotFound(_) => Kind::TaskNotFound,
            Self::Task(_) => Kind::InvalidTask,
            Self::TaskCycle { .. } => Kind::TaskCycle,
            Self::TaskRefused(_)
            | Self::TaskHasChildren { .. }
            | Self::TaskActive { .. }
            | Self::TaskHasDependents { .. } => Kind::TaskConflict,
            Self::TaskNotReady { .. } | Self::TooManyTasks { .. } => Kind::TaskNotReady,
            Self::UnknownDefinition { .. } | Self::BadDefinition { .. } => Kind::InvalidWorkflow,
            Self::WorkflowNotFound(_) => Kind::WorkflowNotFound,
            Self::AgentNotFound(_) => Kind::AgentNotFound,
            Self::WorkflowRefused(_) | Self::AgentRefused(_) => Kind::WorkflowRefused,
            Self::NotMerged { .. } => Kind::MergeFailed,
            Self::OperationNotFound(_) => Kind::OperationNotFound,
            Self::Interrupted { .. } => Kind::Interrupted,
            Self::OperationRefused(_) | Self::OperationPanicked => Kind::Internal,
            Self::BeingMerged(_) => Kind::TaskConflict,
            Self::BulkItem { source, .. } => source.kind(),
            Self::NotLive { .. } | Self::HolderGone(_) => Kind::SessionNotLive,
            Self::SessionState { source: SessionStateError::Running | SessionStateError::Launching, .. } => {
                Kind::SessionRunning
            }
            Self::SessionState { .. } | Self::Refused(_) | Self::HolderBusy(_) => Kind::SessionConflict,
            Self::Text(BadText::PromptTooLong { .. } | BadText::PromptNul { .. }) => Kind::InvalidPrompt,
            Self::Text(_) => Kind::InvalidTitle,
            Self::UnknownHarness { .. } => Kind::UnknownHarness,
            Self::NotInstalled { .. } | Self::NoAgentInstalled { .. } | Self::ProgramNotFound(_) => {
                Kind::HarnessNotInstalled
            }
            Self::WorkDir(WorkDirError::RootNotAFolder(_)) => Kind::RootNotAFolder,
            Self::WorkDir(WorkDirError::Missing(_) | WorkDirError::NotAFolder(_)) => Kind::CwdMissing,
            Self::WorkDir(WorkDirError::OutsideRoot { .. }) => Kind::CwdOutsideRoot,
            Self::RepoNotFound(_) => Kind::RepoNotFound,
            Self::RepoOutsideRoot { .. } => Kind::RepoOutsideRoot,
            Self::RepoInUse { .. } => Kind::RepoInUse,
            Self::Untrusted { .. } | Self::Git(GitError::Untrusted { .. } | GitError::NotOurs(_)) => {
                Kind::TrustRequired
            }
            Self::Git(GitError::NotARepository(_)) | Self::TaskOutsideGit { .. } => Kind::NotARepository,
            Self::Git(GitError::NoCommit | GitError::NoBranch | GitError::UnknownBranch(_)) => Kind::InvalidBase,
            Self::Git(
                GitError::Failed { .. }
                | GitError::Refused(_)
                | GitError::Stopped { .. }
                | GitError::TooLong { .. }
                | GitError::TooMuch { .. },
            ) => Kind::GitFailed,
            Self::TooManyAcpSessions { .. } => Kind::TooManySessions,
            Self::QuestionNotFound(_) => Kind::InboxItemNotFound,
            Self::Questions(error) => question_kind(error),
            Self::SelfAnswer(_) | Self::UnknownCaller(_) => Kind::SelfAnswer,
            Self::ForeignHook(_) => Kind::ForeignHook,
            Self::RequestAnswer { source: AnswerError::AlreadyAnswered(_), .. } => Kind::AlreadyAnswered,
            Self::RequestAnswer { source: AnswerError::Cancelled, .. } => Kind::AlreadyAnswered,
            Self::RequestAnswer { .. } | Self::NoAcp(_) | Self::NoTerminalMode { .. } => Kind::InvalidRequest,
            Self::NotAcp(_)
            | Self::NoTerminal(_)
            | Self::CannotResume { .. }
            | Self::NoTurn(_)
            | Self::Busy(_)
            | Self::NotOpenYet(_) => Kind::SessionConflict,
            Self::Invalid(_) => Kind::InvalidRequest,
            Self::LaunchFailed { .. } => Kind::LaunchFailed,
            Self::Store(StoreError::Full) => Kind::DiskFull,
            Self::Store(StoreError::Locked) | Self::Stopping => Kind::Unavailable,
            Self::Log { .. } | Self::Store(_) | Self::Unreadable { .. } | Self::Git(GitError::NotRun(_)) => {
                Kind::Internal
            }
        }
    }
}

fn conversation_kind(error: &ConversationError) -> Kind {
    match error {
        ConversationError::BadId(_) | ConversationError::NotFound { .. } => Kind::ConversationNotFound,
        ConversationError::Ambiguous { .. } => Kind::AmbiguousId,
        ConversationError::Damaged { .. } => Kind::ConversationDamaged,
        ConversationError::Exists { .. }
        | ConversationError::Busy { .. }
        | ConversationError::InUse { .. }
        | ConversationError::Append { .. }
        | ConversationError::Unreadable { .. }
        | ConversationError::Refused(_)
        | ConversationError::Unwritable { .. } => Kind::Internal,
    }
}

fn question_kind(error: &QuestionError) -> Kind {
    match error {
        QuestionError::BadQuestions(_) | QuestionError::BadAnswers(_) => Kind::InvalidRequest,
        QuestionError::NotFound { .. } => Kind::InboxItemNotFound,
        QuestionError::Ambiguous { .. } => Kind::AmbiguousId,
        QuestionError::AlreadyFinished { .. } => Kind::AlreadyAnswered,
        QuestionError::Missing { .. }
        | QuestionError::Malformed { .. }
        | QuestionError::Contradiction { .. }
        | QuestionError::NoAnswers { .. } => Kind::QuestionBroken,
        // Another process is writing the set.
        QuestionError::Lock { .. } | QuestionError::Full { .. } => Kind::Unavailable,
        QuestionError::AtomicWrite(failed) if is_full(&failed.source) => Kind::DiskFull,
        QuestionError::Unwritable { source, .. } if is_full(source) => Kind::DiskFull,
        QuestionError::AtomicWrite(_)
        | QuestionError::Unreadable { .. }
        | QuestionError::Unwritable { .. }
        | QuestionError::Watch { .. } => Kind::Internal,
    }
}

fn is_full(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::StorageFull
}
