//! The last words of a conversation, in the transaction that ends its session.

use coven_acp::Effects;
use coven_domain::message::{Message, MessageChange, Role};
use coven_domain::session::{ExitStatus, Session, SessionState};
use coven_domain::{MessageId, SessionId, Timestamp};
use coven_holder::log::LogReader;
use coven_store::{AcpCheckpointUpdate, Tx};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::Engine;
use super::commit::write_step;
use super::read_loop::feed_machine;
use super::{AcpConnection, new_effects};
use crate::error::EngineError;

/// So much of what an agent wrote to standard error goes into the message about its end.
const STDERR_BYTES: usize = 4096;
/// More than this is read beside the runtime's own threads.
const MUCH: u64 = 256 << 10;

/// A conversation read to its end, to be written with its session's.
pub(crate) struct FinalOutput {
    connection: AcpConnection,
    effects: Effects,
    was_working: bool,
}

impl Engine {
    /// Reads what is left of an agent's output; nothing for a session on a terminal.
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
        let taken = match end.saturating_sub(stored.read_to) > MUCH {
            true => tokio::task::block_in_place(read),
            false => read(),
        };
        if let Err(error) = taken {
            tracing::error!(session = %id, %error, "the end of an agent's output cannot be read");
        }
        let was_working = was_working && connection.machine.state().is_turn_running();
        connection.machine.end(&mut effects);
        // Nobody saw them, and nobody can answer them.
        effects.permission_requests.clear();
        Ok(Some(FinalOutput { connection, effects, was_working }))
    }
}

impl FinalOutput {
    /// Why no session was ever open, if the agent's last words say so.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.effects.failed.take()
    }

    /// Closes what was open and says how it ended.
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
        write_step(tx, id, &self.effects, &[], now).await?;
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

/// What a reader of the history should know about the end; a goodbye was said before.
fn end_message(session: &Session, exit: Option<ExitStatus>, stderr: &[u8], was_working: bool) -> Option<Value> {
    let during = if was_working { " while a prompt was running" } else { "" };
    let message = match session.state {
        SessionState::Failed if session.is_unopened() => return None,
        SessionState::Failed if session.process.is_none() => {
            let reason = session.metadata.get("error").and_then(Value::as_str).unwrap_or("for no reason it gave");
            format!("the agent could not be launched: {reason}")
        }
        SessionState::Failed => match exit {
            Some(ExitStatus::Code(code)) => format!("the agent exited with code {code}{during}"),
            Some(ExitStatus::Signal(signal)) => format!("the agent was ended by signal {signal}{during}"),
            None => format!("the agent is gone{during}"),
        },
        SessionState::Orphaned => format!("the agent is gone and nobody saw how it ended{during}"),
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
