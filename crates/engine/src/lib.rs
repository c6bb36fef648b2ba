//! The use cases of the daemon: one method each, one file per noun, and the loops that call them. Only this crate
//! writes to the store. It does not know the wire format.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod acp;
pub mod activity;
mod announce;
pub mod archive;
pub mod attach;
mod ballast;
mod blocking;
pub mod caller;
pub mod conversation;
pub mod describe;
pub mod error;
pub mod events;
pub mod evidence;
pub mod feed;
pub mod follow;
mod harness;
mod holder_requests;
pub mod hook;
mod hook_files;
pub mod inbox;
pub mod launch;
mod launch_queue;
pub(crate) mod leftovers;
pub mod live;
pub mod log_check;
pub mod log_file;
pub mod loops;
pub mod migrate;
pub mod model;
pub mod notification;
pub mod operation;
pub mod output;
pub mod question_set;
pub mod repo;
mod runtime;
pub mod session;
mod settled;
mod sizes;
mod spawn;
mod stored_calls;
pub mod task;
mod terminal_prompt;
pub mod termination;
pub mod view;
pub mod workflow;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coven_domain::session::Session;
use coven_domain::{SessionId, Timestamp};
use coven_harness::Harness;
use coven_holder::clock;
use coven_host::Home;
use coven_host::config::Config;
use coven_host::trust::Withheld;
use coven_interop::conversations::Conversations;
use coven_interop::questions::QuestionFolder;
use coven_store::{Change, Store, StoreError, Tx};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};

use crate::ballast::Ballast;
use crate::events::Hub;
use crate::live::LiveSession;
use crate::model::Screens;
use crate::notification::InboxNotification;
use crate::operation::{OperationRender, Operations};
use crate::question_set::QuestionSets;
use crate::runtime::Runtime;
use crate::spawn::PreparedHolder;

pub use error::EngineError;

/// The use cases. Its fields are for the modules of this crate.
pub struct Engine {
    store: Arc<dyn Store>,
    home: Home,
    config: Config,
    withheld: Withheld,
    harnesses: Vec<Harness>,
    /// Repositories must lie in here; canonical.
    workspace_root: PathBuf,
    help_flags: acp::HelpFlagCache,
    question_sets: QuestionSets,
    runs: workflow::RunRegistry,
    operations: Operations,
    operation_render: OperationRender,
    conversations: Conversations,
    /// Queue of desktop notifications for new inbox items.
    notifications: mpsc::Sender<InboxNotification>,
    hub: Arc<Hub>,
    started_at: Timestamp,
    /// The coven binary: holders and the demo agent are this program.
    program: PathBuf,
    screens: Screens,
    ballast: Ballast,
    /// A holder that was started ahead of time, with the id of the next session.
    standby_holder: Mutex<Option<(SessionId, PreparedHolder)>>,
    /// The soft limit of open files before the daemon raised its own.
    open_files: Option<u64>,
    /// The runtime that follows sessions, so that their output does not delay requests.
    background: Runtime,
    /// The runtime that answers requests.
    foreground: Runtime,
    /// Number of the newest event that changed a record. Output of sessions does not count.
    changed: watch::Sender<u64>,
    live: Mutex<HashMap<SessionId, Arc<LiveSession>>>,
    /// Notified when a session is added to `live`.
    live_added: watch::Sender<()>,
    /// Number of tasks that follow a session.
    followers: watch::Sender<usize>,
    /// Launches in progress, with the signal that cancels each.
    launches: Mutex<HashMap<SessionId, Arc<Notify>>>,
    pub(crate) launch_queue: launch_queue::LaunchQueue,
    pub(crate) activity: activity::ActivityQueue,
    pub(crate) stored_calls: stored_calls::StoredCallWatch,
    stopping: watch::Sender<bool>,
    /// Held while a log is compressed: one at a time.
    compressing: tokio::sync::Mutex<()>,
    /// Problems that need a person's attention; `health` shows them.
    problems: Mutex<Vec<String>>,
}

/// The dependencies of an engine.
pub struct EngineDeps {
    pub store: Arc<dyn Store>,
    pub home: Home,
    pub config: Config,
    /// Settings that are not used until the user trusts them.
    pub withheld: Withheld,
    /// The folder of this user's question sets.
    pub questions: QuestionFolder,
    /// The folder of this user's conversations.
    pub conversations: Conversations,
    pub notifications: mpsc::Sender<InboxNotification>,
    pub operation_render: OperationRender,
    pub hub: Arc<Hub>,
    pub program: PathBuf,
    pub open_files: Option<u64>,
    pub background: Handle,
}

