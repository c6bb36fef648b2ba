//! `coven config`: shows and checks the config of a home, and prints its schema.

use std::process::ExitCode;

use clap::Subcommand;
use coven_host::config;

use super::config_check;
use crate::command_line::Place;
use crate::failure::Failure;
use crate::output;

/// Shows and checks the config of a home
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven config check
  coven config show | jq .sessions
  coven config schema > .coven/config.schema.json")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Prints the JSON Schema of config.json
    #[command(after_help = "Examples:
  coven config schema > .coven/config.schema.json")]
    Schema,
    /// Checks config.json and prints every error with its line
    #[command(after_help = "Examples:
  coven config check")]
    Check,
    /// Prints all effective settings, including defaults
    #[command(after_help = "Examples:
  coven config show | jq .sessions")]
    Show,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Schema => output::bytes(config::schema().as_bytes())?,
        Verb::Check => return config_check::run(&place.home()?),
        Verb::Show => {
            let (config, _) = config::load(&place.home()?)?;
            let text = serde_json::to_string_pretty(&config).expect("a config is plain data");
            output::json(text.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
