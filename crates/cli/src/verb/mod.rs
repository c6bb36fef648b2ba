//! The verbs of the command line, one file each.

pub mod archive;
pub mod attach;
pub mod completions;
pub mod config;
pub mod daemon;
mod daemon_logs;
pub mod db;
pub mod doctor;
pub mod events;
pub mod export;
pub mod finish;
pub mod harness;
pub mod init;
pub mod input;
pub mod kill;
pub mod man;
pub mod replay;
pub mod run;
pub mod sacrifice;
pub mod screen;
pub mod serve;
pub mod sessions;
pub mod show;
pub mod start;
pub mod state;
pub mod summon;
pub mod wait;

use std::collections::BTreeMap;

use bytes::Bytes;
use clap::builder::NonEmptyStringValueParser;
use coven_api::{ClientError, SessionRecord};

use crate::failure::Failure;
use crate::{output, wording};

/// The session a verb is about.
#[derive(Debug, clap::Args)]
pub struct SessionArg {
    /// The session: its id, or any beginning of it that no other session has
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
}

/// The environment of this shell, for the harness. What is not text cannot be sent and stays here.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Prints what became of a session: the record as it came, or a line for people.
fn print_record(body: &Bytes, as_json: bool, what_happened: &str) -> Result<(), Failure> {
    if as_json {
        return print_json(body);
    }
    let record: SessionRecord = serde_json::from_slice(body).map_err(ClientError::from)?;
    let (title, id) = (wording::plain(&record.title), &record.id);
    output::line(format_args!("{what_happened}: {title} ({}) {id}", wording::status(&record)))
}

fn print_json(body: &[u8]) -> Result<(), Failure> {
    output::bytes(&[body, b"\n"].concat())
}
