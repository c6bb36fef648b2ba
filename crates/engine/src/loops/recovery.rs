//! Recovers the sessions of an earlier daemon at start.

use std::sync::Arc;
use std::time::Duration;

use coven_domain::SessionId;
use coven_domain::recovery::{HolderStatus, SessionVerdict, session_verdict};
use coven_domain::session::{ExitStatus, ProcessIdentity, Session, SessionState};
use coven_holder::client::{HolderClient, HolderError};
use coven_holder::clock;
use coven_holder::journal::{JournalReader, JournalWriter, Record};
use coven_holder::process;
use coven_holder::wire::EndMode;

use tokio::sync::{Semaphore, mpsc};

use crate::Engine;
use crate::error::EngineError;
use crate::follow::HOLDER_GONE;
use crate::leftovers::Processes;
use crate::log_file;
use crate::runtime;

/// Number of sessions that are recovered concurrently.
const MAX_CONCURRENT: usize = 32;
/// How long a start waits for all sessions.
const START_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY_DELAY: Duration = Duration::from_secs(2);
const SILENT: &str = "a session's holder does not answer; the daemon retries";
const PID_REUSED: &str = "the recorded pid now belongs to another process; coven did not signal it";

/// Number of sessions of an earlier daemon by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    pub adopted: usize,
    pub ended: usize,
    pub orphaned: usize,
    pub failed: usize,
}

/// Recovers every session that may still be running, concurrently. A failure does not affect other sessions. A slow
/// holder does not delay the start: its session is retried in the background.
pub async fn recover(engine: &Arc<Engine>) -> Result<Recovered, EngineError> {
    let (sender, mut verdicts) = mpsc::unbounded_channel();
    let turns = Arc::new(Semaphore::new(MAX_CONCURRENT));
    for session in engine.store.sessions_to_recover().await? {
        let (engine, sender, turns) = (engine.clone(), sender.clone(), turns.clone());
        // Ends once the session is recovered, or with the daemon.
        runtime::spawn(async move {
            let verdict = apply_verdict(&engine, session, &turns).await;
            let _ = sender.send(verdict);
        });
    }
    drop(sender);
    let mut recovered = Recovered::default();
    let until = tokio::time::Instant::now() + START_TIMEOUT;
    while let Ok(Some(verdict)) = tokio::time::timeout_at(until, verdicts.recv()).await {
        match verdict {
            Some(SessionVerdict::Adopt | SessionVerdict::KillAgain) => recovered.adopted += 1,
            Some(SessionVerdict::Ended(_)) => recovered.ended += 1,
            Some(SessionVerdict::Orphaned) => recovered.orphaned += 1,
            Some(SessionVerdict::LaunchFailed) => recovered.failed += 1,
            Some(SessionVerdict::Leave | SessionVerdict::RetryProbe) | None => {}
        }
    }
    Ok(recovered)
}

/// Probes a session until there is a verdict, and applies it.
async fn apply_verdict(engine: &Arc<Engine>, mut session: Session, turns: &Semaphore) -> Option<SessionVerdict> {
    let id = session.id;
    loop {
        let turn = turns.acquire().await;
        let verdict = recover_one(engine, session).await;
        drop(turn);
        match verdict {
            Ok(SessionVerdict::RetryProbe) => {
                engine.report_problem(SILENT);
                engine.end_silent(id).await;
            }
            Ok(verdict) => {
                engine.clear_problem(SILENT);
                return Some(verdict);
            }
            Err(error) => {
                tracing::error!(session = %id, %error, "cannot recover a session");
                return None;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_DELAY) => {}
            () = engine.stopped() => return None,
        }
        session = engine.session(id).await.ok()?;
    }
}

async fn recover_one(engine: &Arc<Engine>, session: Session) -> Result<SessionVerdict, EngineError> {
    let dir = engine.home.session_dir(session.id);
    let looked_at = session.clone();
    if session.state == SessionState::Killed || session.end_intent.is_some() {
        // The harness may have stopped its holder.
        Processes::of(&session).wake_holder();
    }
    let (finding, connection, exit, started) =
        tokio::task::spawn_blocking(move || probe(&dir, &looked_at)).await.expect("probing does not panic");
    let verdict = session_verdict(session.state, session.launching_at.is_some(), finding, exit);
    tracing::info!(session = %session.id, ?finding, ?verdict, "recovering");
    match verdict {
        SessionVerdict::Leave if session.state == SessionState::Killed => {
            if finding == HolderStatus::Gone {
                engine.kill_orphaned_harness(&session).await;
            }
            engine.reconcile_from_journal(session.id, HOLDER_GONE).await?;
        }
        SessionVerdict::Leave | SessionVerdict::RetryProbe => {}
        SessionVerdict::Adopt | SessionVerdict::KillAgain => {
            let session = match (session.state, started) {
                // The daemon stopped after the spawn and before the record.
                (SessionState::Created, Some(process)) => {
                    engine.change_session(session.id, "running", |session, now| session.spawned(process, now)).await?
                }
                _ => session,
            };
            let client = connection.expect("a verified holder answered");
            let stream = client.stream().try_clone().map_err(|source| EngineError::Log { id: session.id, source })?;
            engine.adopt(&session, stream, None, false).await?;
            if verdict == SessionVerdict::KillAgain {
                engine.send_end(&session, EndMode::Kill).await;
            } else if session.end_intent.is_some() {
                engine.send_end(&session, EndMode::Finish).await;
            }
        }
        SessionVerdict::Ended(_) | SessionVerdict::LaunchFailed | SessionVerdict::Orphaned => {
            let orphaned = if finding == HolderStatus::Mismatch { PID_REUSED } else { HOLDER_GONE };
            engine.reconcile_from_journal(session.id, orphaned).await?;
            // Only the journal has the process of an interrupted launch.
            let session = Session { process: session.process.clone().or(started), ..session };
            if finding == HolderStatus::Gone && !matches!(verdict, SessionVerdict::Ended(_)) {
                engine.kill_orphaned_harness(&session).await;
            }
        }
    }
    Ok(verdict)
}

