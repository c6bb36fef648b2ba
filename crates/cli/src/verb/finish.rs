//! `coven finish`: asks a session to end and counts it as completed.

use std::process::ExitCode;

use hyper::Method;

use super::{SessionArg, print_record};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::route;

/// Asks a running session to end; it counts as completed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coven finish 1a2b\n  coven kill 1a2b     the same, counted as killed")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Print the session's record
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        let path = route::session(&args.session.id, "/finish");
        let body = link.bytes(Method::POST, &path, Some(b"{}".to_vec())).await?;
        print_record(&body, args.json, "finished")?;
        Ok(ExitCode::SUCCESS)
    })
}
