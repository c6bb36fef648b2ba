//! Removes question sets: finished ones after the retention period, and dismissed ones.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use std::{fs, io};

use coven_domain::question_set::QuestionSetState;
use coven_domain::{QuestionSetId, Timestamp};

use super::create::{NEW_PREFIX, make_private};
use super::set::{self, RequestFile};
use super::{QuestionError, QuestionFolder, REQUEST, atomic};

/// Name prefix of a folder that is being removed.
const REMOVED_PREFIX: &str = ".gone-";
/// Age at which a partly created or removed folder counts as left behind by a crash.
const STALE_AGE: Duration = Duration::from_secs(600);

const ASKER_GONE: &str = "the process that asked has exited";

/// Result of a cleanup. Failures are for the log; the cleanup continues after them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleanedUp {
    pub removed: Vec<QuestionSetId>,
    /// Pending sets whose asker has exited.
    pub abandoned: Vec<QuestionSetId>,
    pub failed: Vec<(QuestionSetId, String)>,
}

impl QuestionFolder {
    /// Removes sets that ended more than `retention` ago, and broken sets unchanged for that long. Keeps pending sets,
    /// but abandons those whose asker waited and has exited.
    pub fn clean_up(&self, retention: Duration, now: Timestamp) -> CleanedUp {
        let mut done = CleanedUp::default();
        self.remove_stale(now);
        let mut ids = self.ids().unwrap_or_default();
        ids.sort_unstable();
        for id in ids {
            match self.clean_up_one(&id, now.before(retention), now) {
                Ok(Cleaned::Nothing) | Err(QuestionError::NotFound { .. }) => {}
                Ok(Cleaned::Removed) => done.removed.push(id),
                Ok(Cleaned::Abandoned) => done.abandoned.push(id),
                Err(error) => done.failed.push((id, with_cause(&error))),
            }
        }
        done
    }

    /// Abandons pending sets whose asker has exited: answers to them would be lost. Does not remove finished sets.
    pub fn abandon_orphans(&self, now: Timestamp) {
        self.clean_up(Duration::MAX, now);
    }

    fn clean_up_one(&self, id: &QuestionSetId, cutoff: Timestamp, now: Timestamp) -> Result<Cleaned, QuestionError> {
        let set = match self.read_once(id) {
            Ok(set) => set,
            Err(error @ QuestionError::NotFound { .. }) => return Err(error),
            Err(error) if touched_at(&self.dir(id)).is_none_or(|touched_at| touched_at > cutoff) => return Err(error),
            Err(_) => return self.remove(id).map(|()| Cleaned::Removed),
        };
        match set.state {
            QuestionSetState::Pending if self.is_orphaned(id) => {
                let is_abandoned = self.abandon(id, ASKER_GONE, now)?;
                Ok(if is_abandoned { Cleaned::Abandoned } else { Cleaned::Nothing })
            }
            QuestionSetState::Pending => Ok(Cleaned::Nothing),
            _ if set.modified_at.max(set.created_at) <= cutoff => self.remove(id).map(|()| Cleaned::Removed),
            // The answerer died before it updated the status.
            QuestionSetState::Completed => {
                self.end_without_answer(id, QuestionSetState::Completed, now).map(|_| Cleaned::Nothing)
            }
            QuestionSetState::Rejected | QuestionSetState::TimedOut | QuestionSetState::Abandoned => {
                Ok(Cleaned::Nothing)
            }
        }
    }

    /// Abandons the set if it is pending and its asker has exited. Returns whether it did.
    pub fn abandon_if_orphaned(&self, id: &QuestionSetId, now: Timestamp) -> Result<bool, QuestionError> {
        match self.is_orphaned(id) {
            true => self.abandon(id, ASKER_GONE, now),
            false => Ok(false),
        }
    }

    /// Returns when the set's folder was last modified.
    pub fn touched_at(&self, id: &QuestionSetId) -> Option<Timestamp> {
        touched_at(&self.dir(id))
    }

    fn is_orphaned(&self, id: &QuestionSetId) -> bool {
        let request: Result<RequestFile, _> = set::required(&self.dir(id), id, REQUEST);
        request.is_ok_and(|request| request.coven_asker.and_then(|asker| asker.is_gone()) == Some(true))
    }

    /// Moves the set to the archive. Abandons a pending set first.
    pub fn dismiss(&self, id: &QuestionSetId) -> Result<(), QuestionError> {
        match self.abandon(id, "dismissed", coven_holder::clock::now()) {
            Ok(_) => {}
            // A broken set cannot be abandoned, but it can be dismissed.
            Err(
                QuestionError::Missing { .. }
                | QuestionError::Malformed { .. }
                | QuestionError::Contradiction { .. }
                | QuestionError::Unreadable { .. },
            ) => {}
            Err(error) => return Err(error),
        }
        make_private(&self.archive)?;
        let (dir, kept) = (self.dir(id), self.archive.join(id.to_string()));
        let unwritable = |path: &Path| {
            let path = path.to_owned();
            move |source| QuestionError::Unwritable { path, source }
        };
        // Left by an interrupted dismissal.
        remove_all(&kept).map_err(unwritable(&kept))?;
        match fs::rename(&dir, &kept) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(QuestionError::NotFound { id: id.to_string() });
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                copy_set(&dir, &kept).map_err(unwritable(&kept))?;
                return self.remove(id);
            }
            Err(error) => return Err(unwritable(&kept)(error)),
        }
        atomic::sync_folder(&self.archive).map_err(unwritable(&self.archive))?;
        atomic::sync_folder(&self.path).map_err(unwritable(&self.path))
    }

    /// Renames the folder before deleting its files, so that readers never see an incomplete set.
    fn remove(&self, id: &QuestionSetId) -> Result<(), QuestionError> {
        let (dir, removed) = (self.dir(id), self.path.join(format!("{REMOVED_PREFIX}{id}")));
        let unwritable = |source| QuestionError::Unwritable { path: dir.clone(), source };
        remove_all(&removed).map_err(unwritable)?;
        fs::rename(&dir, &removed).map_err(unwritable)?;
        remove_all(&removed).map_err(unwritable)
    }

    /// Removes folders whose creation or removal was interrupted.
    fn remove_stale(&self, now: Timestamp) {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let is_partial =
                name.to_str().is_some_and(|name| name.starts_with(NEW_PREFIX) || name.starts_with(REMOVED_PREFIX));
            if is_partial && touched_at(&entry.path()).is_some_and(|at| now.since(at) > STALE_AGE) {
                // If this fails, the next cleanup tries again.
                let _ = remove_all(&entry.path());
            }
        }
    }
}

enum Cleaned {
    Nothing,
    Removed,
    Abandoned,
}

fn with_cause(error: &QuestionError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn touched_at(path: &Path) -> Option<Timestamp> {
    let since = fs::symlink_metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Timestamp::from_millis)
}

fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies a set to another file system: into a temporary folder first, which is then renamed.
fn copy_set(from: &Path, to: &Path) -> io::Result<()> {
    let temp: PathBuf = atomic::temp_path(to);
    let copied = || -> io::Result<()> {
        make_private(&temp).map_err(io::Error::other)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            // A set has no subfolders; anything else in it is not part of the set.
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), temp.join(entry.file_name()))?;
            }
        }
        atomic::sync_folder(&temp)?;
        fs::rename(&temp, to)
    };
    copied().inspect_err(|_| {
        let _ = fs::remove_dir_all(&temp);
    })
}
