//! `coven repo`: registers the Git repositories that agents work in.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use coven_api::ErrorCode;
use coven_api::list::{MAX_LIMIT, PageQuery};
use coven_api::repo::{AddRepoRequest, RepoRecord};
use coven_api::routes::{AddRepo, Endpoint, ListRepos, RemoveRepo};
use coven_client::ClientError;
use coven_holder::clock;

use super::page::{self, PageArgs};
use super::{folder, print_json};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::table::Table;
use crate::{format, output};

/// Size limit of a repository record.
const MAX_RECORD_BYTES: usize = 1 << 20;

/// Registers, lists and removes the Git repositories that agents work in
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven repo add                      the repository of this folder
  coven repo add ~/src/site --name site
  coven repo list
  coven repo remove site              unregisters it; changes no files

`coven run … --acp` registers its repository automatically.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Registers a repository
    #[command(after_help = "Examples:
  coven repo add
  coven repo add ~/src/parser --name parser

A repository that is already registered keeps its id; --name renames it.")]
    Add {
        /// Folder in the repository [default: the current folder]
        path: Option<PathBuf>,
        /// Name of the repository [default: the name of its folder]
        #[arg(long)]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists repositories
    #[command(after_help = "Examples:
  coven repo list")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Unregisters a repository; its sessions and files stay
    #[command(after_help = "Examples:
  coven repo remove parser")]
    Remove {
        /// Repository id, unique prefix, name or path
        #[arg(value_name = "ID|NAME|PATH")]
        repo: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        match args.verb {
            Verb::Add { path, name, json } => add(&mut link, path, name, json).await?,
            Verb::List { json: true, page } => link.print_json(ListRepos::request().query(&page.into())).await?,
            Verb::List { json: false, page } => {
                let list = link.call(ListRepos::request().query(&page.into())).await?;
                let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
                output::text(&table(&list.items).text(width))?;
                page::print_next_page(list.next.as_deref());
            }
            Verb::Remove { repo, json } => {
                let id = find(&mut link, &repo).await?.id;
                let body = link.bytes(RemoveRepo::of(&id.to_string())).await?;
                print(&body, json, "removed")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn add(
    link: &mut DaemonClient,
    path: Option<PathBuf>,
    name: Option<String>,
    as_json: bool,
) -> Result<(), Failure> {
    let has_name = name.is_some();
    let request = AddRepoRequest { path: folder(path)?, name };
    let answer = link.stream(AddRepo::request().body(&request)).await?;
    let is_new = answer.status() == 201;
    let body = answer.read_to_end(MAX_RECORD_BYTES).await?;
    let what_happened = match (is_new, has_name) {
        (true, _) => "added",
        (false, true) => "already registered, name set",
        (false, false) => "already registered",
    };
    print(&body, as_json, what_happened)
}

fn print(body: &[u8], as_json: bool, what_happened: &str) -> Result<(), Failure> {
    if as_json {
        return print_json(body);
    }
    let record: RepoRecord = serde_json::from_slice(body).map_err(ClientError::from)?;
    let (name, path) = (format::sanitize_line(&record.name), format::sanitize_line(&record.path));
    output::line(format_args!("{what_happened}: {name} ({path}) {}", record.id))
}

fn table(repos: &[RepoRecord]) -> Table {
    let mut table = Table::new(&["ID", "NAME", "AGE", "PATH"], &[3, 1]);
    let now = clock::now();
    for repo in repos {
        let id = repo.id.short();
        table.row([id, repo.name.clone(), format::format_duration(now.since(repo.created_at)), repo.path.clone()]);
    }
    table
}

async fn all(link: &mut DaemonClient) -> Result<Vec<RepoRecord>, Failure> {
    let (mut repos, mut query) = (Vec::new(), PageQuery { limit: Some(MAX_LIMIT), cursor: None });
    loop {
        let page = link.call(ListRepos::request().query(&query)).await?;
        repos.extend(page.items);
        query.cursor = page.next;
        if query.cursor.is_none() {
            return Ok(repos);
        }
    }
}

/// Finds a repository by id, id prefix, name or path.
pub async fn find(link: &mut DaemonClient, wanted: &str) -> Result<RepoRecord, Failure> {
    let repos = all(link).await?;
    // The daemon stores canonical paths.
    let path = std::fs::canonicalize(wanted).ok().and_then(|path| path.into_os_string().into_string().ok());
    let found = pick(&repos, wanted, path.as_deref())?;
    found.cloned().ok_or_else(|| {
        let (code, message) = (ErrorCode::RepoNotFound, format!("no repository has the id, name or path {wanted}"));
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
    if let Some(exact) = repos.iter().find(|repo| repo.id.to_string() == wanted).or_else(|| repos.iter().find(by_path))
    {
        return Ok(Some(exact));
    }
    for is_it in [
        |repo: &RepoRecord, wanted: &str| repo.name == wanted,
        |repo: &RepoRecord, wanted: &str| !wanted.is_empty() && repo.id.to_string().starts_with(wanted),
    ] {
        let found: Vec<&RepoRecord> = repos.iter().filter(|repo| is_it(repo, wanted)).collect();
        match found.as_slice() {
            [] => {}
            [one] => return Ok(Some(one)),
            several => {
                let paths: Vec<&str> = several.iter().map(|repo| repo.path.as_str()).collect();
                let what = format!("{wanted} matches several repositories: {}", paths.join(", "));
                return Err(Failure::usage(what, "Use the path or a longer id prefix"));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "abc10000-0000-4000-8000-000000000000";
    const APP: &str = "abd20000-0000-4000-8000-000000000000";
    const OLD: &str = "90000000-0000-4000-8000-000000000000";

    fn repo(id: &str, name: &str, path: &str) -> RepoRecord {
        let created_at = coven_domain::Timestamp::from_millis(0);
        RepoRecord {
            id: id.parse().expect("an id"),
            name: name.into(),
            path: path.into(),
            created_at,
            removed_at: None,
        }
    }

    #[test]
    fn a_repository_is_found_by_id_name_or_path() {
        let repos = [repo(SITE, "site", "/src/site"), repo(APP, "app", "/src/app"), repo(OLD, "app", "/old/app")];
        let found = |wanted, path| pick(&repos, wanted, path).map(|repo| repo.map(|repo| repo.id.to_string()));
        for (wanted, id) in [(SITE, SITE), ("abd", APP), ("site", SITE), ("/old/app", OLD), ("9", OLD)] {
            assert_eq!(found(wanted, None).expect("unique").as_deref(), Some(id), "{wanted}");
        }
        assert_eq!(found("nothing", None).expect("unique"), None);
        assert_eq!(found("", None).expect("unique"), None);
        for wanted in ["ab", "app"] {
            assert!(found(wanted, None).is_err(), "{wanted} matches two");
        }
        assert_eq!(found("some/link", Some("/src/site")).expect("unique").as_deref(), Some(SITE));
    }
}
