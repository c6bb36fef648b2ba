//! `coven task rescue`: lists and restores unmerged work of removed worktrees.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use coven_client::ClientError;
use coven_domain::Timestamp;
use coven_holder::clock;
use coven_host::git::{GitError, Repository, Rescue};
use serde_json::json;

use super::print_json;
use crate::command_line::Place;
use crate::failure::Failure;
use crate::table::Table;
use crate::{format, output};

/// Lists and restores unmerged work of removed worktrees, which is saved under refs/coven/rescue
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven task rescue list
  coven task rescue restore 1a2b                creates the branch rescue/1a2b…
  coven task rescue restore 1a2b --branch mine
  git branch -D rescue/1a2b…                    the saved work stays under its ref

Uses Git in this folder's repository; needs no daemon.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// Folder in the repository [default: the current folder]
    #[arg(long, global = true, value_name = "DIR")]
    repo: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists saved work, newest first
    #[command(after_help = "Examples:
  coven task rescue list")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Creates a branch for saved work, without changing a checkout
    #[command(after_help = "Examples:
  coven task rescue restore 1a2b --branch parser-again")]
    Restore {
        /// Name of the saved work, task id, or unique prefix
        #[arg(value_name = "NAME")]
        name: String,
        /// Branch to create [default: rescue/NAME]
        #[arg(long)]
        branch: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let repository = match args.repo {
        Some(folder) => Repository::of(&folder).map_err(failed)?,
        None => {
            let here = std::env::current_dir().map_err(Failure::Input)?;
            match (Repository::of(&here), place.home()?.project_root()) {
                // Outside of any repository, use the home's project.
                (Err(_), Some(project)) => Repository::of(&project).map_err(failed)?,
                (found, _) => found.map_err(failed)?,
            }
        }
    };
    let kept = repository.rescues().map_err(failed)?;
    match args.verb {
        Verb::List { json: true } => {
            let records: Vec<_> = kept.iter().map(record).collect();
            print_json(&serde_json::to_vec(&records).map_err(ClientError::from)?)?;
        }
        Verb::List { json: false } if kept.is_empty() => output::line(format_args!("no saved work"))?,
        Verb::List { json: false } => {
            let mut table = Table::new(&["NAME", "COMMIT", "AGE", "WHAT"], &[3]);
            for rescue in &kept {
                let at = Timestamp::from_millis(rescue.at.saturating_mul(1000)).to_string();
                let commit = rescue.commit.chars().take(10).collect();
                table.row([rescue.name.clone(), commit, format::age(&at, clock::now()), rescue.subject.clone()]);
            }
            output::text(&table.text(output::terminal_size().map(|(_, cols)| usize::from(cols))))?;
        }
        Verb::Restore { name, branch, json } => {
            let rescue = named(&kept, &name)?;
            let branch =
                branch.unwrap_or_else(|| format!("rescue/{}", rescue.name.chars().take(8).collect::<String>()));
            repository.restore_rescue(rescue, &branch).map_err(failed)?;
            match json {
                true => {
                    let done = json!({ "name": rescue.name, "commit": rescue.commit, "branch": branch });
                    print_json(&serde_json::to_vec(&done).map_err(ClientError::from)?)?;
                }
                false => output::line(format_args!("restored as branch {branch}; see it with `git log {branch}`"))?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: GitError) -> Failure {
    match error {
        GitError::NotARepository(_) => {
            Failure::usage(error.to_string(), "Run it in a repository, or choose one with --repo")
        }
        GitError::Refused(what) => Failure::refused(what, "See `coven task rescue restore --help`"),
        other => Failure::failed(other.to_string(), "Check the repository with git"),
    }
}

fn record(rescue: &Rescue) -> serde_json::Value {
    json!({
        "name": rescue.name,
        "ref": format!("refs/coven/rescue/{}", rescue.name),
        "task_id": rescue.name.split('/').next(),
        "commit": rescue.commit,
        "at": Timestamp::from_millis(rescue.at.saturating_mul(1000)).to_string(),
        "subject": rescue.subject,
    })
}

/// Finds saved work by prefix. A prefix that matches only one task selects its newest work.
fn named<'a>(kept: &'a [Rescue], name: &str) -> Result<&'a Rescue, Failure> {
    let found: Vec<&Rescue> = kept.iter().filter(|rescue| rescue.name.starts_with(name)).collect();
    let task = |rescue: &Rescue| rescue.name.split('/').next().map(str::to_owned);
    match found[..] {
        [] => Err(Failure::not_found(format!("no saved work has the prefix {name:?}"), "See `coven task rescue list`")),
        [first, ..] if found.iter().all(|it| task(it) == task(first)) => Ok(first),
        _ => Err(Failure::usage(
            format!("prefix {name:?} matches several tasks"),
            "Use a longer prefix; see `coven task rescue list`",
        )),
    }
}
