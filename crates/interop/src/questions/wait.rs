//! Waits for the answers of one set with inotify, and also polls in case inotify misses a change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coven_domain::QuestionSetId;
use coven_domain::question::{Question, QuestionAnswer, check_stored_answers};
use coven_domain::question_set::QuestionSetState;

use super::set::{self, AnswersFile, RequestFile, StatusFile};
use super::watch::SetWatch;
use super::{ANSWERS, QuestionError, QuestionFolder, REQUEST, STATUS};
use coven_holder::clock;

/// Poll interval without inotify.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Poll interval with inotify, which does not report remote changes on a network file system.
const WATCHED_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The outcome of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    Answered(Vec<QuestionAnswer>),
    Rejected(Option<String>),
    TimedOut,
    /// Abandoned, with the reason if known.
    Abandoned(Option<String>),
    /// The set no longer exists.
    Gone,
}

impl QuestionFolder {
    /// Waits until the set has ended. After `timeout`, marks the set as timed out. To stop a wait from another thread
    /// or process, end the set with `end_without_answer`.
    pub fn wait(
        &self,
        id: &QuestionSetId,
        call_id: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<Waited, QuestionError> {
        let mut waiter = self.waiter(id, call_id);
        if let Some(ended) = waiter.wait(timeout)? {
            return Ok(ended);
        }
        match self.end_without_answer(id, QuestionSetState::TimedOut, clock::now()) {
            // Another process ended the set first.
            Ok(false) => Ok(waiter.poll()?.unwrap_or(Waited::TimedOut)),
            Ok(true) => Ok(Waited::TimedOut),
            Err(QuestionError::NotFound { .. }) => Ok(Waited::Gone),
            Err(error) => Err(error),
        }
    }

    /// Returns the outcome of the set without waiting, or `None` if it is pending.
    pub fn outcome(&self, id: &QuestionSetId, call_id: Option<&str>) -> Result<Option<Waited>, QuestionError> {
        self.waiter(id, call_id).poll()
    }

    /// Returns a waiter for callers that do not block a thread: call `look`, wait for a `FolderWatch` event or
    /// `Waiter::pause`, and repeat.
    pub fn waiter(&self, id: &QuestionSetId, call_id: Option<&str>) -> Waiter {
        let dir = self.dir(id);
        let request: Option<RequestFile> = set::required(&dir, id, REQUEST).ok();
        let questions = request.map(|request| request.questions);
        let seen = stamp(&dir);
        Waiter { folder: self.clone(), id: *id, call_id: call_id.map(str::to_owned), dir, questions, seen }
    }
}

/// Checks one set until it has ended.
#[derive(Debug)]
pub struct Waiter {
    folder: QuestionFolder,
    id: QuestionSetId,
    call_id: Option<String>,
    dir: PathBuf,
    /// Read in advance if possible: they never change, and reading them later would delay the answers.
    questions: Option<Vec<Question>>,
    seen: Stamp,
}

impl Waiter {
    /// Returns how long to wait for an event before checking the set anyway.
    pub const fn pause(is_watched: bool) -> Duration {
        if is_watched { WATCHED_POLL_INTERVAL } else { POLL_INTERVAL }
    }

    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Waited>, QuestionError> {
        // Start watching before the first check, so that no change is missed in between.
        self.wait_with(SetWatch::new(&self.dir).ok(), timeout)
    }

