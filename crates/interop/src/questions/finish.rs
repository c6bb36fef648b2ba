//! Ends a question set: answered, rejected, timed out or abandoned. Each takes the set's lock, so the first one wins.

use std::io;

use coven_domain::lifecycle::Lifecycle;
use coven_domain::question::{QuestionAnswer, check_answers, check_stored_answers};
use coven_domain::question_set::{QuestionSet, QuestionSetFact, QuestionSetState};
use coven_domain::{QuestionSetId, Timestamp};

use super::create::set_some;
use super::fields::Fields;
use super::lock::{self, Lock};
use super::set::{self, RequestFile, StatusFile};
use super::{ANSWERS, QuestionError, QuestionFolder, REQUEST, STATUS, atomic};

impl QuestionFolder {
    /// Checks and stores the answers.
    pub fn answer(
        &self,
        id: &QuestionSetId,
        answers: Vec<QuestionAnswer>,
        now: Timestamp,
    ) -> Result<(), QuestionError> {
        self.answer_as(id, answers, None, now)
    }

    /// Like `answer`, but records who answered if it was not the human.
    pub fn answer_as(
        &self,
        id: &QuestionSetId,
        mut answers: Vec<QuestionAnswer>,
        by: Option<&str>,
        now: Timestamp,
    ) -> Result<(), QuestionError> {
        let _lock = self.lock_set(id)?;
        let set = self.read(id)?;
        check_transition(&set, QuestionSetFact::Answered)?;
        check_answers(&set.questions, &answers)?;
        for answer in answers.iter_mut().filter(|answer| answer.timestamp.is_empty()) {
            answer.timestamp = now.to_string();
        }
        let mut fields = Fields::default();
        fields.set("sessionId", id);
        fields.set("timestamp", now);
        fields.set("answers", &answers);
        set_some(&mut fields, "callId", set.call_id.as_ref());
        // Write the answers first: waiters watch for that file.
        atomic::write(&self.dir(id).join(ANSWERS), &fields.to_text())?;
        self.change_status(id, QuestionSetState::Completed, now, |fields| set_some(fields, "answeredBy", by))
    }

    /// Rejects the set, with or without a reason.
    pub fn reject(&self, id: &QuestionSetId, reason: Option<&str>, now: Timestamp) -> Result<(), QuestionError> {
        self.reject_as(id, reason, None, now)
    }

    /// Like `reject`, but records who rejected the set if it was not the human.
    pub fn reject_as(
        &self,
        id: &QuestionSetId,
        reason: Option<&str>,
        by: Option<&str>,
        now: Timestamp,
    ) -> Result<(), QuestionError> {
        let _lock = self.lock_set(id)?;
        check_transition(&self.read(id)?, QuestionSetFact::Rejected)?;
        let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
        self.change_status(id, QuestionSetState::Rejected, now, |fields| {
            fields.set("rejectionReason", reason);
            set_some(fields, "answeredBy", by);
        })
    }

    /// Ends a pending set without a human as timed out or abandoned. `Completed` updates the status of a set whose
    /// answerer died after it wrote the answers. Returns false if the set had already ended; then nothing changes.
    pub fn end_without_answer(
        &self,
        id: &QuestionSetId,
        state: QuestionSetState,
        now: Timestamp,
    ) -> Result<bool, QuestionError> {
        self.end_with_reason(id, state, None, now)
    }

    /// Abandons a pending set and records the reason. Returns false if the set had already ended.
    pub fn abandon(&self, id: &QuestionSetId, why: &str, now: Timestamp) -> Result<bool, QuestionError> {
        self.end_with_reason(id, QuestionSetState::Abandoned, Some(why), now)
    }

    fn end_with_reason(
        &self,
        id: &QuestionSetId,
        state: QuestionSetState,
        why: Option<&str>,
        now: Timestamp,
    ) -> Result<bool, QuestionError> {
        let _lock = self.lock_set(id)?;
        let dir = self.dir(id);
        let status: StatusFile = set::with_attempts(|| set::required(&dir, id, STATUS))?;
        let has_answers = || {
            // Malformed answers count as missing.
            set::answers(&dir, id).ok().flatten().is_some_and(|given| given.are_for(status.call_id.as_deref()))
        };
        let is_open = status.status == QuestionSetState::Pending;
        let is_due = match state {
            QuestionSetState::Completed => is_open && has_answers(),
            QuestionSetState::TimedOut | QuestionSetState::Abandoned => is_open && !has_answers(),
            QuestionSetState::Pending | QuestionSetState::Rejected => false,
        };
        if is_due {
            self.change_status(id, state, now, |fields| set_some(fields, "abandonReason", why))?;
        }
        Ok(is_due)
    }

    /// Abandons a set if its answers are invalid, even if it is marked as completed: other tools may not check the
    /// answers they write. Returns the reason if this call abandoned the set.
    pub(super) fn abandon_invalid_answers(
        &self,
        id: &QuestionSetId,
        now: Timestamp,
    ) -> Result<Option<String>, QuestionError> {
        let _lock = self.lock_set(id)?;
        let dir = self.dir(id);
        let request: RequestFile = set::required(&dir, id, REQUEST)?;
        let status: StatusFile = set::required(&dir, id, STATUS)?;
        let why = match set::answers(&dir, id) {
            Ok(None) => return Ok(None),
            Ok(Some(given)) => match check_stored_answers(&request.questions, &given.answers) {
                Ok(()) => return Ok(None),
                Err(bad) => bad.to_string(),
            },
            Err(QuestionError::Malformed { problem, .. }) => format!("{ANSWERS} is malformed: {problem}"),
            Err(error) => return Err(error),
        };
        let is_due = matches!(status.status, QuestionSetState::Pending | QuestionSetState::Completed);
        if is_due {
            self.change_status(id, QuestionSetState::Abandoned, now, |fields| fields.set("abandonReason", &why))?;
        }
        Ok(is_due.then_some(why))
    }

    /// Records when the answers were fetched.
    pub fn mark_read(&self, id: &QuestionSetId, now: Timestamp) -> Result<(), QuestionError> {
        let _lock = self.lock_set(id)?;
        if self.read(id)?.answers.is_none() {
            return Err(QuestionError::NoAnswers { id: *id });
        }
        let dir = self.dir(id);
        let mut fields: Fields = set::required(&dir, id, ANSWERS)?;
        fields.set("lastReadAt", now);
        Ok(atomic::write(&dir.join(ANSWERS), &fields.to_text())?)
    }

    fn change_status(
        &self,
        id: &QuestionSetId,
        state: QuestionSetState,
        now: Timestamp,
        more: impl FnOnce(&mut Fields),
    ) -> Result<(), QuestionError> {
        let dir = self.dir(id);
        let mut fields: Fields = set::required(&dir, id, STATUS)?;
        fields.set("lastModified", now);
        fields.set("status", state);
        more(&mut fields);
        Ok(atomic::write(&dir.join(STATUS), &fields.to_text())?)
    }

    fn lock_set(&self, id: &QuestionSetId) -> Result<Lock, QuestionError> {
        lock::acquire(&self.dir(id).join(STATUS)).map_err(|error| match error {
            QuestionError::Unwritable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                QuestionError::NotFound { id: id.to_string() }
            }
            error => error,
        })
    }
}

fn check_transition(set: &QuestionSet, fact: QuestionSetFact) -> Result<(), QuestionError> {
    match set.state.after(fact) {
        Ok(_) => Ok(()),
        Err(refused) => Err(QuestionError::AlreadyFinished { id: set.id, state: refused.state }),
    }
}
