//! Results of the trial of an agent that uses `coven mcp`.

use serde::Serialize;

use super::super::report::{Check, Row};
use super::McpAgent;

#[derive(Debug, Serialize)]
pub struct AgentRow {
    pub agent: &'static str,
    pub version: Check,
    pub installed: Check,
    pub asks: Check,
    pub linked: Check,
    pub answered: Check,
    pub killed: Check,
    /// The same outside a coven session.
    pub killed_alone: Check,
    pub uninstalled: Check,
    pub limit: Option<&'static str>,
    /// The screen when a check failed.
    pub last_screen: Option<String>,
}

impl AgentRow {
    pub fn new(agent: &McpAgent) -> Self {
        Self {
            agent: agent.name,
            version: Check::NotReached,
            installed: Check::NotReached,
            asks: Check::NotReached,
            linked: Check::NotReached,
            answered: Check::NotReached,
            killed: Check::NotReached,
            killed_alone: Check::NotReached,
            uninstalled: Check::NotReached,
            limit: agent.trial.limit,
            last_screen: None,
        }
    }

    pub fn not_installed(agent: &McpAgent, reason: String) -> Self {
        Self { installed: Check::NotInstalled(reason), ..Self::new(agent) }
    }
}

impl Row for AgentRow {
    fn agent(&self) -> &'static str {
        self.agent
    }

    fn checks(&self) -> Vec<(&'static str, &Check)> {
        vec![
            ("version", &self.version),
            ("mcp install", &self.installed),
            ("asks", &self.asks),
            ("session known", &self.linked),
            ("answer reaches the model", &self.answered),
            ("kill -9 in a session", &self.killed),
            ("kill -9 outside", &self.killed_alone),
            ("mcp uninstall", &self.uninstalled),
        ]
    }

    fn notes(&self) -> Option<&'static str> {
        self.limit
    }

    fn evidence(&self) -> Option<&str> {
        self.last_screen.as_deref()
    }
}
