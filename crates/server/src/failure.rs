//! Maps engine errors to error codes and details.

use coven_api::ErrorCode;
use coven_domain::lifecycle::Lifecycle as _;
use coven_engine::EngineError;
use coven_engine::error::Kind;
use coven_engine::workflow::merge::NotMerged;
use serde_json::{Value, json};

macro_rules! codes {
    ($($name:ident),+ $(,)?) => {
        pub fn code(kind: Kind) -> ErrorCode {
            match kind { $(Kind::$name => ErrorCode::$name),+ }
        }
    };
}

codes!(
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
    WorkflowRefused
);

/// Returns machine-readable details of an error.
pub fn details(error: &EngineError) -> Option<Value> {
    match error {
        EngineError::AmbiguousId { candidates, .. } | EngineError::AmbiguousTitle { candidates, .. } => {
            Some(json!({"candidates": candidates.iter().map(ToString::to_string).collect::<Vec<_>>()}))
        }
        EngineError::BulkItem { source, .. } => details(source),
        EngineError::TaskRefused(refused) => Some(json!({
            "status": refused.state,
            "allowed": refused.state.accepts().map(|fact| fact.to_string()).collect::<Vec<_>>(),
        })),
        EngineError::WorkflowRefused(refused) => Some(json!({
            "status": refused.state,
            "allowed": refused.state.accepts().map(|fact| fact.to_string()).collect::<Vec<_>>(),
        })),
        EngineError::TaskNotReady { why, .. } => {
            Some(json!({ "not_ready": why.iter().map(ToString::to_string).collect::<Vec<_>>() }))
        }
        EngineError::TooManyTasks { active, limit } => Some(json!({ "active": active, "limit": limit })),
        EngineError::NotMerged { why: NotMerged::Conflicts { files, .. }, .. } => Some(json!({ "conflicts": files })),
        EngineError::NotMerged { why: NotMerged::Check { command, session, .. }, .. } => {
            Some(json!({ "check": command, "session_id": session }))
        }
        EngineError::BadDefinition { problems, .. } => Some(json!({
            "problems": problems.iter().map(|it| json!({ "line": it.line, "text": it.text })).collect::<Vec<_>>(),
        })),
        EngineError::AmbiguousItem { candidates, .. } => Some(json!({"candidates": candidates})),
        EngineError::IsConversation(id) => Some(json!({"conversation_id": id})),
        EngineError::NotLive { id, state } => Some(json!({"id": id, "status": state})),
        EngineError::LaunchFailed { id, .. } => Some(json!({"id": id})),
        EngineError::TooManyAcpSessions { active, limit } => {
            Some(json!({"active": active, "limit": limit, "retry_after_seconds": 60}))
        }
        _ => None,
    }
}
