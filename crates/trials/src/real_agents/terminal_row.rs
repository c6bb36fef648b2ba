//! Results of a trial in a terminal.

use serde::Serialize;

use super::TerminalAgent;
use super::report::{Check, Row};

#[derive(Debug, Serialize)]
pub struct TerminalRow {
    pub agent: &'static str,
    pub version: Check,
    pub launched: Check,
    pub screen_shows: Check,
    pub input_works: Check,
    pub survives: Check,
    pub identity: Check,
    pub kill: Check,
    pub limit: Option<&'static str>,
    /// The screen when a check failed.
    pub last_screen: Option<String>,
}

impl TerminalRow {
    pub fn new(agent: &TerminalAgent) -> Self {
        Self {
            agent: agent.name,
            version: Check::NotReached,
            launched: Check::NotReached,
            screen_shows: Check::NotReached,
            input_works: Check::NotReached,
            survives: Check::NotReached,
            identity: Check::NotReached,
            kill: Check::NotReached,
            limit: agent.trial.limit,
            last_screen: None,
        }
    }

    pub fn not_installed(agent: &TerminalAgent, reason: String) -> Self {
        Self { launched: Check::NotInstalled(reason), ..Self::new(agent) }
    }
}

impl Row for TerminalRow {
    fn agent(&self) -> &'static str {
        self.agent
    }

    fn checks(&self) -> Vec<(&'static str, &Check)> {
        vec![
            ("version", &self.version),
            ("launched", &self.launched),
            ("screen shows", &self.screen_shows),
            ("input works", &self.input_works),
            ("survives kill -9 of the daemon", &self.survives),
            ("identity seen", &self.identity),
            ("kill", &self.kill),
        ]
    }

    fn notes(&self) -> Option<&'static str> {
        self.limit
    }

    fn evidence(&self) -> Option<&str> {
        self.last_screen.as_deref()
    }
}
