//! One error shape for every route: `{"error":{"code","message","details"?}}`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorDetail {
    pub code: ErrorCode,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::JsonValue>"))]
    pub details: Option<Value>,
}

macro_rules! codes {
    ($($variant:ident = $word:literal $(| $older:literal)?, $status:literal, $exit:literal;)+) => {
        /// The kind of error, for programs to branch on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum ErrorCode { $(#[serde(rename = $word $(, alias = $older)?)] $variant),+ }

        impl ErrorCode {
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The HTTP status it is sent with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),+ }
            }

            /// The exit code of a command that met it.
            pub const fn exit_code(self) -> u8 {
                match self { $(Self::$variant => $exit),+ }
            }

            /// Reads a code, also under the name that an older coven stored or sent.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word $(| $older)? => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

// Exit codes: 1 failed, 2 wrong usage, 3 not found, 4 refused by state, 5 daemon or store out of reach.
codes! {
    InvalidRequest = "invalid_request", 400, 2;
    InvalidTitle = "invalid_title", 400, 2;
    InvalidPrompt = "invalid_prompt", 400, 2;
    AmbiguousId = "ambiguous_id", 400, 2;
    UnknownHarness = "unknown_harness", 400, 2;
    HarnessNotInstalled = "harness_not_installed", 400, 2;
    CwdMissing = "cwd_missing", 400, 2;
    CwdOutsideRoot = "cwd_outside_root", 400, 2;
    RootNotAFolder = "root_not_a_folder", 400, 2;
    InvalidTask = "invalid_task", 400, 2;
    TaskCycle = "task_cycle", 400, 2;
    InvalidWorkflow = "invalid_workflow", 400, 2;
    InvalidBase = "invalid_base", 400, 2;
    NotARepository = "not_a_repository", 400, 2;
    RepoOutsideRoot = "repo_outside_root", 400, 2;
    Unauthorized = "unauthorized", 401, 2;
    ForbiddenHost = "forbidden_host", 403, 2;
    ForbiddenOrigin = "forbidden_origin", 403, 2;
    SelfAnswer = "self_answer", 403, 4;
    ForeignHook = "foreign_hook", 403, 4;
    TrustRequired = "trust_required", 403, 4;
    NotFound = "not_found", 404, 3;
    SessionNotFound = "session_not_found", 404, 3;
    ConversationNotFound = "conversation_not_found", 404, 3;
    TaskNotFound = "task_not_found", 404, 3;
    WorkflowNotFound = "workflow_not_found", 404, 3;
    AgentNotFound = "agent_not_found", 404, 3;
    RepoNotFound = "repo_not_found", 404, 3;
    OperationNotFound = "operation_not_found", 404, 3;
    InboxItemNotFound = "inbox_item_not_found" | "question_not_found", 404, 3;
    NotSubscribed = "not_subscribed", 404, 3;
    HarnessNotFound = "harness_not_found", 404, 3;
    MethodNotAllowed = "method_not_allowed", 405, 2;
    RequestTimeout = "request_timeout", 408, 1;
    SessionNotLive = "session_not_live", 409, 4;
    SessionRunning = "session_running", 409, 4;
    SessionConflict = "session_conflict" | "session_refused", 409, 4;
    TaskConflict = "task_conflict" | "task_refused", 409, 4;
    TaskNotReady = "task_not_ready", 409, 4;
    WorkflowRefused = "workflow_refused", 409, 4;
    MergeFailed = "merge_failed" | "not_merged", 409, 4;
    RepoInUse = "repo_in_use", 409, 4;
    AlreadyAnswered = "already_answered", 409, 4;
    ConversationDamaged = "conversation_damaged", 409, 4;
    QuestionBroken = "question_broken", 409, 4;
    AlreadySubscribed = "already_subscribed", 409, 4;
    BodyTooLarge = "body_too_large", 413, 2;
    TooManySessions = "too_many_sessions", 429, 4;
    TooManySubscriptions = "too_many_subscriptions", 429, 4;
    JsonTooDeep = "json_too_deep", 400, 2;
    LaunchFailed = "launch_failed", 500, 1;
    GitFailed = "git_failed", 500, 1;
    DiskFull = "disk_full", 507, 1;
    Internal = "internal", 500, 1;
    Interrupted = "interrupted", 500, 1;
    Unavailable = "unavailable", 503, 5;
}
