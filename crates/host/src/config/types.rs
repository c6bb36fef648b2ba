//! The config file `.coven/config.json`: every key with its default. Unknown keys are errors.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use coven_domain::launch_queue::LaunchLimits;
use coven_domain::session::RecordInput;
use coven_harness::agent::DefaultChoice;
use coven_harness::{HarnessConfig, agents};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NotificationsConfig, PermissionsConfig, QuietHours};

/// Settings of one coven home. Every key is optional.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// Location of the JSON schema of this file, for editors.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    pub store: StoreConfig,
    pub sessions: SessionsConfig,
    #[schemars(description = default_harness_description())]
    pub default_harness: Option<String>,
    /// Additional harnesses, or changes to built-in ones, by id.
    pub harnesses: BTreeMap<String, HarnessConfig>,
    pub agents: AgentsConfig,
    pub permissions: PermissionsConfig,
    pub http: HttpConfig,
    pub scheduler: SchedulerConfig,
    pub limits: LimitsConfig,
    pub questions: QuestionsConfig,
    pub mcp: McpConfig,
    /// Accepted and ignored: earlier releases documented this key and never read it.
    #[serde(skip_serializing)]
    #[schemars(skip)]
    pub conversations: Option<serde::de::IgnoredAny>,
    pub notifications: NotificationsConfig,
    pub app: AppConfig,
}

/// Retention periods. Fractions are allowed; 0 deletes immediately, null never deletes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StoreConfig {
    /// How long events are kept for subscribers.
    #[schemars(range(min = 0.0))]
    pub event_retention_hours: Option<f64>,
    /// How long closed tasks are kept before they are soft-deleted.
    #[schemars(range(min = 0.0))]
    pub task_retention_days: Option<f64>,
    /// How long soft-deleted tasks are kept before they are deleted with their agents, output and questions.
    #[schemars(range(min = 0.0))]
    pub task_soft_delete_days: Option<f64>,
    /// How long completed workflow runs are kept.
    #[schemars(range(min = 0.0))]
    pub workflow_retention_days: Option<f64>,
    /// Minutes until a claim expires unless it is renewed.
    #[schemars(range(min = 0.0))]
    pub claim_timeout_minutes: f64,
}

impl StoreConfig {
    /// Returns how long a claim is valid unless it is renewed.
    pub fn lease(&self) -> Duration {
        const MAX_LEASE: Duration = Duration::from_secs(365 * 86_400);
        Duration::try_from_secs_f64(self.claim_timeout_minutes * 60.0).unwrap_or(MAX_LEASE).min(MAX_LEASE)
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
    /// Maximum output per session; beyond it, coven deletes the session's oldest segments.
    #[schemars(range(min = 1_048_576))]
    pub max_output_bytes: u64,
    /// Folder that must contain all working folders. Default: the folder of a project's `.coven`, or else the Git
    /// repository of the working folder.
    pub root: Option<String>,
    /// Seconds between SIGTERM and SIGKILL.
    #[schemars(range(min = 0.0))]
    pub kill_grace_seconds: f64,
    /// Seconds until a launch times out; coven then kills its processes and marks the session as failed.
    #[schemars(range(min = 0.0))]
    pub launch_timeout_seconds: f64,
    /// Keys that detach from a session: `ctrl-` and a letter or one of `\ ] ^ _`, optionally followed by one more key.
    pub detach_keys: String,
    /// Keep a terminal model of every running session; without it, attaching replays the log.
    pub screen_model: bool,
    /// Pass hooks to agents that support them, so that they report what they do and their requests reach the inbox.
    pub hooks: bool,
    /// Compress the log of a finished session.
    pub compress_finished: bool,
    /// Which keys typed into a terminal are recorded in the journal and the ledger.
    #[schemars(with = "RecordInputSchema")]
    pub record_input: RecordInput,
    /// Terminal size while no client is attached.
    #[schemars(range(min = 1, max = 1000))]
    pub rows: u16,
    #[schemars(range(min = 1, max = 1000))]
    pub cols: u16,
}

/// The values of `RecordInput` for the config schema; the type itself is part of the session record, which has no
/// schema.
#[derive(JsonSchema)]
#[schemars(rename = "RecordInput", rename_all = "kebab-case")]
#[expect(dead_code, reason = "only describes values for the schema")]
enum RecordInputSchema {
    /// Every key.
    All,
    /// Every key, except at a prompt that does not echo, where only the number of characters is recorded.
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
            hooks: true,
            compress_finished: true,
            record_input: RecordInput::default(),
            rows: 24,
            cols: 80,
        }
    }
}

/// The terminal app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AppConfig {
    /// Other keys for actions, such as `{"quit": ["ctrl-q"]}`. `?` in the app shows the keys in force; an action with an empty
    /// list has no key.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Select, scroll and click with the mouse. Without it, the terminal selects text as usual.
    pub mouse: bool,
    /// Let agents in the app put text on the terminal's clipboard (OSC 52). What you copy yourself always goes there.
    pub clipboard: bool,
}

