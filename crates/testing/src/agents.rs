//! Agents over ACP: repositories to work in, sessions of the scripted agent, what was said, and leave to be given.

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
use crate::{Answer, TestHome, eventually};

/// A message as `/api/sessions` tells it; a field more or less is a failure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Said {
    pub id: String,
    pub session_id: String,
    pub role: String,
    pub content: Value,
    pub timestamp: String,
}

impl Said {
    pub fn kind(&self) -> &str {
        self.content["type"].as_str().unwrap_or_default()
    }

    pub fn text(&self) -> &str {
        self.content["text"].as_str().unwrap_or_default()
    }

    /// Who said what, without the ids and times.
    pub fn plain(&self) -> (String, Value) {
        (self.role.clone(), self.content.clone())
    }
}

/// What the user said, as it is stored.
pub fn user(text: &str) -> (String, Value) {
    ("user".to_owned(), json!({ "type": "text", "text": text }))
}

/// What the agent said, finished and as it is stored.
pub fn agent(text: &str) -> (String, Value) {
    ("agent".to_owned(), json!({ "type": "text", "text": text, "partial": false }))
}

/// What `chunks N` and `pace N` say.
pub fn counted(count: usize) -> String {
    (0..count).map(|number| format!("{number} ")).collect()
}

/// A harness of the config: the scripted agent with traits of its own.
pub fn behaving(traits: &str) -> Value {
    json!({ "program": "gemini", "acpArgs": ["--acp"], "env": { "FAKE_ACP": traits } })
}

pub fn agent_path(id: &str, rest: &str) -> String {
    format!("{}{rest}", GetCompatSession::of(id).target())
}

/// Every number in a text of `pace` or `chunks`, in the order it was said.
pub fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

