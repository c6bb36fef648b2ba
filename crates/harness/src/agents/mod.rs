//! The agent programs that coven supports, one module per agent.

mod claude;
mod cline;
mod codex;
mod copilot;
mod cursor;
mod demo;
mod gemini;
mod goose;
mod kimi;
mod opencode;
mod pi;
mod qwen;
mod shell;
mod vibe;

use crate::agent::Agent;

/// Every agent, in the order in which a default is chosen.
pub const ALL: &[&Agent] = &[
    &claude::AGENT,
    &codex::AGENT,
    &gemini::AGENT,
    &opencode::AGENT,
    &copilot::AGENT,
    &goose::AGENT,
    &kimi::AGENT,
    &qwen::AGENT,
    &pi::AGENT,
    &vibe::AGENT,
    &cline::AGENT,
    &cursor::AGENT,
    &shell::AGENT,
    &demo::AGENT,
];

/// Default agent for requests of the compatibility API that name none.
pub const OF_AGENT_INTERFACE: &Agent = &gemini::AGENT;

/// Folders with agent definitions, relative to the user's home. If two folders define an id, the first one wins.
pub const DEFINITION_FOLDERS: [&str; 20] = [
    ".aws/amazonq/cli-agents",
    claude::DEFINITIONS,
    cline::DEFINITIONS,
    codex::DEFINITIONS,
    cursor::DEFINITIONS,
    ".factory/droids",
    ".windsurf/agents",
    opencode::DEFINITIONS,
    ".config/antigravity/agents",
    ".config/auggie/agents",
    ".config/codebuddy/agents",
    ".config/costrict/agents",
    ".config/crush/agents",
    gemini::DEFINITIONS,
    copilot::DEFINITIONS,
    ".config/iflow/agents",
    ".config/kilocode/agents",
    ".config/qoder/agents",
    qwen::DEFINITIONS,
    ".config/roocode/agents",
];

pub fn find(id: &str) -> Option<&'static Agent> {
    ALL.iter().copied().find(|agent| agent.id == id)
}

/// Returns the ids of the agents that match, for help texts and messages.
pub fn ids(is_wanted: impl Fn(&Agent) -> bool) -> Vec<&'static str> {
    ALL.iter().filter(|agent| is_wanted(agent)).map(|agent| agent.id).collect()
}
