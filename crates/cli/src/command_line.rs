//! The command line: one subcommand per verb, each in a file of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Args as _, Command, FromArgMatches, value_parser};
use coven_domain::config::Config;
use coven_host::home::Home;
use coven_host::{HomeError, config};

use crate::failure::{self, Failure};
use crate::wording::readable;
use crate::{VERSION, output, verb};

const EXAMPLES: &str = "\
First steps:
  coven run demo                     a scripted agent, to see how it works
  coven run claude \"fix the tests\"   an agent in this folder; Ctrl-\\ leaves it running
  coven run goose --acp              a conversation with an agent; `coven chat` comes back to it
  coven sessions                     browse what runs and what ran
  coven answer                       answer what agents ask

Exit codes: 0 done, 1 failed, 2 wrong usage or bad config, 3 not found, 4 refused by state,
5 daemon or store out of reach; an attached `run` passes the harness's exit code through.";

/// A verb: its name, what adds its arguments to a command, what runs it.
type Verb = (&'static str, fn(Command) -> Command, fn(&ArgMatches, &Place) -> Result<ExitCode, Failure>);

macro_rules! verbs {
    ($($name:ident),+ $(,)?) => {
        /// In the order of the help.
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
    run, attach, chat, prompt, inbox, ask, answer, questions, mcp, spawn, sessions, show, input, screen, replay, export, wait, start, finish, kill, archive,
    summon, sacrifice, task, board, workflow, rescue, repo, harness, events, state, daemon, init, doctor, config, db, migrate, retention, completions, man,
}

/// Which home a command was asked to use.
#[derive(Debug)]
pub struct Place {
    pub flag: Option<PathBuf>,
}

impl Place {
    pub fn home(&self) -> Result<Home, Failure> {
        Ok(Home::resolve(self.flag.as_deref())?)
    }

    /// The config for verbs that need no home: without one, the defaults.
    pub fn config(&self) -> Result<(Option<Home>, Config), Failure> {
        match self.home() {
            Ok(home) => {
                let config = config::load(&home)?;
                Ok((Some(home), config))
            }
            Err(Failure::Home(HomeError::Nowhere)) => Ok((None, Config::default())),
            Err(failure) => Err(failure),
        }
    }
}

/// The whole command line.
pub fn command() -> Command {
    with_verbs(VERBS)
}

fn with_verbs(verbs: &[Verb]) -> Command {
    let home = Arg::new("home")
        .long("home")
        .global(true)
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help("The home to use [default: COVEN_HOME, else the nearest .coven above, else ~/.coven]");
    Command::new("coven")
        .version(VERSION)
        .about("Runs coding agents in sessions that outlive the terminal, the daemon and its upgrades")
        .after_help(EXAMPLES)
        .arg_required_else_help(true)
        .subcommand_required(true)
        .max_term_width(100)
        .arg(home)
        .subcommands(verbs.iter().map(|(name, add_arguments, _)| add_arguments(Command::new(*name))))
}

pub fn run() -> ExitCode {
    // Building all verbs takes longer than most of them need: where the first word is one, it is the only one built.
    let word = std::env::args_os().nth(1);
    let named = VERBS.iter().position(|(name, ..)| word.as_deref().is_some_and(|word| word == *name));
    let verbs = named.map_or(VERBS, |at| &VERBS[at..=at]);
    let matches = with_verbs(verbs).try_get_matches().unwrap_or_else(|error| refuse(&error));
    let (name, arguments) = matches.subcommand().expect("a verb is required");
    let place = Place { flag: arguments.get_one("home").cloned() };
    let (_, _, run) = verbs.iter().find(|(verb, ..)| *verb == name).expect("only verbs are subcommands");
    run(arguments, &place).unwrap_or_else(failure::end)
}

/// Prints clap's message and ends. A message that quotes foreign text is printed without colours and made harmless.
fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if readable(&text) == text {
        error.exit();
    }
    output::note(format_args!("{}", text.trim_end()));
    std::process::exit(error.exit_code());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_home_may_be_named_anywhere() {
        for line in [&["coven", "--home", "/h", "state"][..], &["coven", "state", "--home", "/h"]] {
            let matches = command().try_get_matches_from(line).expect("a good line");
            let (_, arguments) = matches.subcommand().expect("a verb");
            assert_eq!(arguments.get_one::<PathBuf>("home"), Some(&PathBuf::from("/h")));
        }
    }

    #[test]
    fn every_verb_has_examples() {
        for verb in command().get_subcommands() {
            assert!(verb.get_after_help().is_some(), "{} has none", verb.get_name());
        }
    }
}
