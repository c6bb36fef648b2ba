//! `coven harness`: the kinds of agents, and which of them are here.

use std::process::ExitCode;

use clap::Subcommand;
use coven_api::harness::{HarnessRecord, HarnessesQuery};
use coven_api::request::Request;
use coven_api::routes::{Endpoint, ListHarnesses};

use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::output;
use crate::table::Table;

/// Lists the harnesses: what is installed, which version, how it is started
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coven harness list\n  coven harness doctor     asks every program for its version"
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists the harnesses and how they are started
    #[command(after_help = "Examples:
  coven harness list")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Asks every installed harness for its version and says what is missing
    #[command(after_help = "Examples:
  coven harness doctor")]
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let (request, as_json, is_doctor) = match args.verb {
        Verb::List { json } => (harnesses(false), json, false),
        Verb::Doctor { json } => (harnesses(true), json, true),
    };
    block_on(async {
        let mut link = Link::open(&home).await?;
        if as_json {
            link.print_json(request).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = link.call(request).await?;
        let table = if is_doctor { doctor(&list.harnesses) } else { overview(&list.harnesses) };
        let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
        output::text(&table.text(width))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Asks for the harnesses that the caller's shell would find.
pub fn harnesses(with_versions: bool) -> Request<ListHarnesses> {
    let query = HarnessesQuery { versions: with_versions.then_some(true), path: std::env::var("PATH").ok() };
    ListHarnesses::request().query(&query)
}

fn overview(harnesses: &[HarnessRecord]) -> Table {
    let mut table = Table::new(&["HARNESS", "NAME", "INSTALLED", "STARTED AS"], &[3, 1]);
    for harness in harnesses {
        let installed = if harness.is_installed { "yes" } else { "no" };
        table.row([harness.id.clone(), harness.label.clone(), installed.to_owned(), harness.argv.join(" ")]);
    }
    table
}

fn doctor(harnesses: &[HarnessRecord]) -> Table {
    let mut table = Table::new(&["HARNESS", "INSTALLED", "VERSION", "PATH", "NOTE"], &[4, 3, 2]);
    for harness in harnesses {
        let installed = if harness.is_installed { "yes" } else { "no" };
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            harness.id.clone(),
            installed.to_owned(),
            or_dash(&harness.version),
            or_dash(&harness.path),
            harness.note.clone(),
        ]);
    }
    table
}
