//! Waits in front of a terminal until a new session leaves the launch queue.

use std::time::Duration;

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, KillSession};
use coven_domain::session::SessionState;
use coven_host::home::Home;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{format, output};

/// How often the place is read; only while a person waits.
const READ_INTERVAL: Duration = Duration::from_millis(300);

/// Waits until the session is launched, and prints its place and the reason whenever they change. Ctrl-C cancels the launch.
pub fn wait_for_launch(home: &Home, record: SessionRecord) -> Result<(), Failure> {
    block_on(async {
        let id = record.id.to_string();
        let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::Runtime)?;
        let mut terminations = signal(SignalKind::terminate()).map_err(Failure::Runtime)?;
        let (mut shown, mut record) = (None, record);
        loop {
            let Some(queued) = record.queued_launch() else { return launched(&record) };
            let line = queued.describe();
            if shown.as_ref() != Some(&line) {
                output::note(format_args!(
                    "[waiting for the launch, {line}; Ctrl-C cancels it, `coven start --now {}` overrides the limit]",
                    record.id.short()
                ));
                shown = Some(line);
            }
            tokio::select! {
                () = tokio::time::sleep(READ_INTERVAL) => {}
                _ = interrupts.recv() => return cancel(home, &id).await,
                _ = terminations.recv() => return cancel(home, &id).await,
            }
            // While the daemon restarts, the place stays as it is.
            if let Some(mut link) = DaemonClient::running(home).await? {
                match link.session(&id).await {
                    Ok(read) => record = read,
                    Err(Failure::Client(error)) if error.is_disconnected() => {}
                    Err(error) => return Err(error),
                }
            }
        }
    })
}

fn launched(record: &SessionRecord) -> Result<(), Failure> {
    let id = record.id.short();
    match record.status {
        SessionState::Failed if record.pid.is_none() => {
            let why = record.metadata.get("error").and_then(Value::as_str).unwrap_or("the launch failed");
            let what = format!("session {id} was not launched: {}", format::sanitize_line(why));
            Err(Failure::failed(what, format!("See `coven show {id}`")))
        }
        SessionState::Created if record.archived_at.is_some() => {
            let hint = format!("Restore it with `coven summon {id}` and start it with `coven start {id}`");
            Err(Failure::failed(format!("session {id} was archived while it waited for its launch"), hint))
        }
        _ => Ok(()),
    }
}

async fn cancel(home: &Home, id: &str) -> Result<(), Failure> {
    let mut link = DaemonClient::open(home).await?;
    // The launch may have started in this moment; then the session is killed.
    link.bytes(KillSession::of(id)).await?;
    let short = format::short_id(id);
    let hint = "Run it with --background to leave it in the queue".to_owned();
    Err(Failure::Interrupted { what: format!("cancelled the launch of session {short}"), hint })
}
