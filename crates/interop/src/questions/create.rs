//! Creates a question set. A rename makes the complete folder visible, so a set never lacks its files.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use coven_domain::question::{Question, check_questions};
use coven_domain::question_set::QuestionSetState;
use coven_domain::{QuestionSetId, Timestamp};

use super::atomic::{self, AtomicWriteError, WriteStep};
use super::fields::Fields;
use super::owner::Owner;
use super::set::{self, StatusFile};
use super::{ANSWERS, QuestionError, QuestionFolder, REQUEST, STATUS, fault};

/// Name prefix of a folder that is being created.
pub(super) const NEW_PREFIX: &str = ".new-";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewQuestionSet {
    pub questions: Vec<Question>,
    /// Set if the asker waits for the answers: the set is abandoned when that process ends.
    pub call_id: Option<String>,
    pub working_directory: Option<String>,
    /// The coven session that asks (`COVEN_SESSION_ID`).
    pub session: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of unanswered sets. The check takes no lock, so concurrent askers may exceed it slightly.
    pub max_sessions: u32,
}

impl QuestionFolder {
    /// Creates a set. Leaves no files if it fails.
    pub fn create(
        &self,
        new: &NewQuestionSet,
        limits: &Limits,
        now: Timestamp,
    ) -> Result<QuestionSetId, QuestionError> {
        check_questions(&new.questions)?;
        make_private(&self.path)?;
        if self.is_full(limits.max_sessions)? {
            return Err(QuestionError::Full { max: limits.max_sessions });
        }
        let id = QuestionSetId::from_random_bytes(uuid::Uuid::new_v4().into_bytes());
        let building = self.path.join(format!("{NEW_PREFIX}{id}"));
        let built = self.build(&building, id, new, now);
        if built.is_err() {
            let _ = fs::remove_dir_all(&building);
        }
        built.map(|()| id)
    }

    fn build(
        &self,
        building: &Path,
        id: QuestionSetId,
        new: &NewQuestionSet,
        now: Timestamp,
    ) -> Result<(), QuestionError> {
        make_private(building)?;
        atomic::write_new(&building.join(REQUEST), &request(id, new, now).to_text())?;
        atomic::write_new(&building.join(STATUS), &status(id, new, now).to_text())?;
        let place = self.dir(&id);
        let failed = |step| {
            let path = place.clone();
            move |source| AtomicWriteError { path, step, source }
        };
        atomic::sync_folder(building).map_err(failed(WriteStep::SyncFolder))?;
        fault::before("set", "rename")
            .and_then(|()| fs::rename(building, &place))
            .map_err(failed(WriteStep::Rename))?;
        fault::before("set", "sync_folder")
            .and_then(|()| atomic::sync_folder(&self.path))
            .map_err(failed(WriteStep::SyncFolder))?;
        Ok(())
    }

    fn is_full(&self, max: u32) -> Result<bool, QuestionError> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let ids = self.ids()?;
        // With fewer sets in total, their state does not matter.
        if ids.len() < max {
            return Ok(false);
        }
        Ok(ids.iter().filter(|id| self.is_pending(id)).take(max).count() >= max)
    }

    /// Checks quickly whether the set is pending. A broken set is not.
    fn is_pending(&self, id: &QuestionSetId) -> bool {
        let dir = self.dir(id);
        let status: Result<StatusFile, _> = set::required(&dir, id, STATUS);
        status.is_ok_and(|status| status.status == QuestionSetState::Pending) && !dir.join(ANSWERS).exists()
    }
}

/// Creates the folder and its missing parents, accessible only to the owner.
pub(super) fn make_private(folder: &Path) -> Result<(), QuestionError> {
    let unwritable = |source| QuestionError::Unwritable { path: folder.to_owned(), source };
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unwritable)?;
    // The umask may have removed permissions of the owner.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(unwritable)
}

fn request(id: QuestionSetId, new: &NewQuestionSet, now: Timestamp) -> Fields {
    let mut fields = Fields::default();
    fields.set("questions", &new.questions);
    fields.set("sessionId", id);
    fields.set("status", QuestionSetState::Pending);
    fields.set("timestamp", now);
    set_some(&mut fields, "workingDirectory", new.working_directory.as_ref());
    set_some(&mut fields, "callId", new.call_id.as_ref());
    set_some(&mut fields, "covenSessionId", new.session.as_ref());
    // The asker's process only matters if it waits for the answers.
    set_some(&mut fields, "covenAsker", new.call_id.as_ref().and_then(|_| Owner::this_process()));
    fields
}

fn status(id: QuestionSetId, new: &NewQuestionSet, now: Timestamp) -> Fields {
    let mut fields = Fields::default();
    fields.set("createdAt", now);
    fields.set("lastModified", now);
    fields.set("sessionId", id);
    fields.set("status", QuestionSetState::Pending);
    fields.set("totalQuestions", new.questions.len());
    set_some(&mut fields, "workingDirectory", new.working_directory.as_ref());
    set_some(&mut fields, "callId", new.call_id.as_ref());
    fields
}

pub(super) fn set_some(fields: &mut Fields, key: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        fields.set(key, value);
    }
}
