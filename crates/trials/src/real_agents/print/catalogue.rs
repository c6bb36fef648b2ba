//! The agents that are tried in print mode, as data. How each prints is known to coven.

use super::super::catalogue::pi_package;
use super::super::choice::Candidate;
use super::super::install::Package;
use super::super::settings::{self, Settings, Surroundings};

pub struct PrintAgent {
    /// Its id as a harness, which is the name of its program too.
    pub name: &'static str,
    pub package: Package,
    /// The program, below the folder of its package.
    pub program: &'static str,
    /// What makes it run against the stub model.
    pub settings: fn(&Surroundings) -> Settings,
    pub streaming: Streaming,
    pub counting: Counting,
    pub prompting: Prompting,
    pub failing: Failing,
    /// What it cannot do, whatever coven does.
    pub limit: Option<&'static str>,
}

/// When an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    AsItComes,
    WholeMessages,
}

/// Whether it tells how many tokens a turn took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    Told,
    NotTold,
}

/// How it takes its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompting {
    StandardInput,
    /// Which has room for 128 KiB.
    Argument,
}

/// How it ends when the model does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    ExitsNonzero,
    /// With 0, and trouble in place of an answer.
    SaysSo,
    /// With 0, and an answer that tells of it.
    AnswersIt,
}

impl PrintAgent {
    fn new(
        name: &'static str,
        package: Package,
        program: &'static str,
        settings: fn(&Surroundings) -> Settings,
    ) -> Self {
        Self {
            name,
            package,
            program,
            settings,
            streaming: Streaming::AsItComes,
            counting: Counting::Told,
            prompting: Prompting::StandardInput,
            failing: Failing::ExitsNonzero,
            limit: None,
        }
    }
}

pub fn all() -> Vec<PrintAgent> {
    vec![
        PrintAgent::new(
            "claude",
            Package::npm("claude", "@anthropic-ai/claude-code"),
            "node_modules/.bin/claude",
            settings::claude,
        ),
        PrintAgent {
            streaming: Streaming::WholeMessages,
            ..PrintAgent::new(
                "codex",
                Package::npm("codex", "@openai/codex"),
                "node_modules/.bin/codex",
                settings::codex,
            )
        },
        PrintAgent::new(
            "gemini",
            Package::npm("gemini", "@google/gemini-cli"),
            "node_modules/.bin/gemini",
            settings::gemini,
        ),
        PrintAgent {
            streaming: Streaming::WholeMessages,
            ..PrintAgent::new(
                "opencode",
                Package::npm("opencode", "opencode-ai"),
                "node_modules/.bin/opencode",
                settings::opencode,
            )
        },
        PrintAgent {
            counting: Counting::NotTold,
            ..PrintAgent::new(
                "copilot",
                Package::npm("copilot", "@github/copilot"),
                "node_modules/.bin/copilot",
                settings::copilot,
            )
        },
        PrintAgent {
            failing: Failing::AnswersIt,
            ..PrintAgent::new(
                "goose",
                Package::npm("goose", "@aaif/goose-binary-linux-x64"),
                "node_modules/@aaif/goose-binary-linux-x64/bin/goose",
                settings::goose,
            )
        },
        PrintAgent {
            streaming: Streaming::WholeMessages,
            counting: Counting::NotTold,
            prompting: Prompting::Argument,
            ..PrintAgent::new(
                "kimi",
                Package::npm("kimi", "@moonshot-ai/kimi-code"),
                "node_modules/.bin/kimi",
                settings::kimi,
            )
        },
        PrintAgent::new("qwen", Package::npm("qwen", "@qwen-code/qwen-code"), "node_modules/.bin/qwen", settings::qwen),
        PrintAgent {
            failing: Failing::SaysSo,
            ..PrintAgent::new("pi", pi_package(), "node_modules/.bin/pi", settings::pi)
        },
        PrintAgent {
            streaming: Streaming::WholeMessages,
            counting: Counting::NotTold,
            ..PrintAgent::new("vibe", Package::pip("vibe", "mistral-vibe"), "bin/vibe", settings::vibe)
        },
    ]
}

impl Candidate for PrintAgent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn package(&mut self) -> &mut Package {
        &mut self.package
    }
}

#[cfg(test)]
mod tests {
    use coven_harness::print_mode;

    use super::*;

    #[test]
    fn coven_knows_how_every_one_of_them_prints() {
        for agent in all() {
            let mode = print_mode::known(agent.name).unwrap_or_else(|| panic!("{} is unknown", agent.name));
            let takes_input = mode.prompt == print_mode::PrintPrompt::Stdin;
            assert_eq!(takes_input, agent.prompting == Prompting::StandardInput, "{}", agent.name);
            assert!(agent.program.ends_with(agent.name), "its name tells how it prints: {}", agent.program);
        }
    }
}
