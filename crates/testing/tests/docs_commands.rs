//! Every command in README.md and docs/*.md is run against the built binary, with scripted agents in place of real
//! ones. A command that cannot be run here is in [`NOT_RUN`] with the reason; of a `coven` command there, the flags
//! are compared with its help.
//!
//! Other tests here check links, the glossary, and that the pages name every config key and the Rust version.
//!
//! In a command, `TASK`, `SESSION`, `SET`, `ITEM` and `OPERATION` are the newest id of that kind.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coven_testing::{CommandOutput, TestHome, TestTerminal, eventually, program, wait_until};
use serde_json::{Value, json};

/// Prefixes of commands that are not run, with the reason.
const NOT_RUN: [(&str, &str); 12] = [
    ("cargo install", "compiles everything and writes to the user's folders"),
    ("cargo run --release -p", "measures for minutes"),
    ("cargo xtask", "runs or builds the whole workspace; this test is a part of it"),
    ("coven daemon restart --listen", "the port may be in use on this machine"),
    ("coven events --follow", "runs until Ctrl-C"),
    ("curl --unix-socket", "needs curl; the scenario tests send these requests"),
    ("curl -N --unix-socket", "needs curl, and runs until Ctrl-C"),
    ("curl -H", "needs curl and a TCP listener"),
    ("npx openapi-typescript", "downloads a package"),
    ("pipx run openapi-python-client", "downloads a package"),
    ("ssh -t host", "needs another machine"),
    ("coven db repair", "is refused for a store that is not damaged"),
];

/// Replaces every agent program. In print mode it changes a file and answers; with `Rewrite` in the prompt it waits until
/// it is killed. On a terminal it prints its arguments and waits for a line.
const AGENT: &str = r#"#!/bin/sh
case " $* " in
" --version ") echo "1.0.0" ;;
" --help ") echo "usage" ;;
*" --acp "*) exec "ACP_FOLDER/$(basename "$0")" "$@" ;;
*" -p "*)
    prompt=$(cat)
    case "$prompt" in *Rewrite*) exec tail -f /dev/null ;; esac
    git rev-parse --git-dir > /dev/null 2>&1 && echo "more" >> work.txt
    echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Done."}]}}'
    echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"5f0c1d9a-0000-4000-8000-000000000001"}'
    ;;
*)
    echo "agent: $*"
    read -r line
    echo "received: $line"
    exec tail -f /dev/null
    ;;
esac
"#;

/// Keys that leave a program on a terminal.
const DETACH: &str = "\x1c";
const QUIT: &str = "q";
/// Back to the list of the app, and out of it.
const LEAVE_CONVERSATION: &str = "\x1cq";

/// Commands that must run before a line of a page: the page, the line, and the command.
const GIVEN: [(&str, &str, &str); 2] = [
    ("docs/acp.md", "coven inbox answer ITEM allow", "coven run gemini --acp --background 'permit write a file'"),
    ("docs/app.md", "coven chat SESSION", "coven run gemini --acp --background hello"),
];

macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(#[test] fn $test() { Page::run($page); })*
    };
}

pages! {
    readme: "README.md",
    contributing: "CONTRIBUTING.md",
    acp: "docs/acp.md",
    app: "docs/app.md",
    harnesses: "docs/harnesses.md",
    benchmarks: "docs/benchmarks.md",
    config: "docs/config.md",
    conversations: "docs/conversations.md",
    inbox: "docs/inbox.md",
    programs: "docs/programs.md",
    questions: "docs/questions.md",
    security: "docs/security.md",
    sessions: "docs/sessions.md",
    tasks: "docs/tasks.md",
    troubleshooting: "docs/troubleshooting.md",
    workflows: "docs/workflows.md",
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders below the workspace").to_owned()
}

fn documents() -> Vec<String> {
    let folder = fs::read_dir(root().join("docs")).expect("a folder");
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let pages = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(str::to_owned).into_iter().chain(pages).collect()
}

fn text_of(page: &str) -> String {
    fs::read_to_string(root().join(page)).expect("a page")
}

/// Returns the fenced blocks of these languages.
fn blocks(text: &str, languages: &[&str]) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in text.lines() {
        match (open.take(), line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => open = Some((languages.contains(&language.trim()), String::new())),
            (None, None) => {}
            (Some((true, block)), Some(_)) => blocks.push(block),
            (Some((false, _)), Some(_)) => {}
            (Some((is_wanted, block)), None) => open = Some((is_wanted, block + line + "\n")),
        }
    }
    blocks
}

