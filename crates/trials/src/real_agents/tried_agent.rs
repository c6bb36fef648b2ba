//! The agents of `coven_harness::agents::ALL` with a trial for one channel.

use coven_harness::agent::Agent;
use coven_harness::agents;
use coven_harness::trial::{AcpTrial, Settings, Surroundings, Trial};

use super::choice::Candidate;
use super::install::Package;

/// An agent and its expected behaviour over one channel.
pub struct TriedAgent<T: 'static> {
    /// The name for `--agents` and the harness id.
    pub name: &'static str,
    pub agent: &'static Agent,
    /// The first one contains the program; the others are its dependencies.
    pub packages: Vec<Package>,
    /// Path of the program in its package's folder.
    pub program: &'static str,
    pub settings: fn(&Surroundings) -> Settings,
    pub trial: &'static T,
}

impl<T> Candidate for TriedAgent<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn package(&mut self) -> &mut Package {
        &mut self.packages[0]
    }
}

fn all_trials() -> impl Iterator<Item = (&'static Agent, &'static Trial)> {
    agents::ALL.iter().filter_map(|agent| Some((*agent, agent.trial.as_ref()?)))
}

/// Returns the agents with a trial for a channel, under their own names.
pub fn tried<T>(over: impl Fn(&'static Trial) -> Option<&'static T>) -> Vec<TriedAgent<T>> {
    let tried = |(agent, whole): (&'static Agent, &'static Trial)| {
        Some(TriedAgent {
            name: agent.id,
            agent,
            packages: vec![whole.package.into()],
            program: whole.program,
            settings: whole.settings,
            trial: over(whole)?,
        })
    };
    all_trials().filter_map(tried).collect()
}

/// Returns every ACP adapter, and every agent that supports ACP itself.
pub fn tried_over_acp() -> Vec<TriedAgent<AcpTrial>> {
    let each = |(agent, whole): (&'static Agent, &'static Trial)| {
        whole.acp.iter().map(move |trial| {
            let packages =
                if trial.packages.is_empty() { std::slice::from_ref(&whole.package) } else { trial.packages };
            TriedAgent {
                name: trial.name,
                agent,
                packages: packages.iter().copied().map(Package::from).collect(),
                program: trial.program,
                settings: whole.settings,
                trial,
            }
        })
    };
    all_trials().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use coven_harness::print_mode::PrintPrompt;

    use super::super::choice::choose;
    use super::*;

    fn names<T>(agents: &[TriedAgent<T>]) -> Vec<&'static str> {
        agents.iter().map(|agent| agent.name).collect()
    }

    #[test]
    fn every_agent_has_trials_for_its_channels() {
        let ten = ["claude", "codex", "gemini", "opencode", "copilot", "goose", "kimi", "qwen", "pi", "vibe"];
        assert_eq!(names(&tried(|trial| trial.terminal.as_ref())), ten);
        assert_eq!(names(&tried(|trial| trial.print.as_ref())), ten);
        // coven has neither hooks nor rules for vibe.
        assert_eq!(names(&tried(|trial| trial.activity.as_ref())), ten[..9]);
        let six = ["claude", "codex", "gemini", "opencode", "copilot", "qwen"];
        assert_eq!(names(&tried(|trial| trial.mcp.as_ref())), six);
        let adapters = ["claude-acp", "codex-acp", "codex-acp-rust"];
        let speakers = ["gemini", "opencode", "copilot", "goose", "kimi", "qwen", "pi-acp", "vibe", "cline"];
        assert_eq!(names(&tried_over_acp()), [&adapters[..], &speakers].concat());
        for agent in tried_over_acp() {
            assert!(agent.agent.acp.is_ok(), "{}", agent.name);
        }
    }

    #[test]
    fn the_program_of_a_print_trial_ends_with_the_name_of_its_agent() {
        for agent in tried(|trial| trial.print.as_ref()) {
            assert!(agent.program.ends_with(agent.name), "{}", agent.program);
        }
    }

    #[test]
    fn only_kimi_takes_the_prompt_as_an_argument() {
        let takes_argument =
            |agent: &&&Agent| agent.print.as_ref().is_ok_and(|print| !matches!(print.prompt, PrintPrompt::Stdin));
        let ids: Vec<&str> = agents::ALL.iter().filter(takes_argument).map(|agent| agent.id).collect();
        assert_eq!(ids, ["kimi"]);
    }

    #[test]
    fn the_first_package_of_an_adapter_contains_its_program() {
        let adapter = tried_over_acp().into_iter().find(|agent| agent.name == "pi-acp").expect("pi-acp is in the list");
        let specs: Vec<String> = adapter.packages.iter().map(Package::spec).collect();
        assert_eq!(specs, ["pi-acp", "@earendil-works/pi-coding-agent@0.87.1"]);
    }

    #[test]
    fn a_version_may_follow_the_name() {
        let terminal = || tried(|trial| trial.terminal.as_ref());
        let agents = choose(terminal, &["claude@2.0.76".to_owned(), "pi".to_owned()]).expect("both are known");
        let specs: Vec<String> = agents.iter().map(|agent| agent.packages[0].spec()).collect();
        assert_eq!(specs, ["@anthropic-ai/claude-code@2.0.76", "@earendil-works/pi-coding-agent@0.87.1"]);
        let refused = choose(terminal, &["clod".to_owned()]).err().expect("unknown agent").to_string();
        assert!(refused.contains("\"clod\"") && refused.contains("claude, codex"), "{refused}");
    }
}
