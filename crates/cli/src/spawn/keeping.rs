//! Deletes conversations: one by id, or old ones, on request or automatically.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::time::Duration;

use coven_holder::clock;
use coven_interop::conversations::{Cleaned, Conversations};

use super::report;
use crate::failure::{self, Failure};
use crate::format::count;
use crate::output;

const DAY: f64 = 86_400.0;
/// Log of deletions, next to the folder of conversations.
const LOG: &str = "cleanup.log";

pub fn delete(conversations: &Conversations, id: &str, confirms: bool) -> Result<ExitCode, Failure> {
    // Requires the full id: a prefix could match another conversation.
    let id = conversations.exact(id).ok_or_else(|| report::not_found(conversations, id))?;
    if confirms && !confirmed(&format!("Delete session '{id}'? [y/N] "))? {
        return Ok(ExitCode::SUCCESS);
    }
    conversations.delete(&id)?;
    output::line(format_args!("Session '{id}' deleted"))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for confirmation before deleting.
fn confirmed(question: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "nothing was deleted: --interactive-confirm asks first, and standard input is not a terminal",
            "Omit it to delete without confirmation",
        ));
    }
    let agrees = matches!(super::ask(question)?.as_str(), "y" | "yes");
    if !agrees {
        output::line(format_args!("nothing was deleted"))?;
    }
    Ok(agrees)
}

pub fn clean(conversations: &Conversations, days: f64, confirms: bool) -> Result<ExitCode, Failure> {
    let age = Duration::try_from_secs_f64(days * DAY)
        .map_err(|_| Failure::usage(format!("invalid number of days: {days}"), "Use 0 or more"))?;
    if confirms && !confirmed(&format!("Delete the sessions that were last changed {days} or more days ago? [y/N] "))? {
        return Ok(ExitCode::SUCCESS);
    }
    let cleaned = conversations.clean(age, clock::now())?;
    log(conversations, &cleaned);
    for (id, why) in &cleaned.failed {
        failure::print_error(&format!("cannot delete '{id}': {why}"));
    }
    let spared = match cleaned.spared.len() {
        0 => String::new(),
        1 => "; 1 in use was kept".to_owned(),
        spared => format!("; {spared} in use were kept"),
    };
    output::line(format_args!("{} deleted{spared}", count(cleaned.removed.len(), "session")))?;
    Ok(if cleaned.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Deletes expired conversations on a detached thread, which ends with the process at the latest.
pub fn clean_in_background(conversations: &Conversations, expiry: Option<Duration>) {
    let (Some(expiry), conversations) = (expiry, conversations.clone()) else { return };
    // If no thread can be started, the next start cleans up.
    let _ = std::thread::Builder::new().name("clean".to_owned()).spawn(move || {
        if let Ok(cleaned) = conversations.clean(expiry, clock::now()) {
            log(&conversations, &cleaned);
        }
    });
}

fn log(conversations: &Conversations, cleaned: &Cleaned) {
    if cleaned.removed.is_empty() && cleaned.failed.is_empty() {
        return;
    }
    let at = clock::now();
    let mut text = String::new();
    for id in &cleaned.removed {
        text.push_str(&format!("{at} deleted {id}\n"));
    }
    for (id, why) in &cleaned.failed {
        text.push_str(&format!("{at} could not delete {id}: {why}\n"));
    }
    let Some(folder) = conversations.path().parent() else { return };
    // Without NONBLOCK, opening a FIFO would wait for its reader.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(flags).open(folder.join(LOG));
    // The log is only informative, so a failure to write it is ignored.
    let _ = opened.and_then(|mut file| file.write_all(text.as_bytes()));
}
