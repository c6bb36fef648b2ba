//! Watches question sets with inotify: one set for a waiter, or the whole folder for a viewer.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use coven_domain::QuestionSetId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::create::make_private;
use super::{ANSWERS, QuestionError, QuestionFolder, REQUEST, STATUS, id_of};

/// A file is complete once it is renamed into place, or closed by a writer that does not use a rename.
const COMPLETE_FILES: WatchFlags = WatchFlags::MOVED_TO.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ONLYDIR);
const EVENT_BYTES: usize = 4096;

/// Watches one set.
pub(super) struct SetWatch {
    inotify: OwnedFd,
}

impl SetWatch {
    /// Fails if the kernel's limit on watches is reached.
    pub(super) fn new(dir: &Path) -> rustix::io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, dir, COMPLETE_FILES | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF)?;
        Ok(Self { inotify })
    }

    /// Waits for a change to one of the set's files. Ignores lock files and temporary files.
    pub(super) fn changed_within(&self, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).ok();
        let mut fds = [PollFd::new(&self.inotify, PollFlags::IN)];
        // An interrupted wait counts as a short one: the caller checks the clock.
        if !poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut is_change = false;
        read_events(&self.inotify, |_, events, name| {
            is_change |= name.is_none_or(is_set_file)
                || events.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF);
        });
        is_change
    }
}

/// Watches all sets. Poll its file descriptor; when it is readable, `drain` returns the sets that changed.
pub struct FolderWatch {
    inotify: OwnedFd,
    folder: QuestionFolder,
    /// The watch of the folder itself; `None` if only individual sets are watched.
    root: Option<i32>,
    sets: HashMap<i32, QuestionSetId>,
    is_blind: bool,
    is_gone: bool,
}

impl QuestionFolder {
    /// Watches the folder and every set in it. Creates the folder if it is missing.
    pub fn watch(&self) -> Result<FolderWatch, QuestionError> {
        make_private(&self.path)?;
        let mut watch = self.watch_some()?;
        let entry_changes =
            WatchFlags::CREATE | WatchFlags::MOVE | WatchFlags::DELETE | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        let root = inotify::add_watch(&watch.inotify, &self.path, entry_changes);
        watch.root = Some(root.map_err(|error| self.watch_error(error))?);
        for id in self.ids()? {
            watch.add(id);
        }
        Ok(watch)
    }

    /// Returns a watch without sets; add them with `FolderWatch::add`.
    pub fn watch_some(&self) -> Result<FolderWatch, QuestionError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let inotify = inotify.map_err(|error| self.watch_error(error))?;
        Ok(FolderWatch {
            inotify,
            folder: self.clone(),
            root: None,
            sets: HashMap::new(),
            is_blind: false,
            is_gone: false,
        })
    }

    fn watch_error(&self, error: Errno) -> QuestionError {
        QuestionError::Watch { path: self.path.clone(), source: error.into() }
    }
}

impl FolderWatch {
    /// Returns the sets that were added, changed or removed since the last call. Never blocks.
    pub fn drain(&mut self) -> Vec<QuestionSetId> {
        let mut changed = BTreeSet::new();
        let mut added = Vec::new();
        let mut removed = Vec::new();
        let mut has_overflowed = false;
        let mut is_gone = false;
        read_events(&self.inotify, |watch, events, name| {
            if events.contains(ReadFlags::QUEUE_OVERFLOW) {
                has_overflowed = true;
            } else if Some(watch) == self.root && events.intersects(ReadFlags::IGNORED | ReadFlags::MOVE_SELF) {
                is_gone = true;
            } else if Some(watch) == self.root {
                let id = name.and_then(|name| id_of(name.to_str().ok()?));
                changed.extend(id);
                added.extend(id.filter(|_| events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO)));
            } else if events.contains(ReadFlags::IGNORED) {
                changed.extend(self.sets.get(&watch));
                removed.push(watch);
            } else if name.map_or(events.contains(ReadFlags::MOVE_SELF), is_set_file) {
                changed.extend(self.sets.get(&watch));
            }
        });
        self.is_gone |= is_gone;
        for watch in removed {
            self.sets.remove(&watch);
        }
        for id in added {
            self.add(id);
        }
        if has_overflowed {
            // Events were lost, so any set may have changed.
            changed.extend(self.sets.values());
            let all = self.root.and_then(|_| self.folder.ids().ok());
            for id in all.unwrap_or_default() {
                self.add(id);
                changed.insert(id);
            }
        }
        changed.into_iter().collect()
    }

    /// Returns whether a set could not be watched because of the kernel's limit. The caller must then poll the folder.
    pub const fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Returns whether the folder was removed or moved. Only a new watch sees a folder that replaces it.
    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Starts watching this set.
    pub fn add(&mut self, id: QuestionSetId) {
        match inotify::add_watch(&self.inotify, self.folder.dir(&id), COMPLETE_FILES | WatchFlags::MOVE_SELF) {
            Ok(watch) => {
                self.sets.insert(watch, id);
            }
            // The set was removed, or its path is not a folder.
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => self.is_blind = true,
        }
    }

    /// Stops watching this set.
    pub fn remove(&mut self, id: QuestionSetId) {
        let found = self.sets.iter().find(|(_, known)| **known == id).map(|(watch, _)| *watch);
        if let Some(watch) = found {
            self.sets.remove(&watch);
            // Fails if the folder no longer exists, which also removed the watch.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl AsRawFd for FolderWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.inotify.as_raw_fd()
    }
}

fn is_set_file(name: &CStr) -> bool {
    [REQUEST, STATUS, ANSWERS].iter().any(|file| file.as_bytes() == name.to_bytes())
}

fn read_events(inotify: &OwnedFd, mut each: impl FnMut(i32, ReadFlags, Option<&CStr>)) {
    let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
    let mut reader = Reader::new(inotify, &mut buffer);
    // `next` fails when no event is left.
    while let Ok(event) = reader.next() {
        each(event.wd(), event.events(), event.file_name());
    }
}