type HolderProbe =
    (HolderStatus, Option<HolderClient>, Option<coven_domain::session::ExitStatus>, Option<ProcessIdentity>);

/// Probes holder, harness and journal. Connects to the holder first, so that the journal is read after its last write.
fn probe(dir: &std::path::Path, session: &Session) -> HolderProbe {
    let connected = HolderClient::connect(dir);
    if connected.is_err() && session.state == SessionState::Created {
        // A holder that starts later finds this journal and launches nothing.
        let _ = JournalWriter::create(&dir.join(coven_holder::JOURNAL));
    }
    let (exit, started) = read_exit_record(dir);
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            let finding = if is_gone(&error) { HolderStatus::Gone } else { HolderStatus::Silent };
            return (finding, None, exit, started);
        }
    };
    // Prefer the stored process; only the journal has that of an interrupted launch.
    let Some(recorded) = session.process.clone().or_else(|| started.clone()) else {
        return (HolderStatus::Mismatch, None, exit, started);
    };
    let is_the_same = client.welcome.pid == recorded.pid
        && client.welcome.started_ticks == recorded.started_ticks
        && process::boot_id().is_ok_and(|boot| boot == recorded.boot_id);
    // A harness that just exited has no command line; its holder is about to report the exit.
    let is_itself = !process::is_alive(&recorded) || process::shows(recorded.pid, &session.launch.identity);
    match is_the_same && is_itself {
        true => (HolderStatus::Verified, Some(client), exit, started),
        false => (HolderStatus::Mismatch, None, exit, started),
    }
}

/// Reports whether the holder is gone. Every other error may come from a slow holder.
fn is_gone(error: &HolderError) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound};
    match error {
        HolderError::Unreachable(error) => matches!(error.kind(), NotFound | ConnectionRefused),
        HolderError::Broken(error) => error.kind() == ConnectionReset,
        HolderError::Closed => true,
        HolderError::Protocol(_) | HolderError::Refused(_) => false,
    }
}

fn read_exit_record(dir: &std::path::Path) -> (Option<ExitStatus>, Option<ProcessIdentity>) {
    let (mut exit, mut started) = (None, None);
    let Ok(mut journal) = JournalReader::open(&dir.join(coven_holder::JOURNAL)) else { return (exit, started) };
    while let Ok(records) = journal.read_more(1 << 20) {
        if records.is_empty() {
            break;
        }
        for (_, stamped) in records {
            match stamped.record {
                Record::Exit(status) => exit = Some(status),
                Record::Start { pid, started_ticks, boot_id, .. } => {
                    started = Some(ProcessIdentity { pid, started_ticks, boot_id });
                }
                _ => {}
            }
        }
    }
    (exit, started)
}

/// Compresses logs of finished sessions that an earlier daemon did not compress.
pub async fn tidy_up(engine: &Arc<Engine>) -> Result<(), EngineError> {
    let dir = engine.home.sessions_dir();
    let found = tokio::task::spawn_blocking(move || -> Vec<SessionId> {
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        let has_plain = |path: &std::path::Path| {
            coven_holder::log::segments(path).is_ok_and(|starts| {
                starts.iter().any(|start| {
                    let file = path.join(coven_holder::log::segment_name(*start));
                    std::fs::metadata(file).is_ok_and(|it| it.len() >= log_file::WORTH_PACKING)
                })
            })
        };
        let entries = entries.flatten().filter(|entry| has_plain(&entry.path()));
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    })
    .await
    .unwrap_or_default();
    for id in found {
        engine.compress_later(id);
    }
    Ok(())
}

impl Engine {
    /// Ends a session whose holder does not answer, if it was requested to end or its launch timed out.
    async fn end_silent(self: &Arc<Self>, id: SessionId) {
        let Ok(session) = self.session(id).await else { return };
        if session.state == SessionState::Killed || (session.is_live() && session.end_intent.is_some()) {
            self.ensure_ended(&session, false).await;
        } else if let Some(since) = session.launching_at.filter(|_| session.is_launching())
            && clock::now().since(since) >= self.launch_limit()
        {
            tracing::warn!(session = %id, "ending a launch that timed out");
            Processes::of_launch(id).end_launch().await;
        }
    }

    /// Ends a session without a journal: its harness never ran.
    pub(crate) async fn end_without_journal(self: &Arc<Self>, id: SessionId) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        let reason = "the daemon stopped before the harness was launched";
        match session.state {
            SessionState::Created => self.record_launch_failure(id, reason).await?,
            SessionState::Running => {
                self.change_session(id, "orphaned", |session, now| session.orphaned("the session's log is gone", now))
                    .await?;
            }
            SessionState::Completed | SessionState::Failed | SessionState::Killed | SessionState::Orphaned => {}
        }
        Ok(())
    }
}
