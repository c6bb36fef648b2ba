//! `coven export`: a session's recording in other forms.

use std::path::PathBuf;
use std::process::ExitCode;

use super::SessionArg;
use crate::command_line::Place;
use crate::export::{self, Format, Target};
use crate::failure::Failure;
use crate::link::{Link, block_on};

/// Writes a session's recording as text, asciicast, HTML or JSON lines
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven export 1a2b --format text | less
  coven export 1a2b --format asciicast --output demo.cast && asciinema play demo.cast
  coven export 1a2b --format jsonl | jq 'select(.kind == \"input\")'")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    #[arg(long, value_enum)]
    format: Format,
    /// The file to write; it appears whole or not at all [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there already
    #[arg(long, requires = "output")]
    force: bool,
    /// What was typed too (asciicast)
    #[arg(long)]
    with_input: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let mut target = Target::open(args.output.as_deref(), args.force)?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        export::export(&mut link, &args.session.id, args.format, args.with_input, &mut target).await
    })?;
    target.finish()?;
    Ok(ExitCode::SUCCESS)
}
