//! `coven harness`: lists the harnesses and checks which are installed.

use std::process::ExitCode;

use clap::Subcommand;
use coven_api::harness::{HarnessRecord, ListHarnessesQuery};
use coven_api::request::Request;
use coven_api::routes::{Endpoint, ListHarnesses};

use super::harness_rules::{self, RulesVerb};
use super::page::{self, PageArgs};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Lists the harnesses: installation, version and start command
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coven harness list\n  coven harness doctor            runs every program to get its version\n  coven harness rules test 1a2b   tries the rules for screens and signals"
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists the harnesses and their start commands
    #[command(after_help = "Examples:
  coven harness list")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Checks every harness: version, path and how to install it
    #[command(after_help = "Examples:
  coven harness doctor")]
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Lists the rules for screens and signals, or tries them on a recording
    #[command(after_help = "Examples:
  coven harness rules list shell
  coven harness rules test 1a2b")]
    Rules {
        #[command(subcommand)]
        verb: RulesVerb,
    },
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let (request, as_json, is_doctor) = match args.verb {
        Verb::Rules { verb } => return harness_rules::run(verb, place),
        Verb::List { json, page } => (harnesses(false, page), json, false),
        Verb::Doctor { json, page } => (harnesses(true, page), json, true),
    };
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        if as_json {
            link.print_json(request).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let list = link.call(request).await?;
        let table = if is_doctor { doctor(&list.items) } else { overview(&list.items) };
        let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
        output::text(&table.text(width))?;
        page::print_next_page(list.next.as_deref());
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns a request for the harnesses on this shell's PATH.
pub fn harnesses(with_versions: bool, PageArgs { limit, cursor }: PageArgs) -> Request<ListHarnesses> {
    let (versions, path) = (with_versions.then_some(true), std::env::var("PATH").ok());
    ListHarnesses::request().query(&ListHarnessesQuery { versions, path, limit, cursor })
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
