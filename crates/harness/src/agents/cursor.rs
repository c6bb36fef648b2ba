//! Cursor. Coven only edits its list of MCP servers.

use serde_json::json;

use crate::agent::{Agent, DefaultChoice, Missing};
use crate::launch::Program;
use crate::settings_file::{Form, McpEntry, SettingsFile};

const UNTRIED: Missing = Missing("not tested with coven; configure it as harnesses.cursor in the config");

pub(super) const DEFINITIONS: &str = ".cursor/agents";

pub const AGENT: Agent = Agent {
    id: "cursor",
    label: "Cursor",
    install: "install Cursor",
    program: Program::Named("cursor"),
    identity: "cursor",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "",
    default_choice: DefaultChoice::Never,
    terminal: Err(UNTRIED),
    acp: Err(UNTRIED),
    print: Err(UNTRIED),
    mcp: Ok(McpEntry {
        file: SettingsFile { variable: None, folder: ".cursor", names: &["mcp.json"] },
        form: Form::JSON,
        entry: |program| json!({"command": program, "args": ["mcp"]}),
    }),
    hooks: Err(UNTRIED),
    rules: None,
    #[cfg(feature = "trial")]
    trial: None,
};
