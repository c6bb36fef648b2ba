//! Results of a trial over ACP.

use serde::Serialize;

use super::super::report::{Check, Row};
use super::AcpAgent;

#[derive(Debug, Serialize)]
pub struct AcpRow {
    pub agent: &'static str,
    /// As reported by the agent.
    pub version: Check,
    pub create: Check,
    pub prompt: Check,
    pub permission: Check,
    pub output: Check,
    pub cancel: Check,
    pub daemon_killed: Check,
    pub kill: Check,
    pub load: Check,
    pub limit: Option<&'static str>,
    /// The agent's last output lines, if a check failed.
    pub last_lines: Option<String>,
}

impl AcpRow {
    pub fn new(agent: &AcpAgent) -> Self {
        Self {
            agent: agent.name,
            version: Check::NotReached,
            create: Check::NotReached,
            prompt: Check::NotReached,
            permission: Check::NotReached,
            output: Check::NotReached,
            cancel: Check::NotReached,
            daemon_killed: Check::NotReached,
            kill: Check::NotReached,
            load: Check::NotReached,
            limit: agent.trial.limit,
            last_lines: None,
        }
    }

    pub fn not_installed(agent: &AcpAgent, reason: String) -> Self {
        Self { create: Check::NotInstalled(reason), ..Self::new(agent) }
    }
}

impl Row for AcpRow {
    fn agent(&self) -> &'static str {
        self.agent
    }

    fn checks(&self) -> Vec<(&'static str, &Check)> {
        vec![
            ("version", &self.version),
            ("create", &self.create),
            ("prompt", &self.prompt),
            ("permission", &self.permission),
            ("tool output", &self.output),
            ("cancel", &self.cancel),
            ("daemon killed", &self.daemon_killed),
            ("kill", &self.kill),
            ("load", &self.load),
        ]
    }

    fn notes(&self) -> Option<&'static str> {
        self.limit
    }

    fn evidence(&self) -> Option<&str> {
        self.last_lines.as_deref()
    }
}
