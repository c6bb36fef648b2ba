//! `coven config check`: prints every error in the config file with its line.

use std::process::ExitCode;

use coven_files::Links;
use coven_host::config::check::mistakes;
use coven_host::config::{self, ConfigError};
use coven_host::home::Home;

use crate::failure::{self, Failure, USAGE};
use crate::{app, output};

pub fn run(home: &Home) -> Result<ExitCode, Failure> {
    let file = home.config_file();
    let error = match config::read(home) {
        Ok(config) => {
            app::keymap(&config)?;
            config.warnings().iter().for_each(|warning| failure::print_error(warning));
            match file.exists() {
                true => output::line(format_args!("{} is valid", file.display()))?,
                false => output::line(format_args!("{} does not exist; the defaults apply", file.display()))?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        Err(error @ ConfigError::Unreadable { .. }) => return Err(error.into()),
        Err(error) => error,
    };
    let text = coven_files::read_text(&file, config::CONFIG_FILE, Links::Follow)
        .map_err(|error| Failure::File { path: file.clone(), source: error.into() })?;
    let found = mistakes(&text);
    if found.is_empty() {
        // The file changed meanwhile, or only the loader detects the error.
        return Err(error.into());
    }
    for mistake in &found {
        let text = mistake.text.replace('\n', " ");
        failure::print_error(&format!("the config {}, line {}: {text}", file.display(), mistake.line));
    }
    Ok(ExitCode::from(USAGE))
}
