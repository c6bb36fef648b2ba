//! `coven export`: a session's recording in other forms.

use std::path::PathBuf;
use std::process::ExitCode;

use super::SessionArg;
use crate::command_line::Place;
use crate::export::{self, Format, Target};
use crate::failure::Failure;
use crate::link::{Link, block_on};

/// Writes a session's recording, or the conversation of an ACP session, as text, asciicast, HTML or JSON lines
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven export 1a2b | less
  coven export 1a2b --output demo.cast && asciinema play demo.cast
  coven export 1a2b --format jsonl | jq 'select(.kind == \"input\")'
  coven export 5c6d --format jsonl | jq 'select(.role == \"agent\")'     of a conversation, its messages")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// [default: what the name of the output file ends with, else text]
    #[arg(long, value_enum)]
    format: Option<Format>,
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
    let format = args.format.unwrap_or_else(|| Format::of(args.output.as_deref()));
    let mut target = Target::open(args.output.as_deref(), args.force)?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        export::export(&mut link, &args.session.id, format, args.with_input, &mut target).await
    })?;
    target.finish()?;
    Ok(ExitCode::SUCCESS)
}
