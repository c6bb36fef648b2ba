//! `coven daemon serve`: runs the daemon in the foreground. Other commands start it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::command_line::Place;
use crate::failure;

/// Hidden: users run `coven daemon start`.
#[derive(Debug, Parser)]
#[command(name = "coven daemon serve", no_binary_name = true)]
struct Args {
    #[arg(long)]
    home: Option<PathBuf>,
    #[arg(long)]
    listen: Option<String>,
}

pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args = Args::parse_from(args);
    serve(&Place { flag: args.home }, args.listen)
}

pub fn serve(place: &Place, listen: Option<String>) -> ExitCode {
    match place.home() {
        Ok(home) => crate::serve::serve(&crate::serve::ServeOptions { home: home.path().to_owned(), listen }),
        Err(failure) => failure::end(failure),
    }
}
