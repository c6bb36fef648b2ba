//! Chooses the program that runs the turns of a conversation.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coven_harness::print_mode::PrintMode;
use coven_harness::{self as harness, Harness, Program};

use crate::program;

const TOOL_VARIABLE: &str = "AURORA_SPAWN_TOOL";
const GRACE_SECONDS: f64 = 5.0;

/// An installed harness with its print mode.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintHarness {
    pub id: String,
    pub label: String,
    pub program: PathBuf,
    pub mode: PrintMode,
    /// Arguments that the config adds.
    pub added_args: Vec<String>,
    /// Extra environment variables.
    pub env: BTreeMap<String, String>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
}

impl PrintHarness {
    /// Returns whether a later turn needs only the new message.
    pub fn can_resume(&self) -> bool {
        self.mode.can_resume()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    #[error("Tool '{tool}' not found in PATH{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    NotFound { tool: String, hint: Option<String> },
    #[error("Tool '{tool}' has no print mode; set harnesses.{tool}.print in the config")]
    NoPrintMode { tool: String },
    #[error(
        "no agent with a print mode is installed; install one of {}, or set {TOOL_VARIABLE} to a program",
        known.join(", ")
    )]
    NoneInstalled { known: Vec<String> },
}

/// Returns the tool that the user chose, in the environment or else with `spawner.tool` in the config.
pub fn wanted_tool(configured: Option<&str>) -> Option<String> {
    let named = std::env::var(TOOL_VARIABLE).ok().filter(|tool| !tool.is_empty());
    named.or_else(|| configured.filter(|tool| !tool.is_empty()).map(str::to_owned))
}

/// Returns the wanted tool: the harness with this id, or else any program, which is started with `-p`, gets the prompt
/// on standard input and answers in plain text. If `wanted` is `None`, returns the first installed harness.
pub fn choose(wanted: Option<&str>, harnesses: &[Harness], path: Option<&OsStr>) -> Result<PrintHarness, ToolError> {
    let Some(tool) = wanted else {
        let candidates = || harness::by_preference(harnesses).filter_map(candidate);
        let known = || candidates().map(|one| one.id).collect();
        return candidates().find_map(|one| one.found(path)).ok_or_else(|| ToolError::NoneInstalled { known: known() });
    };
    let candidates: Vec<Candidate> = harnesses.iter().filter_map(candidate).collect();
    if let Some(candidate) = candidates.iter().find(|one| one.id == tool) {
        let not_found = || ToolError::NotFound { tool: tool.to_owned(), hint: Some(candidate.hint.clone()) };
        return candidate.found(path).ok_or_else(not_found);
    }
    if harnesses.iter().any(|harness| harness.id == tool) {
        return Err(ToolError::NoPrintMode { tool: tool.to_owned() });
    }
    let file = program::find(tool, path).ok_or_else(|| ToolError::NotFound { tool: tool.to_owned(), hint: None })?;
    Ok(any_program(tool, file, &candidates))
}

/// Returns the harness for a program that is not a harness id. If its file name is one, that harness's print mode is
/// used, or else a generic one.
fn any_program(tool: &str, file: PathBuf, candidates: &[Candidate]) -> PrintHarness {
    let name = Path::new(tool).file_name().map_or_else(|| tool.into(), OsStr::to_string_lossy).into_owned();
    if let Some(candidate) = candidates.iter().find(|one| one.id == name) {
        return candidate.at(file);
    }
    let mode = PrintMode { args: vec!["-p".to_owned()], ..PrintMode::default() };
    let grace = Duration::from_secs_f64(GRACE_SECONDS);
    let (added_args, env) = (Vec::new(), BTreeMap::new());
    PrintHarness { id: tool.to_owned(), label: name, program: file, mode, added_args, env, grace }
}

/// A harness that can run a turn if its program is installed.
struct Candidate {
    id: String,
    label: String,
    program: String,
    mode: PrintMode,
    added_args: Vec<String>,
    env: BTreeMap<String, String>,
    grace_seconds: f64,
    hint: String,
}

impl Candidate {
    fn found(&self, path: Option<&OsStr>) -> Option<PrintHarness> {
        program::find(&self.program, path).map(|file| self.at(file))
    }

