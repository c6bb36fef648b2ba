//! Has the kernel tell of changes: in one set for who waits for it, in the whole folder for who shows it.

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

/// A file is whole when it was renamed into its place, or closed by a writer that knows no better.
const WHOLE_FILES: WatchFlags = WatchFlags::MOVED_TO.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ONLYDIR);
const EVENT_BYTES: usize = 4096;

/// Changes of one set.
pub(super) struct SetWatch {
    inotify: OwnedFd,
}

impl SetWatch {
    /// Fails where the kernel has no more watches to give.
    pub(super) fn new(dir: &Path) -> rustix::io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&inotify, dir, WHOLE_FILES | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF)?;
        Ok(Self { inotify })
    }

    /// Waits for a change that matters. Locks and files in the making do not.
    pub(super) fn changed_within(&self, at_most: Duration) -> bool {
        let timeout = Timespec::try_from(at_most).ok();
        let mut fds = [PollFd::new(&self.inotify, PollFlags::IN)];
        // An interrupted wait is a short one: the caller looks at the clock anyway.
        if !poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut is_change = false;
        read_events(&self.inotify, |_, events, name| {
            is_change |= name.is_none_or(matters)
                || events.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF);
        });
        is_change
    }
}

/// Changes of all sets. Poll its descriptor; when it is readable, `drain` tells which sets to look at again.
pub struct FolderWatch {
    inotify: OwnedFd,
    folder: QuestionFolder,
    /// The watch of the folder itself, unless only some sets are of interest.
    root: Option<i32>,
    sets: HashMap<i32, QuestionSetId>,
    is_blind: bool,
    is_gone: bool,
}

impl QuestionFolder {
    /// Watches the folder, which is made if it is missing, and every set in it.
    pub fn watch(&self) -> Result<FolderWatch, QuestionError> {
        make_private(&self.path)?;
        let mut watch = self.watch_some()?;
        let comings_and_goings =
            WatchFlags::CREATE | WatchFlags::MOVE | WatchFlags::DELETE | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        let root = inotify::add_watch(&watch.inotify, &self.path, comings_and_goings);
        watch.root = Some(root.map_err(|error| self.cannot_watch(error))?);
        for id in self.ids()? {
            watch.add(id);
        }
        Ok(watch)
    }

    /// Watches the sets that are added to it.
    pub fn watch_some(&self) -> Result<FolderWatch, QuestionError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let inotify = inotify.map_err(|error| self.cannot_watch(error))?;
        Ok(FolderWatch {
            inotify,
            folder: self.clone(),
            root: None,
            sets: HashMap::new(),
            is_blind: false,
            is_gone: false,
        })
    }

    fn cannot_watch(&self, error: Errno) -> QuestionError {
        QuestionError::Watch { path: self.path.clone(), source: error.into() }
    }
}

impl FolderWatch {
    /// The sets that came, changed or went since the last time. Never blocks.
    pub fn drain(&mut self) -> Vec<QuestionSetId> {
        let mut changed = BTreeSet::new();
        let mut came = Vec::new();
        let mut gone = Vec::new();
        let mut has_overflown = false;
        let mut is_gone = false;
        read_events(&self.inotify, |watch, events, name| {
            if events.contains(ReadFlags::QUEUE_OVERFLOW) {
                has_overflown = true;
            } else if Some(watch) == self.root && events.intersects(ReadFlags::IGNORED | ReadFlags::MOVE_SELF) {
                is_gone = true;
            } else if Some(watch) == self.root {
                let id = name.and_then(|name| id_of(name.to_str().ok()?));
                changed.extend(id);
                came.extend(id.filter(|_| events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO)));
            } else if events.contains(ReadFlags::IGNORED) {
                changed.extend(self.sets.get(&watch));
                gone.push(watch);
            } else if name.map_or(events.contains(ReadFlags::MOVE_SELF), matters) {
                changed.extend(self.sets.get(&watch));
            }
        });
        self.is_gone |= is_gone;
        for watch in gone {
            self.sets.remove(&watch);
        }
        for id in came {
            self.add(id);
        }
        if has_overflown {
            // What was lost is not known: everything may have changed.
            changed.extend(self.sets.values());
            let all = self.root.and_then(|_| self.folder.ids().ok());
            for id in all.unwrap_or_default() {
                self.add(id);
                changed.insert(id);
            }
        }
        changed.into_iter().collect()
    }

    /// The kernel had no watch left for some set: look at the whole folder now and then.
    pub const fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// The folder was removed or moved away: only a new watch sees what comes in its place.
    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Tells of this set from now on.
    pub fn add(&mut self, id: QuestionSetId) {
        match inotify::add_watch(&self.inotify, self.folder.dir(&id), WHOLE_FILES | WatchFlags::MOVE_SELF) {
            Ok(watch) => {
                self.sets.insert(watch, id);
            }
            // Gone already, or no folder at all.
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => self.is_blind = true,
        }
    }

    /// Tells no more of this set.
    pub fn remove(&mut self, id: QuestionSetId) {
        let found = self.sets.iter().find(|(_, known)| **known == id).map(|(watch, _)| *watch);
        if let Some(watch) = found {
            self.sets.remove(&watch);
            // Fails where the folder has gone, and with it the watch.
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

fn matters(name: &CStr) -> bool {
    [REQUEST, STATUS, ANSWERS].iter().any(|file| file.as_bytes() == name.to_bytes())
}

fn read_events(inotify: &OwnedFd, mut each: impl FnMut(i32, ReadFlags, Option<&CStr>)) {
    let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
    let mut reader = Reader::new(inotify, &mut buffer);
    // Ends when nothing is left to read.
    while let Ok(event) = reader.next() {
        each(event.wd(), event.events(), event.file_name());
    }
}
