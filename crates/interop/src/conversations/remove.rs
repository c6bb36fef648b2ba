//! Deletes one conversation, or all that were not modified for a given time. Never deletes one that is in use.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::conversation::ConversationId;

use super::in_use::InUse;
use super::{ConversationError, Conversations, id_of, id_of_backup, is_still_at, modified_at};

/// Age at which a temporary file counts as left behind by a crash.
const STALE_TEMP_AGE: Duration = Duration::from_secs(3600);

/// Result of a cleanup.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    pub removed: Vec<ConversationId>,
    /// Old conversations that are open in a process.
    pub spared: Vec<ConversationId>,
    pub failed: Vec<(ConversationId, String)>,
}

impl Conversations {
    /// Deletes the conversation and its backup files.
    pub fn delete(&self, id: &ConversationId) -> Result<(), ConversationError> {
        match self.remove_if(id, |_| true)? {
            RemoveOutcome::Removed => {}
            RemoveOutcome::InUse => return Err(ConversationError::InUse { id: id.to_string() }),
            RemoveOutcome::NotFound | RemoveOutcome::Kept => {
                return Err(ConversationError::NotFound { id: id.to_string() });
            }
        }
        let mut backups = Vec::new();
        self.each_name(|name| {
            if id_of_backup(name).as_ref() == Some(id) {
                backups.push(name.to_owned());
            }
        })?;
        for name in backups {
            let path = self.folder.join(name);
            fs::remove_file(&path).map_err(|source| ConversationError::Unwritable { path, source })?;
        }
        Ok(())
    }

    /// Deletes conversations last modified more than `older_than` ago. Continues if a file cannot be deleted.
    pub fn clean(&self, older_than: Duration, now: Timestamp) -> Result<Cleaned, ConversationError> {
        let (mut old, mut backups) = (Vec::new(), Vec::new());
        let is_older = |path: &Path, than: Duration| {
            // Do not follow links: only the link itself would be deleted, so its own age counts.
            fs::symlink_metadata(path).is_ok_and(|stat| now.since(modified_at(&stat)) > than)
        };
        self.each_name(|name| {
            let path = self.folder.join(name);
            if let Some(id) = id_of(name) {
                old.extend(is_older(&path, older_than).then_some(id));
            } else if let Some(id) = id_of_backup(name) {
                backups.push((id, path));
            } else if is_temp(name) && is_older(&path, STALE_TEMP_AGE) {
                // If this fails, the next cleanup tries again.
                let _ = fs::remove_file(&path);
            }
        })?;
        old.sort();
        let mut cleaned = Cleaned::default();
        for id in old {
            match self.remove_if(&id, |stat| now.since(modified_at(stat)) > older_than) {
                Ok(RemoveOutcome::Removed) => cleaned.removed.push(id),
                Ok(RemoveOutcome::InUse) => cleaned.spared.push(id),
                Ok(RemoveOutcome::Kept | RemoveOutcome::NotFound) => {}
                Err(error) => cleaned.failed.push((id, with_cause(&error))),
            }
        }
        let removed: HashSet<&ConversationId> = cleaned.removed.iter().collect();
        for (_, path) in backups.iter().filter(|(id, _)| removed.contains(id)) {
            let _ = fs::remove_file(path);
        }
        Ok(cleaned)
    }

    /// Removes the file if no process has it open or writes to it, and `is_expected` accepts its metadata.
    fn remove_if(
        &self,
        id: &ConversationId,
        is_expected: impl Fn(&fs::Metadata) -> bool,
    ) -> Result<RemoveOutcome, ConversationError> {
        let path = self.file(id);
        let unwritable = |source| ConversationError::Unwritable { path: path.clone(), source };
        // Check that the conversation exists before creating the `.use` file.
        if !exists(&path).map_err(unwritable)? {
            return Ok(RemoveOutcome::NotFound);
        }
        // Held until the file is removed, so that no process opens the file and then writes to an unlinked inode.
        let Some(_unused) = InUse::try_exclusive(&path).map_err(unwritable)? else { return Ok(RemoveOutcome::InUse) };
        // A file that cannot be opened can still be deleted.
        let file = self.open_to_read(id).ok();
        if let Some(file) = &file
            && !try_lock(file, &path).map_err(unwritable)?
        {
            return Ok(RemoveOutcome::InUse);
        }
        match fs::symlink_metadata(&path) {
            Ok(stat) if is_expected(&stat) => {
                fs::remove_file(&path).map_err(unwritable)?;
                Ok(RemoveOutcome::Removed)
            }
            Ok(_) => Ok(RemoveOutcome::Kept),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RemoveOutcome::NotFound),
            Err(error) => Err(unwritable(error)),
        }
    }
}

enum RemoveOutcome {
    Removed,
    InUse,
    /// `is_expected` rejected the file.
    Kept,
    NotFound,
}

/// Returns false if a process is writing to the file or has just replaced it.
fn try_lock(file: &File, path: &Path) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => is_still_at(file, path),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn exists(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether this is the name of a temporary file.
fn is_temp(name: &str) -> bool {
    name.starts_with('.') && name.contains(".jsonl.") && name.ends_with(".tmp")
}

fn with_cause(error: &ConversationError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
