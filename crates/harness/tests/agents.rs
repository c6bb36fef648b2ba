//! Checks that every agent is described completely, and only in its own module.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use coven_harness::agent::{Agent, Resume};
use coven_harness::rules::RuleSet;
use coven_harness::{Harness, HarnessConfig, Program, agents};

#[test]
fn every_agent_has_a_unique_id_and_format() {
    let ids: BTreeSet<&str> = agents::ids(|_| true).into_iter().collect();
    assert_eq!(ids.len(), agents::ALL.len());
    let formats: Vec<&str> =
        agents::ALL.iter().filter_map(|agent| Some(agent.print.as_ref().ok()?.rules.format)).collect();
    assert_eq!(formats.iter().collect::<BTreeSet<_>>().len(), formats.len());
}

#[test]
fn definition_folders_include_every_agents_own_folder_once() {
    let folders: BTreeSet<&str> = agents::DEFINITION_FOLDERS.into_iter().collect();
    assert_eq!(folders.len(), agents::DEFINITION_FOLDERS.len());
    let own = agents::ALL.iter().filter_map(|agent| agent.print.as_ref().ok()?.own_agents);
    for (folder, _) in own {
        assert!(folders.contains(folder), "{folder}");
    }
}

#[test]
fn every_missing_capability_has_a_reason() {
    for agent in agents::ALL {
        for (capability, missing) in agent.missing() {
            let reason = missing.0;
            let is_fragment = reason.starts_with(char::is_lowercase) && !reason.ends_with('.');
            assert!(reason.len() > 15 && is_fragment, "{}: {capability}: {reason:?}", agent.id);
        }
    }
}

#[test]
fn every_agent_has_a_valid_entry() {
    for agent in agents::ALL {
        let id = agent.id;
        assert!(!agent.label.is_empty() && !agent.version_args.is_empty(), "{id}");
        if let Program::Named(program) = agent.program {
            assert_eq!(
                (program, agent.install.is_empty()),
                (id, false),
                "the program and its harness have the same name"
            );
        }
        assert_eq!(as_config(agent).check("mine"), Ok(()), "{id}");
        if let Ok(print) = &agent.print {
            let Resume::Flag(flag) = print.resume else { continue };
            assert!(flag.starts_with('-'), "{id}: {flag}");
        }
        if let Ok(mcp) = &agent.mcp {
            let entry = (mcp.entry)("/opt/coven").to_string();
            assert!(entry.contains("/opt/coven") && entry.contains("mcp"), "{id}: {entry}");
        }
    }
}

#[test]
fn the_rules_of_every_agent_are_valid() {
    for agent in agents::ALL {
        let Some(text) = agent.rules else { continue };
        let rules = RuleSet::parse(text).unwrap_or_else(|error| panic!("{}: {error}", agent.id));
        let names: BTreeSet<&str> = rules.rules().iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names.len(), rules.rules().len(), "{}: a name occurs twice", agent.id);
        assert!(!rules.is_empty(), "{}", agent.id);
    }
}

/// Returns the agent as a config entry, which must pass the same checks as a user's entry.
fn as_config(agent: &Agent) -> HarnessConfig {
    let harness = Harness::from(agent);
    let terminal = harness.terminal.as_ref().ok();
    let entry = serde_json::json!({
        "program": "mine", "args": terminal.map_or(&[][..], |it| &it.args), "prompt": terminal.map(|it| &it.prompt), "identity": harness.identity,
        "env": harness.env, "acpArgs": harness.acp_args, "print": harness.print, "graceSeconds": harness.grace_seconds,
    });
    serde_json::from_value(entry).expect("known keys")
}

/// Crates with code that is common to all agents. Not `cli` and `api`: their help and documentation name agents as
/// examples.
const COMMON_CRATES: [&str; 14] = [
    "acp", "client", "domain", "engine", "files", "harness", "holder", "host", "interop", "mcp", "screen", "server",
    "store", "workflow",
];

/// Code that is common to all agents must not name any: adding an agent must not require a change there.
#[test]
fn common_code_names_no_agent() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates folder");
    let mut files = Vec::new();
    for name in COMMON_CRATES {
        let before = files.len();
        collect(&crates.join(name).join("src"), &mut files);
        assert!(files.len() > before, "{name}");
    }
    // Not coven's own harnesses, whose names are common words, nor "cursor", which is also a position in a list.
    let names: BTreeSet<String> = agents::ALL
        .iter()
        .filter(|agent| matches!(agent.program, Program::Named(_)) && agent.id != "cursor")
        .flat_map(|agent| [agent.id.to_lowercase(), agent.label.to_lowercase()])
        .collect();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (number, line) in code.to_lowercase().lines().enumerate() {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
            let found =
                names.iter().find(|name| words.windows(name.split(' ').count()).any(|it| it.join(" ") == **name));
            assert_eq!(found, None, "{}:{}", file.display(), number + 1);
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        match entry.file_name().and_then(|name| name.to_str()) {
            Some("agents" | "tests" | "tests.rs") => {}
            _ if entry.is_dir() => collect(&entry, files),
            _ => files.push(entry),
        }
    }
}
