//! Codex.

mod hooks;
mod print;
#[cfg(feature = "trial")]
mod trial;

use serde_json::json;

use crate::agent::{Acp, Agent, DefaultChoice, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::settings_file::{DAY_SECONDS, Form, McpEntry, SettingsFile};

pub(super) const DEFINITIONS: &str = ".codex/agents";

pub const AGENT: Agent = Agent {
    id: "codex",
    label: "Codex",
    install: "install it with: npm install -g @openai/codex",
    program: Program::Named("codex"),
    identity: "codex",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "started without its shared daemon, so that a session ends with its terminal",
    default_choice: DefaultChoice::First,
    terminal: Ok(Terminal {
        // By default the terminal is only a client of a daemon that Codex shares between sessions. Killing the
        // terminal would not stop the turn, and commands would run with another session's environment.
        args: &["--disable", "daemon_auto_start"],
        prompt: PromptStyle::AfterDashes,
    }),
    acp: Ok(Acp::by_adapter("codex-acp", "@agentclientprotocol/codex-acp")),
    // The dash makes Codex read the prompt from standard input.
    print: Ok(Print::new(
        &print::RULES,
        &["exec", "--json", "--skip-git-repo-check", "-"],
        Resume::Args(&["exec", "resume", "--json", "--skip-git-repo-check", "{session}", "-"]),
    )),
    mcp: Ok(McpEntry {
        file: SettingsFile { variable: Some("CODEX_HOME"), folder: ".codex", names: &["config.toml"] },
        form: Form::Toml { table: "mcp_servers" },
        entry: |program| {
            json!({
                "command": program,
                "args": ["mcp"],
                // Codex passes only the listed variables to the server.
                "env_vars": ["COVEN_HOME", "COVEN_SESSION_ID", "AUQ_SESSION_DIR", "XDG_DATA_HOME"],
                "tool_timeout_sec": DAY_SECONDS,
            })
        },
    }),
    hooks: Ok(&hooks::HOOKS),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};
