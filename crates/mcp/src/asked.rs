//! The question sets that calls of this client wait for, and what wakes them.

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

/// Between two looks of a call while the kernel tells of changes: a network file system changes without its knowing, and a
/// hundred calls should not keep the machine awake.
const SELDOM: Duration = Duration::from_secs(30);

pub struct Asked {
    folder: QuestionFolder,
    state: Mutex<State>,
    /// Nobody reads our answers any more.
    is_left: watch::Sender<bool>,
    /// Tells which sets changed; none where the kernel gives no watch.
    watched: Option<Arc<Watched>>,
}

#[derive(Default)]
struct State {
    /// How many wait for the set, and what wakes them.
    waits: HashMap<QuestionSetId, (usize, Arc<Notify>)>,
    /// Sets that go with this client.
    owned: Vec<QuestionSetId>,
}

/// One set of watches for all waits: a kernel has few to give.
struct Watched {
    sets: Mutex<FolderWatch>,
    /// Readable when something changed.
    told: AsyncFd<OwnedFd>,
}

impl Watched {
    fn new(folder: &QuestionFolder) -> Option<Self> {
        let sets = folder.watch_some().ok()?;
        let told = rustix::io::fcntl_dupfd_cloexec(&sets, 0).ok()?;
        // SAFETY: the descriptor is owned, and closed with what it is registered in.
        let told = unsafe { AsyncFd::register_with_interest(told, Interest::READABLE) }.ok()?;
        Some(Self { sets: Mutex::new(sets), told })
    }

    fn sets(&self) -> MutexGuard<'_, FolderWatch> {
        // Nothing in here can panic while it holds the lock.
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with the server.
pub struct Waking(JoinHandle<()>);

impl Drop for Waking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Asked {
    /// Must be called in a runtime.
    pub fn new(folder: QuestionFolder) -> Arc<Self> {
        let watched = Watched::new(&folder).map(Arc::new);
        Arc::new(Self { folder, state: Mutex::default(), is_left: watch::Sender::new(false), watched })
    }

    /// Wakes those who wait for what changed.
    pub fn wake(self: &Arc<Self>) -> Option<Waking> {
        let (asked, watched) = (self.clone(), self.watched.clone()?);
        // Owned by the server, which ends it.
        Some(Waking(tokio::spawn(async move {
            while let Ok(mut ready) = watched.told.readable().await {
                // Everything is read at once.
                ready.clear_ready();
                let changed = watched.sets().drain();
                asked.notify(&changed);
            }
        })))
    }

    pub const fn folder(&self) -> &QuestionFolder {
        &self.folder
    }

    /// This set is abandoned when the client goes before it has ended; at once, if it has gone.
    pub fn own(&self, id: QuestionSetId) {
        self.lock().owned.push(id);
        if *self.is_left.borrow() {
            self.abandon(&id);
        }
    }

    /// Whether a call of this client asked it.
    pub fn owns(&self, id: &QuestionSetId) -> bool {
        self.lock().owned.contains(id)
    }

    pub fn disown(&self, id: &QuestionSetId) {
        self.lock().owned.retain(|owned| owned != id);
    }

    /// Waits until the set has ended, or the client has gone, which ends what it owns.
    pub async fn ended(&self, id: &QuestionSetId, call_id: Option<&str>) -> Result<Waited, QuestionError> {
        // Watched before the first look: what happens in between is not missed.
        let wait = Wait::begin(self, *id);
        let mut waiter = self.folder.waiter(id, call_id);
        let pause = if self.watched.is_some() { SELDOM } else { Waiter::pause(false) };
        let mut is_worth_it = true;
        loop {
            let changed = wait.changed.notified();
            if is_worth_it && let Some(ended) = waiter.look()? {
                return Ok(ended);
            }
            is_worth_it = tokio::select! {
                () = changed => true,
                () = self.left() => return Ok(Waited::Abandoned(None)),
                () = tokio::time::sleep(pause) => waiter.has_changed(),
            };
        }
    }

    /// The client has gone.
    pub fn leave(&self) {
        self.is_left.send_replace(true);
    }

    pub async fn left(&self) {
        // The sender is ours and lives as long.
        let _ = self.is_left.subscribe().wait_for(|is_left| *is_left).await;
    }

    /// Whatever the client waited for is given up.
    pub fn abandon_all(&self) {
        self.leave();
        let owned = std::mem::take(&mut self.lock().owned);
        for id in owned {
            self.abandon(&id);
        }
    }

    /// Nobody waits for the answers any more. Somebody may have been faster, which is as good.
    pub fn abandon(&self, id: &QuestionSetId) {
        self.disown(id);
        if let Err(error) = self.folder.settle(id, QuestionSetState::Abandoned, clock::now()) {
            stdio::note(format_args!("the question set {id} could not be given up: {error}"));
        }
    }

    fn notify(&self, changed: &[QuestionSetId]) {
        let state = self.lock();
        for (_, wakes) in changed.iter().filter_map(|id| state.waits.get(id)) {
            wakes.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One wait for a set; several may wait for the same one.
struct Wait<'a> {
    asked: &'a Asked,
    id: QuestionSetId,
    changed: Arc<Notify>,
}

impl<'a> Wait<'a> {
    fn begin(asked: &'a Asked, id: QuestionSetId) -> Self {
        let mut state = asked.lock();
        let (count, changed) = state.waits.entry(id).or_default();
        *count += 1;
        if let (1, Some(watched)) = (*count, &asked.watched) {
            watched.sets().add(id);
        }
        Self { asked, id, changed: changed.clone() }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut state = self.asked.lock();
        if let Some((count, _)) = state.waits.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                state.waits.remove(&self.id);
                if let Some(watched) = &self.asked.watched {
                    watched.sets().remove(self.id);
                }
            }
        }
    }
}
