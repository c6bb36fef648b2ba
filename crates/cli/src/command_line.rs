//! The command line: one subcommand per verb, each in its own file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args as _, Command, FromArgMatches, value_parser};
use coven_host::config::Config;
use coven_host::home::Home;
use coven_host::trust::{self, Withheld};
use coven_host::{HomeError, config};

use crate::failure::{self, Failure};
use crate::format::readable;
use crate::{VERSION, format, help, output, trust_prompt, verb};

const EXAMPLES: &str = "\
First steps:
  coven run demo                     a scripted agent, to see how it works
  coven run claude \"fix the tests\"   an agent in this folder; Ctrl-\\ detaches
  coven run opencode --acp           a conversation with an agent; reopen it with `coven chat`
  coven                              the app: all sessions, and who needs you

Exit codes: 0 success, 1 failure, 2 wrong usage or invalid config, 3 not found,
4 not allowed by state, 5 daemon or store unavailable. An attached `run` exits with the harness's exit code.

Short forms: ls (sessions --plain), ps (running sessions), logs (export), rm (sacrifice).";

/// Short forms of verbs with flags, and earlier names of verbs. The help lists only the short forms.
const ALIASES: &[(&str, &[&str])] = &[
    ("ls", &["sessions", "--plain"]),
    ("ps", &["sessions", "--plain", "--status", "running"]),
    ("logs", &["export"]),
    ("rm", &["sacrifice"]),
    ("migrate", &["db", "import"]),
    ("retention", &["db", "sweep"]),
    ("rescue", &["task", "rescue"]),
];

/// A verb: its name, the function that adds its arguments, and the function that runs it.
type Verb = (&'static str, fn(Command) -> Command, fn(&ArgMatches, &Place) -> Result<ExitCode, Failure>);

macro_rules! verbs {
    ($($name:ident),+ $(,)?) => {
        /// All verbs, in the order of the help.
        const VERBS: &[Verb] = &[$((
            stringify!($name),
            verb::$name::Args::augment_args,
            |matches, place| {
                let args = verb::$name::Args::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
                verb::$name::run(args, place)
            },
        )),+];
    };
}

verbs! {
    run, attach, chat, prompt, inbox, ask, answer, questions, mcp, spawn, sessions, show, why, input, screen, replay, export, wait, start, finish, kill, rename, archive,
    summon, sacrifice, task, board, workflow, operation, repo, harness, events, state, daemon, init, trust, doctor, config, db, completions,
}

/// The home chosen with --home.
#[derive(Debug)]
pub struct Place {
    pub flag: Option<PathBuf>,
}

impl Place {
    /// Returns the home after checking that it belongs to this user.
    pub fn home(&self) -> Result<Home, Failure> {
        let home = self.unchecked_home()?;
        home.verify()?;
        if let Some(notice) = trust::withheld_notice(&home) {
            failure::print_error(&format::sanitize_line(&notice));
        }
        Ok(home)
    }

    /// Returns the home without that check.
    pub fn unchecked_home(&self) -> Result<Home, Failure> {
        Ok(Home::resolve(self.flag.as_deref())?)
    }

    /// Returns the config for verbs that need no home: the defaults if there is none.
    pub fn config(&self) -> Result<(Option<Home>, Config, Withheld), Failure> {
        match self.unchecked_home() {
            Ok(home) => {
                let (config, withheld) = config::load(&home)?;
                Ok((Some(home), config, withheld))
            }
            Err(Failure::Home(HomeError::Nowhere)) => Ok((None, Config::default(), Withheld::default())),
            Err(failure) => Err(failure),
        }
    }
}

/// Returns the full command line with all verbs.
pub fn command() -> Command {
    with_verbs(VERBS)
}

fn with_verbs(verbs: &[Verb]) -> Command {
    let home = Arg::new("home")
        .long("home")
        .global(true)
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help("Home folder [default: COVEN_HOME, else the nearest .coven in a parent folder, else ~/.coven]");
    Command::new("coven")
        .version(VERSION)
        .about("Runs coding agents in sessions that survive the terminal, the daemon and its upgrades")
        .after_help(EXAMPLES)
        .arg_required_else_help(true)
        .subcommand_required(true)
        .max_term_width(100)
        .arg(home)
        .subcommands(verbs.iter().map(|(name, add_arguments, _)| add_arguments(Command::new(*name))))
}

/// Suggests a verb for a name that other programs use.
fn other_name(word: &str) -> Option<&'static str> {
    Some(match word {
        "list" => "sessions",
        "remove" | "delete" => "sacrifice",
        "log" => "replay",
        "status" => "daemon status",
        "new" | "launch" => "run",
        "resume" | "continue" => "attach",
        "stop" => "kill",
        "tasks" => "task list",
        _ => return None,
    })
}

