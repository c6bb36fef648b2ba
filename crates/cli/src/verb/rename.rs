//! `coven rename`: gives a session another title.

use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::session::RenameSessionRequest;
use coven_client::ClientError;
use hyper::Method;

use super::{SessionArg, print_json};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::{output, route, wording};

/// Gives a session another title
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven rename 1a2b \"the parser\"
  coven attach \"the parser\"     a title names a session as its id does")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// The new title; words are joined
    #[arg(value_name = "TITLE", required = true)]
    title: Vec<String>,
    /// Print the session's record
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let request = RenameSessionRequest { title: args.title.join(" ") };
    let body = serde_json::to_vec(&request).map_err(ClientError::from)?;
    let answer = block_on(async {
        let path = route::session(&args.session.id, "/rename");
        Ok(Link::open(&home).await?.bytes_path(Method::POST, &path, Some(body)).await?)
    })?;
    if args.json {
        print_json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record: SessionRecord = serde_json::from_slice(&answer).map_err(ClientError::from)?;
    output::line(format_args!("renamed: {} {}", wording::plain(&record.title), record.id))?;
    Ok(ExitCode::SUCCESS)
}
