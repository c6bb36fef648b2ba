//! Hooks of agent programs: what coven passes at launch, what a call means, and how an answer is returned.

use std::collections::BTreeMap;
use std::path::Path;

use coven_domain::Timestamp;
use coven_domain::activity::ActivityFact;
use coven_domain::question::{Question, QuestionAnswer};
use coven_domain::request::PermissionOption;
use serde_json::Value;

/// File of an injection to which the agent writes reports as lines of JSON with a `type`, beside or instead of calling hooks.
/// If an injection has this file, coven follows it: each line is a call with the type as its event. A report of a request
/// that the agent repeats keeps its key.
pub const REPORT_FILE: &str = "reports.jsonl";
/// File to which coven appends the answers to requests from the report file, one per line.
pub const ANSWER_FILE: &str = "answers.jsonl";

/// How coven receives reports from an agent program and answers its requests.
#[derive(Debug)]
pub struct Hooks {
    /// Returns what to pass to the program, or why its settings do not allow hooks.
    pub inject: fn(&HookSetup<'_>) -> Result<Injection, String>,
    /// Returns the meanings of a call, in order. An unknown call has none.
    pub read: fn(event: &str, payload: &Value) -> Vec<HookMeaning>,
    /// Returns the text that the waiting hook prints. `None`: the hook prints nothing, and the agent's own dialog decides.
    pub answer: fn(payload: &Value, &HookAnswer<'_>) -> Option<String>,
}

/// Each agent has one constant, so the same hooks have the same address.
impl PartialEq for Hooks {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// The launch that hooks are added to.
#[derive(Debug, Clone, Copy)]
pub struct HookSetup<'a> {
    /// The coven binary, absolute.
    pub coven: &'a Path,
    /// A private folder of the session for files of the injection, absolute.
    pub folder: &'a Path,
    /// The program's arguments before the prompt.
    pub args: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    /// The working folder of the session.
    pub cwd: &'a Path,
}

/// What a launch gets in addition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injection {
    /// All arguments before the prompt, with those of the setup.
    pub args: Vec<String>,
    /// Environment variables to set.
    pub env: Vec<(String, String)>,
    /// Files to write into the folder of the setup, with relative names.
    pub files: Vec<(String, String)>,
}

/// A meaning of a hook call.
#[derive(Debug, Clone, PartialEq)]
pub enum HookMeaning {
    /// The agent reported its start, so its hooks work.
    Started,
    /// The agent's own id of the conversation, and its transcript if the agent names it.
    Conversation {
        id: String,
        transcript: Option<String>,
    },
    Activity {
        fact: ActivityFact,
        detail: Option<String>,
    },
    /// The agent reached a limit, which resets at `until` if the agent says so.
    LimitReached {
        detail: Option<String>,
        until: Option<Timestamp>,
    },
    /// A request that the hook waits for, or only reports.
    Asked(HookRequest),
    /// Requests were settled in the agent's own dialog: those with this key, or all of the session.
    Settled {
        key: Option<String>,
    },
    /// A subagent or background task started (`1`) or ended (`-1`).
    BackgroundChanged(i32),
    /// Number of subagents and background tasks that are running.
    BackgroundCount(u32),
}

#[derive(Debug, Clone, PartialEq)]
pub struct HookRequest {
    /// The agent's own id of the request, if it has one.
    pub key: Option<String>,
    pub body: HookRequestBody,
    /// The agent accepts an answer through the hook. Otherwise the request is shown, and its answer is typed in the terminal.
    pub is_answerable: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum HookRequestBody {
    /// `title` says what the agent wants to do, such as `wants to run: cargo test`.
    Permission {
        title: String,
        options: Vec<PermissionOption>,
        tool_call: Value,
    },
    Question {
        questions: Vec<Question>,
    },
}

/// The answer of a human to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookAnswer<'a> {
    /// The chosen option.
    Option(&'a PermissionOption),
    Answers(&'a [QuestionAnswer]),
    Rejected,
}
