//! `coven trust`: agrees to state and settings that came with a repository or archive.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use coven_host::git;
use coven_host::home::Home;
use coven_host::trust::{Agreement, HomeRecord, TrustStore};
use serde::Serialize;

use super::daemon;
use crate::command_line::Place;
use crate::failure::Failure;
use crate::table::Table;
use crate::trust_prompt::{self, Others, Request};
use crate::{format, output};

/// Trusts state and settings that came with a repository or archive, after showing the commands that they run
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven trust                    shows what would run in this project and asks
  coven trust ~/src/clone --yes  agrees without confirmation; not allowed inside a session
  coven trust --list             lists trusted homes and settings
  coven trust --revoke           revokes trust in this project and stops its daemon

The agreement covers exactly the settings shown; if they change, coven asks again.")]
pub struct Args {
    /// Project, repository or home [default: the current folder]
    path: Option<PathBuf>,
    /// Agree without confirmation
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    yes: bool,
    /// List recorded homes and agreements
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    list: bool,
    /// Remove the record of a home and all its agreements
    #[arg(long)]
    revoke: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args.json);
    }
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let folder = std::fs::canonicalize(&folder).map_err(|source| Failure::File { path: folder, source })?;
    let home = home_of(&folder, &args, place)?;
    match args.revoke {
        true => revoke(home, &folder, args.json),
        false => agree(&args, home, &folder),
    }
}

/// Returns the home for a path: itself, the home in it, or without a path the home that commands use.
fn home_of(folder: &Path, args: &Args, place: &Place) -> Result<Option<Home>, Failure> {
    if args.path.is_none() {
        return place.unchecked_home().map(Some);
    }
    let candidates = [folder.join(".coven"), folder.to_owned()];
    let is_home = |path: &&PathBuf| path.file_name().is_some_and(|name| name == ".coven") && path.is_dir();
    Ok(candidates.iter().find(is_home).map(|path| Home::found_at(path)).transpose()?)
}

fn agree(args: &Args, home: Option<Home>, folder: &Path) -> Result<ExitCode, Failure> {
    let request = Request::about(home, folder)?;
    if args.json {
        output::line(format_args!("{}", serde_json::to_string(&Shown::of(&request)).expect("plain data")))?;
    }
    if request.is_empty() {
        if !args.json {
            output::line(format_args!("nothing needs your agreement"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if trust_prompt::is_in_session() {
        return Err(Failure::refused(
            "trust cannot be granted from inside a session",
            "Run `coven trust` in your own terminal",
        ));
    }
    if args.yes {
        if !args.json {
            output::bytes(request.text().as_bytes())?;
        }
    } else if !trust_prompt::can_ask() {
        return Err(Failure::refused(
            format!("the {} not trusted", if request.state.is_empty() { "settings are" } else { "state is" }),
            "Run `coven trust` in a terminal, or add --yes if you know what they run",
        ));
    } else if !trust_prompt::ask(&request)? {
        return Err(Failure::refused("nothing was changed", "Remove the settings, or run `coven trust` again"));
    }
    request.agree()?;
    if !args.json {
        output::line(format_args!("trusted"))?;
    }
    // The daemon reads its config when it starts.
    if let Some(home) = request.home()
        && !request.settings.is_empty()
    {
        daemon::restart_if_running(home)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn revoke(home: Option<Home>, folder: &Path, as_json: bool) -> Result<ExitCode, Failure> {
    // The default home is trusted without a record: revoking it would only stop its daemon.
    let home = home.filter(|home| !home.is_default());
    let store = TrustStore::locate()?;
    let top = git::top_of(folder).ok();
    let mut was_there = false;
    if let Some(home) = &home {
        // A running daemon would keep using the settings.
        if home.is_recorded() {
            daemon::stop_if_running(home)?;
        }
        was_there |= store.revoke(home.path())?;
    }
    for subject in top.into_iter().chain([folder.join(".aurora")]) {
        was_there |= store.revoke(&subject)?;
    }
    match was_there {
        _ if as_json => output::line(format_args!("{}", serde_json::json!({ "revoked": was_there })))?,
        true => output::line(format_args!("revoked"))?,
        false => output::line(format_args!("nothing here was trusted"))?,
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Shown<'a> {
    home: Option<&'a Path>,
    state: &'a [String],
    settings: &'a [coven_host::trust::Part],
    others: &'a [Others],
}

impl<'a> Shown<'a> {
    fn of(request: &'a Request) -> Self {
        Self {
            home: request.home().map(Home::path),
            state: &request.state,
            settings: &request.settings,
            others: &request.others,
        }
    }
}

#[derive(Serialize)]
struct Listed {
    homes: Vec<HomeRecord>,
    agreements: Vec<Agreement>,
}

fn list(as_json: bool) -> Result<ExitCode, Failure> {
    let store = TrustStore::locate()?;
    let listed = Listed { homes: store.homes(), agreements: store.agreements() };
    if as_json {
        output::line(format_args!("{}", serde_json::to_string(&listed).expect("plain data")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["PATH", "WHAT"], &[0]);
    for home in &listed.homes {
        let word = if Path::new(&home.path).exists() { "home" } else { "home, no longer there" };
        table.row([home.path.as_str(), word]);
    }
    for agreement in &listed.agreements {
        for key in agreement.agreed.keys() {
            table.row([agreement.path.as_str(), key]);
        }
    }
    let width = output::terminal_size().map(|(_, columns)| usize::from(columns));
    output::bytes(format::readable(&table.text(width)).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
