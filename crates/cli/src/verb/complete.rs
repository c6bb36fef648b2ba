//! `coven complete`, called by the completion scripts: lists completions for a command line.
//!
//! Never starts a daemon, prints no errors and returns quickly: the user is waiting at the Tab key.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, Command};
use coven_api::inbox::InboxQuery;
use coven_api::operation::ListOperationsQuery;
use coven_api::request::Request;
use coven_api::routes::{Endpoint, ListInbox, ListOperations, ListSessions, ListTasks, ListWorkflows};
use coven_api::session::ListSessionsQuery;
use coven_api::task::ListTasksQuery;
use coven_api::workflow::ListWorkflowsQuery;
use coven_harness as harness;
use coven_host::home::Home;
use serde_json::Value;

use crate::command_line::{self, Place};
use crate::daemon_client::try_quick_get;
use crate::{format, output};

/// A slower daemon is treated as not running.
const DAEMON_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of candidates, newest first.
const MAX_CANDIDATES: usize = 200;

/// A possible word and its description.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    word: String,
    about: String,
}

/// The possible completions of a command line.
#[derive(Debug, PartialEq, Eq)]
enum Completions {
    /// These words.
    Words(Vec<Candidate>),
    /// Records of the home.
    Known(Known),
    /// A file, or a value that coven cannot list.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Sessions that allow this action; `None` for all sessions.
    Sessions(Option<&'static str>),
    Tasks,
    Workflows,
    Operations,
    Inbox,
    Harnesses,
}

/// Runs `coven complete bash|zsh|fish WORDS…` with the words after `coven` up to the cursor. The last word is incomplete.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut words: Vec<String> = args.filter_map(|word| word.into_string().ok()).collect();
    if words.is_empty() {
        return ExitCode::SUCCESS;
    }
    let shell = words.remove(0);
    let words = expand_alias(join_values(words));
    let current = words.last().cloned().unwrap_or_default();
    let mut command = command_line::command();
    command.build();
    let found = match completions(&command, &words) {
        Completions::Words(candidates) => starting_with(candidates, &current),
        Completions::Known(kind) => known(kind, &Place { flag: home_flag(&words) }, &current),
        Completions::Other => Vec::new(),
    };
    let lines: String = found.iter().map(|candidate| line(candidate, &shell)).collect();
    // The shell may be gone.
    let _ = output::bytes(lines.as_bytes());
    ExitCode::SUCCESS
}

/// Joins `--flag`, `=` and `VALUE`, which bash passes as three words. An incomplete value stays a separate word.
fn join_values(words: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::with_capacity(words.len());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        match joined.last_mut() {
            Some(flag) if word == "=" && flag.starts_with("--") && !flag.contains('=') => match words.next() {
                Some(value) if words.peek().is_some() => flag.push_str(&format!("={value}")),
                value => joined.push(value.unwrap_or_default()),
            },
            _ => joined.push(word),
        }
    }
    joined
}

/// Expands an alias among the complete words.
fn expand_alias(mut words: Vec<String>) -> Vec<String> {
    let Some(current) = words.pop() else { return words };
    let line = ["coven".to_owned()].into_iter().chain(words).map(OsString::from).collect();
    let line = command_line::expanded(line).into_iter().skip(1).filter_map(|word| word.into_string().ok());
    line.chain([current]).collect()
}

/// Follows the complete words through the commands and returns the completions of the last word.
fn completions(command: &Command, words: &[String]) -> Completions {
    let Some((current, finished)) = words.split_last() else { return Completions::Other };
    let (mut verb, mut path) = (command, Vec::new());
    let (mut value_of, mut positionals): (Option<&Arg>, usize) = (None, 0);
    for word in finished {
        if value_of.take().is_some() {
            continue;
        }
        if word == "--" {
            return Completions::Other;
        }
        if word.starts_with('-') {
            value_of = flag(verb, word).filter(|flag| flag.get_action().takes_values() && !word.contains('='));
        } else if let Some(sub) = verb.find_subcommand(word).filter(|_| positionals == 0) {
            verb = sub;
            path.push(sub.get_name());
        } else {
            positionals += 1;
        }
    }
    if let Some(flag) = value_of {
        return values(flag, &path);
    }
    if current.starts_with('-') {
        let flags = verb.get_arguments().filter(|flag| !flag.is_hide_set());
        let flags = flags.filter_map(|flag| Some((format!("--{}", flag.get_long()?), flag.get_help())));
        return Completions::Words(flags.map(|(word, help)| candidate(word, help)).collect());
    }
    if verb.has_subcommands() {
        let verbs = verb.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        return Completions::Words(verbs.map(|sub| candidate(sub.get_name().to_owned(), sub.get_about())).collect());
    }
    let mut places = verb.get_positionals().filter(|place| !place.is_last_set());
    let last = verb.get_positionals().filter(|place| !place.is_last_set()).last();
    let several = last.filter(|last| last.get_num_args().is_some_and(|count| count.max_values() > 1));
    match places.nth(positionals).or(several) {
        Some(place) => values(place, &path),
        None => Completions::Other,
    }
}

