//! The conversation of an ACP session: in the app on a terminal, as text in a pipe.

mod asking;
mod content;
mod diff;
mod feed;
#[cfg(test)]
pub(crate) mod fixtures;
mod follow;
pub mod past;
pub mod plain;
mod report;
mod request;
pub mod row;
mod stream;
mod tool;
pub mod transcript;
#[cfg(test)]
mod transcript_tests;
pub mod turn;
mod wrap;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use coven_domain::session::{Channel, SessionState};
use coven_host::home::Home;

use self::past::Extent;
use self::row::{Row, Style};
use self::transcript::Detail;
use crate::app::{self, Opening};
use crate::daemon_client::{self, DaemonClient};
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::output;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub extent: Extent,
    pub detail: Detail,
    /// Print it, even on a terminal.
    pub wants_text: bool,
}

/// Shows a conversation until the user leaves it; prints it where no app can open.
pub fn open(home: &Home, id: &str, options: Options) -> Result<ExitCode, Failure> {
    let record = daemon_client::block_on(async { DaemonClient::open(home).await?.session(id).await })?;
    let short = record.id.short();
    if record.channel != Channel::Acp {
        let hint = format!("Open it with `coven attach {short}`");
        return Err(Failure::refused("it is a terminal session, not a conversation", hint));
    }
    if record.metadata.get("detached").is_some_and(|detached| detached == true)
        && record.status == SessionState::Created
    {
        return Err(Failure::refused(
            "the session has not been started",
            format!("Launch it with `coven start {short}`"),
        ));
    }
    if app::is_wanted(options.wants_text) {
        return app::open(home, Opening::focused(record.id.to_string()));
    }
    let extent = if output::is_terminal() { options.extent } else { Extent::All };
    let connector = DaemonConnector::to(home)?;
    plain::show(&connector, &record, extent, options.detail, !io::stdin().is_terminal())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what an agent wants to do, as far as a request for permission says.
pub fn request_rows(detail: &serde_json::Value) -> Vec<Row> {
    let call = tool::ToolCall::of_request(detail);
    let mut rows = vec![Row::new(Style::Plain, &format!("{:<10}{}", "wants", call.label()))];
    rows.extend(call.content_rows());
    rows
}

fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn feed_ended() -> Failure {
    Failure::failed("the connection to the daemon ended unexpectedly", "Run the command again")
}
