//! The user's own shell.

use crate::agent::{Agent, DefaultChoice, Missing, Terminal};
use crate::launch::{Program, PromptStyle};

pub const AGENT: Agent = Agent {
    id: "shell",
    label: "Your shell",
    install: "set SHELL to an installed shell",
    program: Program::UserShell,
    identity: "",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "an interactive shell; coven types the prompt as the first line",
    default_choice: DefaultChoice::Never,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::Typed }),
    acp: Err(Missing("a shell does not support ACP")),
    print: Err(Missing("a shell does not answer prompts")),
    mcp: Err(Missing("a shell does not use MCP servers")),
    hooks: Err(Missing("a shell has no hooks")),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: None,
};
