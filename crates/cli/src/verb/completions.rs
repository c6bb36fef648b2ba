//! `coven completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::{Shell, generate};

use crate::command_line::{self, Place};
use crate::failure::Failure;
use crate::output;

/// Prints a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven completions bash > ~/.local/share/bash-completion/completions/coven
  coven completions zsh > ~/.zfunc/_coven
  coven completions fish > ~/.config/fish/completions/coven.fish")]
pub struct Args {
    /// Shell to write the script for
    #[arg(value_enum)]
    shell: Name,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Name {
    Bash,
    Zsh,
    Fish,
}

pub fn run(args: Args, _place: &Place) -> Result<ExitCode, Failure> {
    let shell = match args.shell {
        Name::Bash => Shell::Bash,
        Name::Zsh => Shell::Zsh,
        Name::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command_line::command(), "coven", &mut script);
    output::bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
