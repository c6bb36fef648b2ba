//! `coven kill`: ends a running session.

use std::process::ExitCode;

use hyper::Method;

use super::{SessionArg, print_json};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::{output, route};

/// Ends a running session: SIGTERM to its processes, SIGKILL after a grace period
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coven kill 1a2b\n  coven finish 1a2b     the same, counted as completed")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Print the daemon's answer
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        let path = route::session(&args.session.id, "/kill");
        let body = link.bytes(Method::POST, &path, Some(b"{}".to_vec())).await?;
        match args.json {
            true => print_json(&body)?,
            false => output::line(format_args!("killed: {}", args.session.id))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}