/// Returns the commands of a page. A `\` at the end of a line joins it with the next one; of a `console` block, only
/// lines after a `$` are commands.
fn commands(page: &str) -> Vec<String> {
    let text = text_of(page);
    let console = blocks(&text, &["console"]).join("");
    let typed = console.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect::<Vec<_>>();
    let shell = blocks(&text, &["sh"]).join("").replace("\\\n", " ");
    let lines = shell.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).chain(typed).collect()
}

#[test]
fn every_page_with_commands_has_a_test() {
    let with_commands: BTreeSet<String> = documents().into_iter().filter(|page| !commands(page).is_empty()).collect();
    let tested: BTreeSet<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    assert_eq!(tested, with_commands, "left: the pages above; right: pages with `sh` or `console` blocks");
}

#[test]
fn every_exception_is_used() {
    let all: Vec<String> = documents().iter().flat_map(|page| commands(page)).collect();
    for (prefix, _) in NOT_RUN {
        assert!(all.iter().any(|line| line.starts_with(prefix)), "no page has a command {prefix:?}");
    }
    for (page, line, _) in GIVEN {
        assert!(commands(page).iter().any(|it| it.starts_with(line)), "{page} has no command {line:?}");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in documents() {
        let text = text_of(&page);
        let folder = root().join(&page).parent().expect("a folder").to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { root().join(&page) } else { folder.join(file) };
            assert!(target.exists(), "{page}: {link} does not exist");
            if !anchor.is_empty() {
                let anchors = anchors(&fs::read_to_string(&target).expect("a page"));
                assert!(anchors.contains(anchor), "{page}: {link} has no such heading; there are {anchors:?}");
            }
        }
    }
}

/// Returns the anchors that code hosts give to headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
            anchors.insert(kept.map(|it| if it == ' ' { '-' } else { it }).collect());
        }
    }
    anchors
}

#[test]
fn the_glossary_has_each_noun_once_in_alphabetical_order() {
    let text = text_of("docs/glossary.md");
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    let words: Vec<&str> = rows.filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
    let mut sorted = words.clone();
    sorted.sort_by_key(|word| word.to_lowercase());
    sorted.dedup();
    assert_eq!(words, sorted, "left: docs/glossary.md; right: each word once, in alphabetical order");
    for noun in [
        "agent",
        "conversation",
        "entry",
        "event",
        "harness",
        "holder",
        "home",
        "inbox",
        "log",
        "message",
        "question set",
        "repo",
        "session",
        "task",
        "turn",
        "workflow",
    ] {
        assert!(words.contains(&noun), "docs/glossary.md does not define {noun:?}");
    }
}

#[test]
fn the_config_page_lists_every_key() {
    let schema: Value = serde_json::from_str(&text_of("docs/generated/config.schema.json")).expect("JSON");
    let page = text_of("docs/config.md");
    for (block, value) in schema["properties"].as_object().expect("keys") {
        let name = value["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let Some(keys) = schema["$defs"][name]["properties"].as_object() else {
            assert!(block == "$schema" || page.contains(&format!("| `{block}`")), "docs/config.md lacks {block}");
            continue;
        };
        for key in keys.keys() {
            let mut rows = page.lines().filter(|line| line.starts_with(&format!("| `{block}.")));
            let (first, further) = (format!("| `{block}.{key}`"), format!(", `{key}`"));
            let is_listed = rows.any(|row| row.starts_with(&first) || row.contains(&further));
            assert!(is_listed, "docs/config.md lacks {block}.{key}");
        }
    }
}

#[test]
fn the_pages_name_the_minimum_rust_version() {
    for page in ["README.md", "CONTRIBUTING.md", "docs/faq.md"] {
        let version = concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"));
        assert!(text_of(page).contains(version), "{page} does not name {version}");
    }
}

#[test]
fn tests_that_the_reliability_page_names_exist() {
    let text = text_of("docs/reliability.md");
    let (_, section) = text.split_once("## How it is tested").expect("a section on tests");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let mut sources = String::new();
    for member in fs::read_dir(root().join("crates")).expect("a folder").flatten() {
        read_all(&member.path().join("tests"), &mut sources);
        read_all(&member.path().join("src"), &mut sources);
    }
    let is_name = |word: &&str| word.contains('_') && word.chars().all(|it| it.is_ascii_lowercase() || it == '_');
    let names: Vec<&str> = section.split('`').skip(1).step_by(2).filter(is_name).collect();
    assert!(!names.is_empty(), "the section names no test");
    for name in names {
        let is_there = ["fn ", "mod "].iter().any(|keyword| sources.contains(&format!("{keyword}{name}")));
        assert!(is_there, "docs/reliability.md names {name}, which does not exist");
    }
}

fn read_all(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => read_all(&path, text),
            false => text.push_str(&fs::read_to_string(&path).unwrap_or_default()),
        }
    }
}