    fn at(&self, program: PathBuf) -> PrintHarness {
        PrintHarness {
            id: self.id.clone(),
            label: self.label.clone(),
            program,
            mode: self.mode.clone(),
            added_args: self.added_args.clone(),
            env: self.env.clone(),
            grace: Duration::from_secs_f64(self.grace_seconds),
        }
    }
}

fn candidate(harness: &Harness) -> Option<Candidate> {
    let Program::Named(program) = &harness.program else { return None };
    Some(Candidate {
        id: harness.id.clone(),
        label: harness.label.clone(),
        program: program.clone(),
        mode: harness.print.clone()?,
        added_args: harness.added_args.clone(),
        env: harness.env.clone(),
        grace_seconds: harness.grace_seconds.unwrap_or(GRACE_SECONDS),
        hint: harness.install_hint.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use coven_harness::print_mode::PrintFormat;
    use coven_harness::{HarnessConfig, all};

    use super::*;

    /// Returns a folder for PATH with programs of these names.
    fn installed(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            fs::write(folder.path().join(name), "").expect("a file");
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(0o755)).expect("an executable");
        }
        folder
    }

    fn chosen(wanted: Option<&str>, names: &[&str]) -> Result<String, ToolError> {
        let folder = installed(names);
        let path = Some(folder.path().as_os_str());
        choose(wanted, &all(&BTreeMap::new()), path).map(|harness| harness.id)
    }

    #[test]
    fn the_default_tool_is_the_first_installed_agent() {
        assert_eq!(chosen(None, &["qwen", "codex", "claude"]), Ok("claude".to_owned()));
        assert_eq!(chosen(None, &["qwen", "codex"]), Ok("codex".to_owned()));
        assert_eq!(chosen(None, &["qwen"]), Ok("qwen".to_owned()));
        let error = chosen(None, &["vim"]).expect_err("no agent").to_string();
        assert!(error.contains("claude, codex") && error.contains("AURORA_SPAWN_TOOL"), "{error}");
    }

    #[test]
    fn the_wanted_tool_is_a_harness_or_any_program() {
        assert_eq!(chosen(Some("gemini"), &["claude", "gemini"]), Ok("gemini".to_owned()));
        assert_eq!(chosen(Some("mine"), &["claude", "mine"]), Ok("mine".to_owned()));
        let missing = chosen(Some("mine"), &["claude"]).expect_err("a missing program").to_string();
        assert_eq!(missing, "Tool 'mine' not found in PATH");
        let missing = chosen(Some("claude"), &[]).expect_err("a missing program").to_string();
        assert_eq!(
            missing,
            "Tool 'claude' not found in PATH; install it with: npm install -g @anthropic-ai/claude-code"
        );
        assert_eq!(chosen(Some("shell"), &[]), Err(ToolError::NoPrintMode { tool: "shell".into() }));
    }

    #[test]
    fn the_name_of_a_path_determines_its_print_mode() {
        let folder = installed(&["claude", "mine"]);
        let choose = |name: &str| {
            let tool = folder.path().join(name);
            choose(tool.to_str(), &all(&BTreeMap::new()), None).expect("an installed tool")
        };
        assert_eq!(choose("claude").mode.format.as_str(), "claude-json");
        let mine = choose("mine");
        assert_eq!((mine.mode.args, mine.mode.format), (vec!["-p".to_owned()], PrintFormat::Text));
    }

    #[test]
    fn the_config_sets_the_print_mode_of_another_program() {
        let entry: HarnessConfig =
            serde_json::from_str(r#"{"program":"own","print":{"args":["ask"],"prompt":"argument"}}"#)
                .expect("an entry");
        let harnesses = all(&BTreeMap::from([("mine".to_owned(), entry)]));
        let folder = installed(&["own"]);
        let mine = choose(Some("mine"), &harnesses, Some(folder.path().as_os_str())).expect("an installed tool");
        assert_eq!(mine.mode.args, ["ask"]);
        assert!(!mine.can_resume());
        let entry: HarnessConfig = serde_json::from_str(r#"{"print":{"args":["ask"]}}"#).expect("an entry");
        let harnesses = all(&BTreeMap::from([("cline".to_owned(), entry)]));
        let folder = installed(&["cline"]);
        let cline = choose(Some("cline"), &harnesses, Some(folder.path().as_os_str())).expect("an installed tool");
        assert_eq!(cline.mode.args, ["ask"], "an agent that is never the default can still be chosen");
    }
}
