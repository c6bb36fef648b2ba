//! Deletes conversations: one that is named, or all that nobody touched for long. Never one that is in use.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::conversation::ConversationId;

use super::in_use::InUse;
use super::{ConversationError, Conversations, id_of, id_of_aside, is_still_at, modified_at};

/// Making a file takes no longer; what is older was left by a crash.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// What a clean-up did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    pub removed: Vec<ConversationId>,
    /// Old, but somebody has them open.
    pub spared: Vec<ConversationId>,
    pub failed: Vec<(ConversationId, String)>,
}

impl Conversations {
    /// Deletes the conversation and what was kept of it beside its file.
    pub fn delete(&self, id: &ConversationId) -> Result<(), ConversationError> {
        match self.remove_if(id, |_| true)? {
            Outcome::Removed => {}
            Outcome::InUse => return Err(ConversationError::InUse { id: id.to_string() }),
            Outcome::Gone | Outcome::Kept => return Err(ConversationError::NotFound { id: id.to_string() }),
        }
        let mut asides = Vec::new();
        self.each_name(|name| {
            if id_of_aside(name).as_ref() == Some(id) {
                asides.push(name.to_owned());
            }
        })?;
        for name in asides {
            let path = self.folder.join(name);
            fs::remove_file(&path).map_err(|source| ConversationError::Unwritable { path, source })?;
        }
        Ok(())
    }

    /// Deletes conversations that were last written to longer ago than this. A file that cannot be deleted holds up no other.
    pub fn clean(&self, older_than: Duration, now: Timestamp) -> Result<Cleaned, ConversationError> {
        let (mut old, mut beside) = (Vec::new(), Vec::new());
        let is_older = |path: &Path, than: Duration| {
            // Not followed: a link is as old as itself, and all that goes is the link.
            fs::symlink_metadata(path).is_ok_and(|stat| now.since(modified_at(&stat)) > than)
        };
        self.each_name(|name| {
            let path = self.folder.join(name);
            if let Some(id) = id_of(name) {
                old.extend(is_older(&path, older_than).then_some(id));
            } else if let Some(id) = id_of_aside(name) {
                beside.push((id, path));
            } else if is_remains(name) && is_older(&path, LEFT_BEHIND) {
                // If it does not go now, it goes the next time.
                let _ = fs::remove_file(&path);
            }
        })?;
        old.sort();
        let mut cleaned = Cleaned::default();
        for id in old {
            match self.remove_if(&id, |stat| now.since(modified_at(stat)) > older_than) {
                Ok(Outcome::Removed) => cleaned.removed.push(id),
                Ok(Outcome::InUse) => cleaned.spared.push(id),
                Ok(Outcome::Kept | Outcome::Gone) => {}
                Err(error) => cleaned.failed.push((id, with_cause(&error))),
            }
        }
        let removed: HashSet<&ConversationId> = cleaned.removed.iter().collect();
        for (_, path) in beside.iter().filter(|(id, _)| removed.contains(id)) {
            let _ = fs::remove_file(path);
        }
        Ok(cleaned)
    }

    /// Removes the file if nobody has it open, nobody writes to it and it is as expected.
    fn remove_if(
        &self,
        id: &ConversationId,
        is_expected: impl Fn(&fs::Metadata) -> bool,
    ) -> Result<Outcome, ConversationError> {
        let path = self.file(id);
        let unwritable = |source| ConversationError::Unwritable { path: path.clone(), source };
        // Where there is no conversation, no mark is left either.
        if !is_there(&path).map_err(unwritable)? {
            return Ok(Outcome::Gone);
        }
        // Held until the file is gone: who opens it meanwhile finds nothing rather than a file without a name.
        let Some(_unused) = InUse::by_nobody(&path).map_err(unwritable)? else { return Ok(Outcome::InUse) };
        // What cannot be opened can still be deleted.
        let file = self.open_to_read(id).ok();
        if let Some(file) = &file
            && !lock(file, &path).map_err(unwritable)?
        {
            return Ok(Outcome::InUse);
        }
        match fs::symlink_metadata(&path) {
            Ok(stat) if is_expected(&stat) => {
                fs::remove_file(&path).map_err(unwritable)?;
                Ok(Outcome::Removed)
            }
            Ok(_) => Ok(Outcome::Kept),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Outcome::Gone),
            Err(error) => Err(unwritable(error)),
        }
    }
}

enum Outcome {
    Removed,
    InUse,
    /// Not as expected any more.
    Kept,
    Gone,
}

/// False if somebody writes to it, or has replaced it just now.
fn lock(file: &File, path: &Path) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => is_still_at(file, path),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file whose making was cut short.
fn is_remains(name: &str) -> bool {
    name.starts_with('.') && name.contains(".jsonl.") && name.ends_with(".tmp")
}

fn with_cause(error: &ConversationError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
