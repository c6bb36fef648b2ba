//! `coven task rescue`: unmerged work that was kept when its worktree was removed.

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

/// Finds work that was not merged when its worktree was removed: all of it is kept under refs/coven/rescue
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven task rescue list
  coven task rescue restore 1a2b                onto a branch rescue/1a2b…
  coven task rescue restore 1a2b --branch mine
  git branch -D rescue/1a2b…                    the kept work itself stays under its ref

It asks Git in this folder's repository and needs no daemon.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// A folder in the repository [default: this folder]
    #[arg(long, global = true, value_name = "DIR")]
    repo: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists what was kept, newest first
    #[command(after_help = "Examples:
  coven task rescue list")]
    List {
        /// Print the records
        #[arg(long)]
        json: bool,
    },
    /// Gives kept work a branch; no checkout is touched
    #[command(after_help = "Examples:
  coven task rescue restore 1a2b --branch parser-again")]
    Restore {
        /// What was kept: its name, its task's id, or a beginning of it that only one has
        #[arg(value_name = "NAME")]
        name: String,
        /// The branch to make [default: rescue/NAME]
        #[arg(long)]
        branch: Option<String>,
        /// Print what was done as JSON
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
                // Outside of every repository it is the home's own that is meant.
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
        Verb::List { json: false } if kept.is_empty() => output::line(format_args!("nothing is kept"))?,
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
                false => {
                    output::line(format_args!("restored onto the branch {branch}; see it with `git log {branch}`"))?
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: GitError) -> Failure {
    match error {
        GitError::NotARepository(_) => {
            Failure::usage(error.to_string(), "Go into a repository, or name one with --repo")
        }
        GitError::Refused(what) => Failure::refused(what, "See `coven task rescue restore --help`"),
        other => Failure::failed(other.to_string(), "Look at the repository with git"),
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

/// The newest of a task, where only the task is named.
fn named<'a>(kept: &'a [Rescue], name: &str) -> Result<&'a Rescue, Failure> {
    let found: Vec<&Rescue> = kept.iter().filter(|rescue| rescue.name.starts_with(name)).collect();
    let task = |rescue: &Rescue| rescue.name.split('/').next().map(str::to_owned);
    match found[..] {
        [] => Err(Failure::not_found(
            format!("nothing that is kept begins with {name:?}"),
            "See `coven task rescue list`",
        )),
        [first, ..] if found.iter().all(|it| task(it) == task(first)) => Ok(first),
        _ => Err(Failure::usage(
            format!("several begin with {name:?}"),
            "Give more of the name; see `coven task rescue list`",
        )),
    }
}
