//! The config file `.coven/config.json`: every key with its default. Unknown keys are refused by name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use coven_domain::session::RecordInput;
use coven_harness::agent::DefaultChoice;
use coven_harness::{HarnessConfig, agents};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PermissionsConfig;

/// Settings of one coven home. Every key may be left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Where editors find the schema of this file.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    pub store: StoreConfig,
    pub sessions: SessionsConfig,
    #[schemars(description = default_harness_description())]
    pub default_harness: Option<String>,
    /// More harnesses, or changes to built-in ones, by id.
    pub harnesses: BTreeMap<String, HarnessConfig>,
    pub agents: AgentsConfig,
    pub permissions: PermissionsConfig,
    pub http: HttpConfig,
    pub scheduler: SchedulerConfig,
    pub questions: QuestionsConfig,
    pub mcp: McpConfig,
    /// Accepted and ignored: earlier releases documented this key and never read it.
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub conversations: Option<serde::de::IgnoredAny>,
    pub notifications: NotificationsConfig,
}

/// How long things are kept. Fractions are fine, 0 means "at once", null means "never".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StoreConfig {
    /// Events for subscribers.
    #[schemars(range(min = 0.0))]
    pub event_retention_hours: Option<f64>,
    /// Closed tasks, until they are soft-deleted.
    #[schemars(range(min = 0.0))]
    pub task_retention_days: Option<f64>,
    /// Soft-deleted tasks, until they are gone with their agents, output and questions.
    #[schemars(range(min = 0.0))]
    pub task_soft_delete_days: Option<f64>,
    /// Completed workflows.
    #[schemars(range(min = 0.0))]
    pub workflow_retention_days: Option<f64>,
    /// How long a claim lives without a sign of life.
    #[schemars(range(min = 0.0))]
    pub claim_timeout_minutes: f64,
}

impl StoreConfig {
    /// How long a claim lives without a sign of life.
    pub fn lease(&self) -> Duration {
        const LONGEST: Duration = Duration::from_secs(365 * 86_400);
        Duration::try_from_secs_f64(self.claim_timeout_minutes * 60.0).unwrap_or(LONGEST).min(LONGEST)
    }
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            event_retention_hours: Some(24.0),
            task_retention_days: Some(30.0),
            task_soft_delete_days: Some(7.0),
            workflow_retention_days: Some(7.0),
            claim_timeout_minutes: 30.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionsConfig {
    /// Past this many bytes of output the oldest segments of a session go.
    #[schemars(range(min = 1_048_576))]
    pub max_output_bytes: u64,
    /// Working folders must lie in here; unset: the folder that holds a project's `.coven`, else the Git repository of the working folder.
    pub root: Option<String>,
    /// Seconds between SIGTERM and SIGKILL.
    #[schemars(range(min = 0.0))]
    pub kill_grace_seconds: f64,
    /// Seconds that a launch may take; after that its processes are ended and the session becomes failed.
    #[schemars(range(min = 0.0))]
    pub launch_timeout_seconds: f64,
    /// The keys that leave an attached session: `ctrl-` and a letter or one of `\ ] ^ _`, then optionally one more key.
    pub detach_keys: String,
    /// Keep a terminal model of every running session; without it attaching replays the log.
    pub screen_model: bool,
    /// Compress the log of a finished session.
    pub compress_finished: bool,
    /// Which keys typed into a terminal the journal and the ledger keep.
    #[schemars(with = "RecordInputSchema")]
    pub record_input: RecordInput,
    /// Default size of a terminal that nobody looks at.
    #[schemars(range(min = 1, max = 1000))]
    pub rows: u16,
    #[schemars(range(min = 1, max = 1000))]
    pub cols: u16,
}

/// The values of `RecordInput` for the schema of the config: the type itself is part of a session's record, which needs no schema.
#[derive(JsonSchema)]
#[schemars(rename = "RecordInput", rename_all = "kebab-case")]
#[expect(dead_code, reason = "describes values and is never made")]
enum RecordInputSchema {
    /// Every key.
    All,
    /// Every key, except at a prompt that does not echo: there only the number of characters.
    HiddenSecrets,
    /// Only the number of characters.
    None,
}

impl Default for SessionsConfig {
    fn default() -> Self {
        Self {
            max_output_bytes: 1 << 30,
            root: None,
            kill_grace_seconds: 5.0,
            launch_timeout_seconds: 30.0,
            detach_keys: "ctrl-\\".to_owned(),
            screen_model: true,
            compress_finished: true,
            record_input: RecordInput::default(),
            rows: 24,
            cols: 80,
        }
    }
}

/// Sessions over ACP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentsConfig {
    /// The harness for ACP sessions if the request names none; unset: `defaultHarness`.
    pub harness: Option<String>,
    /// So many may be active at once; `AGENT_MAX_SESSIONS` stands above it.
    #[schemars(range(min = 1))]
    pub max_sessions: u64,
    /// Minutes without a prompt or an update until a session is ended; 0: never. `AGENT_SESSION_IDLE_TIMEOUT` stands above it.
    #[schemars(range(min = 0.0))]
    pub idle_timeout_minutes: f64,
    /// Seconds an agent may take to answer until its session is open.
    #[schemars(range(min = 0.1))]
    pub handshake_seconds: f64,
    /// Repositories must lie in here; canonical. Only `AGENT_WORKSPACE_ROOT` sets it, never the file; unset: [`Home::workspace`].
    ///
    /// [`Home::workspace`]: crate::Home::workspace
    #[serde(skip)]
    pub workspace_root: Option<PathBuf>,
}