pub fn run() -> ExitCode {
    // Building all verbs takes longer than most verbs run, so only the named verb is built.
    let mut line = expanded(std::env::args_os().collect());
    // Without a verb, the app opens on a terminal; elsewhere the sessions are printed.
    if line.len() == verb_index(&line) && line.iter().all(|word| word != "help") {
        line.push("sessions".into());
    }
    if let Some(text) = help::asked_for(&line, command) {
        return output::text(&text).map_or_else(failure::end, |()| ExitCode::SUCCESS);
    }
    let word = line.get(verb_index(&line));
    let named = VERBS.iter().position(|(name, ..)| word.is_some_and(|word| word == *name));
    let verbs = named.map_or(VERBS, |at| &VERBS[at..=at]);
    let mut command = with_verbs(verbs);
    if let Some(word) = word.and_then(|word| word.to_str()).filter(|word| command.find_subcommand(word).is_none())
        && let Some(wanted) = other_name(word)
    {
        return failure::end(Failure::usage(format!("unknown command {word}"), format!("Use `coven {wanted}`")));
    }
    let matches = command.try_get_matches_from_mut(&line).unwrap_or_else(|error| {
        let words: Vec<String> = line.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        exit_with_usage_error(&with_agent_hint(error, &command, &words))
    });
    let (name, arguments) = matches.subcommand().expect("a verb is required");
    let place = Place { flag: arguments.get_one("home").cloned() };
    let (_, _, run) = verbs.iter().find(|(verb, ..)| *verb == name).expect("only verbs are subcommands");
    let outcome = match run(arguments, &place) {
        Err(failure) => match trust_prompt::ask_after(&failure, &place) {
            Ok(true) => verb::daemon::restart(&place).and_then(|()| run(arguments, &place)),
            Ok(false) => Err(failure),
            Err(other) => Err(other),
        },
        done => done,
    };
    outcome.unwrap_or_else(failure::end)
}

/// Prints clap's message and exits. A message with control characters from the arguments is sanitized and loses its colours.
fn exit_with_usage_error(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if readable(&text) == text {
        error.exit();
    }
    output::note(format_args!("{}", text.trim_end()));
    std::process::exit(error.exit_code());
}

/// Expands an alias. The first word of a line is the program.
pub fn expanded(mut line: Vec<OsString>) -> Vec<OsString> {
    let at = verb_index(&line);
    let Some((_, words)) = ALIASES.iter().find(|(alias, _)| line.get(at).is_some_and(|word| word == *alias)) else {
        return line;
    };
    // --plain conflicts with --json, and `help` takes no flags.
    let is_table = !line.iter().any(|word| word == "--json" || word == "--manage");
    let is_help = line[..at].iter().any(|word| word == "help");
    let words = words.iter().take_while(|word| !is_help || !word.starts_with('-'));
    let words = words.filter(|word| is_table || **word != "--plain").map(OsString::from);
    line.splice(at..=at, words);
    line
}

/// Returns the index of the verb: after the program, `--home DIR` and `help`.
fn verb_index(line: &[OsString]) -> usize {
    let mut at = 1;
    while let Some(word) = line.get(at).and_then(|word| word.to_str()) {
        at += match word {
            "--home" => 2,
            "help" => 1,
            _ if word.starts_with("--home=") => 1,
            _ => break,
        };
    }
    at
}

/// Id of the arguments after `--` that a verb passes to an agent.
const AGENT_ARGS: &str = "agent_args";

