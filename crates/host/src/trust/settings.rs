//! Finds the settings of a home that can run or open something, and decides which of them are in force.

use std::collections::BTreeSet;
use std::path::Path;

use crate::config::Rule;
use crate::config::{Config, QuestionsConfig, SessionsConfig, StoreConfig};
use coven_domain::session::RecordInput;
use coven_files::{Limit, Links};
use coven_harness::{HarnessConfig, Program};
use coven_workflow::WorkflowDefinition;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Agreement, Origin, Part, TrustStore};
use crate::Home;
use crate::git;

const CONFIG: &str = "config.json";
const WORKFLOWS: &str = "grimoires";
const WITHHELD: &str = "withheld";
const WITHHELD_NOTICE: Limit = Limit::new("a notice", 4096);

/// Settings that came with a repository or archive and that the user has not agreed to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Withheld {
    pub parts: Vec<Part>,
}

impl Withheld {
    pub fn has(&self, key: &str) -> bool {
        self.parts.iter().any(|part| part.key == key)
    }

    /// Returns a one-line notice for commands that do not need these settings.
    pub fn notice(&self, home: &Path) -> Option<String> {
        const SHOWN: usize = 3;
        let shown: Vec<&str> = self.parts.iter().map(|part| part.key.as_str()).take(SHOWN).collect();
        let more = match self.parts.len().checked_sub(SHOWN) {
            None | Some(0) => String::new(),
            Some(more) => format!(" and {more} more"),
        };
        let (keys, home) = (shown.join(", ") + &more, home.display());
        (!self.parts.is_empty()).then(|| format!("not in force until you agree with `coven trust`: {keys} in {home}"))
    }
}

/// Returns the config that is in force, without the parts that still need the user's agreement.
pub fn effective(home: &Home, config: Config) -> (Config, Withheld) {
    let parts = config_parts(&config);
    if parts.is_empty() {
        return (config, Withheld::default());
    }
    let judge = Judge::of(home);
    let withheld: Vec<Part> = parts.into_iter().filter(|part| !judge.allows(CONFIG, part)).collect();
    let mut config = config;
    withheld.iter().for_each(|part| remove(&mut config, &part.key));
    (config, Withheld { parts: withheld })
}

/// Writes a notice about withheld settings to the home, for commands that use a running daemon.
pub fn mark_withheld(home: &Home, withheld: &Withheld) {
    let path = home.path().join(WITHHELD);
    // Errors are ignored: the home works without the notice.
    let _ = match withheld.notice(home.path()) {
        Some(notice) => super::write_whole(&path, notice.as_bytes()),
        None => std::fs::remove_file(&path),
    };
}

/// Reads the daemon's notice about withheld settings.
pub fn withheld_notice(home: &Home) -> Option<String> {
    coven_files::read_text(&home.path().join(WITHHELD), WITHHELD_NOTICE, Links::Refuse).ok()
}

/// Returns whether a workflow file of the home may be used. `file` is its name in the folder of workflows.
pub fn workflow_is_allowed(home: &Home, file: &str, definition: &WorkflowDefinition, text: &str) -> bool {
    workflow_part(file, definition, text).is_none_or(|part| Judge::of(home).allows(&part.key, &part))
}

/// Returns everything in the home that still needs the user's agreement: parts of the config, and workflow files.
/// With `with_declined`, also returns the parts that the user declined before.
pub fn unsettled(home: &Home, config: &Config, with_declined: bool) -> Vec<Part> {
    let in_config = config_parts(config).into_iter().map(|part| (CONFIG.to_owned(), part));
    let parts: Vec<(String, Part)> =
        in_config.chain(workflow_parts(home).into_iter().map(|part| (part.key.clone(), part))).collect();
    if parts.is_empty() {
        return Vec::new();
    }
    let judge = Judge::of(home);
    let is_unsettled =
        |file: &str, part: &Part| !judge.allows(file, part) && (with_declined || !judge.agreement.declines(part));
    parts.into_iter().filter(|(file, part)| is_unsettled(file, part)).map(|(_, part)| part).collect()
}

