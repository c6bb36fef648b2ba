//! ACP sessions: the protocol state, the agent's output and the input that is queued for it.

mod call;
mod commit;
mod conclude;
mod create;
mod files;
mod inbox;
mod outbox;
mod prompt;
mod read_loop;
mod terminals;
mod workspace;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub use coven_acp::State;
use coven_acp::{Effects, Lines, Machine};
use coven_domain::message::StoredMessage;
use coven_domain::query::MessageQuery;
use coven_domain::session::Session;
use coven_domain::{MessageId, SessionId, Timestamp};
use coven_host::config::Rule;
use coven_store::AcpCheckpoint as Stored;
use tokio::sync::{Mutex, MutexGuard, Semaphore, watch};
use uuid::Uuid;

pub(crate) use self::conclude::FinalOutput;
pub use self::inbox::InboxAnswer;
use self::outbox::Outbox;
pub use self::prompt::ensure_acp;
pub(crate) use self::workspace::HelpFlagCache;
use super::Engine;
use super::live::LiveSession;
use crate::error::EngineError;

/// A live ACP session.
pub struct AcpSession {
    pub id: SessionId,
    /// The folder in which the agent may read and write.
    root: std::path::PathBuf,
    cwd: std::path::PathBuf,
    /// The rule for permission requests: allow, deny, or ask a human.
    rule: Rule,
    connection: Mutex<AcpConnection>,
    outbox: Outbox,
    /// Increases with every commit.
    changes: watch::Sender<u64>,
    last_active: AtomicI64,
    /// Limits concurrent client calls (files and terminals).
    calls: Semaphore,
    /// Set when the session is about to end, which cancels client calls.
    ending: watch::Sender<bool>,
}

const MAX_CONCURRENT_CALLS: usize = 4;
/// How long a request waits for a connection that is busy.
const CONNECTION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The protocol state and the stream offsets. Changes must be stored before the lock is released.
struct AcpConnection {
    machine: Machine,
    lines: Lines,
    /// End of the output that was read from the log.
    read_offset: u64,
    /// End of the last complete line that was processed.
    processed_offset: u64,
    /// End of the input that was queued for the agent.
    queued_offset: u64,
    is_over: bool,
}

pub(crate) fn new_effects() -> Effects {
    Effects::new(Uuid::new_v4)
}

impl AcpSession {
    async fn connection(&self) -> MutexGuard<'_, AcpConnection> {
        self.connection.lock().await
    }

    /// Stops reading and sending. The transaction that ends the session stores the remaining output.
    pub(crate) async fn close(&self) {
        self.begin_end();
        self.connection().await.is_over = true;
        self.notify_changed();
    }

    /// Cancels client calls, so that an end does not wait for them.
    pub(crate) fn begin_end(&self) {
        self.ending.send_replace(true);
    }

    async fn ending(&self) {
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    pub(crate) fn notify_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Receives a new value after every commit.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn touch(&self, now: Timestamp) {
        self.last_active.fetch_max(now.as_millis(), Ordering::Relaxed);
    }

    /// Returns the time of the last message. `None` if the session waits for a human, is busy or is about to end.
    pub fn idle_since(&self) -> Option<Timestamp> {
        let connection = self.connection.try_lock().ok()?;
        let is_waiting = connection.is_over || *self.ending.borrow() || connection.machine.state().waits_for_human();
        (!is_waiting).then(|| Timestamp::from_millis(self.last_active.load(Ordering::Relaxed)))
    }

    /// Returns `read` of the state, or `None` if the connection stays busy.
    pub(crate) async fn with_state<T>(&self, read: impl FnOnce(&State) -> T) -> Option<T> {
        let connection = tokio::time::timeout(CONNECTION_TIMEOUT, self.connection()).await.ok()?;
        Some(read(connection.machine.state()))
    }
}

impl Engine {
    /// Restores an ACP session from its stored checkpoint.
    pub(crate) async fn restore_session(&self, session: &Session) -> Result<Option<Arc<AcpSession>>, EngineError> {
        let Some(stored) = self.store.acp_checkpoint(session.id).await? else { return Ok(None) };
        let machine = self.restore_machine(session.id, &stored).await?;
        let repo = match session.repo_id {
            Some(id) => self.store.repo(id).await?,
            None => None,
        };
        let (name, path) = repo.map_or_else(Default::default, |repo| (repo.name, repo.path));
        let acp = AcpSession {
            id: session.id,
            root: session.project_root.clone().into(),
            cwd: session.cwd.clone().into(),
            rule: self.config.permissions.rule(&session.harness, &name, &path),
            connection: Mutex::new(AcpConnection {
                machine,
                lines: Lines::default(),
                read_offset: stored.read_to,
                processed_offset: stored.read_to,
                queued_offset: stored.written_to,
                is_over: false,
            }),
            outbox: Outbox::new(stored.outbox),
            changes: watch::Sender::new(0),
            // Time without a daemon does not count as idle.
            last_active: AtomicI64::new(coven_holder::clock::now().as_millis()),
            calls: Semaphore::new(MAX_CONCURRENT_CALLS),
            ending: watch::Sender::new(false),
        };
        Ok(Some(Arc::new(acp)))
    }

    /// The protocol as it was stored; the text of an unfinished message is in its pieces.
    async fn restore_machine(&self, id: SessionId, stored: &Stored) -> Result<Machine, EngineError> {
        let state: State = serde_json::from_str(&stored.state).map_err(|error| EngineError::Unreadable {
            id,
            what: "the ACP state",
            source: error,
        })?;
        let needs_messages = state.open_message().is_some() || state.tool_messages().next().is_some();
        let messages = match needs_messages {
            true => self.store.messages(id, &MessageQuery::default()).await?,
            false => Vec::new(),
        };
        let open_text = state.open_message().map(|open| text_of(&messages, open)).unwrap_or_default();
        Ok(Machine::restore(state, open_text, |wanted| {
            let found = messages.iter().rev().find(|message| message.id == wanted)?;
            serde_json::from_str(&found.content).ok()
        }))
    }

    /// Starts the tasks that read from the agent and send to it, until the session or the daemon ends.
    pub(crate) fn spawn_session_tasks(self: &Arc<Self>, live: &Arc<LiveSession>, acp: &Arc<AcpSession>) {
        let (engine, read_live, read_acp) = (self.clone(), live.clone(), acp.clone());
        // Both tasks end with the live session.
        self.background.spawn(async move { engine.read_loop(&read_live, &read_acp).await });
        let (engine, live, sending) = (self.clone(), live.clone(), acp.clone());
        self.background.spawn(async move { engine.deliver(&live, &sending).await });
    }

    /// Receives a new value with every change of a live ACP session.
    pub fn acp_changes(&self, id: SessionId) -> Option<watch::Receiver<u64>> {
        self.acp_session(id).map(|acp| acp.changes())
    }

    pub(crate) fn acp_session(&self, id: SessionId) -> Option<Arc<AcpSession>> {
        self.live_session(id)?.acp.clone()
    }
}

/// What the pieces of a message say together.
fn text_of(messages: &[StoredMessage], whole: MessageId) -> String {
    messages.iter().filter(|message| message.is_chunk && message.message_id == whole).map(chunk_text).collect()
}

fn chunk_text(message: &StoredMessage) -> String {
    #[derive(serde::Deserialize)]
    struct Text {
        text: String,
    }
    serde_json::from_str::<Text>(&message.content).map(|content| content.text).unwrap_or_default()
}
