//! `coven init`: makes a home for a project.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use coven_host::home::Home;
use coven_host::{config, trust};

use crate::command_line::Place;
use crate::failure::Failure;
use crate::output;

const SCHEMA: &str = "config.schema.json";

/// Makes a home for the project in this folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven init                     makes .coven here; commands below this folder use it
  coven init --home ~/.coven     makes the home of all other folders")]
pub struct Args {}

pub fn run(_args: Args, place: &Place) -> Result<ExitCode, Failure> {
    // Not the nearest one above: a home is made where one stands.
    let path = place.flag.clone().unwrap_or_else(|| PathBuf::from(".coven"));
    let is_new = !path.exists();
    // What is there already may have come with the repository: making a home does not agree to it.
    let home = Home::found_at(&path)?;
    // Before anything is made: a home whose socket cannot be bound is of no use.
    home.socket()?;
    home.create()?;
    write_new(home.config_file(), &format!("{{\n  \"$schema\": \"./{SCHEMA}\"\n}}\n"))?;
    let schema = home.path().join(SCHEMA);
    trust::write_whole(&schema, config::schema().as_bytes())
        .map_err(|source| Failure::File { path: schema, source })?;
    config::read(&home)?;
    let word = if is_new { "made" } else { "it was there already" };
    output::line(format_args!("{word}: {}", home.path().display()))?;
    if is_new {
        output::line(format_args!("try it with `coven run demo`"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file that is not there yet; one that is there was changed by its owner.
fn write_new(path: PathBuf, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    match fs::File::create_new(&path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(|source| Failure::File { path, source }),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Failure::File { path, source }),
    }
}
