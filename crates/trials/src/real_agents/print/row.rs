//! Results of a trial in print mode.

use serde::Serialize;

use super::super::report::{Check, Row};
use super::PrintAgent;

#[derive(Debug, Serialize)]
pub struct PrintRow {
    pub agent: &'static str,
    pub version: Check,
    pub first: Check,
    pub resumed: Check,
    pub instructions: Check,
    pub tokens: Check,
    pub streams: Check,
    pub long_prompt: Check,
    pub cancel: Check,
    pub failure: Check,
}

impl PrintRow {
    pub fn new(agent: &PrintAgent) -> Self {
        Self {
            agent: agent.name,
            version: Check::NotReached,
            first: Check::NotReached,
            resumed: Check::NotReached,
            instructions: Check::NotReached,
            tokens: Check::NotReached,
            streams: Check::NotReached,
            long_prompt: Check::NotReached,
            cancel: Check::NotReached,
            failure: Check::NotReached,
        }
    }

    pub fn not_installed(agent: &PrintAgent, reason: String) -> Self {
        Self { first: Check::NotInstalled(reason), ..Self::new(agent) }
    }
}

impl Row for PrintRow {
    fn agent(&self) -> &'static str {
        self.agent
    }

    fn checks(&self) -> Vec<(&'static str, &Check)> {
        vec![
            ("version", &self.version),
            ("first turn", &self.first),
            ("resumed", &self.resumed),
            ("instructions sent", &self.instructions),
            ("tokens", &self.tokens),
            ("streams", &self.streams),
            ("400 kB prompt", &self.long_prompt),
            ("cancel", &self.cancel),
            ("failure", &self.failure),
        ]
    }

    fn notes(&self) -> Option<&'static str> {
        None
    }

    fn evidence(&self) -> Option<&str> {
        None
    }
}