fn flag<'a>(verb: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    verb.get_arguments().find(|flag| match name.strip_prefix("--") {
        Some(long) => flag.get_long() == Some(long),
        None => name.strip_prefix('-').is_some_and(|short| flag.get_short().is_some_and(|it| short == it.to_string())),
    })
}

/// Returns the possible values of an argument of the verb at this path.
fn values(arg: &Arg, path: &[&str]) -> Completions {
    let listed = arg.get_possible_values();
    if !listed.is_empty() {
        let listed = listed.iter().filter(|value| !value.is_hide_set());
        return Completions::Words(listed.map(|it| candidate(it.get_name().to_owned(), it.get_help())).collect());
    }
    let is_id = matches!(arg.get_id().as_str(), "id" | "ids");
    match (path, arg.get_id().as_str()) {
        (_, "harness") => Completions::Known(Known::Harnesses),
        (["task", ..], "parent" | "depends_on") => Completions::Known(Known::Tasks),
        (["task", ..], _) if is_id => Completions::Known(Known::Tasks),
        (["workflow", ..], _) if is_id => Completions::Known(Known::Workflows),
        (["operation", ..], _) if is_id => Completions::Known(Known::Operations),
        (["inbox", ..], _) if is_id => Completions::Known(Known::Inbox),
        (["run"], "resume") => Completions::Known(Known::Sessions(None)),
        ([verb], _) if is_id => match *verb {
            "attach" => Completions::Known(Known::Sessions(Some("attach"))),
            "input" => Completions::Known(Known::Sessions(Some("input"))),
            "start" => Completions::Known(Known::Sessions(Some("start"))),
            "finish" => Completions::Known(Known::Sessions(Some("finish"))),
            "kill" => Completions::Known(Known::Sessions(Some("kill"))),
            "archive" => Completions::Known(Known::Sessions(Some("archive"))),
            "summon" => Completions::Known(Known::Sessions(Some("summon"))),
            "sacrifice" => Completions::Known(Known::Sessions(Some("sacrifice"))),
            "chat" | "prompt" | "show" | "why" | "screen" | "replay" | "export" | "wait" | "rename" => {
                Completions::Known(Known::Sessions(None))
            }
            _ => Completions::Other,
        },
        _ => Completions::Other,
    }
}

fn candidate(word: String, about: Option<impl ToString>) -> Candidate {
    Candidate { word, about: about.map(|about| about.to_string()).unwrap_or_default() }
}

fn starting_with(mut candidates: Vec<Candidate>, current: &str) -> Vec<Candidate> {
    candidates.retain(|candidate| candidate.word.starts_with(current));
    candidates
}

/// Returns the folder given by `--home DIR` or `--home=DIR` in the arguments.
fn home_flag(words: &[String]) -> Option<PathBuf> {
    let at = words.iter().position(|word| word == "--home" || word.starts_with("--home="))?;
    match words[at].strip_prefix("--home=") {
        Some(folder) => Some(folder.into()),
        None => words.get(at + 1).map(Into::into),
    }
}

/// Lists records of this kind: by id, or sessions by title if no id matches.
fn known(kind: Known, place: &Place, current: &str) -> Vec<Candidate> {
    let candidates = match kind {
        Known::Harnesses => {
            let config = place.config().map(|(_, config, _)| config).unwrap_or_default();
            let harnesses = harness::all(&config.harnesses);
            harnesses.into_iter().map(|it| Candidate { word: it.id, about: it.label }).collect()
        }
        other => place.home().ok().and_then(|home| fetch_known(&home, other)).unwrap_or_default(),
    };
    let by_id = starting_with(candidates.clone(), current);
    if !by_id.is_empty() || current.is_empty() || !matches!(kind, Known::Sessions(_)) {
        return by_id;
    }
    let titled = candidates.into_iter().map(|it| Candidate { word: it.about, about: it.word });
    starting_with(titled.collect(), current)
}

/// Fetches ids and titles from a running daemon.
fn fetch_known(home: &Home, kind: Known) -> Option<Vec<Candidate>> {
    let limit = Some(MAX_CANDIDATES);
    let (answer, list) = match kind {
        Known::Sessions(_) => {
            let query = ListSessionsQuery { limit, all: Some(true), ..ListSessionsQuery::default() };
            (fetch(home, &ListSessions::request().query(&query))?, "items")
        }
        Known::Tasks => {
            let query = ListTasksQuery { limit, ..ListTasksQuery::default() };
            (fetch(home, &ListTasks::request().query(&query))?, "items")
        }
        Known::Workflows => {
            let query = ListWorkflowsQuery { limit, ..ListWorkflowsQuery::default() };
            (fetch(home, &ListWorkflows::request().query(&query))?, "items")
        }
        Known::Operations => {
            let query = ListOperationsQuery { limit, ..ListOperationsQuery::default() };
            (fetch(home, &ListOperations::request().query(&query))?, "items")
        }
        Known::Inbox => {
            let query = InboxQuery { limit, ..InboxQuery::default() };
            (fetch(home, &ListInbox::request().query(&query))?, "items")
        }
        Known::Harnesses => return None,
    };
    let allows = |item: &Value| match kind {
        Known::Sessions(Some(action)) => {
            item["actions"].as_array().is_some_and(|all| all.iter().any(|it| it == action))
        }
        _ => true,
    };
    let about = |item: &Value| {
        item["title"].as_str().or(item["name"].as_str()).or(item["kind"].as_str()).unwrap_or_default().to_owned()
    };
    let items = answer[list].as_array()?.iter().filter(|item| allows(item));
    let found = items.filter_map(|item| {
        let word = format::short_id(item["id"].as_str()?).to_owned();
        Some(Candidate { word, about: format::sanitize_line(&about(item)) })
    });
    Some(found.collect())
}

