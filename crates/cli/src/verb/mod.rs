//! The verbs of the command line, one file each.

pub mod answer;
mod answer_flags;
mod answer_reply;
pub mod archive;
pub mod ask;
mod ask_input;
pub mod attach;
pub mod board;
pub mod chat;
pub mod complete;
pub mod completions;
pub mod config;
mod config_check;
pub mod daemon;
mod daemon_logs;
pub mod db;
mod db_import;
mod db_sweep;
pub mod doctor;
pub mod events;
pub mod export;
pub mod finish;
pub mod harness;
pub mod inbox;
mod inbox_follow;
mod inbox_text;
pub mod init;
pub mod input;
pub mod kill;
pub mod mcp;
pub mod operation;
pub mod page;
pub mod prompt;
pub mod questions;
mod questions_text;
pub mod rename;
pub mod replay;
pub mod repo;
pub mod run;
pub mod sacrifice;
pub mod screen;
pub mod serve;
pub mod sessions;
pub mod sessions_list;
pub mod show;
pub mod spawn;
pub mod start;
pub mod state;
pub mod summon;
pub mod task;
mod task_args;
mod task_rescue;
pub mod task_text;
pub mod trust;
pub mod wait;
pub mod workflow;
pub mod workflow_text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use bytes::Bytes;
use clap::builder::NonEmptyStringValueParser;
use coven_api::List;
use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, ListSessions};
use coven_api::session::ListSessionsQuery;
use coven_client::ClientError;
use coven_host::home::Home;

use crate::daemon_client::quick_get;
use crate::failure::Failure;
use crate::{failure, format, output, own_session};

/// The session a verb is about.
#[derive(Debug, clap::Args)]
pub struct SessionArg {
    /// Session id, unique prefix of it, or title
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
}

/// The sessions a verb is about.
#[derive(Debug, clap::Args)]
pub struct SessionsArg {
    /// Session ids, unique prefixes of them, or titles
    #[arg(value_name = "ID", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub ids: Vec<String>,
}

/// Acts on one after the other. A refusal is printed with its id; the others are still tried.
pub async fn each(ids: &[String], mut act: impl AsyncFnMut(&str) -> Result<(), Failure>) -> Result<ExitCode, Failure> {
    let mut end = ExitCode::SUCCESS;
    for id in ids {
        match act(id).await {
            Err(failure) if ids.len() > 1 && !matches!(failure, Failure::Output(_) | Failure::Interrupted { .. }) => {
                failure::print_error(&format!("{}: {}", format::sanitize_line(id), failure.sentence()));
                end = ExitCode::from(failure.exit_code());
            }
            other => other?,
        }
    }
    Ok(end)
}

/// The session a verb is about, or the newest that fits if none is named.
#[derive(Debug, clap::Args)]
pub struct NewestArg {
    /// Session id, unique prefix of it, or title [default: the newest]
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
}

impl NewestArg {
    /// Returns the named session, or the newest one of `filter`.
    fn find(self, home: &Home, filter: ListSessionsQuery) -> Result<String, Failure> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let none = || Failure::not_found("there is no session yet", "Start one with `coven run`");
        newest(home, filter)?.map(|record| record.id.to_string()).ok_or_else(none)
    }
}

/// A filter for sessions with one of these statuses, separated by commas.
fn with_status(statuses: &str) -> ListSessionsQuery {
    ListSessionsQuery { status: Some(statuses.to_owned()), ..ListSessionsQuery::default() }
}

/// The newest session of a filter. The session that this command runs in is left out.
fn newest(home: &Home, filter: ListSessionsQuery) -> Result<Option<SessionRecord>, Failure> {
    let filter = ListSessionsQuery { limit: Some(2), ..filter };
    let list = quick_get(home, ListSessions::request().query(&filter))?;
    let list: List<SessionRecord> = serde_json::from_slice(&list).map_err(ClientError::from)?;
    let own = own_session::id();
    Ok(list.items.into_iter().find(|record| own.as_ref() != Some(&record.id.to_string())))
}

/// The environment of this shell, for the harness. What is not text cannot be sent and stays here.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// A folder as the daemon, which works elsewhere, can find it; it checks what is there.
fn folder(given: Option<PathBuf>) -> Result<String, Failure> {
    let given = given.unwrap_or_else(|| PathBuf::from("."));
    let whole = std::env::current_dir()
        .map(|here| if given.as_os_str() == "." { here } else { here.join(&given) })
        .map_err(|source| Failure::File { path: given.clone(), source })?;
    whole.into_os_string().into_string().map_err(|path| {
        Failure::usage(format!("{} is not UTF-8", path.display()), "Rename the folder, or work in another one")
    })
}

/// Prints what became of a session: the record as it came, or a line for people.
fn print_record(body: &Bytes, as_json: bool, what_happened: &str) -> Result<(), Failure> {
    if as_json {
        return print_json(body);
    }
    let record: SessionRecord = serde_json::from_slice(body).map_err(ClientError::from)?;
    output::line(format_args!("{}", named(what_happened, &record)))
}

/// What happened to a session, on one line with its title, status and id.
fn named(what_happened: &str, record: &SessionRecord) -> String {
    format!("{what_happened}: {} ({}) {}", format::sanitize_line(&record.title), format::status(record), record.id)
}

fn print_json(body: &[u8]) -> Result<(), Failure> {
    output::json(body)
}