/// Decides for one home which parts are in force.
struct Judge {
    agreement: Agreement,
    /// Whether the home is recorded as created by the user.
    is_own: bool,
    tracked: git::Tracked,
    trust: Option<(TrustStore, std::path::PathBuf)>,
}

impl Judge {
    fn of(home: &Home) -> Self {
        let store = TrustStore::locate().ok();
        let record = store.as_ref().and_then(|store| store.home(home.path()));
        // A home that the user named can be used even if it cannot be recorded, e.g. without HOME.
        let is_own = record.map_or(!home.was_found(), |record| record.origin == Origin::Made);
        let tracked = match is_own && home.may_be_tracked() {
            true => git::tracked(home.path(), &[CONFIG, WORKFLOWS]),
            false => git::Tracked::default(),
        };
        let agreement = store.as_ref().map(|store| store.agreement(home.path())).unwrap_or_default();
        Self { agreement, is_own, tracked, trust: store.map(|store| (store, home.path().to_owned())) }
    }

    fn allows(&self, file: &str, part: &Part) -> bool {
        if self.agreement.covers(part) {
            return true;
        }
        let is_allowed = self.is_own && !self.tracked.has(file);
        if let (true, Some((store, home))) = (is_allowed, &self.trust) {
            // Recorded, so that the user's own settings stay in force when the user commits them later.
            let _ = store.agree(home, std::slice::from_ref(part));
        }
        is_allowed
    }
}

fn part(key: impl Into<String>, effect: impl Into<String>, content: &impl Serialize) -> Part {
    Part::new(key, effect, &serde_json::to_vec(content).expect("a config is plain data"))
}

/// Returns the parts of a config that can run or open something.
fn config_parts(config: &Config) -> Vec<Part> {
    let mut parts = Vec::new();
    for (id, harness) in &config.harnesses {
        let program = harness.program.as_ref().or(harness.like.as_ref()).unwrap_or(id);
        let command = [std::slice::from_ref(program), &harness.args[..]].concat().join(" ");
        let variables = match harness.env.len() {
            0 => String::new(),
            _ => format!(" with {}", harness.env.keys().cloned().collect::<Vec<_>>().join(", ")),
        };
        let part = part(format!("harnesses.{id}"), format!("runs {command}{variables}"), harness);
        parts.push(part.with_details(vec![given_fields(harness)]));
    }
    let permissions = &config.permissions;
    let rules = [&permissions.default].into_iter().chain(permissions.harnesses.values());
    if permissions.allow_self_answer || rules.chain(permissions.repos.values()).any(|rule| *rule == Rule::Allow) {
        let part = part("permissions", "allows agents' permission requests without asking you", permissions);
        parts.push(part.with_details(vec![json!(permissions).to_string()]));
    }
    let http = &config.http;
    if *http != Default::default() {
        let effect = match &http.listen {
            Some(listen) => format!("listens on {listen}"),
            None => "changes who may connect over HTTP".to_owned(),
        };
        parts.push(part("http", effect, http).with_details(vec![json!(http).to_string()]));
    }
    if let Some(id) = config.default_harness()
        && coven_harness::all(&config.harnesses).iter().any(|it| it.id == id && it.program == Program::UserShell)
    {
        parts.push(part("defaultHarness", "types prompts into your shell if no agent is named", &id));
    }
    let command = &config.notifications.command;
    if !command.is_empty() {
        let part = part("notifications.command", format!("runs {} for each notification", command.join(" ")), command);
        parts.push(part.with_details(vec![json!(command).to_string()]));
    }
    if config.scheduler.auto_start {
        parts.push(part("scheduler.autoStart", "starts agents on ready tasks automatically", &true));
    }
    if deletes_sooner(&config.store) {
        parts.push(part("store", "deletes tasks, workflow runs or events sooner than by default", &config.store));
    }
    if config.questions != QuestionsConfig::default() {
        parts.push(part(
            "questions",
            "changes the timeout and retention of the questions of all projects",
            &config.questions,
        ));
    }
    let sessions = &config.sessions;
    let usual = SessionsConfig::default();
    if sessions.max_output_bytes < usual.max_output_bytes {
        let effect = format!("deletes the output of a session beyond {} bytes", sessions.max_output_bytes);
        parts.push(part("sessions.maxOutputBytes", effect, &sessions.max_output_bytes));
    }
    if sessions.record_input == RecordInput::All {
        parts.push(part("sessions.recordInput", "records passwords that you type", &sessions.record_input));
    }
    if let Some(root) = &sessions.root {
        parts.push(part("sessions.root", format!("lets sessions work in any folder below {root}"), root));
    }
    if config.mcp.allow_control {
        parts.push(part("mcp.allowControl", "lets agents start sessions and type into them", &true));
    }
    parts
}

