//! The final output of an ACP session, stored in the transaction that ends the session.

use coven_acp::Effects;
use coven_domain::message::{Message, MessageChange, Role};
use coven_domain::session::{ExitStatus, Session, SessionState};
use coven_domain::{MessageId, SessionId, Timestamp};
use coven_holder::log::LogReader;
use coven_store::{AcpCheckpointUpdate, Tx};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::Engine;
use super::commit::write_effects;
use super::read_loop::feed_machine;
use super::{AcpConnection, new_effects};
use crate::error::EngineError;

/// Maximum bytes of standard error in the message about the end.
const STDERR_BYTES: usize = 4096;
/// More than this is read with `block_in_place`.
const MAX_INLINE_BYTES: u64 = 256 << 10;

/// An ACP session that was read to its end and is not stored yet.
pub(crate) struct FinalOutput {
    connection: AcpConnection,
    effects: Effects,
    was_working: bool,
}

impl Engine {
    /// Reads the remaining output of an ACP session. Returns `None` for a terminal session.
    pub(crate) async fn read_final_output(&self, id: SessionId) -> Result<Option<FinalOutput>, EngineError> {
        let Some(stored) = self.store.acp_checkpoint(id).await? else { return Ok(None) };
        let mut machine = self.restore_machine(id, &stored).await?;
        let was_working = machine.state().is_turn_running();
        machine.begin_end();
        let mut connection = AcpConnection {
            machine,
            lines: coven_acp::Lines::default(),
            read_offset: stored.read_to,
            processed_offset: stored.read_to,
            queued_offset: stored.written_to,
            is_over: true,
        };
        let mut effects = new_effects();
        let mut reader = LogReader::new(&self.home.session_dir(id));
        let end = reader.range().map_or(stored.read_to, |range| range.end);
        let mut read = || feed_machine(&mut connection, &mut reader, end, &mut effects);
        let taken = match end.saturating_sub(stored.read_to) > MAX_INLINE_BYTES {
            true => tokio::task::block_in_place(read),
            false => read(),
        };
        if let Err(error) = taken {
            tracing::error!(session = %id, %error, "cannot read the end of an agent's output");
        }
        let was_working = was_working && connection.machine.state().is_turn_running();
        connection.machine.end(&mut effects);
        // Permission requests that were never shown cannot be answered.
        effects.permission_requests.clear();
        Ok(Some(FinalOutput { connection, effects, was_working }))
    }
}

impl FinalOutput {
    /// Returns why the agent opened no session, if its final output says so.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.effects.failed.take()
    }

    /// Stores the remaining output, a message about the end and the final state.
    pub(crate) async fn write(
        mut self,
        tx: &mut Box<dyn Tx>,
        session: &Session,
        exit: Option<ExitStatus>,
        stderr: &[u8],
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let id = session.id;
        if let Some(content) = end_message(session, exit, stderr, self.was_working) {
            let id = MessageId::from_uuid(Uuid::new_v4());
            let message = Message::new(id, Role::System, &content);
            self.effects.messages.push(MessageChange::Added(message));
        }
        write_effects(tx, id, &self.effects, &[], now).await?;
        let state = serde_json::to_string(self.connection.machine.state()).expect("a state has text keys only");
        let progress = AcpCheckpointUpdate {
            read_to: self.connection.processed_offset,
            written_to: self.connection.queued_offset,
            delivered_to: u64::MAX >> 1,
            active_at: None,
            state: Some(&state),
            lines: &[],
        };
        tx.save_acp_checkpoint(id, &progress).await?;
        let active = tx.active_sessions(session.channel).await?;
        // The row is written after this: a session that was active until now still counts.
        tracing::info!(session = %id, active = active.saturating_sub(1), "an agent session ended");
        Ok(())
    }
}

/// Returns the message about the end for the history. `None` if the history already says it.
fn end_message(session: &Session, exit: Option<ExitStatus>, stderr: &[u8], was_working: bool) -> Option<Value> {
    let during = if was_working { " while a prompt was running" } else { "" };
    let message = match session.state {
        SessionState::Failed if session.is_unopened() => return None,
        SessionState::Failed if session.process.is_none() => {
            let reason = session.metadata.get("error").and_then(Value::as_str).unwrap_or("no reason was given");
            format!("cannot launch the agent: {reason}")
        }
        SessionState::Failed => match exit {
            Some(ExitStatus::Code(code)) => format!("the agent exited with code {code}{during}"),
            Some(ExitStatus::Signal(signal)) => format!("the agent was killed by signal {signal}{during}"),
            None => format!("the agent ended without an exit status{during}"),
        },
        SessionState::Orphaned => format!("the session's holder died before it recorded an exit status{during}"),
        SessionState::Completed if session.metadata.get("reason").is_some_and(|reason| reason == "idle_timeout") => {
            return Some(json!({ "type": "ended", "reason": "idle_timeout" }));
        }
        SessionState::Completed if was_working => "the agent ended while a prompt was running".to_owned(),
        SessionState::Completed | SessionState::Killed | SessionState::Created | SessionState::Running => return None,
    };
    let mut more = Map::new();
    if let Some(code) = session.exit_code {
        more.insert("exitCode".to_owned(), json!(code));
    }
    if !stderr.is_empty() {
        let from = stderr.len().saturating_sub(STDERR_BYTES);
        more.insert("stderr".to_owned(), json!(String::from_utf8_lossy(&stderr[from..])));
    }
    Some(coven_domain::message::error_content(&message, more))
}