fn fetch<E: Endpoint>(home: &Home, request: &Request<E>) -> Option<Value> {
    let answer = try_quick_get(home, request, DAEMON_TIMEOUT).ok()??;
    serde_json::from_slice(&answer.body).ok()
}

/// Formats a candidate for the shell's script.
fn line(Candidate { word, about }: &Candidate, shell: &str) -> String {
    let about = about.lines().next().unwrap_or_default();
    match shell {
        "zsh" => format!("{}:{about}\n", word.replace('\\', "\\\\").replace(':', "\\:")),
        "fish" => format!("{word}\t{about}\n"),
        _ => format!("{}\n", escaped(word)),
    }
}

/// Escapes a word: bash inserts it into the command line unchanged.
fn escaped(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '=' | '+' | ',');
    word.chars().flat_map(|c| (!is_plain(c)).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions_for(line: &str) -> Completions {
        let mut command = command_line::command();
        command.build();
        let words = expand_alias(line.split(' ').map(str::to_owned).collect());
        completions(&command, &words)
    }

    fn words(line: &str) -> Vec<String> {
        let current = line.rsplit(' ').next().unwrap_or_default();
        match completions_for(line) {
            Completions::Words(all) => starting_with(all, current).into_iter().map(|it| it.word).collect(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn verbs_and_flags_are_completed() {
        assert_eq!(words("sacr"), ["sacrifice"]);
        assert_eq!(words("task unb"), ["unblock"]);
        assert_eq!(words("rescue res"), ["restore"]);
        assert_eq!(words("migrate --dr"), ["--dry-run"]);
        assert_eq!(words("--home /h sacr"), ["sacrifice"]);
        assert_eq!(words("--home=/h sacr"), ["sacrifice"]);
        assert_eq!(words("run claude --backg"), ["--background"]);
        assert_eq!(words("completions b"), ["bash"]);
        assert_eq!(words("export 1a2b --format as"), ["asciicast"]);
    }

    #[test]
    fn the_home_is_found_with_and_without_an_equals_sign() {
        let home = |words: &[&str]| home_flag(&join_values(words.iter().map(|word| (*word).to_owned()).collect()));
        for words in [&["--home", "/h", "kill", ""][..], &["--home=/h", "kill", ""], &["kill", "--home=/h", "1"]] {
            assert_eq!(home(words), Some("/h".into()), "{words:?}");
        }
        assert_eq!(home(&["--home", "=", "/h", "kill", ""]), Some("/h".into()), "as bash splits it");
        assert_eq!(home(&["kill", ""]), None);
        let split = ["export", "1a2b", "--format", "=", "as"].map(str::to_owned).to_vec();
        assert_eq!(join_values(split), ["export", "1a2b", "--format", "as"]);
    }

    #[test]
    fn ids_are_completed_by_the_position_of_the_word() {
        for (line, kind) in [
            ("kill ", Known::Sessions(Some("kill"))),
            ("rm ", Known::Sessions(Some("sacrifice"))),
            ("kill 1a2b 3", Known::Sessions(Some("kill"))),
            ("show --json 1", Known::Sessions(None)),
            ("run c", Known::Harnesses),
            ("task add x --harness ", Known::Harnesses),
            ("task start ", Known::Tasks),
            ("task add x --parent ", Known::Tasks),
            ("workflow retry ", Known::Workflows),
            ("inbox answer ", Known::Inbox),
        ] {
            assert_eq!(completions_for(line), Completions::Known(kind), "{line}");
        }
        for line in ["run claude fix ", "run -- ", "run --cwd ", "rename 1a2b ti"] {
            assert_eq!(completions_for(line), Completions::Other, "{line}");
        }
    }

    #[test]
    fn a_word_is_escaped_for_its_shell() {
        let candidate = Candidate { word: "fix: it".to_owned(), about: "1a2b".to_owned() };
        assert_eq!(line(&candidate, "bash"), "fix\\:\\ it\n");
        assert_eq!(line(&candidate, "zsh"), "fix\\: it:1a2b\n");
        assert_eq!(line(&candidate, "fish"), "fix: it\t1a2b\n");
    }
}
