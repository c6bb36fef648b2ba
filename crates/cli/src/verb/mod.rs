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
mod harness_rules;
pub mod inbox;
mod inbox_answer;
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
mod queue;
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
pub mod why;
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

/// The session argument of a verb.
#[derive(Debug, clap::Args)]
pub struct SessionArg {
    /// Session id, unique prefix of it, or title
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
}

/// The session arguments of a verb.
#[derive(Debug, clap::Args)]
pub struct SessionsArg {
    /// Session ids, unique prefixes of them, or titles
    #[arg(value_name = "ID", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub ids: Vec<String>,
}

/// Runs `act` for each id in turn. Prints a failure with its id and continues with the next one.
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

/// An optional session argument; the default is the newest matching session.
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
        let none = || Failure::not_found("no session exists yet", "Start one with `coven run`");
        newest(home, filter)?.map(|record| record.id.to_string()).ok_or_else(none)
    }
}

/// Returns a filter for a comma-separated list of statuses.
fn with_status(statuses: &str) -> ListSessionsQuery {
    ListSessionsQuery { status: Some(statuses.to_owned()), ..ListSessionsQuery::default() }
}

/// Returns the newest session that matches a filter, other than the session that this command runs in.
fn newest(home: &Home, filter: ListSessionsQuery) -> Result<Option<SessionRecord>, Failure> {
    let filter = ListSessionsQuery { limit: Some(2), ..filter };
    let list = quick_get(home, ListSessions::request().query(&filter))?;
    let list: List<SessionRecord> = serde_json::from_slice(&list).map_err(ClientError::from)?;
    let own = own_session::id();
    Ok(list.items.into_iter().find(|record| own.as_ref() != Some(&record.id.to_string())))
}

/// Returns this shell's environment for the harness. Variables that are not UTF-8 cannot be sent as JSON and are left out.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Returns a folder as an absolute path: the daemon has another working folder. The daemon checks that it exists.
pub fn folder(given: Option<PathBuf>) -> Result<String, Failure> {
    let given = given.unwrap_or_else(|| PathBuf::from("."));
    let whole = std::env::current_dir()
        .map(|here| if given.as_os_str() == "." { here } else { here.join(&given) })
        .map_err(|source| Failure::File { path: given.clone(), source })?;
    whole.into_os_string().into_string().map_err(|path| {
        Failure::usage(format!("{} is not UTF-8", path.display()), "Rename the folder, or use another one")
    })
}

/// Prints a changed session as the daemon's JSON or as one line.
fn print_record(body: &Bytes, as_json: bool, what_happened: &str) -> Result<(), Failure> {
    if as_json {
        return print_json(body);
    }
    let record: SessionRecord = serde_json::from_slice(body).map_err(ClientError::from)?;
    output::line(format_args!("{}", named(what_happened, &record)))
}

/// Prints a new session, or why its launch waits.
fn print_started(body: &Bytes, as_json: bool, what_happened: &str) -> Result<(), Failure> {
    let record: SessionRecord = serde_json::from_slice(body).map_err(ClientError::from)?;
    match record.queued_launch().filter(|_| !as_json) {
        Some(queued) => {
            let title = format::sanitize_line(&record.title);
            output::line(format_args!("waits for its launch, {}: {title} {}", queued.describe(), record.id))
        }
        None => print_record(body, as_json, what_happened),
    }
}

/// Formats a change of a session on one line, with its title, status and id.
fn named(what_happened: &str, record: &SessionRecord) -> String {
    format!("{what_happened}: {} ({}) {}", format::sanitize_line(&record.title), format::status(record), record.id)
}

fn print_json(body: &[u8]) -> Result<(), Failure> {
    output::json(body)
}
