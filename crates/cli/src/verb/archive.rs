//! `coven archive`: hides a session that does not run.

use std::process::ExitCode;

use hyper::Method;

use super::{SessionArg, print_record};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::route;

/// Hides a session that does not run; its record and log are kept
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coven archive 1a2b\n  coven sessions --all     lists archived sessions too\n  coven summon 1a2b        brings it back"
)]
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
        let path = route::session(&args.session.id, "/archive");
        let body = link.bytes(Method::POST, &path, Some(b"{}".to_vec())).await?;
        print_record(&body, args.json, "archived")?;
        Ok(ExitCode::SUCCESS)
    })
}
