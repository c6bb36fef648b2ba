//! Why the engine did not do what was asked: a small closed set that surfaces translate.

use coven_api::ErrorCode;
use coven_domain::lifecycle::Refused;
use coven_domain::session::{NotNow, SessionState};
use coven_domain::text::BadText;
use coven_domain::{RepoId, SessionId};
use coven_host::WorkDirError;
use coven_store::StoreError;
use serde_json::{Value, json};

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("no session has the id {0:?}; see `coven sessions --all`")]
    SessionNotFound(String),
    #[error("several sessions begin with {prefix:?}; give more of the id: {}", ids(candidates))]
    AmbiguousId { prefix: String, candidates: Vec<SessionId> },
    #[error("the session is {state} and takes no input or signals; look at it with `coven replay {id}`")]
    NotLive { id: SessionId, state: String },
    #[error("{source}: {id}")]
    NotNow { id: SessionId, source: NotNow },
    #[error("{0}")]
    Refused(#[from] Refused<SessionState>),
    #[error("{0}")]
    Text(#[from] BadText),
    #[error("there is no harness {id:?}; there are: {known}; run any command with `coven run -- <program> …`")]
    UnknownHarness { id: String, known: String },
    #[error("the harness {id:?} is not installed: {program:?} was not found in PATH; {hint}")]
    NotInstalled { id: String, program: String, hint: String },
    #[error("{0}")]
    WorkDir(#[from] WorkDirError),
    #[error("no repository has the id {0}; see `coven repo list`")]
    RepoNotFound(RepoId),
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

fn ids(candidates: &[SessionId]) -> String {
    candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn store_text(error: &StoreError) -> String {
    match error {
        StoreError::Full => "the disk is full: nothing was written; free some space and try again".to_owned(),
        other => format!("the store could not do it: {other}"),
    }
}

impl EngineError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::SessionNotFound(_) => ErrorCode::SessionNotFound,
            Self::AmbiguousId { .. } => ErrorCode::AmbiguousId,
            Self::NotLive { .. } | Self::HolderGone(_) => ErrorCode::SessionNotLive,
            Self::NotNow { source: NotNow::Running | NotNow::Launching, .. } => ErrorCode::SessionRunning,
            Self::NotNow { .. } | Self::Refused(_) | Self::HolderBusy(_) => ErrorCode::SessionRefused,
            Self::Text(BadText::PromptTooLong { .. } | BadText::PromptNul { .. }) => ErrorCode::InvalidPrompt,
            Self::Text(_) => ErrorCode::InvalidTitle,
            Self::UnknownHarness { .. } => ErrorCode::UnknownHarness,
            Self::NotInstalled { .. } => ErrorCode::HarnessNotInstalled,
            Self::WorkDir(WorkDirError::RootNotAFolder(_)) => ErrorCode::RootNotAFolder,
            Self::WorkDir(WorkDirError::Missing(_)) => ErrorCode::CwdMissing,
            Self::WorkDir(WorkDirError::OutsideRoot { .. }) => ErrorCode::CwdOutsideRoot,
            Self::RepoNotFound(_) => ErrorCode::RepoNotFound,
            Self::Invalid(_) => ErrorCode::InvalidRequest,
            Self::LaunchFailed { .. } => ErrorCode::LaunchFailed,
            Self::Store(StoreError::Full) => ErrorCode::DiskFull,
            Self::Store(StoreError::Locked) | Self::Stopping => ErrorCode::Unavailable,
            Self::Log { .. } | Self::Store(_) => ErrorCode::Internal,
        }
    }

    /// What a program may want beside the sentence.
    pub fn details(&self) -> Option<Value> {
        match self {
            Self::AmbiguousId { candidates, .. } => {
                Some(json!({"candidates": candidates.iter().map(ToString::to_string).collect::<Vec<_>>()}))
            }
            Self::NotLive { id, state } => Some(json!({"id": id, "status": state})),
            Self::LaunchFailed { id, .. } => Some(json!({"id": id})),
            _ => None,
        }
    }
}
