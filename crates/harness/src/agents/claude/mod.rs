//! Claude Code.

mod hooks;
pub(super) mod print;
mod settings;
#[cfg(feature = "trial")]
mod trial;

use serde_json::json;

use crate::agent::{Acp, Agent, DefaultChoice, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::settings_file::{Form, McpEntry, SettingsFile};

pub(super) const DEFINITIONS: &str = ".claude/agents";

pub const AGENT: Agent = Agent {
    id: "claude",
    label: "Claude Code",
    install: "install it with: npm install -g @anthropic-ai/claude-code",
    program: Program::Named("claude"),
    identity: "claude",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "one process; on SIGTERM it restores the screen and exits with 143",
    default_choice: DefaultChoice::First,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::AfterDashes }),
    acp: Ok(Acp::by_adapter("claude-agent-acp", "@agentclientprotocol/claude-agent-acp")),
    print: Ok(Print {
        // Allows edits below the working folder, in addition to the user's own settings.
        step_args: &["--allowedTools=Edit(./**)"],
        instructions: &["--append-system-prompt", "{instructions}"],
        own_agents: Some((DEFINITIONS, &["--agent", "{agent}"])),
        ..Print::new(
            &print::RULES,
            &["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"],
            Resume::Flag("--resume"),
        )
    }),
    mcp: Ok(McpEntry {
        file: SettingsFile { variable: Some("CLAUDE_CONFIG_DIR"), folder: "", names: &[".claude.json"] },
        form: Form::JSON,
        entry: |program| json!({"type": "stdio", "command": program, "args": ["mcp"], "env": {}}),
    }),
    hooks: Ok(&hooks::HOOKS),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};
