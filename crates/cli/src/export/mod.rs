//! Exports a session's recording in other formats, converted while it streams.

mod asciicast;
mod conversation;
pub mod kept;
mod progress;
mod target;

use std::io::{self, Write};
use std::path::Path;

use coven_api::SessionRecord;
use coven_api::entry::EntryRecord;
use coven_client::ClientError;
use coven_domain::entry::EntryKind;
use coven_domain::session::Channel;
use coven_screen::{HtmlLog, TextLog};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::asciicast::Asciicast;
use self::progress::Progress;
pub use self::target::Target;
use crate::daemon_client::DaemonClient;
use crate::failure::Failure;
use crate::ledger::{Ledger, page_after, size_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Plain text as it appeared on the screen, without colours
    Text,
    /// Recording for asciinema (version 2)
    Asciicast,
    /// HTML page with colours
    Html,
    /// Entries of the ledger, or messages of a conversation, one JSON object per line
    Jsonl,
}

impl Format {
    /// Returns the format for the extension of the output file.
    pub fn of(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(ending) = file.and_then(Path::extension) else { return Ok(Self::Text) };
        match ending.to_str() {
            Some("cast") => Ok(Self::Asciicast),
            Some("html" | "htm") => Ok(Self::Html),
            Some("jsonl" | "ndjson" | "json") => Ok(Self::Jsonl),
            Some("txt" | "text" | "log" | "md") => Ok(Self::Text),
            _ => Err(Failure::usage(
                format!("cannot export to a .{} file", ending.display()),
                "Use the extension .txt, .cast, .html or .jsonl, or choose the content with --format",
            )),
        }
    }
}

/// Converts entries in order.
enum Converter {
    Text(Box<TextLog>),
    Html(Box<HtmlLog>),
    Asciicast(Asciicast),
}

impl Converter {
    fn new(format: Format, record: &SessionRecord, first: &EntryRecord, with_input: bool) -> Self {
        // The default terminal size, for a session without a recorded size.
        let (rows, cols) = size_of(first).unwrap_or((24, 80));
        match format {
            Format::Text => Self::Text(Box::new(TextLog::new(rows, cols))),
            Format::Html => Self::Html(Box::new(HtmlLog::new(rows, cols, &record.title))),
            Format::Asciicast | Format::Jsonl => {
                Self::Asciicast(Asciicast::new(rows, cols, &record.title, first, with_input))
            }
        }
    }

    fn take(&mut self, entry: &EntryRecord, out: &mut dyn Write) -> io::Result<()> {
        match (self, entry.kind) {
            (Self::Asciicast(cast), _) => cast.take(entry, out),
            (Self::Text(log), EntryKind::Output) => log.push(&entry.bytes(), out),
            (Self::Html(log), EntryKind::Output) => log.push(&entry.bytes(), out),
            (Self::Text(log), EntryKind::Resize) => {
                if let Some((rows, cols)) = size_of(entry) {
                    log.resize(rows, cols);
                }
                Ok(())
            }
            (Self::Html(log), EntryKind::Resize) => {
                if let Some((rows, cols)) = size_of(entry) {
                    log.resize(rows, cols);
                }
                Ok(())
            }
            (Self::Text(_) | Self::Html(_), _) => Ok(()),
        }
    }

    fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Text(log) => log.finish(out),
            Self::Html(log) => log.finish(out),
            Self::Asciicast(cast) => cast.finish(out),
        }
    }
}

/// Writes the session in a format. Returns its id if its log was read.
pub async fn export(
    link: &mut DaemonClient,
    id: &str,
    format: Format,
    with_input: bool,
    target: &mut Target,
) -> Result<Option<String>, Failure> {
    let record = link.session(id).await?;
    let mut progress = Progress::new();
    if record.channel == Channel::Acp {
        conversation::export(link, &record, format, target).await?;
        return Ok(None);
    }
    if format == Format::Jsonl {
        entries(link, &record.id.to_string(), target, &mut progress).await?;
        return Ok(Some(record.id.to_string()));
    }
    let mut ledger = Ledger::after(&record.id.to_string(), 0);
    let Some(first) = ledger.next(link).await? else {
        return Err(Failure::refused(
            format!("session {} has no output yet", record.id.short()),
            "Start it, or wait for output",
        ));
    };
    let mut converter = Converter::new(format, &record, &first, with_input);
    let mut entry = Some(first);
    while let Some(current) = entry {
        converter.take(&current, target).map_err(Failure::Output)?;
        progress.reached(current.offset + current.length.unwrap_or(0));
        entry = ledger.next(link).await?;
    }
    converter.finish(target).map_err(Failure::Output)?;
    progress.done();
    Ok(Some(record.id.to_string()))
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(borrow)]
    entries: Vec<&'a RawValue>,
    next: u64,
}

/// Writes the entries as the daemon sends them, one per line.
async fn entries(
    link: &mut DaemonClient,
    id: &str,
    target: &mut Target,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let body = link.bytes(page_after(id, after)).await?;
        let page: RawPage<'_> = serde_json::from_slice(&body).map_err(ClientError::from)?;
        for entry in &page.entries {
            writeln!(target, "{entry}").map_err(Failure::Output)?;
        }
        if page.entries.is_empty() || page.next <= after {
            progress.done();
            return Ok(());
        }
        after = page.next;
    }
}
