//! What a starting daemon makes of the sessions it finds.

use std::sync::Arc;

use coven_domain::SessionId;
use coven_domain::recovery::{HolderFinding, SessionVerdict, session_verdict};
use coven_domain::session::{ProcessIdentity, Session, SessionState};
use coven_holder::client::HolderClient;
use coven_holder::journal::{JournalReader, Record};
use coven_holder::process;
use coven_holder::wire::How;

use crate::engine::Engine;
use crate::error::EngineError;

/// What was done with the sessions that an earlier daemon left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    pub adopted: usize,
    pub ended: usize,
    pub orphaned: usize,
    pub failed: usize,
}

/// Looks at every session that may still run. One that cannot be recovered does not stop the others.
pub async fn recover(engine: &Arc<Engine>) -> Result<Recovered, EngineError> {
    let mut recovered = Recovered::default();
    for session in engine.store.unsettled_sessions().await? {
        let id = session.id;
        match recover_one(engine, session).await {
            Ok(SessionVerdict::Adopt | SessionVerdict::KillAgain) => recovered.adopted += 1,
            Ok(SessionVerdict::Ended(_)) => recovered.ended += 1,
            Ok(SessionVerdict::Orphaned) => recovered.orphaned += 1,
            Ok(SessionVerdict::LaunchFailed) => recovered.failed += 1,
            Ok(SessionVerdict::Leave) => {}
            Err(error) => tracing::error!(session = %id, %error, "a session could not be recovered"),
        }
    }
    Ok(recovered)
}

async fn recover_one(engine: &Arc<Engine>, session: Session) -> Result<SessionVerdict, EngineError> {
    let dir = engine.home.session_dir(session.id);
    let looked_at = session.clone();
    let (finding, connection, exit, started) =
        tokio::task::spawn_blocking(move || look(&dir, &looked_at)).await.expect("looking does not panic");
    let verdict = session_verdict(session.state, session.launching_at.is_some(), finding, exit);
    tracing::info!(session = %session.id, ?finding, ?verdict, "recovering");
    match verdict {
        SessionVerdict::Leave if session.state == SessionState::Killed => {
            engine.settle_from_journal(session.id).await?;
        }
        SessionVerdict::Leave => {}
        SessionVerdict::Adopt | SessionVerdict::KillAgain => {
            let session = match (session.state, started) {
                // The daemon was stopped between the spawn and its record.
                (SessionState::Created, Some(process)) => {
                    engine.change_session(session.id, "running", |session, now| session.spawned(process, now)).await?
                }
                _ => session,
            };
            let client = connection.expect("a verified holder answered");
            let stream = client.stream().try_clone().map_err(|source| EngineError::Log { id: session.id, source })?;
            engine.adopt(&session, stream, None, false).await?;
            if verdict == SessionVerdict::KillAgain {
                engine.send_end(&session, How::Kill).await;
            } else if session.end_intent.is_some() {
                engine.send_end(&session, How::Finish).await;
            }
        }
        SessionVerdict::Ended(_) | SessionVerdict::LaunchFailed | SessionVerdict::Orphaned => {
            engine.settle_from_journal(session.id).await?;
            if finding == HolderFinding::Gone && verdict == SessionVerdict::Orphaned {
                engine.end_leftovers(&session).await;
            }
        }
    }
    Ok(verdict)
}

type Seen = (HolderFinding, Option<HolderClient>, Option<coven_domain::session::ExitStatus>, Option<ProcessIdentity>);

/// Holder, harness and journal as they are.
fn look(dir: &std::path::Path, session: &Session) -> Seen {
    let (mut exit, mut started) = (None, None);
    if let Ok(mut journal) = JournalReader::open(&dir.join(coven_holder::JOURNAL)) {
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
    }
    let Ok(client) = HolderClient::connect(dir) else { return (HolderFinding::Gone, None, exit, started) };
    // What was recorded in the store counts; only a launch that was cut off is known from its journal alone.
    let Some(recorded) = session.process.clone().or_else(|| started.clone()) else {
        return (HolderFinding::Mismatch, None, exit, started);
    };
    let is_the_same = client.welcome.pid == recorded.pid && client.welcome.started_ticks == recorded.started_ticks;
    let is_verified =
        is_the_same && process::is_alive(&recorded) && process::shows(recorded.pid, &session.launch.identity);
    match is_verified {
        true => (HolderFinding::Verified, Some(client), exit, started),
        false => (HolderFinding::Mismatch, None, exit, started),
    }
}

impl Engine {
    /// A session without a journal never ran.
    pub(crate) async fn end_without_journal(self: &Arc<Self>, id: SessionId) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        let reason = "the daemon stopped before the harness was launched";
        match session.state {
            SessionState::Created => {
                self.change_session(id, "failed", |session, now| session.launch_failed(reason, now)).await?;
            }
            SessionState::Running => {
                self.change_session(id, "orphaned", |session, now| session.orphaned("its log is gone", now)).await?;
            }
            SessionState::Completed | SessionState::Failed | SessionState::Killed | SessionState::Orphaned => {}
        }
        Ok(())
    }
}
