//! The command line: one subcommand per verb, each in a file of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use coven_host::home::Home;

use crate::failure::{self, Failure};
use crate::{VERSION, verb};

const EXAMPLES: &str = "\
First steps:
  coven run demo                     a scripted agent, to see how it works
  coven run claude \"fix the tests\"   an agent in this folder; Ctrl-\\ leaves it running
  coven sessions                     browse what runs and what ran

Exit codes: 0 done, 1 failed, 2 wrong usage or bad config, 3 not found, 4 refused by state,
5 daemon or store out of reach; an attached `run` passes the harness's exit code through.";

/// Runs coding agents in sessions that outlive the terminal, the daemon and its upgrades.
#[derive(Debug, Parser)]
#[command(name = "coven", version = VERSION, after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 100)]
pub struct CommandLine {
    /// The home to use [default: COVEN_HOME, else the nearest .coven above, else ~/.coven]
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(verb::run::Args),
    Attach(verb::attach::Args),
    Sessions(verb::sessions::Args),
    Show(verb::show::Args),
    Input(verb::input::Args),
    Screen(verb::screen::Args),
    Replay(verb::replay::Args),
    Export(verb::export::Args),
    Wait(verb::wait::Args),
    Start(verb::start::Args),
    Finish(verb::finish::Args),
    Kill(verb::kill::Args),
    Archive(verb::archive::Args),
    Summon(verb::summon::Args),
    Sacrifice(verb::sacrifice::Args),
    Harness(verb::harness::Args),
    Events(verb::events::Args),
    State(verb::state::Args),
    Daemon(verb::daemon::Args),
    Init(verb::init::Args),
    Doctor(verb::doctor::Args),
    Config(verb::config::Args),
    Db(verb::db::Args),
    Completions(verb::completions::Args),
    Man(verb::man::Args),
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
}

pub fn run() -> ExitCode {
    let line = CommandLine::parse();
    let place = Place { flag: line.home };
    dispatch(line.verb, &place).unwrap_or_else(failure::end)
}

fn dispatch(verb: Verb, place: &Place) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Run(args) => verb::run::run(args, place),
        Verb::Attach(args) => verb::attach::run(args, place),
        Verb::Sessions(args) => verb::sessions::run(args, place),
        Verb::Show(args) => verb::show::run(args, place),
        Verb::Input(args) => verb::input::run(args, place),
        Verb::Screen(args) => verb::screen::run(args, place),
        Verb::Replay(args) => verb::replay::run(args, place),
        Verb::Export(args) => verb::export::run(args, place),
        Verb::Wait(args) => verb::wait::run(args, place),
        Verb::Start(args) => verb::start::run(args, place),
        Verb::Finish(args) => verb::finish::run(args, place),
        Verb::Kill(args) => verb::kill::run(args, place),
        Verb::Archive(args) => verb::archive::run(args, place),
        Verb::Summon(args) => verb::summon::run(args, place),
        Verb::Sacrifice(args) => verb::sacrifice::run(args, place),
        Verb::Harness(args) => verb::harness::run(args, place),
        Verb::Events(args) => verb::events::run(args, place),
        Verb::State(args) => verb::state::run(args, place),
        Verb::Daemon(args) => verb::daemon::run(args, place),
        Verb::Init(args) => verb::init::run(args, place),
        Verb::Doctor(args) => verb::doctor::run(args, place),
        Verb::Config(args) => verb::config::run(args, place),
        Verb::Db(args) => verb::db::run(args, place),
        Verb::Completions(args) => verb::completions::run(args),
        Verb::Man(args) => verb::man::run(args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples() {
        for verb in CommandLine::command().get_subcommands() {
            assert!(verb.get_after_help().is_some(), "{} has none", verb.get_name());
        }
    }
}