impl AgentsConfig {
    /// None: sessions may be idle for ever.
    pub fn idle_timeout(&self) -> Option<Duration> {
        let minutes = self.idle_timeout_minutes;
        (minutes > 0.0).then(|| Duration::from_secs_f64(minutes * 60.0))
    }

    pub fn handshake(&self) -> Duration {
        Duration::from_secs_f64(self.handshake_seconds.max(0.1))
    }
}

impl Default for AgentsConfig {
    fn default() -> Self {
        Self {
            harness: None,
            max_sessions: 5,
            idle_timeout_minutes: 30.0,
            handshake_seconds: 60.0,
            workspace_root: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HttpConfig {
    /// A loopback address and port to listen on beside the Unix socket, e.g. `127.0.0.1:7777`.
    pub listen: Option<String>,
    /// Allow an address beyond loopback. The token is asked for all the same.
    pub allow_remote: bool,
    /// More `Host` values to accept, e.g. the name of a proxy.
    pub allowed_hosts: Vec<String>,
    /// Web origins that may call; none by default.
    pub allowed_origins: Vec<String>,
    /// The largest request body.
    #[schemars(range(min = 1024))]
    pub max_body_bytes: usize,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: None,
            allow_remote: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 4 << 20,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SchedulerConfig {
    /// Tasks that are worked on at once.
    #[schemars(range(min = 1))]
    pub max_concurrent_agents: u32,
    /// Begin ready tasks without being asked; else `coven task start` does.
    pub auto_start: bool,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { max_concurrent_agents: 3, auto_start: false }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct QuestionsConfig {
    /// Milliseconds until a question set times out; 0: never.
    pub session_timeout: u64,
    /// Milliseconds that finished question sets are kept.
    pub retention_period: u64,
    pub max_sessions: u32,
}

impl Default for QuestionsConfig {
    fn default() -> Self {
        Self { session_timeout: 0, retention_period: 604_800_000, max_sessions: 100 }
    }
}

/// The tools that `coven mcp` gives to agents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpConfig {
    /// Agents may start sessions and type into them; without it they may only look.
    pub allow_control: bool,
}

/// How a person is told that something new waits in the inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NotificationsConfig {
    /// Show a desktop notification, by the program `notify-send`.
    pub desktop: bool,
    /// Ring the terminal's bell in the browser, the chat, the answering screen and `inbox --follow`.
    pub bell: bool,
}

impl Default for NotificationsConfig {
    fn default() -> Self {
        Self { desktop: true, bell: true }
    }
}

/// A value that has the right type and still makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct BadValue {
    pub key: String,
    pub problem: String,
}

fn default_harness_description() -> String {
    let of = |choice| agents::ids(|agent| agent.default_choice == choice).join(", ");
    format!(
        "The agent for sessions, tasks and conversations if none is named; unset: the first installed of {}, \
         those that only this file defines, {}.",
        of(DefaultChoice::First),
        of(DefaultChoice::Later)
    )
}

impl Config {
    /// The agent to use where none is named. `agents.harness` counts for configs that are older than `defaultHarness`.
    pub fn default_harness(&self) -> Option<&str> {
        self.default_harness.as_deref().or(self.agents.harness.as_deref())
    }

    /// Settings that are accepted and have no effect, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let conversations = "conversations: this setting has no effect; remove it, and set spawner.interactive in \
                             ~/.aurora/config.json instead";
        self.conversations.iter().map(|_| conversations.to_owned()).collect()
    }

    /// Everything the types cannot say, reported by key.
    pub fn check(&self) -> Result<(), BadValue> {
        let bad = |key: &str, problem: String| Err(BadValue { key: key.to_owned(), problem });
        let store = &self.store;
        for (key, value) in [
            ("store.eventRetentionHours", store.event_retention_hours),
            ("store.taskRetentionDays", store.task_retention_days),
            ("store.taskSoftDeleteDays", store.task_soft_delete_days),
            ("store.workflowRetentionDays", store.workflow_retention_days),
            ("store.claimTimeoutMinutes", Some(store.claim_timeout_minutes)),
            ("sessions.killGraceSeconds", Some(self.sessions.kill_grace_seconds)),
            ("sessions.launchTimeoutSeconds", Some(self.sessions.launch_timeout_seconds)),
            ("agents.idleTimeoutMinutes", Some(self.agents.idle_timeout_minutes)),
            ("agents.handshakeSeconds", Some(self.agents.handshake_seconds)),
        ] {
            if value.is_some_and(|period| !(0.0..=1e9).contains(&period)) {
                return bad(key, "must be a number of 0 or more".to_owned());
            }
        }
        if self.sessions.max_output_bytes < 1 << 20 {
            return bad("sessions.maxOutputBytes", "must be at least 1048576 (1 MiB)".to_owned());
        }
        for (key, size) in [("sessions.rows", self.sessions.rows), ("sessions.cols", self.sessions.cols)] {
            if !(1..=1000).contains(&size) {
                return bad(key, "must be between 1 and 1000".to_owned());
            }
        }
        if let Err(problem) = DetachKeys::parse(&self.sessions.detach_keys) {
            return bad("sessions.detachKeys", problem);
        }
        if self.http.max_body_bytes < 1024 {
            return bad("http.maxBodyBytes", "must be at least 1024".to_owned());
        }
        if let Some(listen) = &self.http.listen {
            let Ok(address) = listen.parse::<std::net::SocketAddr>() else {
                return bad("http.listen", format!("{listen:?} is not an address and port such as 127.0.0.1:7777"));
            };
            if !address.ip().is_loopback() && !self.http.allow_remote {
                return bad(
                    "http.listen",
                    format!("{address} is not a loopback address; set http.allowRemote to listen there"),
                );
            }
        }
        if self.agents.max_sessions == 0 {
            return bad("agents.maxSessions", "must be at least 1".to_owned());
        }
        if self.scheduler.max_concurrent_agents == 0 {
            return bad("scheduler.maxConcurrentAgents", "must be at least 1".to_owned());
        }
        let harnesses = coven_harness::all(&self.harnesses);
        if let Some(id) = &self.default_harness
            && !harnesses.iter().any(|harness| harness.id == *id)
        {
            let known: Vec<&str> = harnesses.iter().map(|harness| harness.id.as_str()).collect();
            return bad("defaultHarness", format!("{id:?} is not a harness; known: {}", known.join(", ")));
        }
        for (id, harness) in &self.harnesses {
            if let Err(problem) = harness.check(id) {
                return bad(&format!("harnesses.{id}"), problem);
            }
        }
        Ok(())
    }
}

/// The bytes that leave an attached session: one control byte, optionally followed by a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachKeys {
    pub bytes: Vec<u8>,
}

