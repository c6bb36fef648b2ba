//! Gemini CLI.

pub(in crate::agents) mod hooks;
mod print;
#[cfg(feature = "trial")]
mod trial;

use serde_json::json;

use crate::agent::{Acp, Agent, DefaultChoice, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::settings_file::{DAY_SECONDS, Form, McpEntry, SettingsFile};

pub(super) const DEFINITIONS: &str = ".config/gemini-cli/agents";

pub const AGENT: Agent = Agent {
    id: "gemini",
    label: "Gemini CLI",
    install: "install it with: npm install -g @google/gemini-cli",
    program: Program::Named("gemini"),
    identity: "gemini",
    // Without this, the launcher starts itself again and the parent ignores SIGTERM and SIGHUP.
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    version_args: &["--version"],
    grace_seconds: None,
    note: "started with GEMINI_CLI_NO_RELAUNCH=true, so that a single process handles SIGTERM",
    default_choice: DefaultChoice::First,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::FlagEquals("--prompt-interactive") }),
    acp: Ok(Acp {
        // Current releases reject this flag; coven passes it only if `--help` lists it.
        workspace_flag: Some("--workspace"),
        ..Acp::with_args(&["--acp"])
    }),
    print: Ok(Print {
        // Without this, Gemini has no tool that writes files.
        step_args: &["--allowed-tools=write_file,replace"],
        ..Print::new(&print::RULES, &["--output-format", "stream-json"], Resume::Flag("--resume"))
    }),
    mcp: Ok(McpEntry {
        file: SettingsFile { variable: None, folder: ".gemini", names: &["settings.json"] },
        form: Form::JSON,
        entry: |program| json!({"command": program, "args": ["mcp"], "timeout": DAY_SECONDS * 1000}),
    }),
    hooks: Ok(&hooks::HOOKS),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};
