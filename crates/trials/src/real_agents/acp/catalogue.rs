//! The agents that speak ACP, as data: how each is started, and what each is known not to do.

use coven_harness::HarnessConfig;
use serde_json::json;

use super::super::catalogue::pi_package;
use super::super::choice::Candidate;
use super::super::install::Package;
use super::super::settings::{self, Settings, Surroundings};

pub struct AcpAgent {
    /// Its id as a harness.
    pub name: &'static str,
    /// The first brings the program; the others what it calls.
    pub packages: Vec<Package>,
    /// The program, below the folder of its package.
    pub program: &'static str,
    /// What makes it speak ACP.
    pub args: &'static [&'static str],
    /// A part of the command line of its living process.
    pub identity: &'static str,
    /// What makes it run against the stub model.
    pub settings: fn(&Surroundings) -> Settings,
    pub opening: Opening,
    pub asking: Asking,
    pub telling: Telling,
    pub cancelling: Cancelling,
    pub loading: Loading,
    /// What it cannot do, whatever coven does.
    pub limit: Option<&'static str>,
}

/// How it answers `session/new`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    Opens,
    /// It wants its vendor's account, which nothing on loopback can stand in for.
    WantsAccount,
}

/// When it asks before it runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    Always,
    /// Only if the model wants to leave the sandbox.
    WhenEscalated,
    /// The same, and only in this mode.
    WhenEscalatedIn(&'static str),
    Never,
}

impl Asking {
    /// What the stub model must be told so that it asks.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Always | Self::Never => "run",
            Self::WhenEscalated | Self::WhenEscalatedIn(_) => "escalate",
        }
    }
}

/// What it tells its client of a command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// What it printed, or the client ran it.
    Output,
    Nothing,
}

/// What it says of a turn that was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelling {
    SaysCancelled,
    /// Cancels, and in some versions calls it `end_turn`.
    MaySayEndTurn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    AtOnce,
    /// A load in the minute in which the session was opened destroys it.
    FromTheNextMinute,
}

impl AcpAgent {
    /// Its entry of the config file.
    pub fn harness_config(&self, program: &str) -> HarnessConfig {
        let entry = json!({ "program": program, "acpArgs": self.args, "identity": self.identity });
        serde_json::from_value(entry).expect("an entry has nothing but known keys")
    }

    fn new(
        name: &'static str,
        package: Package,
        program: &'static str,
        args: &'static [&'static str],
        settings: fn(&Surroundings) -> Settings,
    ) -> Self {
        Self {
            name,
            packages: vec![package],
            program,
            args,
            identity: name,
            settings,
            opening: Opening::Opens,
            asking: Asking::Always,
            telling: Telling::Output,
            cancelling: Cancelling::SaysCancelled,
            loading: Loading::AtOnce,
            limit: None,
        }
    }
}

impl Candidate for AcpAgent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn package(&mut self) -> &mut Package {
        &mut self.packages[0]
    }
}

pub fn all() -> Vec<AcpAgent> {
    vec![
        AcpAgent {
            identity: "claude-agent-acp",
            ..AcpAgent::new(
                "claude-acp",
                Package::npm("claude-acp", "@agentclientprotocol/claude-agent-acp"),
                "node_modules/.bin/claude-agent-acp",
                &[],
                settings::claude,
            )
        },
        AcpAgent {
            asking: Asking::WhenEscalatedIn("workspace-write"),
            limit: Some("in its first mode a model judges commands and nobody is asked; asked in mode workspace-write"),
            ..AcpAgent::new(
                "codex-acp",
                Package::npm("codex-acp", "@agentclientprotocol/codex-acp"),
                "node_modules/.bin/codex-acp",
                &[],
                settings::codex,
            )
        },
        AcpAgent {
            identity: "codex-acp",
            asking: Asking::WhenEscalated,
            limit: Some("asks only to leave its sandbox; outlives a closed input"),
            ..AcpAgent::new(
                "codex-acp-rust",
                Package::npm("codex-acp-rust", "@zed-industries/codex-acp"),
                "node_modules/.bin/codex-acp",
                &[],
                settings::codex,
            )
        },
        AcpAgent {
            telling: Telling::Nothing,
            loading: Loading::FromTheNextMinute,
            limit: Some(
                "a load in the minute of its creation destroys the session, so the trial waits; \
                 does not tell what a command printed",
            ),
            ..AcpAgent::new(
                "gemini",
                Package::npm("gemini", "@google/gemini-cli"),
                "node_modules/.bin/gemini",
                &["--acp"],
                settings::gemini,
            )
        },
        AcpAgent::new(
            "opencode",
            Package::npm("opencode", "opencode-ai"),
            "node_modules/.bin/opencode",
            &["acp"],
            settings::opencode,
        ),
        AcpAgent {
            cancelling: Cancelling::MaySayEndTurn,
            limit: Some(
                "outlives a closed input; up to 1.34 it says end_turn of a cancelled turn and tells no version",
            ),
            ..AcpAgent::new(
                "goose",
                Package::npm("goose", "@aaif/goose-binary-linux-x64"),
                "node_modules/@aaif/goose-binary-linux-x64/bin/goose",
                &["acp"],
                settings::goose,
            )
        },
        AcpAgent::new(
            "kimi",
            Package::npm("kimi", "@moonshot-ai/kimi-code"),
            "node_modules/.bin/kimi",
            &["acp"],
            settings::kimi,
        ),
        AcpAgent::new(
            "qwen",
            Package::npm("qwen", "@qwen-code/qwen-code"),
            "node_modules/.bin/qwen",
            &["--acp"],
            settings::qwen,
        ),
        AcpAgent::new(
            "copilot",
            Package::npm("copilot", "@github/copilot"),
            "node_modules/.bin/copilot",
            &["--acp"],
            settings::copilot,
        ),
        AcpAgent {
            limit: Some("sends each prompt back as a message of the user"),
            ..AcpAgent::new("vibe", Package::pip("vibe", "mistral-vibe"), "bin/vibe-acp", &[], settings::vibe)
        },
        AcpAgent {
            packages: vec![Package::npm("pi-acp", "pi-acp"), pi_package()],
            asking: Asking::Never,
            limit: Some("never asks for permission"),
            ..AcpAgent::new("pi-acp", pi_package(), "node_modules/.bin/pi-acp", &[], settings::pi)
        },
        AcpAgent {
            opening: Opening::WantsAccount,
            limit: Some("opens no session over ACP without an account of its vendor"),
            ..AcpAgent::new(
                "cline",
                Package::npm("cline", "cline"),
                "node_modules/.bin/cline",
                &["--acp"],
                settings::cline,
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_a_sound_entry() {
        for agent in all() {
            assert_eq!(agent.harness_config("/opt/program").check(agent.name), Ok(()), "{}", agent.name);
        }
    }

    #[test]
    fn the_program_of_an_adapter_is_looked_for_in_its_own_package() {
        let adapter = all().into_iter().find(|agent| agent.name == "pi-acp").expect("it is in the list");
        let specs: Vec<String> = adapter.packages.iter().map(Package::spec).collect();
        assert_eq!(specs, ["pi-acp", "@earendil-works/pi-coding-agent@0.87.1"]);
    }
}