    fn wait_with(
        &mut self,
        watch: Option<SetWatch>,
        timeout: Option<Duration>,
    ) -> Result<Option<Waited>, QuestionError> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let interval = Self::pause(watch.is_some());
        if let Some(ended) = self.poll()? {
            return Ok(Some(ended));
        }
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let pause = left.map_or(interval, |left| left.min(interval));
            let is_notified = match &watch {
                Some(watch) => watch.changed_within(pause),
                None => {
                    std::thread::sleep(pause);
                    false
                }
            };
            if (is_notified || self.has_changed())
                && let Some(ended) = self.poll()?
            {
                return Ok(Some(ended));
            }
        }
    }

    /// Returns the outcome of the set, or `None` if it is pending.
    pub fn poll(&self) -> Result<Option<Waited>, QuestionError> {
        match set::with_attempts(|| self.check_once()) {
            Err(QuestionError::NotFound { .. }) => Ok(Some(Waited::Gone)),
            Err(QuestionError::Malformed { file: ANSWERS, .. } | QuestionError::BadAnswers(_)) => {
                match self.folder.abandon_invalid_answers(&self.id, clock::now()) {
                    Ok(Some(why)) => Ok(Some(Waited::Abandoned(Some(why)))),
                    // Another process ended the set or replaced the answers.
                    Ok(None) => self.check_again(),
                    Err(QuestionError::NotFound { .. }) => Ok(Some(Waited::Gone)),
                    Err(error) => Err(error),
                }
            }
            found => found,
        }
    }

    fn check_again(&self) -> Result<Option<Waited>, QuestionError> {
        match self.check_once() {
            Err(QuestionError::Malformed { file: ANSWERS, .. } | QuestionError::BadAnswers(_)) => {
                Ok(self.check_status()?.or(Some(Waited::Abandoned(None))))
            }
            found => found,
        }
    }

    fn check_once(&self) -> Result<Option<Waited>, QuestionError> {
        if let Some(answered) = self.check_answers()? {
            return Ok(Some(answered));
        }
        self.check_status()
    }

    fn check_status(&self) -> Result<Option<Waited>, QuestionError> {
        let status: StatusFile = set::required(&self.dir, &self.id, STATUS)?;
        match status.status {
            QuestionSetState::Pending => Ok(None),
            QuestionSetState::Rejected => Ok(Some(Waited::Rejected(status.rejection_reason))),
            QuestionSetState::TimedOut => Ok(Some(Waited::TimedOut)),
            QuestionSetState::Abandoned => Ok(Some(Waited::Abandoned(status.abandon_reason))),
            // The answers were written after the first check, or they are for another call.
            QuestionSetState::Completed => {
                self.check_answers()?.map(Some).ok_or_else(|| QuestionError::Contradiction {
                    id: self.id,
                    problem: format!("{STATUS} says completed, but there is no {ANSWERS} for this call"),
                })
            }
        }
    }

    fn check_answers(&self) -> Result<Option<Waited>, QuestionError> {
        let given = set::answers(&self.dir, &self.id)?.filter(|given| given.are_for(self.call_id.as_deref()));
        let Some(AnswersFile { answers, .. }) = given else { return Ok(None) };
        match &self.questions {
            Some(questions) => check_stored_answers(questions, &answers)?,
            None => {
                let request: RequestFile = set::required(&self.dir, &self.id, REQUEST)?;
                check_stored_answers(&request.questions, &answers)?;
            }
        }
        Ok(Some(Waited::Answered(answers)))
    }

    /// Returns whether the set's files changed since the last call. Cheaper than `look`.
    pub fn has_changed(&mut self) -> bool {
        let now = stamp(&self.dir);
        std::mem::replace(&mut self.seen, now) != now
    }
}

fn stamp(dir: &Path) -> Stamp {
    [ANSWERS, STATUS].map(|file| {
        let there = fs::metadata(dir.join(file)).ok()?;
        Some((there.ino(), there.size(), there.mtime(), there.mtime_nsec()))
    })
}

/// Inode, size and modification time of the answers and the status, to detect changes.
type Stamp = [Option<(u64, u64, i64, i64)>; 2];

#[cfg(test)]
mod tests {
    use coven_domain::question::Choice;

    use super::*;
    use crate::questions::{Limits, NewQuestionSet};

    #[test]
    fn ask_20_without_inotify_the_waiter_polls_every_200_ms() {
        let root = tempfile::tempdir().expect("temporary folder");
        let folder = QuestionFolder::at(root.path().join("sessions"));
        let options = ["A", "B"].map(|label| Choice { description: None, label: label.into() }).to_vec();
        let question = Question { options, prompt: "Which?".into(), title: "Choice".into(), multi_select: false };
        let new = NewQuestionSet { questions: vec![question], ..NewQuestionSet::default() };
        let id = folder.create(&new, &Limits { max_sessions: 1 }, clock::now()).expect("created");
        let mut waiter = folder.waiter(&id, None);
        assert_eq!(waiter.wait_with(None, Some(POLL_INTERVAL * 2)).expect("sound set"), None, "no answer yet");
        let answer = QuestionAnswer { selected_option: Some("A".into()), ..QuestionAnswer::default() };
        let waited = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| waiter.wait_with(None, Some(Duration::from_secs(60))));
            folder.answer(&id, vec![answer], clock::now()).expect("pending");
            waiting.join().expect("no panic").expect("sound set")
        });
        assert!(matches!(waited, Some(Waited::Answered(_))), "{waited:?}");
    }
}
