//! Why the engine did not do what was asked: a small closed set that surfaces translate.

use coven_domain::agent::AgentState;
use coven_domain::conversation::ConversationId;
use coven_domain::lifecycle::Refused;
use coven_domain::operation::{OperationKind, OperationState};
use coven_domain::permission::AnswerError;
use coven_domain::session::{SessionState, SessionStateError};
use coven_domain::task::{BadTask, NotReady, TaskState};
use coven_domain::text::BadText;
use coven_domain::workflow::WorkflowState;
use coven_domain::{PermissionId, QuestionId, RepoId, SessionId, TaskId};
use coven_harness::Missing;
use coven_host::git::GitError;
use coven_host::{Home, WorkDirError};
use coven_interop::conversations::ConversationError;
use coven_interop::questions::QuestionError;
use coven_store::StoreError;
use coven_workflow::Problem;

use crate::workflow::merge::NotMerged;

/// How much of a circle a message names.
const MOST_TOLD: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("no session has the id or title {0:?}; see `coven sessions --all`")]
    SessionNotFound(String),
    #[error("{0} is a conversation and no session; go on with it by `coven spawn --resume {0}`")]
    IsConversation(ConversationId),
    #[error("{0}")]
    Conversation(#[from] ConversationError),
    #[error("several sessions begin with {prefix:?}; give more of the id: {}", ids(candidates))]
    AmbiguousId { prefix: String, candidates: Vec<SessionId> },
    #[error("several sessions have the title {title:?}; name one by its id: {}", ids(candidates))]
    AmbiguousTitle { title: String, candidates: Vec<SessionId> },
    #[error("the session is {state} and takes no input or signals; look at it with `coven replay {id}`")]
    NotLive { id: SessionId, state: String },
    #[error("{source}: {id}")]
    SessionState { id: SessionId, source: SessionStateError },
    #[error("{0}")]
    Refused(#[from] Refused<SessionState>),
    #[error("{0}")]
    Text(#[from] BadText),
    #[error(
        "there is no harness {id:?}; there are: {known}; one that is new in the config counts after `coven daemon restart`; \
             run any command with `coven run -- <program> …`"
    )]
    UnknownHarness { id: String, known: String },
    #[error("the harness {id:?} is not installed: {program:?} was not found in PATH; {hint}")]
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
    #[error("several tasks begin with {prefix:?}; give more of the id: {}", ids(candidates))]
    AmbiguousTask { prefix: String, candidates: Vec<TaskId> },
    #[error("{0}")]
    Task(#[from] BadTask),
    #[error("{0}")]
    TaskRefused(#[from] Refused<TaskState>),
    #[error("a task cannot wait for itself or stand below itself: {}", circle(relation, way))]
    TaskCycle { relation: &'static str, way: Vec<String> },
    #[error("the task has {count} below it; delete them first, or all together with --recursive: {id}")]
    TaskHasChildren { id: TaskId, count: usize },
    #[error("the task is {state}: {id}; it cannot be deleted before it is closed")]
    TaskActive { id: TaskId, state: TaskState },
    #[error("the task {by} waits for {id}; close it, or take it out of what {by} depends on")]
    TaskHasDependents { id: TaskId, by: TaskId },
    #[error("the task cannot be begun: {}: {id}", why.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    TaskNotReady { id: TaskId, why: Vec<NotReady> },
    #[error(
        "{active} of {limit} tasks are being worked on; wait until one ends, or raise scheduler.maxConcurrentAgents"
    )]
    TooManyTasks { active: u64, limit: u64 },
    #[error("there is no workflow {name:?}; there are: {known}; put it into the folder grimoires of the home")]
    UnknownDefinition { name: String, known: String },
    #[error("the workflow {name:?} cannot be used: {}; see `coven workflow lint {name}`", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    BadDefinition { name: String, problems: Vec<Problem> },
    #[error("no run of a workflow has the id {0:?}; see `coven workflow list`")]
    WorkflowNotFound(String),
    #[error("no agent has the id {0:?}; see `coven state`")]
    AgentNotFound(String),
    #[error("{0}")]
    WorkflowRefused(#[from] Refused<WorkflowState>),
    #[error("{0}")]
    AgentRefused(#[from] Refused<AgentState>),
    #[error("it was answered already, or nobody waits for an answer any more: {0}")]
    AnsweredAlready(QuestionId),
    #[error("the task was approved and is being merged; wait until that is over: {0}")]
    BeingMerged(TaskId),
    #[error("no operation has the id {0:?}; see `coven operation list`")]
    OperationNotFound(String),
    #[error("{0}")]
    OperationRefused(#[from] Refused<OperationState>),
    #[error("the daemon stopped before the operation was done; {}", next_step(*kind))]
    Interrupted { kind: OperationKind },
    #[error("the operation stopped because of a defect; see `coven daemon logs`, then try again")]
    OperationPanicked,
    #[error("the task was not merged: {why}: {id}")]
    NotMerged { id: TaskId, why: NotMerged },
    #[error("task {place} of {count}: {source}; none was made")]
    BulkItem { place: usize, count: usize, source: Box<EngineError> },
    #[error("no repository has the id {0}; see `coven repo list`")]
    RepoNotFound(RepoId),
    #[error("the repository {} is outside the workspace {}; move it there or set AGENT_WORKSPACE_ROOT", path.display(), root.display())]
    RepoOutsideRoot { path: std::path::PathBuf, root: std::path::PathBuf },
    #[error("the repository is in use by {sessions} active session(s); end them first: {id}")]
    RepoInUse { id: RepoId, sessions: u64 },
    #[error("{0}")]
    Git(#[from] GitError),
    #[error(
        "{} is not inside a Git repository; make one with `git init`, or name another with `coven task edit {id} --repo DIR`",
        path.display()
    )]
    TaskOutsideGit { id: TaskId, path: std::path::PathBuf },
    #[error("{active} of {limit} agent sessions are active; wait until one ends or cancel one, then try again")]
    TooManyAcpSessions { active: u64, limit: u64 },
    #[error("the harness {0:?} does not speak ACP; set its acpArgs in the config, or leave --acp out")]
    NoAcp(String),
    #[error("the harness {id:?} cannot be started in a terminal: {reason}, or use --acp")]
    NoTerminalMode { id: String, reason: Missing },
    #[error("the session is on a terminal and takes no prompts; type into it with `coven input {0}`")]
    NotAcp(SessionId),
    #[error("the session speaks ACP and has no terminal; talk to it with `coven chat {0}`")]
    NoTerminal(SessionId),
    #[error("the earlier session cannot be gone on with: {why}: {id}")]
    CannotResume { id: SessionId, why: String },
    #[error("the conversation is busy and cannot be changed now; try again in a moment: {0}")]
    Busy(SessionId),
    #[error("no turn is running; there is nothing to cancel: {0}")]
    NoTurn(SessionId),
    #[error("the agent has not opened its session yet; try again in a moment: {0}")]
    NotOpenYet(SessionId),
    #[error("nothing in the inbox has the id {0:?}; see `coven inbox`")]
    QuestionNotFound(String),
    #[error("several {what} begin with {prefix:?}; give more of the id: {}", candidates.join(", "))]
    AmbiguousItem { what: &'static str, prefix: String, candidates: Vec<String> },
    #[error("{0}")]
    Questions(#[from] QuestionError),
    #[error("{source}: {id}")]
    PermissionAnswer { id: PermissionId, source: AnswerError },
    #[error(
        "the answer comes from inside the session that asks; answer from another terminal, or set \
             permissions.allowSelfAnswer: {0}"
    )]
    SelfAnswer(SessionId),
    #[error(
        "cannot tell whether the answer comes from inside the session that asks, because the process that connected \
             has ended or is not visible to the daemon; send the answer from a process that keeps running, or set \
             permissions.allowSelfAnswer: {0}"
    )]
    UnknownCaller(SessionId),
    #[error("{what} cannot be read: {id}")]
    Unreadable { id: SessionId, what: &'static str, source: serde_json::Error },
    #[error(
        "{what} in {home} came with a repository or archive, so it is not used; read it, then run `coven trust {home}`"
    )]
    Untrusted { what: String, home: String },
    #[error("{0}")]
    Invalid(String),
    #[error("the harness could not be launched: {reason}; the record is kept as {id}")]
    LaunchFailed { id: SessionId, reason: String },
    #[error("the session's holder does not answer; it may just be ending: {0}")]
    HolderGone(SessionId),
    #[error("the harness does not read its input; what fits waits in its terminal: {0}")]
    HolderBusy(SessionId),
    #[error("the log of the session cannot be read: {id}")]
    Log { id: SessionId, source: std::io::Error },
    #[error("{}", store_text(.0))]
    Store(#[from] StoreError),
    #[error("the daemon is stopping; try again in a moment")]
    Stopping,
}

/// Kinds of failures, for callers that treat each in its own way.
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

fn circle(relation: &str, way: &[String]) -> String {
    let told = |way: &[String]| way.join(&format!(" {relation} "));
    match way {
        [start @ .., last] if start.len() > MOST_TOLD => {
            let left_out = start.len() - MOST_TOLD;
            format!("{} {relation} … ({left_out} more) {relation} {}", told(&start[..MOST_TOLD]), last)
        }
        all => told(all),
    }
}

fn ids(candidates: &[impl ToString]) -> String {
    candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What a user does about an operation that a daemon did not finish.
const fn next_step(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::TaskAdd => "no task was added: add them again",
        OperationKind::MigrateRun => "run `coven db import` again: it imports only the rest",
        OperationKind::RetentionRun => "run `coven db sweep` again",
        OperationKind::TaskApprove => "approve the task again",
    }
}

fn store_text(error: &StoreError) -> String {
    match error {
        StoreError::Full => "the disk is full: nothing was written; free some space and try again".to_owned(),
        other => format!("the store could not do it: {other}"),
    }
}

impl EngineError {
    /// Says which of several is meant, where there are several.
    pub fn bulk_item(self, index: usize, count: usize) -> Self {
        match count {
            1 => self,
            _ => Self::BulkItem { place: index + 1, count, source: Box::new(self) },
        }
    }

    pub fn untrusted(what: impl Into<String>, home: &Home) -> Self {
        Self::Untrusted { what: what.into(), home: home.path().display().to_string() }
    }

    /// What kind of failure it is.
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
            Self::AnsweredAlready(_) => Kind::AlreadyAnswered,
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
            Self::PermissionAnswer { source: AnswerError::AlreadyAnswered(_), .. } => Kind::AlreadyAnswered,
            Self::PermissionAnswer { source: AnswerError::Cancelled, .. } => Kind::AlreadyAnswered,
            Self::PermissionAnswer { .. } | Self::NoAcp(_) | Self::NoTerminalMode { .. } => Kind::InvalidRequest,
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
        // Somebody else is writing it.
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
