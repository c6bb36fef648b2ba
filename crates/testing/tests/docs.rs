//! Generated documents are up to date, and every scenario has a test.
//!
//! With `COVEN_WRITE_DOCS=1` (`cargo xtask docs`) the documents are written instead of compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use coven_app::Keymap;
use coven_app::frame::keymap::{Action, Context};
use coven_domain::agent::AgentState;
use coven_domain::conversation::ConversationState;
use coven_domain::event::KINDS;
use coven_domain::lifecycle::markdown;
use coven_domain::operation::OperationState;
use coven_domain::question_set::QuestionSetState;
use coven_domain::session::SessionState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WorkflowState;
use coven_files::Limit;
use coven_harness::agent::{Acp, Agent, Missing, Terminal};
use coven_harness::agents::ALL;
use coven_harness::print_mode::{self, PrintPrompt};
use coven_harness::{Program, PromptStyle};
use coven_testing::program;

fn generated() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/generated")
}

/// Compares a document with the generated text, or writes it.
#[track_caller]
fn assert_up_to_date(name: &str, text: &str) {
    let path = generated().join(name);
    if std::env::var_os("COVEN_WRITE_DOCS").is_some() {
        fs::create_dir_all(generated()).expect("room on disk");
        fs::write(&path, text).expect("room on disk");
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(text.lines()).position(|(one, other)| one != other);
    let line = differs.unwrap_or(written.lines().count().min(text.lines().count())) + 1;
    assert!(written == text, "docs/generated/{name} is stale from line {line} on; run `cargo xtask docs`");
}

#[test]
fn lifecycles() {
    let tables = [
        markdown::<SessionState>(),
        markdown::<ConversationState>(),
        markdown::<QuestionSetState>(),
        markdown::<TaskState>(),
        markdown::<AgentState>(),
        markdown::<WorkflowState>(),
        markdown::<OperationState>(),
    ];
    assert_up_to_date(
        "lifecycles.md",
        &format!("# Lifecycles\n\nA move that is not listed is refused.\n\n{}", tables.join("\n")),
    );
}

#[test]
fn events() {
    let mut text =
        "# Events\n\nThe names in `GET /events`, `coven events` and SSE. Each has the whole record as it is after \
                    the change.\n\n| Name | What happened |\n|---|---|\n"
            .to_owned();
    for (kind, meaning) in KINDS {
        text.push_str(&format!("| `{kind}` | {meaning} |\n"));
    }
    assert_up_to_date("events.md", &text);
}

#[test]
fn openapi() {
    assert_up_to_date("openapi.json", &coven_api::openapi::document());
}

#[test]
fn config_schema() {
    assert_up_to_date("config.schema.json", &coven_host::config::schema());
}

#[test]
fn keys() {
    let keymap = Keymap::default();
    let mut text =
        "# Keys of the app\n\nThe action is the name under `app.keys` in the config: see [app.md](../app.md).\n"
            .to_owned();
    let every = keymap.actions(Context::List);
    let views = [
        ("In every view", Context::List),
        ("Agents", Context::Agents),
        ("Inbox", Context::Inbox),
        ("Board", Context::Board),
        ("History", Context::History),
    ];
    for (heading, view) in views {
        text.push_str(&format!("\n## {heading}\n\n| keys | action | what it does |\n|---|---|---|\n"));
        let own = |action: &(Action, String, &str)| view == Context::List || !every.contains(action);
        for (action, keys, help) in keymap.actions(view).into_iter().filter(own) {
            let keys: Vec<String> = keys.split(' ').map(|key| format!("`{}`", key.replace('|', "\\|"))).collect();
            text.push_str(&format!("| {} | `{action}` | {help} |\n", keys.join(" ")));
        }
    }
    assert_up_to_date("keys.md", &text);
}

#[test]
fn agents() {
    let started =
        "| id | name | in a terminal | over ACP | MCP servers in | good to know |\n|---|---|---|---|---|---|\n";
    let mut text = format!(
        "# Agents\n\nWhat coven knows about each agent program, in the order in which a default is chosen. \
         See [harnesses.md](../harnesses.md) for what it means and how to add one.\n\n{started}"
    );
    for agent in ALL {
        let mcp = agent.mcp.as_ref().map(|mcp| {
            let folder = mcp.file.variable.map_or_else(String::new, |variable| format!(" (or in `${variable}`)"));
            let path = Path::new("~").join(mcp.file.folder).join(mcp.file.names[mcp.file.names.len() - 1]);
            format!("`{}`{folder}", path.display())
        });
        text.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} |\n",
            agent.id,
            agent.label,
            cell(agent.terminal.as_ref().map(|terminal| in_a_terminal(agent, terminal))),
            cell(agent.acp.as_ref().map(|acp| over_acp(agent, acp))),
            cell(mcp),
            agent.note,
        ));
    }
    text.push_str(
        "\n## In print mode\n\n| id | first turn | later turns | a step of a workflow adds |\n|---|---|---|---|\n",
    );
    for agent in ALL {
        let Some(mode) = print_mode::known(agent.id) else { continue };
        let flag = match &mode.prompt {
            PrintPrompt::Stdin => String::new(),
            PrintPrompt::FlagEquals(flag) => format!(" {flag}=PROMPT"),
            other => panic!("say how {other:?} is shown"),
        };
        let line = |args: &[String]| format!("`{} {}{flag}`", agent.id, args.join(" ").replace("{session}", "ID"));
        let resume = mode.resume.as_deref().unwrap_or_default();
        let step = if mode.step_args.is_empty() { "–".to_owned() } else { format!("`{}`", mode.step_args.join(" ")) };
        text.push_str(&format!("| `{}` | {} | {} | {step} |\n", agent.id, line(&mode.args), line(resume)));
    }
    text.push_str("\n## What is missing\n\n");
    for (agent, (capability, reason)) in ALL.iter().flat_map(|agent| agent.missing().map(move |it| (agent, it))) {
        text.push_str(&format!("- `{}`, {capability}: {reason}.\n", agent.id));
    }
    assert_up_to_date("agents.md", &text);
}

