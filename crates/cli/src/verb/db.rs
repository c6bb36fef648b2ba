//! `coven db`: migrates, checks, repairs, sweeps and imports into the store.

use std::process::ExitCode;

use clap::Subcommand;
use coven_host::home::Home;
use coven_store::StoreError;
use coven_store::sqlite::migrations::{self, MigrationStatus};
use coven_store::sqlite::repair::{Repaired, repair};
use serde_json::json;

use super::{db_import, db_sweep};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Migrates, checks and repairs the store, deletes expired records, imports older files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven daemon stop && coven db status
  coven db migrate
  coven db rollback --steps 1     keeps a copy of the store next to it
  coven db sweep --dry-run        lists expired records
  coven db import                 imports files of the older coven

Stop the daemon before migrate, rollback, status and repair. sweep and import start one if they need it.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Applies pending migrations
    #[command(after_help = "Examples:
  coven db migrate")]
    Migrate,
    /// Undoes the newest migrations, after copying the store
    #[command(after_help = "Examples:
  coven db rollback --steps 2")]
    Rollback {
        /// Number of migrations to undo
        #[arg(long, default_value_t = 1, value_name = "N")]
        steps: usize,
    },
    /// Checks the store for damage; lists every migration and when it was applied
    #[command(after_help = "Examples:
  coven db status")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Accepts pages that do not match their checksums, after copying the store
    #[command(long_about = "Accepts pages that do not match their checksums, after copying the store

A page does not match when the disk changed it or another program wrote to it. Coven cannot tell which values on the page are \
wrong, so prefer a backup if there is one.")]
    #[command(after_help = "Examples:
  coven daemon stop && coven db repair")]
    Repair {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Sweep(db_sweep::Args),
    Import(db_import::Args),
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    match args.verb {
        Verb::Sweep(args) => return db_sweep::run(args, place),
        Verb::Import(args) => return db_import::run(args, place),
        Verb::Migrate => {
            home.create()?;
            let applied = migrations::migrate(home.db()).map_err(Failure::Store)?;
            print_versions(&home, "applied", &applied)?;
        }
        Verb::Rollback { steps } => {
            // Opening a missing store would create it.
            let undone = match home.db().exists() {
                true => migrations::rollback(home.db(), steps).map_err(Failure::Store)?,
                false => Vec::new(),
            };
            print_versions(&home, "undone", &undone)?;
        }
        Verb::Status { json } => {
            let steps = migrations::status(home.db()).map_err(Failure::Store)?;
            match json {
                true => output::json(as_json(&steps).to_string().as_bytes())?,
                false => output::text(&table(&steps).text(None))?,
            }
        }
        Verb::Repair { json } => {
            // Opening a missing store would create it.
            let repaired = match home.db().exists() {
                true => repair(home.db()).map_err(Failure::Store)?,
                false => None,
            };
            match json {
                true => output::json(repaired_json(repaired.as_ref()).to_string().as_bytes())?,
                false => output::line(format_args!("{}", repaired_text(&home, repaired.as_ref())))?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_versions(home: &Home, what: &str, versions: &[u32]) -> Result<(), Failure> {
    let numbers: Vec<String> = versions.iter().map(u32::to_string).collect();
    match numbers.is_empty() {
        true => output::line(format_args!("nothing to do: {}", home.db().display())),
        false => output::line(format_args!("{what}: {} ({})", numbers.join(", "), home.db().display())),
    }
}

fn repaired_text(home: &Home, repaired: Option<&Repaired>) -> String {
    let Some(Repaired { pages, original }) = repaired else {
        return format!("nothing to do: all pages of {} match their checksums", home.db().display());
    };
    let numbers: Vec<String> = pages.iter().map(u64::to_string).collect();
    format!(
        "accepted: page {} ({}); copy of the original store: {}",
        numbers.join(", "),
        home.db().display(),
        original.display()
    )
}

fn repaired_json(repaired: Option<&Repaired>) -> serde_json::Value {
    json!({"pages": repaired.map_or(&[][..], |it| &it.pages), "original": repaired.map(|it| &it.original)})
}

fn table(steps: &[MigrationStatus]) -> Table {
    let mut table = Table::new(&["VERSION", "NAME", "APPLIED"], &[]);
    for step in steps {
        let applied = step.applied_at.map_or_else(|| "pending".to_owned(), |at| at.to_string());
        table.row([step.version.to_string(), step.name.to_owned(), applied]);
    }
    table
}

fn as_json(steps: &[MigrationStatus]) -> serde_json::Value {
    let step =
        |step: &MigrationStatus| json!({"version": step.version, "name": step.name, "applied_at": step.applied_at});
    steps.iter().map(step).collect()
}

/// Returns advice for an error of the store.
pub fn hint(error: &StoreError) -> &'static str {
    match error {
        StoreError::Locked => "Stop the daemon with `coven daemon stop` first",
        _ => "",
    }
}
