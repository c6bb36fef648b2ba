//! `coven config`: the config file's schema, check and values.

use std::process::ExitCode;

use clap::Subcommand;
use coven_host::config;

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
    Schema,
    /// Reads config.json and says what is wrong with it
    Check,
    /// Prints every setting as it is in force, defaults included
    Show,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Schema => output::bytes(config::schema().as_bytes())?,
        Verb::Check => {
            let home = place.home()?;
            config::load(&home)?;
            let file = home.config_file();
            match file.exists() {
                true => output::line(format_args!("{} is fine", file.display()))?,
                false => output::line(format_args!("there is no {}; the defaults are in force", file.display()))?,
            }
        }
        Verb::Show => {
            let config = config::load(&place.home()?)?;
            let text = serde_json::to_string_pretty(&config).expect("a config is plain data");
            output::json(text.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
