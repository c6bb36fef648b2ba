//! Tracks the question sets that this client's calls wait for, and wakes the calls.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coven_domain::QuestionSetId;
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_interop::questions::{FolderWatch, QuestionError, QuestionFolder, Waited, Waiter};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::stdio;

/// Interval between checks by a call while the kernel reports changes. Needed for network file systems, whose changes
/// the kernel may miss; long, so that a hundred calls do not keep the machine awake.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);

pub struct PendingSets {
    folder: QuestionFolder,
    state: Mutex<WaitState>,
    /// Whether the client has disconnected.
    is_disconnected: watch::Sender<bool>,
    /// Reports which sets changed; `None` if the kernel provides no watch.
    watched: Option<Arc<Watched>>,
}

#[derive(Default)]
struct WaitState {
    /// For each set, the number of waiting calls and their wake-up.
    waits: HashMap<QuestionSetId, (usize, Arc<Notify>)>,
    /// Sets to abandon when this client disconnects.
    owned: Vec<QuestionSetId>,
}

/// File watches shared by all waiting calls, because the kernel limits their number.
struct Watched {
    sets: Mutex<FolderWatch>,
    /// Readable when a set has changed.
    changed: AsyncFd<OwnedFd>,
}

impl Watched {
    fn new(folder: &QuestionFolder) -> Option<Self> {
        let sets = folder.watch_some().ok()?;
        let changed = rustix::io::fcntl_dupfd_cloexec(&sets, 0).ok()?;
        // SAFETY: the `AsyncFd` owns the descriptor and closes it when dropped.
        let changed = unsafe { AsyncFd::register_with_interest(changed, Interest::READABLE) }.ok()?;
        Some(Self { sets: Mutex::new(sets), changed })
    }

    fn sets(&self) -> MutexGuard<'_, FolderWatch> {
        // No code panics while it holds the lock.
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that wakes waiting calls; dropping it stops the task.
pub struct Waking(JoinHandle<()>);

impl Drop for Waking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PendingSets {
    /// Must be called within a Tokio runtime.
    pub fn new(folder: QuestionFolder) -> Arc<Self> {
        let watched = Watched::new(&folder).map(Arc::new);
        Arc::new(Self { folder, state: Mutex::default(), is_disconnected: watch::Sender::new(false), watched })
    }

    /// Starts the task that wakes calls when their set changes.
    pub fn wake(self: &Arc<Self>) -> Option<Waking> {
        let (pending, watched) = (self.clone(), self.watched.clone()?);
        // The server owns the task and stops it.
        Some(Waking(tokio::spawn(async move {
            while let Ok(mut ready) = watched.changed.readable().await {
                // `drain` reads all pending changes.
                ready.clear_ready();
                let changed = watched.sets().drain();
                pending.notify(&changed);
            }
        })))
    }

    pub const fn folder(&self) -> &QuestionFolder {
        &self.folder
    }

    /// Abandons the set when the client disconnects, or immediately if it already has.
    pub fn abandon_on_disconnect(&self, id: QuestionSetId) {
        self.lock().owned.push(id);
        if *self.is_disconnected.borrow() {
            self.abandon(&id);
        }
    }

    /// Returns whether a call of this client created the set.
    pub fn owns(&self, id: &QuestionSetId) -> bool {
        self.lock().owned.contains(id)
    }

    pub fn disown(&self, id: &QuestionSetId) {
        self.lock().owned.retain(|owned| owned != id);
    }

    /// Waits until the set is finished or the client disconnects.
    pub async fn ended(&self, id: &QuestionSetId, call_id: Option<&str>) -> Result<Waited, QuestionError> {
        // Watch before the first check, so that no change in between is missed.
        let wait = Wait::new(self, *id);
        let mut waiter = self.folder.waiter(id, call_id);
        let pause = if self.watched.is_some() { RECHECK_INTERVAL } else { Waiter::pause(false) };
        let mut may_have_ended = true;
        loop {
            let changed = wait.changed.notified();
            if may_have_ended && let Some(ended) = waiter.poll()? {
                return Ok(ended);
            }
            may_have_ended = tokio::select! {
                () = changed => true,
                () = self.disconnected() => return Ok(Waited::Abandoned(None)),
                () = tokio::time::sleep(pause) => waiter.has_changed(),
            };
        }
    }

    /// Marks the client as disconnected.
    pub fn disconnect(&self) {
        self.is_disconnected.send_replace(true);
    }

    /// Waits until the client disconnects.
    pub async fn disconnected(&self) {
        // This cannot fail: `self` owns the sender.
        let _ = self.is_disconnected.subscribe().wait_for(|is_disconnected| *is_disconnected).await;
    }

    /// Marks the client as disconnected and abandons all its sets.
    pub fn abandon_all(&self) {
        self.disconnect();
        let owned = std::mem::take(&mut self.lock().owned);
        for id in owned {
            self.abandon(&id);
        }
    }

    /// Abandons a set. Has no effect if the set is already finished.
    pub fn abandon(&self, id: &QuestionSetId) {
        self.disown(id);
        if let Err(error) = self.folder.end_without_answer(id, QuestionSetState::Abandoned, clock::now()) {
            stdio::note(format_args!("cannot abandon question set {id}: {error}"));
        }
    }

    fn notify(&self, changed: &[QuestionSetId]) {
        let state = self.lock();
        for (_, wakeup) in changed.iter().filter_map(|id| state.waits.get(id)) {
            wakeup.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitState> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call's wait for a set; several calls may wait for the same set.
struct Wait<'a> {
    pending: &'a PendingSets,
    id: QuestionSetId,
    changed: Arc<Notify>,
}

impl<'a> Wait<'a> {
    fn new(pending: &'a PendingSets, id: QuestionSetId) -> Self {
        let mut state = pending.lock();
        let (count, changed) = state.waits.entry(id).or_default();
        *count += 1;
        if let (1, Some(watched)) = (*count, &pending.watched) {
            watched.sets().add(id);
        }
        Self { pending, id, changed: changed.clone() }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.pending.lock();
        if let Some((count, _)) = state.waits.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                state.waits.remove(&self.id);
                if let Some(watched) = &self.pending.watched {
                    watched.sets().remove(self.id);
                }
            }
        }
    }
}
