//! OpenCode.

mod hooks;
mod print;
#[cfg(feature = "trial")]
mod trial;

use serde_json::json;

use crate::agent::{Acp, Agent, DefaultChoice, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::settings_file::{DAY_SECONDS, Form, McpEntry, SettingsFile};

pub(super) const DEFINITIONS: &str = ".config/opencode/agent";

pub const AGENT: Agent = Agent {
    id: "opencode",
    label: "OpenCode",
    install: "install it with: npm install -g opencode-ai",
    program: Program::Named("opencode"),
    identity: "opencode",
    env: &[],
    version_args: &["--version"],
    grace_seconds: Some(8.0),
    note: "takes up to 2.5 s to exit after SIGTERM, and up to 20 s to start on a busy machine",
    default_choice: DefaultChoice::First,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::FlagEquals("--prompt") }),
    acp: Ok(Acp::with_args(&["acp"])),
    // OpenCode also accepts an agent by name, but ignores the name of an agent that only other agents may call.
    print: Ok(Print::new(&print::RULES, &["run", "--format", "json"], Resume::Flag("--session"))),
    mcp: Ok(McpEntry {
        file: SettingsFile {
            variable: Some("XDG_CONFIG_HOME"),
            folder: ".config",
            names: &["opencode/opencode.jsonc", "opencode/opencode.json"],
        },
        // OpenCode 2 has a separate object for servers.
        form: Form::Json { places: &[&["mcp", "servers"], &["mcp"]] },
        entry: |program| json!({"type": "local", "command": [program, "mcp"], "enabled": true, "timeout": DAY_SECONDS * 1000}),
    }),
    hooks: Ok(&hooks::HOOKS),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};
