//! ACP agents: repositories, sessions of the scripted agent, messages and permission requests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use coven_api::List;
use coven_api::acp_state::AcpStateRecord;
use coven_api::compat::CompatPromptResponse;
use coven_api::inbox::InboxItem;
use coven_api::routes::{
    AddCompatRepo, AnswerInboxItem, CreateCompatSession, Endpoint, GetCompatSession, ListCompatSessions, ListInbox,
    ReadAcpState,
};
use coven_domain::message::Activity;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::records::{CompatSessionList, CompatSessionRecord, RepoRecord};
use crate::{HttpResponse, TestHome, eventually};

/// A message of `/api/sessions`. An unknown or missing field is an error.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentMessage {
    pub id: String,
    pub session_id: String,
    pub role: String,
    pub content: Value,
    pub timestamp: String,
}

impl AgentMessage {
    pub fn kind(&self) -> &str {
        self.content["type"].as_str().unwrap_or_default()
    }

    pub fn text(&self) -> &str {
        self.content["text"].as_str().unwrap_or_default()
    }

    /// Returns the role and the content, without the ids and times.
    pub fn role_and_content(&self) -> (String, Value) {
        (self.role.clone(), self.content.clone())
    }
}

/// Returns the role and content of a stored user message.
pub fn user(text: &str) -> (String, Value) {
    ("user".to_owned(), json!({ "type": "text", "text": text }))
}

/// Returns the role and content of a complete stored agent message.
pub fn agent(text: &str) -> (String, Value) {
    ("agent".to_owned(), json!({ "type": "text", "text": text, "partial": false }))
}

/// Returns the text that `chunks N` and `pace N` produce.
pub fn counted(count: usize) -> String {
    (0..count).map(|number| format!("{number} ")).collect()
}

/// Returns a harness for the config: the scripted agent with these traits.
pub fn agent_with_traits(traits: &str) -> Value {
    json!({ "program": "gemini", "acpArgs": ["--acp"], "env": { "FAKE_ACP": traits } })
}

pub fn agent_path(id: &str, rest: &str) -> String {
    format!("{}{rest}", GetCompatSession::of(id).target())
}

/// Returns the numbers in the text of `pace` or `chunks`, in order.
pub fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

impl TestHome {
    /// Creates a home without a daemon, with the scripted agent installed as `gemini`.
    pub fn with_agent(config: Value) -> Self {
        let home = Self::new();
        home.install("gemini");
        let mut settings = json!({ "sessions": { "killGraceSeconds": 1.0 } });
        if let (Some(settings), Value::Object(more)) = (settings.as_object_mut(), config) {
            settings.extend(more);
        }
        home.configure(settings);
        home
    }

    /// Like `with_agent`, with a running daemon.
    #[track_caller]
    pub fn started_with_agent(config: Value) -> Self {
        let home = Self::with_agent(config);
        home.start();
        home
    }