fn cell(shown: Result<String, &Missing>) -> String {
    shown.unwrap_or_else(|_| "–".to_owned())
}

fn in_a_terminal(agent: &Agent, terminal: &Terminal) -> String {
    let program = match agent.program {
        Program::Named(name) => name.to_owned(),
        Program::UserShell => "$SHELL".to_owned(),
        Program::Coven(verb) => format!("coven {verb}"),
    };
    let env = agent.env.iter().map(|(name, value)| format!("{name}={value}"));
    let mut words: Vec<String> = env.chain([program]).collect();
    words.extend(terminal.args.iter().map(|arg| (*arg).to_owned()));
    let more = match terminal.prompt {
        PromptStyle::Last => " [PROMPT]`".to_owned(),
        PromptStyle::AfterDashes => " [-- PROMPT]`".to_owned(),
        PromptStyle::Flag(flag) => format!(" [{flag} PROMPT]`"),
        PromptStyle::FlagEquals(flag) => format!(" [{flag}=PROMPT]`"),
        PromptStyle::Typed => "`; a prompt is typed".to_owned(),
        PromptStyle::None => "`".to_owned(),
    };
    format!("`{}{more}", words.join(" "))
}

fn over_acp(agent: &Agent, acp: &Acp) -> String {
    let program = acp.adapter.as_ref().map_or(agent.id, |adapter| adapter.program);
    let package = acp.adapter.as_ref().map_or_else(String::new, |it| format!(" of the package `{}`", it.package));
    format!("`{}`{package}", [&[program], acp.args].concat().join(" "))
}

#[test]
fn command_line() {
    let mut text = "# Command line\n".to_owned();
    describe(&mut text, &[]);
    assert_up_to_date("cli.md", &text);
}

/// Appends the help of a verb and of its subcommands.
fn describe(out: &mut String, verbs: &[&str]) {
    // The short help of `coven` itself does not list every verb.
    let line = if verbs.is_empty() { vec!["help", "--all"] } else { [verbs, &["--help"]].concat() };
    let output = Command::new(program::coven()).args(line).env_clear().output().expect("coven runs");
    let help = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{verbs:?}: {help}");
    let name = [&["coven"], verbs].concat().join(" ");
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    out.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim()));
    for verb in verbs_of(&help) {
        describe(out, &[verbs, &[verb]].concat());
    }
}

/// Returns the names in the list of commands, without `help`.
fn verbs_of(help: &str) -> Vec<&str> {
    let behind = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names =
        behind.take_while(|line| !line.is_empty()).filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn the_config_page_lists_every_limit_with_its_size() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(crates.join("../docs/config.md")).expect("a page");
    let (_, limits) = page.split_once("## Limits\n").expect("a section on limits");
    let (limits, _) = limits.split_once("\n## ").expect("a section after it");
    let listed: BTreeSet<String> =
        limits.lines().filter(|line| line.starts_with("| ")).skip(1).map(str::to_owned).collect();
    let mut expected = BTreeSet::new();
    for folder in fs::read_dir(&crates).expect("crates").flatten().filter(|folder| folder.file_name() != "files") {
        let sources = read_all(&folder.path().join("src"));
        for constant in sources.split("Limit::new(").skip(1) {
            let (arguments, _) = constant.split_once(");").expect("a whole call");
            let (what, bytes) = arguments.rsplit_once(", ").expect("two arguments");
            let limit = Limit::new("", number(bytes));
            let row = format!("| {} | {limit} |", what.trim_matches('"'));
            assert!(expected.insert(row.clone()), "two limits have one name: {row}");
        }
    }
    assert_eq!(listed, expected, "left: docs/config.md; right: the constants");
}

/// Parses `a << b` or a plain number.
fn number(text: &str) -> u64 {
    let part = |text: &str| text.trim().replace('_', "").parse::<u64>().expect("a number");
    text.split_once("<<").map_or_else(|| part(text), |(value, shift)| part(value) << part(shift))
}

#[test]
fn every_scenario_has_a_test_that_carries_its_number() {
    let store = [2, 3, 4, 8, 9, 10, 11, 12, 14, 17, 18];
    let wanted = (1..=31).map(|number| format!("life_{number:02}_"));
    let wanted = wanted.chain(store.map(|number| format!("store_{number:02}_")));
    let wanted = wanted.chain((1..=31).map(|number| format!("agent_{number:02}_")));
    let sources = read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios"));

    let missing: Vec<String> = wanted.filter(|name| !sources.contains(&format!("\nfn {name}"))).collect();

    assert!(missing.is_empty(), "no test for {missing:?}");
}

fn read_all(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => text.push_str(&read_all(&path)),
            false => text.push_str(&fs::read_to_string(&path).expect("text")),
        }
    }
    text
}

#[test]
fn cargo_xtask_shows_what_cargo_compiles() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cargo/config.toml");
    let text = fs::read_to_string(path).expect("the workspace's settings");
    let alias = text.lines().find(|line| line.starts_with("xtask")).expect("an alias");
    assert!(!alias.contains("--quiet") && !alias.contains(" -q"), "{alias}");
}
