//! A scripted agent inside coven, for trying coven out.

use crate::agent::{Agent, DefaultChoice, Missing, Terminal};
use crate::launch::{Program, PromptStyle};

pub const AGENT: Agent = Agent {
    id: "demo",
    label: "Demo agent",
    install: "",
    program: Program::Coven("demo-agent"),
    identity: "coven",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "a scripted agent inside coven: shows a plan, works, asks one question, exits",
    default_choice: DefaultChoice::Never,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::AfterDashes }),
    acp: Err(Missing("the demo runs only in a terminal")),
    print: Err(Missing("the demo runs only in a terminal")),
    mcp: Err(Missing("the demo does not use MCP servers")),
    hooks: Err(Missing("the demo asks in its terminal and has no hooks")),
    rules: None,
    #[cfg(feature = "trial")]
    trial: None,
};