impl Default for AppConfig {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), mouse: true, clipboard: false }
    }
}

/// Sessions over ACP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AgentsConfig {
    /// Harness for ACP sessions if the request names none. Default: `defaultHarness`.
    pub harness: Option<String>,
    /// Maximum number of active sessions; `AGENT_MAX_SESSIONS` overrides it.
    #[schemars(range(min = 1))]
    pub max_sessions: u64,
    /// Minutes without a prompt or update until a session is ended; 0 means never. `AGENT_SESSION_IDLE_TIMEOUT`
    /// overrides it.
    #[schemars(range(min = 0.0))]
    pub idle_timeout_minutes: f64,
    /// Seconds until opening a session times out.
    #[schemars(range(min = 0.1))]
    pub handshake_seconds: f64,
    /// Folder that must contain all repositories; canonical. Set only by `AGENT_WORKSPACE_ROOT`, never by the file.
    /// Default: [`Home::workspace`].
    ///
    /// [`Home::workspace`]: crate::Home::workspace
    #[serde(skip)]
    pub workspace_root: Option<PathBuf>,
}

impl AgentsConfig {
    /// Returns the idle timeout; `None` if sessions never time out.
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
    /// Loopback address and port to listen on in addition to the Unix socket, e.g. `127.0.0.1:7777`.
    pub listen: Option<String>,
    /// Allow an address other than loopback. Requests still need the token.
    pub allow_remote: bool,
    /// Additional `Host` values to accept, e.g. the name of a proxy.
    pub allowed_hosts: Vec<String>,
    /// Web origins that may send requests; none by default.
    pub allowed_origins: Vec<String>,
    /// Maximum size of a request body.
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
    /// Maximum number of tasks with a running agent.
    #[schemars(range(min = 1))]
    pub max_concurrent_agents: u32,
    /// Start ready tasks automatically instead of with `coven task start`.
    pub auto_start: bool,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { max_concurrent_agents: 3, auto_start: false }
    }
}

/// Limits that delay launches until there is room; null is no limit. `coven run --now` overrides them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Number of live sessions with an agent. Sessions that run a plain command do not count.
    #[schemars(range(min = 1))]
    pub live_agents: Option<u64>,
    /// Memory of the processes of all sessions in bytes, as proportional set size (PSS).
    #[schemars(range(min = 1))]
    pub memory_bytes: Option<u64>,
    /// Load average of the last minute, divided by the number of cores: 1 means that all cores are busy.
    #[schemars(range(min = 0.0))]
    pub load: Option<f64>,
}

impl LimitsConfig {
    pub const fn launch_limits(&self) -> LaunchLimits {
        LaunchLimits { live_agents: self.live_agents, memory_bytes: self.memory_bytes, load: self.load }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct QuestionsConfig {
    /// Milliseconds until a question set times out; 0 means never.
    pub session_timeout: u64,
    /// Milliseconds for which finished question sets are kept.
    pub retention_period: u64,
    pub max_sessions: u32,
}

impl Default for QuestionsConfig {
    fn default() -> Self {
        Self { session_timeout: 0, retention_period: 604_800_000, max_sessions: 100 }
    }
}

/// Tools that `coven mcp` offers to agents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McpConfig {
    /// Let agents start sessions and type into them; otherwise they can only read.
    pub allow_control: bool,
}

/// A value that has the right type but is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct BadValue {
    pub key: String,
    pub problem: String,
}

fn default_harness_description() -> String {
    let of = |choice| agents::ids(|agent| agent.default_choice == choice).join(", ");
    format!(
        "Agent for sessions, tasks and conversations that name none. Default: the first one installed of {}, \
         those that only this file defines, {}.",
        of(DefaultChoice::First),
        of(DefaultChoice::Later)
    )
}

impl Config {
    /// Returns the agent to use if none is named. Falls back to `agents.harness`, because older configs have no
    /// `defaultHarness`.
    pub fn default_harness(&self) -> Option<&str> {
        self.default_harness.as_deref().or(self.agents.harness.as_deref())
    }

    /// Returns one sentence for each setting that is accepted but has no effect.
    pub fn warnings(&self) -> Vec<String> {
        let conversations = "conversations: this setting has no effect; remove it, and set spawner.interactive in \
                             ~/.aurora/config.json instead";
        self.conversations.iter().map(|_| conversations.to_owned()).collect()
    }

