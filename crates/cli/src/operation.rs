//! Waits for an operation of the daemon and shows its progress on one line.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use coven_api::ErrorCode;
use coven_api::operation::{GetOperationQuery, ListOperationsQuery, Operation, OperationProgress};
use coven_api::routes::{Endpoint as _, GetOperation, ListOperations};
use coven_client::ClientError;
use coven_domain::operation::{OperationKind, OperationState};
use coven_host::home::Home;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};
use unicode_width::UnicodeWidthChar;

use crate::daemon_client::DaemonClient;
use crate::failure::Failure;
use crate::{format, output};

const RETRY_DELAY: Duration = Duration::from_millis(200);
/// How long to wait for the next daemon after one stopped.
const RESTART_TIMEOUT: Duration = Duration::from_secs(10);

/// Flags of commands that start an operation.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct WaitArgs {
    /// Print the operation and return without waiting for its end
    #[arg(long)]
    pub no_wait: bool,
}

/// Waits for the end of an operation and returns its result or its error.
pub async fn result<T: DeserializeOwned>(
    home: &Home,
    link: &mut DaemonClient,
    started: Operation,
) -> Result<T, Failure> {
    outcome(wait(home, link, started).await?)
}

fn outcome<T: DeserializeOwned>(ended: Operation) -> Result<T, Failure> {
    match (ended.result, ended.error) {
        (Some(result), _) => Ok(result.parse().map_err(ClientError::from)?),
        (None, Some(error)) => {
            let status = error.code.status();
            let details = error.details.map(Box::new);
            Err(ClientError::Api { status, code: error.code.as_str().to_owned(), message: error.message, details }
                .into())
        }
        (None, None) => {
            let what = format!("operation {} ended without a result", ended.id);
            Err(Failure::failed(what, format!("See `coven operation show {}`", ended.id.short())))
        }
    }
}

/// Waits for the end of an operation, even across a restart of the daemon. Ctrl-C stops the waiting, not the operation.
pub async fn wait(home: &Home, link: &mut DaemonClient, started: Operation) -> Result<Operation, Failure> {
    let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::Runtime)?;
    let (mut operation, mut line) = (started, ProgressLine::new());
    while operation.status == OperationState::Running {
        line.show(&operation.progress);
        tokio::select! {
            changed = next_change(home, link, &operation, line.is_watched) => operation = changed?,
            _ = interrupts.recv() => {
                line.clear();
                let id = operation.id.short();
                let hint = format!("See `coven operation show {id}`, or wait with `coven operation wait {id}`");
                return Err(Failure::Interrupted { what: format!("operation {id} continues in the daemon"), hint });
            }
        }
    }
    Ok(operation)
}

/// Waits for the next change of the operation, or for its end if progress is not shown.
async fn next_change(
    home: &Home,
    link: &mut DaemonClient,
    operation: &Operation,
    is_watched: bool,
) -> Result<Operation, Failure> {
    let query = GetOperationQuery { wait: Some(true), since: is_watched.then_some(operation.updated_at) };
    let id = operation.id.to_string();
    let mut give_up_at = None;
    loop {
        let answer = link.call(GetOperation::of(&id).query(&query)).await;
        let is_stopping = answer.as_ref().is_err_and(|error| error.is(ErrorCode::Unavailable));
        let is_disconnected = answer.as_ref().is_err_and(ClientError::is_disconnected);
        // The daemon is stopping; it may be a restart.
        if is_stopping {
            give_up_at.get_or_insert_with(|| Instant::now() + RESTART_TIMEOUT);
        }
        if !(is_stopping || is_disconnected) || give_up_at.is_none_or(|at| Instant::now() >= at) {
            return Ok(answer?);
        }
        tokio::time::sleep(RETRY_DELAY).await;
        if let Some(next) = DaemonClient::running(home).await? {
            *link = next;
        }
    }
}

/// Returns the newest operation of a kind on a record.
pub async fn newest(link: &mut DaemonClient, kind: OperationKind, subject: &str) -> Result<Option<Operation>, Failure> {
    let query = ListOperationsQuery {
        kind: Some(kind.to_string()),
        subject: Some(subject.to_owned()),
        limit: Some(1),
        ..ListOperationsQuery::default()
    };
    let page = link.call(ListOperations::request().query(&query)).await?;
    Ok(page.items.into_iter().next())
}

/// Prints an operation that was started with --no-wait.
pub fn print_started(operation: &Operation, as_json: bool) -> Result<(), Failure> {
    match as_json {
        true => output::json(&serde_json::to_vec(operation).map_err(ClientError::from)?),
        false => output::line(format_args!(
            "started: {}; see `coven operation show {}`",
            operation.kind,
            operation.id.short()
        )),
    }
}

/// A line on standard error that is rewritten in place. Shows nothing if standard error is not a terminal.
struct ProgressLine {
    is_watched: bool,
    is_shown: bool,
}

impl ProgressLine {
    fn new() -> Self {
        Self { is_watched: io::stderr().is_terminal(), is_shown: false }
    }

    fn show(&mut self, progress: &OperationProgress) {
        if self.is_watched {
            // Leave room for an echoed ^C: a line that wraps cannot be cleared.
            let cols = rustix::termios::tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
            let _ = write!(io::stderr(), "\r\x1b[K{}", line(progress, cols.max(20) - 3));
            self.is_shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Formats `[2/5] running checks`, cut to the width of the terminal.
fn line(progress: &OperationProgress, cols: usize) -> String {
    let message = format::sanitize_line(&progress.message);
    let whole = match progress.total {
        Some(total) => format!("[{}/{total}] {message}", progress.done),
        None => message,
    };
    let mut width = 0;
    whole
        .chars()
        .take_while(|c| {
            width += c.width().unwrap_or(0);
            width <= cols
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_line_is_cut_and_sanitized() {
        let progress = |total, message: &str| OperationProgress { done: 2, total, message: message.to_owned() };
        assert_eq!(line(&progress(Some(5), "running checks"), 79), "[2/5] running checks");
        assert_eq!(line(&progress(None, "waiting\x1b[2J"), 79), "waiting [2J");
        assert_eq!(line(&progress(Some(5), "running checks"), 9), "[2/5] run");
    }
}