impl TestHome {
    /// A home with the scripted agent as `gemini`, whose daemon does not run yet.
    pub fn with_agent(config: Value) -> Self {
        let home = Self::new();
        home.install("gemini");
        let mut whole = json!({ "sessions": { "killGraceSeconds": 1.0 } });
        if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), config) {
            whole.extend(more);
        }
        home.configure(whole);
        home
    }

    /// The same with its daemon.
    #[track_caller]
    pub fn started_with_agent(config: Value) -> Self {
        let home = Self::with_agent(config);
        home.start();
        home
    }

    /// A Git repository below `folder`.
    #[track_caller]
    pub fn init_repo(&self, folder: &Path) -> PathBuf {
        fs::create_dir_all(folder).expect("room on disk");
        let mut git = Command::new("git");
        git.args(["-c", "init.defaultBranch=main", "init", "--quiet"]).arg(folder).env_clear();
        git.envs(self.variables()).env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.output().expect("git runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::canonicalize(folder).expect("there")
    }

    /// A Git repository in the project, registered.
    #[track_caller]
    pub fn make_repo(&self, name: &str) -> RepoRecord {
        let folder = self.init_repo(&self.project().join(name));
        let answer = self.post(AddCompatRepo::ROUTE.path, &json!({ "path": folder }));
        assert!([200, 201].contains(&answer.status), "{}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// A session of the agent `gemini` in the repo.
    #[track_caller]
    pub fn open(&self, repo: &RepoRecord) -> CompatSessionRecord {
        self.open_with(json!({ "repoId": repo.id }))
    }

    /// A session of another harness of the config.
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

    /// `DELETE /api/sessions/:id`: cancels it.
    #[track_caller]
    pub fn cancel_session(&self, id: &str) -> Answer {
        self.request(Method::DELETE, &agent_path(id, ""), None)
    }

    /// Sends a prompt; gives the id of the user's message.
    #[track_caller]
    pub fn prompt(&self, id: &str, text: &str) -> String {
        let answer = self.post(&agent_path(id, "/prompt"), &json!({ "text": text }));
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
        let answer: CompatPromptResponse = answer.json();
        assert!(answer.ok && answer.accepted, "{answer:?}");
        answer.message_id.to_string()
    }

    /// Sends a prompt, waits until its turn is over, and gives everything that was ever said.
    #[track_caller]
    pub fn turn(&self, id: &str, text: &str) -> Vec<Said> {
        self.prompt(id, text);
        self.wait_for_rest(id);
        self.said(id)
    }

    #[track_caller]
    pub fn said(&self, id: &str) -> Vec<Said> {
        self.read(&agent_path(id, "/messages"))
    }

    /// Who said what, oldest first.
    #[track_caller]
    pub fn plainly(&self, id: &str) -> Vec<(String, Value)> {
        self.said(id).iter().map(Said::plain).collect()
    }

    /// Everything the agent said, finished or not.
    #[track_caller]
    pub fn agent_text(&self, id: &str) -> String {
        let said = self.said(id);
        said.iter().filter(|it| it.role == "agent" && it.kind() == "text").map(Said::text).collect()
    }

    #[track_caller]
    pub fn wait_for_text(&self, id: &str, text: &str) -> String {
        eventually(&format!("{id} said {text:?}"), || Some(self.agent_text(id)).filter(|said| said.contains(text)))
    }

    #[track_caller]
    pub fn agent_state(&self, id: &str) -> AcpStateRecord {
        self.call(ReadAcpState::of(id))
    }

    #[track_caller]
    pub fn wait_for_activity(&self, id: &str, activity: Activity) -> AcpStateRecord {
        eventually(&format!("{id} is {activity}"), || Some(self.agent_state(id)).filter(|it| it.activity == activity))
    }

    /// Waits until no turn runs and no prompt waits.
    #[track_caller]
    pub fn wait_for_rest(&self, id: &str) -> AcpStateRecord {
        eventually(&format!("{id} rests"), || {
            Some(self.agent_state(id)).filter(|it| it.activity == Activity::Idle && it.queued == 0)
        })
    }

    /// What waits for a human.
    #[track_caller]
    pub fn inbox(&self, query: &str) -> Vec<InboxItem> {
        let found: List<InboxItem> = self.read(&format!("{}{query}", ListInbox::ROUTE.path));
        found.items
    }

    /// Waits until the session asks for leave.
    #[track_caller]
    pub fn wait_for_request(&self, id: &str) -> InboxItem {
        eventually(&format!("{id} asks"), || self.inbox(&format!("?session={id}")).pop())
    }

    #[track_caller]
    pub fn answer_request(&self, id: &str, answer: &Value) -> Answer {
        self.post(AnswerInboxItem::of(id).target(), answer)
    }

    /// Every byte that the session's agent has received, as it wrote them down itself.
    #[track_caller]
    pub fn received_text(&self, id: &str) -> String {
        let pid = self.session(id).pid.expect("it was started");
        let file = self.user().join(format!(".fake-agent/received/{pid}.jsonl"));
        fs::read_to_string(file).unwrap_or_default()
    }

    /// Every line that it has received.
    #[track_caller]
    pub fn received(&self, id: &str) -> Vec<Value> {
        let text = self.received_text(id);
        // The last line may be on its way.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn received_methods(&self, id: &str) -> Vec<String> {
        self.received(id).iter().filter_map(|it| it["method"].as_str().map(str::to_owned)).collect()
    }

    /// The texts of the prompts that reached the agent.
    pub fn received_prompts(&self, id: &str) -> Vec<String> {
        let text = |it: &Value| it["params"]["prompt"][0]["text"].as_str().map(str::to_owned);
        self.received(id).iter().filter(|it| it["method"] == "session/prompt").filter_map(text).collect()
    }

    /// Everything that coven wrote into its own logs.
    pub fn own_log(&self) -> String {
        let Ok(entries) = fs::read_dir(self.path().join("logs")) else { return String::new() };
        entries.flatten().map(|entry| fs::read_to_string(entry.path()).unwrap_or_default()).collect()
    }
}
