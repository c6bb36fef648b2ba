//! `coven screen`: prints the screen of a session.

use std::process::ExitCode;

use clap::ValueEnum;
use coven_api::routes::{Endpoint, ReadScreen};
use coven_api::screen::ScreenQuery;

use super::SessionArg;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::output;

/// Prints the current screen of a session, or its screen at a log offset
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven screen 1a2b
  coven screen 1a2b --format html > screen.html
  coven screen 1a2b --format json | jq -r .text")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Log offset of the screen [default: the end]
    #[arg(long, value_name = "OFFSET")]
    at: Option<u64>,
    /// Print JSON, like --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    /// Bytes that paint the screen on a terminal
    Ansi,
    Html,
    Json,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let format = match (args.json, args.format) {
        (true, _) | (false, Format::Json) => "json",
        (false, Format::Text) => "text",
        (false, Format::Ansi) => "ansi",
        (false, Format::Html) => "html",
    };
    let query = ScreenQuery { format: Some(format.to_owned()), at: args.at, look: None };
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        let mut body = link.bytes(ReadScreen::of(&args.session.id).query(&query)).await?.to_vec();
        if format != "ansi" && !body.ends_with(b"\n") {
            body.push(b'\n');
        }
        output::bytes(&body)?;
        Ok(ExitCode::SUCCESS)
    })
}