    /// Checks the constraints that the types do not express.
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
                return bad(key, "must be between 0 and 1000000000".to_owned());
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
        if self.notifications.command.first().is_some_and(|program| program.trim().is_empty()) {
            return bad("notifications.command", "the first element must be a program".to_owned());
        }
        if let Some(Err(problem)) = self.notifications.quiet_hours.as_ref().map(QuietHours::check) {
            return bad("notifications.quietHours", problem);
        }
        if self.agents.max_sessions == 0 {
            return bad("agents.maxSessions", "must be at least 1".to_owned());
        }
        if self.scheduler.max_concurrent_agents == 0 {
            return bad("scheduler.maxConcurrentAgents", "must be at least 1".to_owned());
        }
        for (key, limit) in
            [("limits.liveAgents", self.limits.live_agents), ("limits.memoryBytes", self.limits.memory_bytes)]
        {
            if limit == Some(0) {
                return bad(key, "must be at least 1; null turns the limit off".to_owned());
            }
        }
        if self.limits.load.is_some_and(|load| !(load > 0.0 && load <= 1e6)) {
            return bad("limits.load", "must be greater than 0; null turns the limit off".to_owned());
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

/// The bytes that detach from a session: one control byte, optionally followed by a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachKeys {
    pub bytes: Vec<u8>,
}

impl DetachKeys {
    /// Parses `ctrl-\`, `ctrl-a d` or `ctrl-]`.
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
        let config: Config = serde_json::from_str("{}").expect("every key is optional");
        assert_eq!(config, Config::default());
        let store = serde_json::to_value(&config.store).expect("plain data");
        assert_eq!(
            store,
            serde_json::json!({
                "eventRetentionHours": 24.0, "taskRetentionDays": 30.0, "taskSoftDeleteDays": 7.0,
                "workflowRetentionDays": 7.0, "claimTimeoutMinutes": 30.0
            })
        );
        config.check().expect("valid defaults");
    }

    #[test]
    fn null_means_forever_and_an_unknown_key_is_reported() {
        let config: Config =
            serde_json::from_str(r#"{"store":{"eventRetentionHours":null}}"#).expect("null is allowed");
        assert_eq!(config.store.event_retention_hours, None);
        let typo = serde_json::from_str::<Config>(r#"{"store":{"eventRetentionHour":1}}"#).expect_err("a typo");
        assert!(typo.to_string().contains("eventRetentionHour"), "{typo}");
    }

    #[test]
    fn invalid_values_are_reported_by_key() {
        let check = |json: &str| {
            serde_json::from_str::<Config>(json).expect("well-typed").check().expect_err("an invalid value").key
        };
        assert_eq!(check(r#"{"store":{"taskRetentionDays":-1}}"#), "store.taskRetentionDays");
        assert_eq!(check(r#"{"http":{"listen":"0.0.0.0:80"}}"#), "http.listen");
        assert_eq!(check(r#"{"http":{"listen":"localhost"}}"#), "http.listen");
        assert_eq!(check(r#"{"sessions":{"detachKeys":"d"}}"#), "sessions.detachKeys");
        assert_eq!(check(r#"{"defaultHarness":"cluade"}"#), "defaultHarness");
        assert_eq!(check(r#"{"limits":{"liveAgents":0}}"#), "limits.liveAgents");
        assert_eq!(check(r#"{"limits":{"memoryBytes":0}}"#), "limits.memoryBytes");
        assert_eq!(check(r#"{"limits":{"load":-1}}"#), "limits.load");
        assert_eq!(check(r#"{"harnesses":{"x y":{"program":"x"}}}"#), "harnesses.x y");
    }

    #[test]
    fn a_config_with_the_unused_conversations_block_is_accepted_with_a_warning() {
        let text = r#"{"conversations":{"sessionExpiryDays":7,"maxTokens":5}}"#;
        let config: Config = serde_json::from_str(text).expect("an old key does not stop the daemon");
        config.check().expect("a valid config");
        assert!(matches!(&config.warnings()[..], [text] if text.starts_with("conversations:")));
        assert_eq!(Config::default().warnings(), Vec::<String>::new());
    }

    #[test]
    fn the_default_agent_of_an_older_config_is_still_used() {
        let default = |text: &str| {
            let config: Config = serde_json::from_str(text).expect("well-typed");
            config.default_harness().map(str::to_owned)
        };
        assert_eq!(default("{}"), None);
        assert_eq!(default(r#"{"agents":{"harness":"codex"}}"#).as_deref(), Some("codex"));
        assert_eq!(default(r#"{"defaultHarness":"gemini","agents":{"harness":"codex"}}"#).as_deref(), Some("gemini"));
    }

    #[test]
    fn detach_keys_are_one_control_byte_and_optionally_a_key() {
        assert_eq!(DetachKeys::parse("ctrl-\\").map(|keys| keys.bytes), Ok(vec![0x1c]));
        assert_eq!(DetachKeys::parse("ctrl-a d").map(|keys| keys.bytes), Ok(vec![1, b'd']));
        assert!(DetachKeys::parse("x").is_err() && DetachKeys::parse("").is_err());
    }
}