impl Engine {
    pub fn new(deps: EngineDeps) -> std::io::Result<Self> {
        Ok(Self {
            harnesses: coven_harness::all(&deps.config.harnesses),
            workspace_root: deps.config.agents.workspace_root.clone().unwrap_or_else(|| deps.home.workspace()),
            screens: Screens::start()?,
            ballast: Ballast::at(&deps.home.path().join("ballast")),
            store: deps.store,
            home: deps.home,
            config: deps.config,
            withheld: deps.withheld,
            help_flags: acp::HelpFlagCache::default(),
            question_sets: QuestionSets::of(deps.questions),
            runs: workflow::RunRegistry::default(),
            operations: Operations::default(),
            operation_render: deps.operation_render,
            conversations: deps.conversations,
            notifications: deps.notifications,
            hub: deps.hub,
            program: deps.program,
            open_files: deps.open_files,
            background: Runtime::new(deps.background),
            foreground: Runtime::new(Handle::current()),
            started_at: clock::now(),
            changed: watch::Sender::new(0),
            live: Mutex::default(),
            live_added: watch::Sender::default(),
            followers: watch::Sender::default(),
            launches: Mutex::default(),
            standby_holder: Mutex::default(),
            launch_queue: launch_queue::LaunchQueue::default(),
            activity: activity::ActivityQueue::default(),
            stored_calls: stored_calls::StoredCallWatch::start(),
            stopping: watch::Sender::new(false),
            compressing: tokio::sync::Mutex::new(()),
            problems: Mutex::default(),
        })
    }

    /// Commits changes of records; the store publishes their events.
    pub async fn commit(&self, tx: Box<dyn Tx>) -> Result<(), StoreError> {
        let newest = tx.commit().await?;
        self.note_change(newest);
        Ok(())
    }

    /// Commits output and messages of sessions without waking tasks that wait for a record.
    pub(crate) async fn commit_output(&self, tx: Box<dyn Tx>) -> Result<(), StoreError> {
        tx.commit().await.map(drop)
    }

    /// Wakes the tasks that wait for a record to change. Two commits may return in either order, so the number never
    /// decreases.
    pub(crate) fn note_change(&self, newest: u64) {
        self.changed.send_if_modified(|known| {
            let is_newer = newest > *known;
            *known = newest.max(*known);
            is_newer
        });
    }

    /// Changes one session: loads it, applies `decide`, and records the row with its event.
    pub(crate) async fn change_session<E: Into<EngineError>>(
        &self,
        id: SessionId,
        event: &'static str,
        decide: impl FnOnce(&mut Session, Timestamp) -> Result<(), E> + Send,
    ) -> Result<Session, EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let mut session = tx.session(id).await?.ok_or_else(|| EngineError::SessionNotFound(id.to_string()))?;
        decide(&mut session, now).map_err(Into::into)?;
        tx.record(Change::SessionChanged { session: session.clone(), event }, now).await?;
        self.commit(tx).await?;
        Ok(session)
    }

    /// Returns the number of the newest published event. It covers everything that a client can know from a response
    /// or an event, so a cached list with this number is never older than that.
    pub fn newest_event(&self) -> u64 {
        self.hub.last()
    }

    /// Receives the newest event number whenever a record changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn live_map(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<LiveSession>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_live(&self, live: Arc<LiveSession>) {
        self.live_map().insert(live.id, live);
        self.live_added.send_replace(());
    }

    pub(crate) fn live_session(&self, id: SessionId) -> Option<Arc<LiveSession>> {
        self.live_map().get(&id).cloned()
    }

    pub fn live_sessions(&self) -> Vec<Arc<LiveSession>> {
        self.live_map().values().cloned().collect()
    }

    pub fn stop(&self) {
        self.stopping.send_replace(true);
        if let Some((_, standby)) = self.standby_holder.lock().unwrap_or_else(PoisonError::into_inner).take() {
            standby.give_up();
        }
    }

    /// Waits until the daemon is asked to stop.
    pub async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|stop| *stop).await;
    }

    /// Waits until the followers of all sessions have stored what they know. Called after [`Engine::stop`].
    pub async fn finish_following(&self) {
        let _ = self.followers.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Becomes true when the daemon is asked to stop.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    pub(crate) fn report_problem(&self, problem: &str) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if !problems.iter().any(|known| known == problem) {
            // Bounded: only the newest matter.
            if problems.len() >= 20 {
                problems.remove(0);
            }
            problems.push(problem.to_owned());
        }
    }

    pub(crate) fn clear_problem(&self, problem: &str) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| known != problem);
    }

    pub fn problems(&self) -> Vec<String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
