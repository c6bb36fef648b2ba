//! Reads an agent's output from the log, line by line from the stored offset, and stores it in batches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use coven_acp::{Effects, Taken};
use coven_domain::session::EndIntent;
use coven_holder::log::LogReader;
use coven_holder::wire::{EndMode, Request};
use tokio::time::{Instant, sleep_until};

use super::super::Engine;
use super::super::live::LiveSession;
use super::{AcpConnection, AcpSession, new_effects};
use crate::runtime;

/// Minimum time between two commits: short for readers, but a thousand chunks a second are only a few writes.
const MIN_COMMIT_INTERVAL: Duration = Duration::from_millis(40);
/// The interval is at least this multiple of the last commit's time, so that many sessions share the store.
const COMMIT_TIME_FACTOR: u32 = 20;
const MAX_COMMIT_INTERVAL: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 256 << 10;
/// Maximum bytes per batch; the lock is released between batches.
const BATCH_BYTES: u64 = 8 << 20;
const READ_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long an idle agent may take to exit after `session/cancel`.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// Outcome of reading a batch.
enum Read {
    Behind,
    UpToDate,
    Failed,
    Over,
}

impl Engine {
    pub(super) async fn read_loop(self: &Arc<Self>, live: &Arc<LiveSession>, acp: &Arc<AcpSession>) {
        let mut progress = live.progress();
        let mut reader = LogReader::new(&live.dir);
        let deadline = Instant::now() + self.config.agents.handshake();
        if let Some(Some(reason)) = acp.with_state(|state| state.failure().map(str::to_owned)).await {
            // An earlier daemon stopped before it ended this session.
            self.end_failed_handshake(acp, &reason).await;
        }
        self.resume_client_calls(acp).await;
        loop {
            let end = *progress.borrow_and_update();
            let stored_at = Instant::now();
            match self.read_batch(live, acp, &mut reader, end).await {
                Read::Behind => continue,
                Read::UpToDate => {}
                Read::Failed => {
                    tokio::time::sleep(READ_RETRY_DELAY).await;
                    continue;
                }
                Read::Over => return,
            }
            let interval = (stored_at.elapsed() * COMMIT_TIME_FACTOR).clamp(MIN_COMMIT_INTERVAL, MAX_COMMIT_INTERVAL);
            let opens = acp.connection().await.machine.waits_to_open();
            tokio::select! {
                changed = progress.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep_until(stored_at + interval).await;
                }
                () = sleep_until(deadline), if opens => self.fail_handshake(acp).await,
                () = live.ended() => return,
                () = self.stopped() => return,
            }
        }
    }

    /// Reads and stores a batch that ends at `end` at most.
    async fn read_batch(
        self: &Arc<Self>,
        live: &LiveSession,
        acp: &Arc<AcpSession>,
        reader: &mut LogReader,
        end: u64,
    ) -> Read {
        let mut connection = acp.connection().await;
        if connection.is_over {
            return Read::Over;
        }
        let until = end.min(connection.read_offset + BATCH_BYTES);
        let mut effects = new_effects();
        let before = connection.processed_offset;
        let mut read = || feed_machine(&mut connection, reader, until, &mut effects);
        // Parsing megabytes would block the runtime's threads.
        let taken = match until.saturating_sub(before) > READ_BYTES as u64 {
            true => tokio::task::block_in_place(read),
            false => read(),
        };
        for warning in &effects.warnings {
            tracing::debug!(session = %live.id, warning, "from the agent");
        }
        if connection.processed_offset > before || !effects.is_empty() {
            acp.touch(coven_holder::clock::now());
            // Also after a read error: the offsets cover the lines before it.
            self.commit_with_retry(acp, &mut connection, effects).await;
        }
        match taken {
            Err(error) => {
                tracing::error!(session = %live.id, %error, "cannot read an agent's output; retrying");
                Read::Failed
            }
            Ok(()) if connection.read_offset < end => Read::Behind,
            Ok(()) => Read::UpToDate,
        }
    }

    /// Fails the session, because the agent did not open it in time.
    async fn fail_handshake(self: &Arc<Self>, acp: &Arc<AcpSession>) {
        let mut connection = acp.connection().await;
        if connection.is_over || !connection.machine.waits_to_open() {
            return;
        }
        let mut effects = new_effects();
        let seconds = self.config.agents.handshake().as_secs_f64();
        let reason = format!(
            "the agent did not open a session within {seconds} seconds; see its standard error with `coven show {}`, or \
             raise agents.handshakeSeconds",
            acp.id
        );
        connection.machine.fail(&reason, &mut effects);
        self.commit_with_retry(acp, &mut connection, effects).await;
        // Nothing more is read from this agent.
        connection.is_over = true;
    }

    /// Ends a session whose agent failed to open it.
    pub(super) async fn end_failed_handshake(self: &Arc<Self>, acp: &AcpSession, reason: &str) {
        let id = acp.id;
        // The reason is in the record and the messages. It is not logged, because it may contain secrets.
        tracing::warn!(session = %id, "ending a session that its agent could not open");
        let reason = reason.to_owned();
        let changed = self
            .change_session(id, "open_failed", move |session, now| {
                super::super::termination::ensure_live(session)?;
                session.open_failed(&reason, now);
                Ok::<(), crate::error::EngineError>(())
            })
            .await;
        match changed {
            Ok(session) => self.send_end(&session, EndMode::Kill).await,
            Err(error) => tracing::error!(session = %id, %error, "cannot end a session that its agent could not open"),
        }
    }

    /// Cancels the agent's turn and ends its session as idle. The agent gets `session/cancel` and the end of its input,
    /// and time to exit by itself before it is signalled.
    pub async fn idle_out(self: &Arc<Self>, id: coven_domain::SessionId) -> Result<(), crate::error::EngineError> {
        let session = self
            .change_session(id, "idled_out", |session, now| {
                super::super::termination::ensure_live(session)?;
                session.end_requested(EndIntent::IdleTimeout, now);
                Ok::<(), crate::error::EngineError>(())
            })
            .await?;
        if let Err(error) = self.send_cancel(id, None).await {
            tracing::info!(session = %id, %error, "cannot announce the end of the session to the agent");
        }
        let (engine, live) = (self.clone(), self.live_session(id));
        // Ends by itself, or with the daemon; the next daemon ends the session.
        runtime::spawn(async move {
            if let Some(live) = live
                && engine.send_to_holder(id, &[Request::CloseInput]).await.is_ok()
                && tokio::time::timeout(CANCEL_GRACE, live.ended()).await.is_ok()
            {
                return;
            }
            engine.send_end(&session, EndMode::Finish).await;
        });
        Ok(())
    }
}

