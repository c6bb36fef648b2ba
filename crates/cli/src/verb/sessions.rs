//! `coven sessions`: the browser on a terminal, a table in a pipe, records for programs.

use std::process::ExitCode;
use std::time::Duration;

use coven_api::{ClientError, SessionRecord};
use coven_host::clock;
use coven_host::home::Home;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::attach::log_view::read_typed;
use crate::attach::terminal::RawMode;
use crate::attach::{self, Options, Outcome, Start};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::table::Table;
use crate::tui::{self, BrowseOptions};
use crate::verb::{attach as attach_verb, replay, summon};
use crate::{arrivals, output, quick, route, wording};

/// The largest page the daemon gives.
const PAGE: usize = 1000;

/// Browses the sessions on a terminal; prints a table into a pipe
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven sessions                                 the browser
  coven sessions --plain --status running
  coven sessions --json --all | jq -r '.[].id'
  coven sessions --harness claude --limit 5 | cat")]
pub struct Args {
    /// Print a table
    #[arg(long, conflicts_with_all = ["json", "manage"])]
    plain: bool,
    /// Print the records as a JSON array
    #[arg(long, conflicts_with = "manage")]
    json: bool,
    /// Archived sessions too
    #[arg(long)]
    all: bool,
    /// Open the browser, whatever standard output is
    #[arg(long)]
    manage: bool,
    /// Only these: created, running, completed, failed, killed, orphaned
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    status: Vec<String>,
    /// Only sessions of this harness
    #[arg(long)]
    harness: Option<String>,
    /// At most so many, the newest first [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    sessions: &'a RawValue,
    next: Option<String>,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    if args.manage || (output::is_terminal() && !args.plain && !args.json) {
        output::onto_terminal()?;
        return browse(&home, args.all);
    }
    let pages = pages(&home, &args)?;
    match args.json {
        true => output::bytes(&joined(&pages)?)?,
        false => output::bytes(table(&pages)?.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The answers of the daemon until there is enough or no more.
fn pages(home: &Home, args: &Args) -> Result<Vec<Vec<u8>>, Failure> {
    let mut pages = Vec::new();
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut cursor = None;
    loop {
        let limit = left.clamp(1, PAGE);
        let query = route::query(&[
            ("status", (!args.status.is_empty()).then(|| args.status.join(","))),
            ("harness", args.harness.clone()),
            ("all", args.all.then(|| "true".to_owned())),
            ("limit", Some(limit.to_string())),
            ("cursor", cursor),
        ]);
        let body = quick::get(home, &format!("/api/v1/sessions{query}"))?;
        cursor = serde_json::from_slice::<Page<'_>>(&body).map_err(ClientError::from)?.next;
        pages.push(body);
        left = left.saturating_sub(limit);
        if cursor.is_none() || left == 0 {
            return Ok(pages);
        }
    }
}

/// One array of all records, as the daemon wrote them.
fn joined(pages: &[Vec<u8>]) -> Result<Vec<u8>, Failure> {
    let mut out = b"[".to_vec();
    for page in pages {
        let page: Page<'_> = serde_json::from_slice(page).map_err(ClientError::from)?;
        let records = page.sessions.get().trim().trim_start_matches('[').trim_end_matches(']').trim();
        if !records.is_empty() {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(records.as_bytes());
        }
    }
    out.extend_from_slice(b"]\n");
    Ok(out)
}

fn table(pages: &[Vec<u8>]) -> Result<String, Failure> {
    let mut table = Table::new(&["ID", "STATUS", "HARNESS", "TITLE", "AGE", "CWD"], &[5, 3]);
    let now = clock::now();
    for page in pages {
        let page: Page<'_> = serde_json::from_slice(page).map_err(ClientError::from)?;
        let records: Vec<SessionRecord> = serde_json::from_str(page.sessions.get()).map_err(ClientError::from)?;
        for record in records {
            let id = wording::short_id(&record.id).to_owned();
            let status = match record.archived_at {
                Some(_) => format!("{}, archived", record.status),
                None => record.status,
            };
            let age = wording::age(&record.created_at, now);
            table.row([id, status, record.harness, record.title, age, record.cwd]);
        }
    }
    Ok(table.text(output::terminal_size().map(|(_, cols)| usize::from(cols))))
}

/// The browser, with what it leads to, until it is left.
fn browse(home: &Home, include_archived: bool) -> Result<ExitCode, Failure> {
    // The browser connects by itself; this starts the daemon if it must, and says so if it cannot.
    block_on(Link::open(home))?;
    let mut options = BrowseOptions {
        socket: home.socket()?,
        include_archived,
        rings: arrivals::rings(home),
        ..BrowseOptions::default()
    };
    loop {
        match tui::browse(&mut options)? {
            tui::Outcome::Quit => return Ok(ExitCode::SUCCESS),
            tui::Outcome::Attach(id) => {
                let outcome = attach::open(home, &id, Options { start: Start::Screen, is_read_only: false })?;
                match outcome {
                    Outcome::Detached => {}
                    Outcome::Signalled(signal) => return Ok(attach_verb::signal_code(signal)),
                    Outcome::Exited(_) | Outcome::Shown => wait_for_key()?,
                }
            }
            tui::Outcome::Replay(id) => {
                replay::play(home, &id)?;
                wait_for_key()?;
            }
            tui::Outcome::Summon(id) => {
                summon::summon(home, &id, false)?;
                wait_for_key()?;
            }
        }
    }
}

/// Gives a person the time to read what would vanish behind the browser.
fn wait_for_key() -> Result<(), Failure> {
    output::note(format_args!("[press any key to go back to the sessions]"));
    let _raw = RawMode::enter(std::io::stdin()).map_err(Failure::Terminal)?;
    let mut typed = [0; 256];
    read_typed(&mut typed, Duration::from_secs(86_400));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_one_array_and_records_stay_as_they_came() {
        let first = br#"{"sessions":[{"id":"a","x":[1.0, 2]},{"id":"b"}],"total":3,"next":"c"}"#.to_vec();
        let last = br#"{"sessions": [ {"id":"c"} ],"total":3,"next":null}"#.to_vec();
        let out = joined(&[first, last]).expect("sound pages");
        assert_eq!(String::from_utf8_lossy(&out), "[{\"id\":\"a\",\"x\":[1.0, 2]},{\"id\":\"b\"},{\"id\":\"c\"}]\n");
        let none = br#"{"sessions":[],"total":0,"next":null}"#.to_vec();
        assert_eq!(joined(&[none]).expect("a sound page"), b"[]\n");
    }
}
