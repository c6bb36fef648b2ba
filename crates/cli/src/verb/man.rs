//! `coven man`: the manual pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use crate::command_line::{self, Place};
use crate::failure::Failure;
use crate::output;

/// Prints the manual page, or writes all of them into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven man | man -l -
  coven man --dir ~/.local/share/man/man1")]
pub struct Args {
    /// Write one page per command into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: Args, _place: &Place) -> Result<ExitCode, Failure> {
    let mut command = command_line::command();
    command.build();
    match args.dir {
        None => output::bytes(&page(&command)?)?,
        Some(dir) => {
            fs::create_dir_all(&dir).map_err(|source| Failure::File { path: dir.clone(), source })?;
            let count = write_pages(&command, "coven", &dir)?;
            output::line(format_args!("wrote {count} pages to {}", dir.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page).map_err(Failure::Output)?;
    Ok(page)
}

/// Writes the page of a command and those of its subcommands; their number.
fn write_pages(command: &Command, name: &str, dir: &Path) -> Result<usize, Failure> {
    let path = dir.join(format!("{name}.1"));
    fs::write(&path, page(command)?).map_err(|source| Failure::File { path, source })?;
    let mut count = 1;
    for subcommand in command.get_subcommands().filter(|it| it.get_name() != "help" && !it.is_hide_set()) {
        count += write_pages(subcommand, &format!("{name}-{}", subcommand.get_name()), dir)?;
    }
    Ok(count)
}