impl DetachKeys {
    /// `ctrl-\`, `ctrl-a d`, `ctrl-]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let hint = || format!("{text:?} is not a key sequence such as \"ctrl-\\\\\" or \"ctrl-a d\"");
        let mut words = text.split_whitespace();
        let mut bytes = Vec::new();
        let first = words.next().ok_or_else(hint)?;
        bytes.push(Self::control(first).ok_or_else(hint)?);
        if let Some(second) = words.next() {
            match (Self::control(second), second.as_bytes()) {
                (Some(byte), _) => bytes.push(byte),
                (None, [byte @ 0x21..=0x7e]) => bytes.push(*byte),
                _ => return Err(hint()),
            }
        }
        match words.next() {
            None => Ok(Self { bytes }),
            Some(_) => Err(hint()),
        }
    }

    fn control(word: &str) -> Option<u8> {
        let key = word.strip_prefix("ctrl-").or_else(|| word.strip_prefix('^'))?;
        match key.as_bytes() {
            [byte @ (b'a'..=b'z' | b'A'..=b'Z' | b'\\' | b']' | b'^' | b'_')] => Some(byte & 0x1f),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_03_an_empty_file_means_the_documented_defaults() {
        let config: Config = serde_json::from_str("{}").expect("every key may be left out");
        assert_eq!(config, Config::default());
        let store = serde_json::to_value(&config.store).expect("plain data");
        assert_eq!(
            store,
            serde_json::json!({
                "eventRetentionHours": 24.0, "taskRetentionDays": 30.0, "taskSoftDeleteDays": 7.0,
                "workflowRetentionDays": 7.0, "claimTimeoutMinutes": 30.0
            })
        );
        config.check().expect("the defaults make sense");
    }

    #[test]
    fn null_keeps_for_ever_and_a_typo_is_named() {
        let config: Config = serde_json::from_str(r#"{"store":{"eventRetentionHours":null}}"#).expect("null is fine");
        assert_eq!(config.store.event_retention_hours, None);
        let typo = serde_json::from_str::<Config>(r#"{"store":{"eventRetentionHour":1}}"#).expect_err("a typo");
        assert!(typo.to_string().contains("eventRetentionHour"), "{typo}");
    }

    #[test]
    fn values_that_make_no_sense_are_named_by_key() {
        let check = |json: &str| {
            serde_json::from_str::<Config>(json).expect("well-typed").check().expect_err("makes no sense").key
        };
        assert_eq!(check(r#"{"store":{"taskRetentionDays":-1}}"#), "store.taskRetentionDays");
        assert_eq!(check(r#"{"http":{"listen":"0.0.0.0:80"}}"#), "http.listen");
        assert_eq!(check(r#"{"http":{"listen":"localhost"}}"#), "http.listen");
        assert_eq!(check(r#"{"sessions":{"detachKeys":"d"}}"#), "sessions.detachKeys");
        assert_eq!(check(r#"{"defaultHarness":"cluade"}"#), "defaultHarness");
        assert_eq!(check(r#"{"harnesses":{"x y":{"program":"x"}}}"#), "harnesses.x y");
    }

    #[test]
    fn a_config_with_the_unused_conversations_block_is_accepted_with_a_warning() {
        let text = r#"{"conversations":{"sessionExpiryDays":7,"maxTokens":5}}"#;
        let config: Config = serde_json::from_str(text).expect("an old key does not stop the daemon");
        config.check().expect("it makes sense");
        assert!(matches!(&config.warnings()[..], [text] if text.starts_with("conversations:")));
        assert_eq!(Config::default().warnings(), Vec::<String>::new());
    }

    #[test]
    fn the_default_agent_of_an_older_config_is_still_in_force() {
        let default = |text: &str| {
            let config: Config = serde_json::from_str(text).expect("well-typed");
            config.default_harness().map(str::to_owned)
        };
        assert_eq!(default("{}"), None);
        assert_eq!(default(r#"{"agents":{"harness":"codex"}}"#).as_deref(), Some("codex"));
        assert_eq!(default(r#"{"defaultHarness":"gemini","agents":{"harness":"codex"}}"#).as_deref(), Some("gemini"));
    }

    #[test]
    fn detach_keys_are_one_control_byte_and_perhaps_a_key() {
        assert_eq!(DetachKeys::parse("ctrl-\\").map(|keys| keys.bytes), Ok(vec![0x1c]));
        assert_eq!(DetachKeys::parse("ctrl-a d").map(|keys| keys.bytes), Ok(vec![1, b'd']));
        assert!(DetachKeys::parse("x").is_err() && DetachKeys::parse("").is_err());
    }
}