/// Returns whether any retention period is shorter than its default.
fn deletes_sooner(store: &StoreConfig) -> bool {
    let usual = StoreConfig::default();
    let times = |it: &StoreConfig| {
        [it.event_retention_hours, it.task_retention_days, it.task_soft_delete_days, it.workflow_retention_days]
            .map(|time| time.unwrap_or(f64::INFINITY))
    };
    times(store).iter().zip(times(&usual)).any(|(time, usual)| *time < usual)
}

/// Returns the fields that the config sets for a harness, as JSON.
fn given_fields(harness: &HarnessConfig) -> String {
    let mut fields = serde_json::to_value(harness).expect("a config is plain data");
    if let Some(fields) = fields.as_object_mut() {
        let is_empty = |value: &Value| {
            value.is_null()
                || value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(Map::is_empty)
        };
        fields.retain(|_, value| !is_empty(value));
    }
    fields.to_string()
}

fn remove(config: &mut Config, key: &str) {
    match key {
        "permissions" => {
            let permissions = &mut config.permissions;
            permissions.allow_self_answer = false;
            permissions.default = permissions.default.max(Rule::Ask);
            permissions.harnesses.retain(|_, rule| *rule != Rule::Allow);
            permissions.repos.retain(|_, rule| *rule != Rule::Allow);
        }
        "http" => config.http = Default::default(),
        "store" => config.store = StoreConfig::default(),
        "questions" => config.questions = QuestionsConfig::default(),
        "sessions.maxOutputBytes" => config.sessions.max_output_bytes = SessionsConfig::default().max_output_bytes,
        "sessions.recordInput" => config.sessions.record_input = RecordInput::default(),
        "sessions.root" => config.sessions.root = None,
        "defaultHarness" => (config.default_harness, config.agents.harness) = (None, None),
        "notifications.command" => config.notifications.command = Vec::new(),
        "scheduler.autoStart" => config.scheduler.auto_start = false,
        "mcp.allowControl" => config.mcp.allow_control = false,
        key => {
            let id = key.strip_prefix("harnesses.").expect("all other parts are harnesses");
            config.harnesses.remove(id);
        }
    }
}

fn workflow_parts(home: &Home) -> Vec<Part> {
    let entries = std::fs::read_dir(home.path().join(WORKFLOWS)).into_iter().flatten().flatten();
    let names: BTreeSet<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let read = |name: &String| {
        let stem = name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml"))?;
        let path = home.path().join(WORKFLOWS).join(name);
        let text = coven_files::read_text(&path, crate::home::WORKFLOW_FILE, Links::Refuse).ok()?;
        // A file that cannot be parsed cannot be run either.
        workflow_part(name, &WorkflowDefinition::parse(stem, &text).ok()?, &text)
    };
    names.iter().filter_map(read).collect()
}

fn workflow_part(file: &str, definition: &WorkflowDefinition, text: &str) -> Option<Part> {
    let commands = definition.commands();
    let effect = match &commands[..] {
        [] => return None,
        [command] => format!("runs {}", first_line(command)),
        [command, more @ ..] => format!("runs {} and {} more", first_line(command), more.len()),
    };
    Some(Part::new(format!("{WORKFLOWS}/{file}"), effect, text.as_bytes()).with_details(commands))
}

fn first_line(command: &str) -> String {
    let mut lines = command.lines().map(str::trim).filter(|line| !line.is_empty());
    let line: String = lines.next().unwrap_or_default().chars().take(80).collect();
    if lines.next().is_some() || command.chars().count() > 80 { format!("{line} …") } else { line }
}
