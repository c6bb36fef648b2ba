//! Waits for the answers of one set: woken by the kernel, and with a look now and then in case it does not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coven_domain::QuestionSetId;
use coven_domain::question::{Answer, Question, check_stored_answers};
use coven_domain::question_set::QuestionSetState;

use super::set::{self, AnswersFile, RequestFile, StatusFile};
use super::watch::SetWatch;
use super::{ANSWERS, QuestionError, QuestionFolder, REQUEST, STATUS};
use coven_holder::clock;

/// Between two looks when the kernel does not tell of changes.
const POLL: Duration = Duration::from_millis(200);
/// Between two looks when it does: a network file system changes without its knowing.
const SELDOM: Duration = Duration::from_secs(5);

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    Answered(Vec<Answer>),
    Rejected(Option<String>),
    TimedOut,
    /// Given up, with the reason where one is known.
    Abandoned(Option<String>),
    /// The set is no longer there.
    Gone,
}

impl QuestionFolder {
    /// Waits until the set has ended. When `timeout` passes first, the set becomes `timed_out`. To stop a wait from another
    /// thread or process, settle the set.
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
        match self.settle(id, QuestionSetState::TimedOut, clock::now()) {
            // Somebody ended it in the last moment.
            Ok(false) => Ok(waiter.look()?.unwrap_or(Waited::TimedOut)),
            Ok(true) => Ok(Waited::TimedOut),
            Err(QuestionError::NotFound { .. }) => Ok(Waited::Gone),
            Err(error) => Err(error),
        }
    }

    /// One look: how the set has ended, none if it has not.
    pub fn outcome(&self, id: &QuestionSetId, call_id: Option<&str>) -> Result<Option<Waited>, QuestionError> {
        self.waiter(id, call_id).look()
    }

    /// For who waits by other means than a thread: look, wait for a `FolderWatch` to tell of the set or for
    /// `Waiter::pause`, look again.
    pub fn waiter(&self, id: &QuestionSetId, call_id: Option<&str>) -> Waiter {
        let dir = self.dir(id);
        let request: Option<RequestFile> = set::required(&dir, id, REQUEST).ok();
        let questions = request.map(|request| request.questions);
        let seen = stamp(&dir);
        Waiter { folder: self.clone(), id: *id, call_id: call_id.map(str::to_owned), dir, questions, seen }
    }
}

/// Looks at one set until it has ended.
#[derive(Debug)]
pub struct Waiter {
    folder: QuestionFolder,
    id: QuestionSetId,
    call_id: Option<String>,
    dir: PathBuf,
    /// Read ahead where it can be: they never change, and the answers should not have to wait for them.
    questions: Option<Vec<Question>>,
    seen: Stamp,
}

impl Waiter {
    /// How long to wait for the kernel to tell before looking anyway.
    pub const fn pause(is_watched: bool) -> Duration {
        if is_watched { SELDOM } else { POLL }
    }

    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Waited>, QuestionError> {
        // Watched before the first look: what happens in between is not missed.
        self.wait_with(SetWatch::new(&self.dir).ok(), timeout)
    }

    fn wait_with(
        &mut self,
        watch: Option<SetWatch>,
        timeout: Option<Duration>,
    ) -> Result<Option<Waited>, QuestionError> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let between = Self::pause(watch.is_some());
        if let Some(ended) = self.look()? {
            return Ok(Some(ended));
        }
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let pause = left.map_or(between, |left| left.min(between));
            let is_told = match &watch {
                Some(watch) => watch.changed_within(pause),
                None => {
                    std::thread::sleep(pause);
                    false
                }
            };
            if (is_told || self.has_changed())
                && let Some(ended) = self.look()?
            {
                return Ok(Some(ended));
            }
        }
    }

    /// How the set has ended, none if it has not.
    pub fn look(&self) -> Result<Option<Waited>, QuestionError> {
        match set::with_attempts(|| self.look_once()) {
            Err(QuestionError::NotFound { .. }) => Ok(Some(Waited::Gone)),
            Err(QuestionError::Malformed { file: ANSWERS, .. } | QuestionError::BadAnswers(_)) => {
                match self.folder.give_up_on_answers(&self.id, clock::now()) {
                    Ok(Some(why)) => Ok(Some(Waited::Abandoned(Some(why)))),
                    // Somebody ended it or brought better ones.
                    Ok(None) => self.ended_otherwise(),
                    Err(QuestionError::NotFound { .. }) => Ok(Some(Waited::Gone)),
                    Err(error) => Err(error),
                }
            }
            found => found,
        }
    }

    fn ended_otherwise(&self) -> Result<Option<Waited>, QuestionError> {
        match self.look_once() {
            Err(QuestionError::Malformed { file: ANSWERS, .. } | QuestionError::BadAnswers(_)) => {
                Ok(self.by_status()?.or(Some(Waited::Abandoned(None))))
            }
            found => found,
        }
    }

    fn look_once(&self) -> Result<Option<Waited>, QuestionError> {
        if let Some(answered) = self.answered()? {
            return Ok(Some(answered));
        }
        self.by_status()
    }

    fn by_status(&self) -> Result<Option<Waited>, QuestionError> {
        let status: StatusFile = set::required(&self.dir, &self.id, STATUS)?;
        match status.status {
            QuestionSetState::Pending => Ok(None),
            QuestionSetState::Rejected => Ok(Some(Waited::Rejected(status.rejection_reason))),
            QuestionSetState::TimedOut => Ok(Some(Waited::TimedOut)),
            QuestionSetState::Abandoned => Ok(Some(Waited::Abandoned(status.abandon_reason))),
            // They were written between the two looks, else they are not for this call.
            QuestionSetState::Completed => self.answered()?.map(Some).ok_or_else(|| QuestionError::Contradiction {
                id: self.id,
                problem: format!("completed, but no {ANSWERS} for this call"),
            }),
        }
    }

    fn answered(&self) -> Result<Option<Waited>, QuestionError> {
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

    /// Whether a look is worth it. Cheap.
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

/// What changes when one of the two files that matter is replaced or written to: inode, size and time of each.
type Stamp = [Option<(u64, u64, i64, i64)>; 2];

#[cfg(test)]
mod tests {
    use coven_domain::question::Choice;

    use super::*;
    use crate::questions::{Limits, NewQuestionSet};

    #[test]
    fn ask_20_without_the_kernels_help_the_waiter_looks_every_200_ms() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = QuestionFolder::at(root.path().join("sessions"));
        let options = ["A", "B"].map(|label| Choice { description: None, label: label.into() }).to_vec();
        let question = Question { options, prompt: "Which?".into(), title: "Choice".into(), multi_select: false };
        let new = NewQuestionSet { questions: vec![question], ..NewQuestionSet::default() };
        let id = folder.create(&new, &Limits { max_sessions: 1 }, clock::now()).expect("asked");
        let mut waiter = folder.waiter(&id, None);
        assert_eq!(waiter.wait_with(None, Some(POLL * 2)).expect("a sound set"), None, "nobody answers");
        let answer = Answer { selected_option: Some("A".into()), ..Answer::default() };
        let waited = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| waiter.wait_with(None, Some(Duration::from_secs(60))));
            folder.answer(&id, vec![answer], clock::now()).expect("pending");
            waiting.join().expect("no panic").expect("a sound set")
        });
        assert!(matches!(waited, Some(Waited::Answered(_))), "{waited:?}");
    }
}