#[test]
fn the_faq_answers_what_users_asked() {
    let faq = text_of("docs/faq.md").to_lowercase();
    for words in [
        "pass a model",
        "recorded of my keys",
        "session logs deleted",
        "scrollback",
        "literal `ctrl-\\`",
        "`run`, `run --acp`, `spawn` and `task`",
        "orphaned",
        "over ssh",
        "homes relate",
        "aurora, auq, a grimoire and a familiar",
        "merge conflict",
        "update",
        "uninstall",
        "rust version",
    ] {
        assert!(faq.contains(words), "docs/faq.md has no answer that a search for {words:?} finds");
    }
}

/// A page and the home in which its commands run.
struct Page {
    name: &'static str,
    home: TestHome,
    /// Number of commands run so far; it names their output files.
    count: Cell<u32>,
}

impl Page {
    fn run(name: &'static str) {
        let page = Self { name, home: TestHome::in_repository(json!({})), count: Cell::new(0) };
        page.install_agents();
        page.write_workflow();
        for command in commands(name) {
            if let Some((prefix, _)) = NOT_RUN.iter().find(|(prefix, _)| command.starts_with(prefix)) {
                assert_flags_exist(&command, prefix);
                continue;
            }
            let given = GIVEN.iter().filter(|(page, line, _)| *page == name && command.starts_with(line));
            given.for_each(|(_, _, before)| page.execute(before));
            page.execute(&command);
        }
    }

    fn install_agents(&self) {
        let acp = self.home.folder().join("acp");
        fs::create_dir_all(&acp).expect("room on disk");
        fs::remove_file(self.home.agents().join("claude")).expect("was installed");
        for name in ["claude", "codex", "gemini"] {
            symlink(program::fake_agent(), acp.join(name)).expect("room on disk");
            self.home.write_agent(name, &AGENT.replace("ACP_FOLDER", &acp.display().to_string()));
        }
        symlink(program::coven(), self.home.agents().join("coven")).expect("room on disk");
    }

    /// Installs the workflow that the page shows as the one that its commands name.
    fn write_workflow(&self) {
        for workflow in blocks(&text_of(self.name), &["yaml"]) {
            self.home.write_workflow("careful", &workflow);
        }
    }

    #[track_caller]
    fn execute(&self, command: &str) {
        let command = command.replace("cargo run --release -- ", "coven ");
        self.wait_for_what_it_needs(&command);
        let line = self.with_ids(&command);
        match leave_keys(&command) {
            Some(keys) => self.execute_on_terminal(&line, keys),
            None => self.execute_in_pipe(&line),
        }
    }

    /// Reviewing needs work that is done; ending a step needs one that runs.
    fn wait_for_what_it_needs(&self, command: &str) {
        let needs = |verbs: &[&str]| verbs.iter().any(|verb| command.starts_with(verb));
        if needs(&["coven task diff", "coven task approve", "coven task reject"]) {
            let is_done = || matches!(self.newest_task()["status"].as_str(), Some("pending_merge" | "closed"));
            wait_until(&format!("{}: the work is done before {command:?}", self.name), is_done);
        }
        if needs(&["coven task release", "coven task block", "coven workflow cancel"]) {
            let is_running = || !self.items(&["sessions", "--status", "running", "--json"]).is_empty();
            wait_until(&format!("{}: an agent works before {command:?}", self.name), is_running);
        }
    }

    fn items(&self, args: &[&str]) -> Vec<Value> {
        self.home.items(args)
    }

    fn newest_task(&self) -> Value {
        let tasks = self.items(&["task", "list", "--all", "--json"]);
        tasks.into_iter().max_by_key(|task| task["created_at"].to_string()).expect("a task")
    }

    fn with_ids(&self, command: &str) -> String {
        let id = |record: Option<Value>| record.expect("a record")["id"].as_str().expect("an id").to_owned();
        let mut line = command.to_owned();
        for (placeholder, newest) in [
            ("TASK", (|page: &Self| Some(page.newest_task())) as fn(&Self) -> Option<Value>),
            ("SESSION", |page| page.items(&["sessions", "--json"]).into_iter().next()),
            ("ITEM", |page| {
                eventually("something waits", || page.items(&["inbox", "--json"]).into_iter().next()).into()
            }),
            ("OPERATION", |page| page.items(&["operation", "list", "--json"]).into_iter().next()),
            ("SET", |page| {
                let pending = page.items(&["questions", "--json"]).into_iter().next();
                pending.or_else(|| page.items(&["questions", "history", "--json"]).into_iter().next())
            }),
        ] {
            let is_word = |word: &str| word.trim_matches(|it: char| !it.is_alphanumeric()) == placeholder;
            if line.split_whitespace().take_while(|word| !word.starts_with('#')).any(is_word) {
                line = line.replacen(placeholder, &id(newest(self)), 1);
            }
        }
        line
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-ec", line]).env_clear().envs(self.home.variables()).current_dir(self.home.project());
        command
    }