/// Feeds the machine with the log up to `until`.
pub(super) fn feed_machine(
    connection: &mut AcpConnection,
    reader: &mut LogReader,
    until: u64,
    effects: &mut Effects,
) -> std::io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    while connection.read_offset < until {
        let wanted = usize::try_from(until - connection.read_offset).unwrap_or(READ_BYTES).min(READ_BYTES);
        let count = match reader.read_at(connection.read_offset, &mut buffer[..wanted]) {
            Ok(0) => {
                // The log dropped its oldest segments; continue with the first that is left.
                let first = reader.range()?.start;
                if first <= connection.read_offset {
                    return Ok(());
                }
                effects.warnings.push(format!("{} bytes of the log are gone", first - connection.read_offset));
                (connection.read_offset, connection.processed_offset) = (first, first);
                connection.lines = coven_acp::Lines::default();
                continue;
            }
            Ok(count) => count,
            Err(error) => return Err(error),
        };
        let machine = &mut connection.machine;
        let fed = connection.lines.feed(&buffer[..count], |taken| match taken {
            Taken::Line(line) => {
                // A panic must not affect more than one line.
                let handled = catch_unwind(AssertUnwindSafe(|| machine.line(line, effects)));
                if handled.is_err() {
                    effects.warnings.push("a line caused a panic".to_owned());
                }
            }
            Taken::TooLong(head) => machine.too_long(head, effects),
        });
        if let Some(end) = fed.lines_end {
            connection.processed_offset = connection.read_offset + end as u64;
        }
        connection.read_offset += count as u64;
    }
    Ok(())
}
