//! Hook calls that `coven hook` stored in a session's folder, because the daemon was not running or did not answer in time.

use std::collections::HashMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use coven_domain::SessionId;
use coven_domain::request::SettledFrom;
use coven_files::{Limit, Links};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::Engine;
use super::hook::HookCall;
use super::live::LiveSession;
use crate::blocking::blocking;
use crate::error::EngineError;
use crate::runtime;

/// The folder of a session with the stored calls.
const STORED_CALLS: &str = "hook-calls";
const STORED_CALL: Limit = Limit::new("a stored hook call", 2 << 20);
const MAX_STORED_CALLS: usize = 1000;
/// Number of calls that are handled before their effects are stored. Fewer than the ids in a checkpoint, so that a daemon
/// that dies before it has deleted the files does not count them twice.
const BATCH_CALLS: usize = 16;
const EVENT_BYTES: usize = 4096;

/// Watches the folders of live sessions with inotify, so that a stored call is read without a poll.
#[derive(Debug)]
pub(crate) struct StoredCallWatch {
    /// `None` if the kernel's limit is reached: then the next hook call of the session reads the folder.
    inotify: Option<Arc<OwnedFd>>,
    sessions: Mutex<HashMap<i32, SessionId>>,
}

/// The file descriptor of the watch; readable when a call was stored.
pub(crate) struct StoredCallEvents(Arc<OwnedFd>);

impl AsRawFd for StoredCallEvents {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl StoredCallWatch {
    pub fn start() -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let inotify = inotify.inspect_err(|error| tracing::warn!(%error, "cannot watch for stored hook calls"));
        Self { inotify: inotify.ok().map(Arc::new), sessions: Mutex::default() }
    }

    pub fn events(&self) -> Option<StoredCallEvents> {
        self.inotify.clone().map(StoredCallEvents)
    }

    /// Watches the folder of a session; creates it first.
    fn add(&self, id: SessionId, folder: &Path) {
        let Some(inotify) = &self.inotify else { return };
        // The session's folder exists: its journal was read.
        let _ = fs::DirBuilder::new().mode(0o700).create(folder);
        // Held while the watch is added, so that its first event finds the session.
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        match inotify::add_watch(inotify, folder, WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW)
        {
            Ok(watch) => drop(sessions.insert(watch, id)),
            Err(error) => tracing::warn!(session = %id, %error, "cannot watch for stored hook calls"),
        }
    }

    fn remove(&self, id: SessionId) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let found = sessions.iter().find(|(_, known)| **known == id).map(|(watch, _)| *watch);
        if let (Some(watch), Some(inotify)) = (found, &self.inotify) {
            sessions.remove(&watch);
            // Fails if the folder no longer exists, which also removed the watch.
            let _ = inotify::remove_watch(inotify, watch);
        }
    }

    /// Returns the sessions with new calls. Never blocks.
    fn drain(&self) -> Vec<SessionId> {
        let Some(inotify) = &self.inotify else { return Vec::new() };
        let (mut changed, mut has_overflowed) = (Vec::new(), false);
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = Reader::new(inotify, &mut buffer);
        // `next` fails when no event is left.
        while let Ok(event) = reader.next() {
            has_overflowed |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            changed.push(event.wd());
        }
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids: Vec<SessionId> = match has_overflowed {
            true => sessions.values().copied().collect(),
            false => changed.iter().filter_map(|watch| sessions.get(watch).copied()).collect(),
        };
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Engine {
    /// Reads the stored calls of a session now, and whenever one is added until the session ends.
    pub(super) fn follow_stored_hook_calls(self: &Arc<Self>, live: &Arc<LiveSession>) {
        self.stored_calls.add(live.id, &live.dir.join(STORED_CALLS));
        self.read_stored_hook_calls(live);
        let (engine, live) = (self.clone(), live.clone());
        // Owned by the live session: it ends with it or with the daemon.
        runtime::spawn(async move {
            tokio::select! {
                () = live.ended() => engine.stored_calls.remove(live.id),
                () = engine.stopped() => {}
            }
        });
    }

    /// Reads the calls that were added since the last call.
    pub(crate) fn read_new_stored_calls(self: &Arc<Self>) {
        for live in self.stored_calls.drain().into_iter().filter_map(|id| self.live_session(id)) {
            self.read_stored_hook_calls(&live);
        }
    }

    fn read_stored_hook_calls(self: &Arc<Self>, live: &Arc<LiveSession>) {
        let (engine, live) = (self.clone(), live.clone());
        // Ends by itself: the number of calls is bounded.
        runtime::spawn(async move {
            if let Err(error) = engine.handle_stored_calls(&live).await {
                tracing::warn!(session = %live.id, %error, "cannot handle a stored hook call");
            }
        });
    }

    /// Handles the calls in a session's folder, oldest first. A file is deleted after the effects of its call are stored.
    pub(super) async fn handle_stored_calls(self: &Arc<Self>, live: &Arc<LiveSession>) -> Result<(), EngineError> {
        let _reading = live.reading_stored_calls.lock().await;
        let folder = live.dir.join(STORED_CALLS);
        let found = blocking(move || stored_calls(&folder)).await;
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() {
            let mut handled = Vec::new();
            for (file, call) in found.by_ref().take(BATCH_CALLS) {
                match call {
                    Some(call) => self.stored_hook_called(live, &call).await?,
                    None => tracing::warn!(session = %live.id, "dropped a stored hook call that cannot be read"),
                }
                handled.push(file);
            }
            self.flush_activity(live).await?;
            coven_holder::fault::point("after_stored_hook_calls");
            for file in handled {
                let _ = fs::remove_file(file);
            }
        }
        Ok(())
    }

    /// Handles a call whose process no longer waits.
    async fn stored_hook_called(self: &Arc<Self>, live: &Arc<LiveSession>, call: &HookCall) -> Result<(), EngineError> {
        let Some(hooks) = live.hooks else { return Ok(()) };
        if let Some(request) = self.handle_hook(live, hooks, call).await? {
            // The dialog may still be on the screen, but the hook that could answer it has returned.
            self.withdraw_request(request, SettledFrom::Hook).await?;
        }
        Ok(())
    }
}

/// Reads the stored calls, oldest first; `None` for one that cannot be read.
fn stored_calls(folder: &Path) -> Vec<(PathBuf, Option<HookCall>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.')))
        .take(MAX_STORED_CALLS)
        .collect();
    files.sort();
    let read = |path: &PathBuf| {
        let text = coven_files::read(path, STORED_CALL, Links::Refuse).ok()?;
        serde_json::from_slice(&text).ok()
    };
    files
        .into_iter()
        .map(|path| {
            let call = read(&path);
            (path, call)
        })
        .collect()
}