    /// Creates a Git repository in `folder`.
    #[track_caller]
    pub fn init_repo(&self, folder: &Path) -> PathBuf {
        fs::create_dir_all(folder).expect("disk has space");
        let mut git = Command::new("git");
        git.args(["-c", "init.defaultBranch=main", "init", "--quiet"]).arg(folder).env_clear();
        git.envs(self.variables()).env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.output().expect("git runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::canonicalize(folder).expect("exists")
    }

    /// Creates and registers a Git repository in the project.
    #[track_caller]
    pub fn make_repo(&self, name: &str) -> RepoRecord {
        let folder = self.init_repo(&self.project().join(name));
        let answer = self.post(AddCompatRepo::ROUTE.path, &json!({ "path": folder }));
        assert!([200, 201].contains(&answer.status), "{}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Opens a session of the agent `gemini` in the repository.
    #[track_caller]
    pub fn open(&self, repo: &RepoRecord) -> CompatSessionRecord {
        self.open_with(json!({ "repoId": repo.id }))
    }

    /// Opens a session of another harness from the config.
    #[track_caller]
    pub fn open_as(&self, repo: &RepoRecord, harness: &str) -> CompatSessionRecord {
        self.open_with(json!({ "repoId": repo.id, "harness": harness }))
    }

    #[track_caller]
    pub fn open_with(&self, request: Value) -> CompatSessionRecord {
        let answer = self.post(CreateCompatSession::ROUTE.path, &request);
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    #[track_caller]
    pub fn agent_session(&self, id: &str) -> CompatSessionRecord {
        let detail: Value = self.read(&agent_path(id, ""));
        serde_json::from_value(detail).expect("a session's fields")
    }

    #[track_caller]
    pub fn agent_sessions(&self, query: &str) -> CompatSessionList {
        self.read(&format!("{}{query}", ListCompatSessions::ROUTE.path))
    }

    #[track_caller]
    pub fn wait_for_agent_status(&self, id: &str, status: &str) -> CompatSessionRecord {
        eventually(&format!("{id} is {status}"), || Some(self.agent_session(id)).filter(|it| it.status == status))
    }

    /// Cancels a session with `DELETE /api/sessions/:id`.
    #[track_caller]
    pub fn cancel_session(&self, id: &str) -> HttpResponse {
        self.request(Method::DELETE, &agent_path(id, ""), None)
    }

    /// Sends a prompt and returns the id of the user message.
    #[track_caller]
    pub fn prompt(&self, id: &str, text: &str) -> String {
        let answer = self.post(&agent_path(id, "/prompt"), &json!({ "text": text }));
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
        let answer: CompatPromptResponse = answer.json();
        assert!(answer.ok && answer.accepted, "{answer:?}");
        answer.message_id.to_string()
    }

    /// Sends a prompt, waits until its turn has ended, and returns all messages of the session.
    #[track_caller]
    pub fn turn(&self, id: &str, text: &str) -> Vec<AgentMessage> {
        self.prompt(id, text);
        self.wait_for_rest(id);
        self.messages(id)
    }

    #[track_caller]
    pub fn messages(&self, id: &str) -> Vec<AgentMessage> {
        self.read(&agent_path(id, "/messages"))
    }

    /// Returns the role and content of each message, oldest first.
    #[track_caller]
    pub fn messages_with_roles(&self, id: &str) -> Vec<(String, Value)> {
        self.messages(id).iter().map(AgentMessage::role_and_content).collect()
    }

    /// Returns the text of all agent messages, complete or partial.
    #[track_caller]
    pub fn agent_text(&self, id: &str) -> String {
        let messages = self.messages(id);
        messages.iter().filter(|it| it.role == "agent" && it.kind() == "text").map(AgentMessage::text).collect()
    }

    #[track_caller]
    pub fn wait_for_text(&self, id: &str, text: &str) -> String {
        eventually(&format!("{text:?} is in the messages of {id}"), || {
            Some(self.agent_text(id)).filter(|messages| messages.contains(text))
        })
    }

    #[track_caller]
    pub fn agent_state(&self, id: &str) -> AcpStateRecord {
        self.call(ReadAcpState::of(id))
    }

    #[track_caller]
    pub fn wait_for_activity(&self, id: &str, activity: Activity) -> AcpStateRecord {
        eventually(&format!("{id} is {activity}"), || Some(self.agent_state(id)).filter(|it| it.activity == activity))
    }

    /// Waits until no turn is running and no prompt is queued.
    #[track_caller]
    pub fn wait_for_rest(&self, id: &str) -> AcpStateRecord {
        eventually(&format!("{id} is idle"), || {
            Some(self.agent_state(id)).filter(|it| it.activity == Activity::Idle && it.queued == 0)
        })
    }

    /// Returns the inbox items.
    #[track_caller]
    pub fn inbox(&self, query: &str) -> Vec<InboxItem> {
        let found: List<InboxItem> = self.read(&format!("{}{query}", ListInbox::ROUTE.path));
        found.items
    }

    /// Waits until the session has a permission request.
    #[track_caller]
    pub fn wait_for_request(&self, id: &str) -> InboxItem {
        eventually(&format!("{id} requests permission"), || self.inbox(&format!("?session={id}")).pop())
    }

    #[track_caller]
    pub fn answer_request(&self, id: &str, answer: &Value) -> HttpResponse {
        self.post(AnswerInboxItem::of(id).target(), answer)
    }

    /// Returns every byte that the session's agent has received, from the agent's own record.
    #[track_caller]
    pub fn received_text(&self, id: &str) -> String {
        let pid = self.session(id).pid.expect("was started");
        let file = self.user().join(format!(".fake-agent/received/{pid}.jsonl"));
        fs::read_to_string(file).unwrap_or_default()
    }

    /// Returns every line that the agent has received.
    #[track_caller]
    pub fn received(&self, id: &str) -> Vec<Value> {
        let text = self.received_text(id);
        // The last line may be incomplete.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn received_methods(&self, id: &str) -> Vec<String> {
        self.received(id).iter().filter_map(|it| it["method"].as_str().map(str::to_owned)).collect()
    }

    /// Returns the texts of the prompts that the agent has received.
    pub fn received_prompts(&self, id: &str) -> Vec<String> {
        let text = |it: &Value| it["params"]["prompt"][0]["text"].as_str().map(str::to_owned);
        self.received(id).iter().filter(|it| it["method"] == "session/prompt").filter_map(text).collect()
    }

    /// Returns the content of the daemon's log files.
    pub fn own_log(&self) -> String {
        let Ok(entries) = fs::read_dir(self.path().join("logs")) else { return String::new() };
        entries.flatten().map(|entry| fs::read_to_string(entry.path()).unwrap_or_default()).collect()
    }
}