    /// Runs a command on a terminal and leaves it with these keys, if it stays.
    #[track_caller]
    fn execute_on_terminal(&self, line: &str, keys: &str) {
        let mut terminal = TestTerminal::run(self.shell(&format!("exec {line}")), 24, 80);
        wait_until(&format!("{}: {line:?} takes over the terminal or ends", self.name), || {
            terminal.has_ended() || terminal.is_raw()
        });
        match keys {
            // An app that is still opening may drop the key.
            QUIT => wait_until(&format!("{}: {line:?} ends", self.name), || {
                terminal.type_keys(keys);
                terminal.has_ended()
            }),
            LEAVE_CONVERSATION => {
                terminal.wait_for_text("ctrl-\\ list");
                terminal.type_keys(keys);
            }
            _ if terminal.has_ended() => {}
            _ => terminal.type_keys(keys),
        }
        let code = terminal.wait();
        assert_eq!(code, 0, "{}: {line:?} failed: {}", self.name, terminal.text());
    }

    /// Runs a command without a terminal. A question is answered with its first option.
    #[track_caller]
    fn execute_in_pipe(&self, line: &str) {
        self.count.set(self.count.get() + 1);
        let number = self.count.get();
        let file = |name: &str| self.home.folder().join(format!("{number}.{name}"));
        // Files instead of pipes: a background process that keeps one open must not delay the test.
        let made = |name: &str| File::create(file(name)).expect("room on disk");
        // The message of a chat.
        fs::write(file("in"), "hello\n").expect("room on disk");
        let stdin = if line.contains("spawn") { File::open(file("in")) } else { File::open("/dev/null") };
        let mut child = self
            .shell(line)
            .stdin(Stdio::from(stdin.expect("just written")))
            .stdout(made("out"))
            .stderr(made("err"))
            .spawn()
            .expect("a shell");
        let is_question = line.starts_with("coven ask") && !line.contains("--no-wait");
        if is_question {
            self.answer_first_option();
        }
        let status = eventually(&format!("{}: {line:?} ends", self.name), || child.try_wait().expect("our child"));
        let read = |name: &str| fs::read_to_string(file(name)).unwrap_or_default();
        let ran = CommandOutput { code: status.code().unwrap_or(-1), stdout: read("out"), stderr: read("err") };
        assert_eq!(ran.code, 0, "{}: {line:?} failed: {ran:#?}", self.name);
    }

    fn answer_first_option(&self) {
        let asked = eventually("a question is asked", || self.items(&["questions", "--json"]).into_iter().next());
        let id = asked["id"].as_str().expect("an id");
        let label = asked["questions"][0]["options"][0]["label"].as_str().expect("a label");
        self.home.coven(&["answer", id, "--option", label]).expect_success();
    }
}

/// Returns the keys that leave a command which stays on a terminal.
fn leave_keys(command: &str) -> Option<&'static str> {
    let words: Vec<&str> = command.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    if words.first() != Some(&"coven") || words.iter().any(|word| matches!(*word, "|" | ">")) {
        return None;
    }
    let has = |flag: &str| words.contains(&flag);
    match words.get(1).copied() {
        Some("run") if has("--background") || has("--detach") || has("--json") => None,
        Some("run") if has("--acp") => Some(LEAVE_CONVERSATION),
        Some("run" | "attach") => Some(DETACH),
        Some("chat") => Some(LEAVE_CONVERSATION),
        None => Some(QUIT),
        Some("sessions" | "board" | "inbox" | "answer") if words.len() == 2 => Some(QUIT),
        _ => None,
    }
}

/// Compares the flags of a `coven` command that is not run with the help of its verb.
fn assert_flags_exist(command: &str, prefix: &str) {
    let words: Vec<&str> = command.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    let Some(start) = words.iter().position(|word| *word == "coven").filter(|start| *start < 4) else { return };
    let verbs: Vec<&str> = words[start + 1..].iter().copied().take_while(|word| !word.starts_with('-')).collect();
    let output = Command::new(program::coven()).args(&verbs).arg("--help").env_clear().output().expect("coven runs");
    let help = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{command:?} ({prefix:?}): no help for {verbs:?}");
    for flag in words.iter().filter(|word| word.starts_with("--") && word.len() > 2) {
        let name = flag.split('=').next().unwrap_or(flag);
        assert!(help.contains(name), "{command:?}: {verbs:?} has no flag {name}");
    }
}
