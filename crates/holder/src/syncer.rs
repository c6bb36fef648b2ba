//! Syncs files on a separate thread, so that reading output never waits for the disk.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

#[derive(Debug, Default)]
struct SyncState {
    files: Vec<Arc<File>>,
    /// Bytes of requests that are not yet synced.
    unsynced: u64,
    is_busy: bool,
    /// The last sync failed.
    is_failing: bool,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<SyncState>,
    work: Condvar,
    idle: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, SyncState> {
        // No code can panic while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the sync thread, which runs until the holder exits.
#[derive(Debug)]
pub struct Syncer(Arc<Shared>);

impl Syncer {
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread_shared = shared.clone();
        thread::Builder::new().name("sync".into()).stack_size(64 << 10).spawn(move || sync_loop(&thread_shared))?;
        Ok(Self(shared))
    }

    /// Queues files to sync; `bytes` is the number of bytes written to them since the last request.
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

    /// Returns the number of bytes written that may not be synced yet.
    pub fn backlog(&self) -> u64 {
        self.0.lock().unsynced
    }

    /// Waits until all requests are finished.
    pub fn flush(&self) {
        let mut state = self.0.lock();
        while state.is_busy || !state.files.is_empty() {
            state = self.0.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns why a sync failed. A series of failures is reported once.
    pub fn take_failure(&self) -> Option<String> {
        self.0.lock().failure.take()
    }
}

fn sync_loop(shared: &Shared) {
    loop {
        let mut state = shared.lock();
        while state.files.is_empty() {
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (files, bytes) = (std::mem::take(&mut state.files), state.unsynced);
        state.is_busy = true;
        drop(state);
        // Every file is synced, also after a failure.
        let failures: Vec<io::Error> = files.iter().filter_map(|file| file.sync_data().err()).collect();
        let failure = failures.first();
        let mut state = shared.lock();
        state.unsynced -= bytes;
        state.is_busy = false;
        if let Some(error) = failure
            && !state.is_failing
        {
            state.failure = Some(error.to_string());
        }
        state.is_failing = failure.is_some();
        drop(state);
        shared.idle.notify_all();
    }
}
