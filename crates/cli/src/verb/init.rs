//! `coven init`: creates a home for a project.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use coven_host::home::Home;
use coven_host::{config, trust};

use crate::command_line::Place;
use crate::failure::Failure;
use crate::output;

const SCHEMA: &str = "config.schema.json";

/// Creates a home for the project in this folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven init                     creates .coven here, for commands in this folder and below
  coven init --home ~/.coven     creates the home for all other folders")]
pub struct Args {}

pub fn run(_args: Args, place: &Place) -> Result<ExitCode, Failure> {
    // Not the nearest home in a parent folder: init creates one here.
    let path = place.flag.clone().unwrap_or_else(|| PathBuf::from(".coven"));
    let is_new = !path.exists();
    // An existing home may have come with the repository: init does not agree to its settings.
    let home = Home::found_at(&path)?;
    // Before creating anything: a home whose socket cannot be bound is useless.
    home.socket()?;
    home.create()?;
    write_new(home.config_file(), &format!("{{\n  \"$schema\": \"./{SCHEMA}\"\n}}\n"))?;
    let schema = home.path().join(SCHEMA);
    trust::write_whole(&schema, config::schema().as_bytes())
        .map_err(|source| Failure::File { path: schema, source })?;
    config::read(&home)?;
    let word = if is_new { "created" } else { "already exists" };
    output::line(format_args!("{word}: {}", home.path().display()))?;
    if is_new {
        output::line(format_args!("try it with `coven run demo`"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file unless it exists: the user may have changed it.
fn write_new(path: PathBuf, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    match fs::File::create_new(&path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(|source| Failure::File { path, source }),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Failure::File { path, source }),
    }
}
