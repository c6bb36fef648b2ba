//! Copilot CLI.

mod hooks;
mod print;
#[cfg(feature = "trial")]
mod trial;

use serde_json::json;

use crate::agent::{Acp, Agent, DefaultChoice, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::settings_file::{Form, McpEntry, SettingsFile};

pub(super) const DEFINITIONS: &str = ".config/github-copilot/agents";

pub const AGENT: Agent = Agent {
    id: "copilot",
    label: "Copilot CLI",
    install: "install it with: npm install -g @github/copilot",
    program: Program::Named("copilot"),
    identity: "copilot",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "the launcher starts a native child process; coven signals both",
    default_choice: DefaultChoice::First,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::FlagEquals("--interactive") }),
    acp: Ok(Acp::with_args(&["--acp"])),
    print: Ok(Print::new(
        &print::RULES,
        &["--output-format", "json", "--session-id={session}"],
        Resume::Args(&["--output-format", "json", "--resume={session}"]),
    )),
    mcp: Ok(McpEntry {
        file: SettingsFile { variable: Some("COPILOT_HOME"), folder: ".copilot", names: &["mcp-config.json"] },
        form: Form::JSON,
        entry: |program| json!({"type": "local", "command": program, "args": ["mcp"], "tools": ["*"]}),
    }),
    hooks: Ok(&hooks::HOOKS),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};
