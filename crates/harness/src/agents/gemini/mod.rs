//! Gemini CLI.

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
    // Without this the launcher relaunches itself, and the parent ignores SIGTERM and SIGHUP.
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    version_args: &["--version"],
    grace_seconds: None,
    note: "started with GEMINI_CLI_NO_RELAUNCH=true, so that one process heeds SIGTERM",
    default_choice: DefaultChoice::First,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::FlagEquals("--prompt-interactive") }),
    acp: Ok(Acp {
        // Today's releases refuse it; it is sent to one whose help lists it.
        workspace_flag: Some("--workspace"),
        ..Acp::with_args(&["--acp"])
    }),
    print: Ok(Print {
        // Without it there is no tool that writes.
        step_args: &["--allowed-tools=write_file,replace"],
        ..Print::new(&print::RULES, &["--output-format", "stream-json"], Resume::Flag("--resume"))
    }),
    mcp: Ok(McpEntry {
        file: SettingsFile { variable: None, folder: ".gemini", names: &["settings.json"] },
        form: Form::JSON,
        entry: |program| json!({"command": program, "args": ["mcp"], "timeout": DAY_SECONDS * 1000}),
    }),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};
