//! `coven repo`: the Git repositories that agents work in.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use coven_api::ErrorCode;
use coven_api::repo::{AddRepoRequest, RepoRecord};
use coven_api::routes::{AddRepo, Endpoint, ListRepos, RemoveRepo};
use coven_client::ClientError;
use coven_holder::clock;

use super::{folder, print_json};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::table::Table;
use crate::{output, wording};

/// Limit for the record of one repository.
const MAX_RECORD_BYTES: usize = 1 << 20;

/// Registers, lists and removes the Git repositories that agents work in
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven repo add                      the repository of this folder
  coven repo add ~/src/site --name site
  coven repo list
  coven repo remove site              forgets it; nothing on disk is touched

`coven run … --acp` registers the repository it is in by itself.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Registers a repository
    #[command(after_help = "Examples:
  coven repo add
  coven repo add ~/src/parser --name parser")]
    Add {
        /// Any folder in it [default: this one]
        path: Option<PathBuf>,
        /// What to call it [default: the name of its folder]
        #[arg(long)]
        name: Option<String>,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Lists the repositories
    #[command(after_help = "Examples:
  coven repo list")]
    List {
        /// Print the records
        #[arg(long)]
        json: bool,
    },
    /// Forgets a repository; its sessions and files stay
    #[command(after_help = "Examples:
  coven repo remove parser")]
    Remove {
        /// The repository: its id or a beginning of it, its name or its path
        #[arg(value_name = "ID|NAME|PATH")]
        repo: String,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        match args.verb {
            Verb::Add { path, name, json } => add(&mut link, path, name, json).await?,
            Verb::List { json: true } => link.print_json(ListRepos::request()).await?,
            Verb::List { json: false } => {
                let list = link.call(ListRepos::request()).await?;
                let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
                output::text(&table(&list.repos).text(width))?;
            }
            Verb::Remove { repo, json } => {
                let id = find(&mut link, &repo).await?.id;
                let body = link.bytes(RemoveRepo::of(&id)).await?;
                print(&body, json, "removed")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn add(link: &mut Link, path: Option<PathBuf>, name: Option<String>, as_json: bool) -> Result<(), Failure> {
    let request = AddRepoRequest { path: folder(path)?, name };
    let answer = link.stream(AddRepo::request().body(&request)).await?;
    let is_new = answer.status() == 201;
    let body = answer.read_to_end(MAX_RECORD_BYTES).await?;
    print(&body, as_json, if is_new { "added" } else { "registered already" })
}

fn print(body: &[u8], as_json: bool, what_happened: &str) -> Result<(), Failure> {
    if as_json {
        return print_json(body);
    }
    let record: RepoRecord = serde_json::from_slice(body).map_err(ClientError::from)?;
    let (name, path) = (wording::plain(&record.name), wording::plain(&record.path));
    output::line(format_args!("{what_happened}: {name} ({path}) {}", record.id))
}

fn table(repos: &[RepoRecord]) -> Table {
    let mut table = Table::new(&["ID", "NAME", "AGE", "PATH"], &[3, 1]);
    let now = clock::now();
    for repo in repos {
        let id = wording::short_id(&repo.id).to_owned();
        table.row([id, repo.name.clone(), wording::age(&repo.created_at, now), repo.path.clone()]);
    }
    table
}

/// The repository that a person means: by id, beginning of an id, name or path.
pub async fn find(link: &mut Link, wanted: &str) -> Result<RepoRecord, Failure> {
    let list = link.call(ListRepos::request()).await?;
    // A path may be written in many ways; the daemon knows it by the real one.
    let path = std::fs::canonicalize(wanted).ok().and_then(|path| path.into_os_string().into_string().ok());
    let found = pick(&list.repos, wanted, path.as_deref())?;
    found.cloned().ok_or_else(|| {
        let (code, message) = (ErrorCode::RepoNotFound, format!("no repository is called {wanted}"));
        Failure::from(ClientError::Api {
            status: code.status(),
            code: code.as_str().to_owned(),
            message,
            details: None,
        })
    })
}

fn pick<'a>(repos: &'a [RepoRecord], wanted: &str, path: Option<&str>) -> Result<Option<&'a RepoRecord>, Failure> {
    let by_path = |repo: &&RepoRecord| repo.path == wanted || path == Some(repo.path.as_str());
    if let Some(exact) = repos.iter().find(|repo| repo.id == wanted).or_else(|| repos.iter().find(by_path)) {
        return Ok(Some(exact));
    }
    for is_it in [
        |repo: &RepoRecord, wanted: &str| repo.name == wanted,
        |repo: &RepoRecord, wanted: &str| !wanted.is_empty() && repo.id.starts_with(wanted),
    ] {
        let found: Vec<&RepoRecord> = repos.iter().filter(|repo| is_it(repo, wanted)).collect();
        match found.as_slice() {
            [] => {}
            [one] => return Ok(Some(one)),
            several => {
                let paths: Vec<&str> = several.iter().map(|repo| repo.path.as_str()).collect();
                let what = format!("{wanted} may be any of {}", paths.join(", "));
                return Err(Failure::usage(what, "Give the path, or more of the id"));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(id: &str, name: &str, path: &str) -> RepoRecord {
        RepoRecord { id: id.into(), name: name.into(), path: path.into(), created_at: String::new() }
    }

    #[test]
    fn a_repository_is_meant_by_id_name_or_path() {
        let repos = [repo("abc1", "site", "/src/site"), repo("abd2", "app", "/src/app"), repo("9", "app", "/old/app")];
        let found = |wanted| pick(&repos, wanted, None).map(|repo| repo.map(|repo| repo.id.as_str()));
        for (wanted, id) in [("abc1", "abc1"), ("abd", "abd2"), ("site", "abc1"), ("/old/app", "9"), ("9", "9")] {
            assert_eq!(found(wanted).expect("it is clear"), Some(id), "{wanted}");
        }
        assert_eq!(found("nothing").expect("it is clear"), None);
        assert_eq!(found("").expect("it is clear"), None);
        for wanted in ["ab", "app"] {
            assert!(found(wanted).is_err(), "{wanted} may be two");
        }
        let link = pick(&repos, "some/link", Some("/src/site")).expect("it is clear");
        assert_eq!(link.map(|repo| repo.id.as_str()), Some("abc1"));
    }
}
