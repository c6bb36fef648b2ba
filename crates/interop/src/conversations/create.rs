//! Creates a conversation: its file appears together with its first line.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coven_domain::Timestamp;
use coven_domain::conversation::{ConversationId, ConversationState, Line, Metadata};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{ConversationError, Conversations, sync_folder};

/// There are a million ids per day and agent, so this many collisions do not happen by chance.
const MAX_ATTEMPTS: usize = 100;

/// Metadata of a new conversation.
#[derive(Debug, Clone, Default)]
pub struct NewConversation {
    /// Generated if absent.
    pub id: Option<ConversationId>,
    pub agent: Option<String>,
    pub harness: Option<String>,
    pub cwd: Option<PathBuf>,
}

impl Conversations {
    /// Creates the conversation and returns its id.
    pub fn create(&self, new: &NewConversation, now: Timestamp) -> Result<ConversationId, ConversationError> {
        let unwritable = |path: &Path| {
            let path = path.to_owned();
            move |source| ConversationError::Unwritable { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(unwritable(&self.folder))?;
        for _ in 0..MAX_ATTEMPTS {
            let id = new.id.clone().unwrap_or_else(|| generate_id(new.agent.as_deref(), now));
            let path = self.file(&id);
            if place(&path, &first_line(&id, new, now)).map_err(unwritable(&path))? {
                return Ok(id);
            }
            if let Some(id) = &new.id {
                return Err(ConversationError::Exists { id: id.to_string() });
            }
        }
        let source = io::Error::new(io::ErrorKind::AlreadyExists, "no unused id found");
        Err(unwritable(&self.folder)(source))
    }
}

fn generate_id(agent: Option<&str>, now: Timestamp) -> ConversationId {
    let (_, random) = uuid::Uuid::new_v4().as_u64_pair();
    ConversationId::generated(now, agent, (random % 1_000_000) as u32)
}

fn first_line(id: &ConversationId, new: &NewConversation, now: Timestamp) -> Vec<u8> {
    let metadata = Metadata {
        session_id: id.to_string(),
        agent: new.agent.clone(),
        created_at: now,
        status: ConversationState::Active,
        harness: new.harness.clone(),
        cwd: new.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()),
    };
    let mut bytes = Vec::new();
    Line::Metadata(metadata).write_to(&mut bytes);
    bytes
}

/// Creates the file. Returns false if it already exists.
fn place(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    let (temp, ()) = write_temp(path, |file| file.write_all(bytes))?;
    let placed = match renameat_with(CWD, &temp, CWD, path, RenameFlags::NOREPLACE) {
        // The file system does not support RENAME_NOREPLACE.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(&temp, path).and_then(|()| fs::remove_file(&temp))
        }
        renamed => renamed.map_err(io::Error::from),
    };
    match placed {
        Ok(()) => sync_folder(path.parent().unwrap_or(Path::new("."))).map(|()| true),
        Err(error) => {
            let _ = fs::remove_file(&temp);
            if error.kind() == io::ErrorKind::AlreadyExists { Ok(false) } else { Err(error) }
        }
    }
}

/// Writes and syncs a private temporary file in the same folder as `path`, ready to be renamed. Removes it on failure.
pub(super) fn write_temp<T>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temp = path.with_file_name(format!(".{name}.{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = || -> io::Result<T> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp)?;
        // The umask may have removed permissions of the owner.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        let mut file = BufWriter::new(file);
        let filled = fill(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(filled)
    };
    written().map(|filled| (temp.clone(), filled)).inspect_err(|_| {
        let _ = fs::remove_file(&temp);
    })
}
