//! `coven trust`: agrees to state and settings that came with a repository or archive.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use coven_api::List;
use coven_api::list::{BadCursor, ListKey};
use coven_host::git;
use coven_host::home::Home;
use coven_host::trust::{Agreement, HomeRecord, TrustStore};
use serde::Serialize;

use super::daemon;
use super::page::{self, PageArgs};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::table::Table;
use crate::trust_prompt::{self, Others, Request};
use crate::{format, output};

/// Trusts state and settings that came with a repository, after showing what they run
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven trust                    shows what would run in this project and asks
  coven trust ~/src/clone --yes  agrees without confirmation; not allowed inside a session
  coven trust --list             lists trusted homes and settings
  coven trust --list --json | jq -r '.items[] | select(.kind == \"home\") | .path'
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
    #[command(flatten)]
    page: PageArgs,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args.json, &args.page);
    }
    if args.page.limit.is_some() || args.page.cursor.is_some() {
        return Err(Failure::usage("--limit and --cursor are only for a list", "Add --list"));
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

/// An item of the list: a home, or the agreements about one folder.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum TrustItem {
    Home(HomeRecord),
    Agreement(Agreement),
}

impl TrustItem {
    fn place(&self) -> TrustPlace {
        match self {
            Self::Home(home) => TrustPlace { is_agreement: false, path: home.path.clone() },
            Self::Agreement(agreement) => TrustPlace { is_agreement: true, path: agreement.path.clone() },
        }
    }
}

/// Place of an item in the list: homes come first, then agreements, each sorted by path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TrustPlace {
    is_agreement: bool,
    path: String,
}

/// In hexadecimal, because a path may contain any character and a cursor is copied into a shell.
impl Display for TrustPlace {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_agreement { "1" } else { "0" })?;
        self.path.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for TrustPlace {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (kind, path) = text.split_at_checked(1).ok_or(BadCursor)?;
        let is_agreement = match kind {
            "0" => false,
            "1" => true,
            _ => return Err(BadCursor),
        };
        let digits: Option<Vec<u32>> = path.chars().map(|c| c.to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or(BadCursor)?;
        let bytes = digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect();
        Ok(Self { is_agreement, path: String::from_utf8(bytes).map_err(|_| BadCursor)? })
    }
}

fn list(as_json: bool, page: &PageArgs) -> Result<ExitCode, Failure> {
    let key = ListKey::new(&["trust"]);
    let after: Option<TrustPlace> = page.place(key)?;
    let store = TrustStore::locate()?;
    let homes = store.homes().into_iter().map(TrustItem::Home);
    let items = homes.chain(store.agreements().into_iter().map(TrustItem::Agreement));
    let rest = items.filter(|item| after.as_ref().is_none_or(|after| item.place() > *after));
    let listed = List::page(rest, page.limit(), |last| key.cursor(last.place()));
    if as_json {
        output::line(format_args!("{}", serde_json::to_string(&listed).expect("plain data")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["PATH", "WHAT"], &[0]);
    for item in &listed.items {
        match item {
            TrustItem::Home(home) => {
                let word = if Path::new(&home.path).exists() { "home" } else { "home, no longer there" };
                table.row([home.path.as_str(), word]);
            }
            TrustItem::Agreement(agreement) => {
                for key in agreement.agreed.keys() {
                    table.row([agreement.path.as_str(), key]);
                }
            }
        }
    }
    let width = output::terminal_size().map(|(_, columns)| usize::from(columns));
    output::bytes(format::readable(&table.text(width)).as_bytes())?;
    page::print_next_page(listed.next.as_deref());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_other_texts_are_refused() {
        for (is_agreement, path) in [(false, "/home/ada/.coven"), (true, "/tmp/ein Pfad/ü"), (true, "")] {
            let place = TrustPlace { is_agreement, path: path.to_owned() };
            assert_eq!(place.to_string().parse(), Ok(place));
        }
        for bad in ["", "2", "0f", "1ff", "0xy", "ü"] {
            assert_eq!(bad.parse::<TrustPlace>(), Err(BadCursor), "{bad}");
        }
    }
}