/// Adds a hint on how to pass an unknown flag to the agent, for verbs that start one.
fn with_agent_hint(mut error: clap::Error, command: &Command, words: &[String]) -> clap::Error {
    let mut verb = command;
    for word in words {
        verb = verb.find_subcommand(word).unwrap_or(verb);
    }
    let takes_args = verb.get_arguments().any(|argument| argument.get_id() == AGENT_ARGS);
    if error.kind() == ErrorKind::UnknownArgument
        && takes_args
        && let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg).cloned()
    {
        let flag = flag.split('=').next().unwrap_or_default();
        let hint = format!("to pass '{flag}' to the agent, put it after '--' at the end of the line: -- {flag} …");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(hint)]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_expanded() {
        let written = |line: &[&str]| {
            let line = ["coven"].iter().chain(line).map(OsString::from).collect();
            let words = expanded(line).into_iter().skip(1).map(|word| word.into_string().expect("text"));
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(written(&["ls", "--all"]), "sessions --plain --all");
        assert_eq!(written(&["ls", "--json"]), "sessions --json");
        assert_eq!(written(&["ps"]), "sessions --plain --status running");
        assert_eq!(written(&["rm", "1a2b", "--yes"]), "sacrifice 1a2b --yes");
        assert_eq!(written(&["logs", "1a2b"]), "export 1a2b");
        assert_eq!(written(&["run", "ls"]), "run ls");
        assert_eq!(written(&["migrate", "--dry-run"]), "db import --dry-run");
        assert_eq!(written(&["retention", "--json"]), "db sweep --json");
        assert_eq!(written(&["rescue", "restore", "1a2b"]), "task rescue restore 1a2b");
        assert_eq!(written(&["--home", "ls", "migrate"]), "--home ls db import");
        assert_eq!(written(&["--home=/h", "ls"]), "--home=/h sessions --plain");
        assert_eq!(written(&["help", "ps"]), "help sessions");
        assert_eq!(written(&["help", "rescue", "list"]), "help task rescue list");
        for (alias, words) in ALIASES {
            assert!(command().find_subcommand(alias).is_none(), "{alias} is also a verb");
            let mut command = command();
            let verb = words.iter().take_while(|word| !word.starts_with('-'));
            let found = verb.fold(&mut command, |command, word| {
                command.find_subcommand_mut(word).unwrap_or_else(|| panic!("{alias} is not an alias of a verb"))
            });
            assert!(!found.is_hide_set(), "{alias}");
        }
    }

    #[test]
    fn an_unknown_flag_gets_a_hint_to_put_it_after_dashes() {
        let error = |words: &[&str]| {
            let mut command = command();
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let line = ["coven".to_owned()].into_iter().chain(words.iter().cloned());
            let unknown = command.try_get_matches_from_mut(line).expect_err("an unknown flag");
            with_agent_hint(unknown, &command, &words).to_string()
        };
        for line in [
            &["run", "claude", "--model", "opus"][..],
            &["run", "claude", "--model=opus", "fix it"],
            &["spawn", "-i", "--model", "opus"],
            &["task", "add", "x", "--model", "opus"],
            &["task", "start", "1a2b", "--model", "opus"],
        ] {
            let text = error(line);
            assert!(text.contains("to pass '--model' to the agent") && text.contains("-- --model …"), "{text}");
            assert!(!text.contains("as a value"), "{text}");
        }
        assert!(!error(&["kill", "1a2b", "--model"]).contains("agent"), "kill starts no agent");
    }

    #[test]
    fn the_command_line_passes_claps_checks() {
        command().debug_assert();
    }

    #[test]
    fn home_is_a_global_flag() {
        for line in [&["coven", "--home", "/h", "state"][..], &["coven", "state", "--home", "/h"]] {
            let matches = command().try_get_matches_from(line).expect("a good line");
            let (_, arguments) = matches.subcommand().expect("a verb");
            assert_eq!(arguments.get_one::<PathBuf>("home"), Some(&PathBuf::from("/h")));
        }
    }

    #[test]
    fn a_command_of_other_programs_suggests_a_verb() {
        for word in ["list", "remove", "log", "status", "new", "resume"] {
            let wanted = other_name(word).expect("a suggestion");
            let verb = wanted.split(' ').next().expect("a word");
            assert!(VERBS.iter().any(|(name, ..)| *name == verb), "{wanted}");
        }
    }

    /// Collects all visible commands with their full names.
    fn visible(command: &Command, words: &str, found: &mut Vec<(String, Command)>) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
            let words = format!("{words} {}", inner.get_name());
            visible(inner, &words, found);
            found.push((words, inner.clone()));
        }
    }

    fn all() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        visible(&command(), "coven", &mut found);
        found
    }

    #[test]
    fn every_subcommand_has_an_example_that_fits_the_help() {
        const WIDEST: usize = 100;
        let mut found = Vec::new();
        for (words, command) in all() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if !help.contains(&words) {
                found.push(format!("{words}: no example"));
            }
            let lines = help.lines().filter(|line| line.starts_with("  ") && line.chars().count() > WIDEST);
            found.extend(lines.map(|line| format!("{words}: too wide: {line}")));
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn every_argument_has_a_description() {
        let mut found = Vec::new();
        for (words, command) in all() {
            let is_bare = |it: &&Arg| !it.is_hide_set() && it.get_help().is_none_or(|help| help.to_string().is_empty());
            found.extend(command.get_arguments().filter(is_bare).map(|it| format!("{words}: {}", it.get_id())));
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn examples_name_only_harnesses_that_exist() {
        let harnesses = coven_harness::all(&std::collections::BTreeMap::new());
        let help = all()
            .iter()
            .filter_map(|(_, command)| command.get_after_help().map(ToString::to_string))
            .collect::<String>();
        for line in [EXAMPLES, &help].concat().lines() {
            let Some(rest) = line.trim_start().strip_prefix("coven run ") else { continue };
            let word = rest.split_whitespace().next().unwrap_or_default();
            assert!(word.starts_with('-') || harnesses.iter().any(|harness| harness.id == word), "{line}");
        }
    }
}
