//! Brings files to the disk on a thread of its own, so that reading never waits for a sync.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

#[derive(Debug, Default)]
struct State {
    files: Vec<Arc<File>>,
    /// Asked for and not yet on disk.
    unsynced: u64,
    is_busy: bool,
    /// The last sync failed.
    is_failing: bool,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    idle: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread lives as long as the holder's process.
#[derive(Debug)]
pub struct Syncer(Arc<Shared>);

impl Syncer {
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        thread::Builder::new().name("sync".into()).stack_size(64 << 10).spawn(move || work(&theirs))?;
        Ok(Self(shared))
    }

    /// Syncs these files soon; `bytes` is how much was written to them since the last request.
    pub fn request(&self, files: impl IntoIterator<Item = Arc<File>>, bytes: u64) {
        let mut state = self.0.lock();
        for file in files {
            if !state.files.iter().any(|known| Arc::ptr_eq(known, &file)) {
                state.files.push(file);
            }
        }
        state.unsynced += bytes;
        drop(state);
        self.0.work.notify_one();
    }

    /// Bytes that were written and may not be on disk yet.
    pub fn backlog(&self) -> u64 {
        self.0.lock().unsynced
    }

    /// Waits until everything that was asked for is on disk.
    pub fn flush(&self) {
        let mut state = self.0.lock();
        while state.is_busy || !state.files.is_empty() {
            state = self.0.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Why the disk did not take something; told once until it works again.
    pub fn take_failure(&self) -> Option<String> {
        self.0.lock().failure.take()
    }
}

fn work(shared: &Shared) {
    loop {
        let mut state = shared.lock();
        while state.files.is_empty() {
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (files, bytes) = (std::mem::take(&mut state.files), state.unsynced);
        state.is_busy = true;
        drop(state);
        let failure = files.iter().find_map(|file| file.sync_data().err());
        let mut state = shared.lock();
        state.unsynced -= bytes;
        state.is_busy = false;
        if let Some(error) = &failure
            && !state.is_failing
        {
            state.failure = Some(error.to_string());
        }
        state.is_failing = failure.is_some();
        drop(state);
        shared.idle.notify_all();
    }
}
