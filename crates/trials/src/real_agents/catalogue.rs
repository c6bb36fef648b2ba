//! The agents that can be tried in a terminal, as data.

use coven_harness::{HarnessConfig, PromptStyle};
use serde_json::json;

use super::Outcome;
use super::choice::{self, Candidate};
use super::install::Package;
use super::settings::{self, Settings, Surroundings};

pub struct Agent {
    /// Its id as a harness.
    pub name: &'static str,
    pub package: Package,
    /// The program, below the folder it is installed in.
    pub program: &'static str,
    pub kind: Kind,
    pub first_prompt: FirstPrompt,
    /// What makes it run against the stub model.
    pub settings: fn(&Surroundings) -> Settings,
    /// What it cannot do, whatever coven does.
    pub limit: Option<&'static str>,
}

/// Where coven knows it from.
pub enum Kind {
    Builtin,
    /// From this entry of the config file, which gets the program's path.
    Configured {
        args: &'static [&'static str],
        prompt: PromptStyle,
    },
}

/// How the first prompt gets to it.
pub enum FirstPrompt {
    /// With `coven run`.
    Argument,
    /// By hand, once the dialog is answered with Enter and the screen shows that it listens.
    Typed { dialog: &'static str, ready: &'static str },
}

impl Agent {
    /// The entry for the config file, if it needs one.
    pub fn harness_config(&self, program: &str) -> Option<HarnessConfig> {
        match &self.kind {
            Kind::Builtin => None,
            Kind::Configured { args, prompt } => {
                let entry = json!({ "program": program, "args": args, "prompt": prompt, "identity": self.name });
                Some(serde_json::from_value(entry).expect("an entry has nothing but known keys"))
            }
        }
    }

    fn builtin(
        name: &'static str,
        package: &'static str,
        program: &'static str,
        settings: fn(&Surroundings) -> Settings,
    ) -> Self {
        Self {
            name,
            package: Package::npm(name, package),
            program,
            kind: Kind::Builtin,
            first_prompt: FirstPrompt::Argument,
            settings,
            limit: None,
        }
    }
}

fn all() -> Vec<Agent> {
    let flag = |name: &str| PromptStyle::FlagEquals(name.to_owned());
    vec![
        Agent {
            limit: Some("a prompt that is nothing but the name of a subcommand runs that subcommand"),
            ..Agent::builtin("claude", "@anthropic-ai/claude-code", "node_modules/.bin/claude", settings::claude)
        },
        Agent {
            limit: Some("its own daemon must be off, and its screen is not restored when it is killed"),
            ..Agent::builtin("codex", "@openai/codex", "node_modules/.bin/codex", settings::codex)
        },
        Agent {
            limit: Some("ignores SIGTERM unless its relaunch is off"),
            ..Agent::builtin("gemini", "@google/gemini-cli", "node_modules/.bin/gemini", settings::gemini)
        },
        Agent {
            limit: Some("starts slowly"),
            ..Agent::builtin("opencode", "opencode-ai", "node_modules/.bin/opencode", settings::opencode)
        },
        Agent {
            limit: Some("its child outlives the launcher for a moment"),
            ..Agent::builtin("copilot", "@github/copilot", "node_modules/.bin/copilot", settings::copilot)
        },
        Agent {
            kind: Kind::Configured { args: &["run", "--interactive"], prompt: flag("--text") },
            limit: Some("asks about usage data on its first start unless its settings answer that"),
            ..Agent::builtin(
                "goose",
                "@aaif/goose-binary-linux-x64",
                "node_modules/@aaif/goose-binary-linux-x64/bin/goose",
                settings::goose,
            )
        },
        Agent {
            kind: Kind::Configured { args: &[], prompt: PromptStyle::Typed },
            first_prompt: FirstPrompt::Typed { dialog: "Trust this folder?", ready: "No session yet" },
            limit: Some("takes no prompt as an argument and asks whether to trust a new folder"),
            ..Agent::builtin("kimi", "@moonshot-ai/kimi-code", "node_modules/.bin/kimi", settings::kimi)
        },
        Agent {
            kind: Kind::Configured { args: &[], prompt: flag("--prompt-interactive") },
            limit: Some("three processes; the last outlives the launcher for a moment"),
            ..Agent::builtin("qwen", "@qwen-code/qwen-code", "node_modules/.bin/qwen", settings::qwen)
        },
        Agent {
            kind: Kind::Configured { args: &[], prompt: PromptStyle::AfterDashes },
            package: pi_package(),
            limit: Some("its command line is only `pi`, which says little as an identity"),
            ..Agent::builtin("pi", "@earendil-works/pi-coding-agent", "node_modules/.bin/pi", settings::pi)
        },
        Agent {
            package: Package::pip("vibe", "mistral-vibe"),
            kind: Kind::Configured { args: &["--trust"], prompt: PromptStyle::AfterDashes },
            limit: Some("its server has a process group of its own, in the same session"),
            ..Agent::builtin("vibe", "", "bin/vibe", settings::vibe)
        },
    ]
}

/// Both pi and its ACP adapter need it.
pub fn pi_package() -> Package {
    // 1.x names a dependency that the registry does not have.
    Package { version: Some("0.87.1".to_owned()), ..Package::npm("pi", "@earendil-works/pi-coding-agent") }
}

impl Candidate for Agent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn package(&mut self) -> &mut Package {
        &mut self.package
    }
}

pub fn choose(names: &[String]) -> Outcome<Vec<Agent>> {
    choice::choose(all, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_may_follow_the_name() {
        let agents = choose(&["claude@2.0.76".to_owned(), "pi".to_owned()]).expect("both are known");
        let specs: Vec<String> = agents.iter().map(|agent| agent.package.spec()).collect();
        assert_eq!(specs, ["@anthropic-ai/claude-code@2.0.76", "@earendil-works/pi-coding-agent@0.87.1"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refused = choose(&["clod".to_owned()]).err().expect("there is no such agent").to_string();
        assert!(refused.contains("\"clod\"") && refused.contains("claude, codex"), "{refused}");
    }

    #[test]
    fn every_configured_agent_has_a_sound_entry() {
        for agent in all() {
            if let Some(entry) = agent.harness_config("/opt/program") {
                assert_eq!(entry.check(agent.name), Ok(()), "{}", agent.name);
            }
        }
    }
}
