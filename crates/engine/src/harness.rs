//! Finds harnesses by id or default, and their programs.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use coven_harness::agents::OF_AGENT_INTERFACE;
use coven_harness::{self as harness, Harness, Program};
use coven_host::program;

use super::Engine;
use crate::error::EngineError;

impl Engine {
    /// Returns the harness with this id, unless its definition came with a repository and is not trusted.
    pub(crate) fn known_harness(&self, id: &str) -> Result<&Harness, EngineError> {
        if self.withheld.has(&format!("harnesses.{id}")) {
            return Err(EngineError::untrusted(format!("the definition of the harness {id:?}"), &self.home));
        }
        self.harnesses.iter().find(|harness| harness.id == id).ok_or_else(|| {
            let known: Vec<&str> = self.harnesses.iter().map(|harness| harness.id.as_str()).collect();
            EngineError::UnknownHarness { id: id.chars().take(64).collect(), known: known.join(", ") }
        })
    }

    /// Returns the default harness: the configured one, else the first whose program is installed.
    pub(crate) fn default_harness(&self, env: &BTreeMap<String, String>) -> Result<&Harness, EngineError> {
        let is_installed = |harness: &Harness| harness.terminal.is_ok() && self.harness_program(harness, env).is_some();
        self.chosen_harness(self.config.default_harness(), is_installed)
    }

    /// The same for ACP sessions, which may need another program.
    pub(crate) fn default_acp_harness(&self, env: &BTreeMap<String, String>) -> Result<&Harness, EngineError> {
        let configured = self.config.agents.harness.as_deref().or(self.config.default_harness.as_deref());
        self.chosen_harness(configured, |harness| self.has_acp(harness, env))
    }

    /// The harness of the compatibility API where a request names none. The agent that its programs expect comes before the other
    /// agents unless the config names one.
    pub fn agent_interface_harness(&self) -> Option<String> {
        let env = self.environment(None);
        let is_configured = self.config.default_harness().is_some();
        let expected = self.harnesses.iter().find(|harness| harness.id == OF_AGENT_INTERFACE.id);
        let expected = expected.filter(|expected| !is_configured && self.has_acp(expected, &env));
        expected.map(|expected| expected.id.clone())
    }

    fn has_acp(&self, harness: &Harness, env: &BTreeMap<String, String>) -> bool {
        let path = env.get("PATH").map(OsStr::new);
        harness.acp_args.is_some()
            && match &harness.acp_program {
                Some(program) => program::find(program, path).is_some(),
                None => self.harness_program(harness, env).is_some(),
            }
    }

    fn chosen_harness(
        &self,
        configured: Option<&str>,
        is_usable: impl Fn(&Harness) -> bool,
    ) -> Result<&Harness, EngineError> {
        if let Some(id) = configured {
            return self.known_harness(id);
        }
        match harness::by_preference(&self.harnesses).find(|harness| is_usable(harness)) {
            Some(harness) => self.known_harness(&harness.id),
            None => {
                let known: Vec<&str> = harness::by_preference(&self.harnesses).map(|it| it.id.as_str()).collect();
                Err(EngineError::NoAgentInstalled { known: known.join(", ") })
            }
        }
    }

    /// Returns the start of a harness's argv if its program is installed.
    pub(crate) fn harness_program(&self, harness: &Harness, env: &BTreeMap<String, String>) -> Option<Vec<String>> {
        let path = env.get("PATH").map(OsStr::new);
        let found = |program: &str| program::find(program, path).map(|file| vec![file.to_string_lossy().into_owned()]);
        match &harness.program {
            Program::Named(name) => found(name),
            Program::UserShell => found(env.get("SHELL").map_or("/bin/sh", String::as_str)),
            Program::Coven(verb) => Some(vec![self.program.to_string_lossy().into_owned(), (*verb).to_owned()]),
        }
    }

    /// The same, or an error with the install hint.
    pub(crate) fn installed_program(
        &self,
        harness: &Harness,
        env: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, EngineError> {
        self.harness_program(harness, env).ok_or_else(|| EngineError::NotInstalled {
            id: harness.id.clone(),
            program: match &harness.program {
                Program::Named(name) => name.clone(),
                Program::UserShell => "SHELL".to_owned(),
                Program::Coven(_) => "coven".to_owned(),
            },
            hint: harness.install_hint.clone(),
        })
    }
}
