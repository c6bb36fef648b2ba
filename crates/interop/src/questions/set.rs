//! Reads question sets, whoever wrote them. No locks: every file is replaced as a whole, so each look finds a whole one.

use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io, thread};

use coven_domain::question::{Answer, Question, check_stored_answers};
use coven_domain::question_set::{QuestionSetState, QuestionSetSummary, title_of};
use coven_domain::{QuestionSetId, SessionId, Timestamp};
use coven_files::{Links, ReadError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::owner::Owner;
use super::{ANSWERS, QUESTION_FILE, QuestionError, QuestionFolder, REQUEST, STATUS};

/// How often a file that is missing or malformed is looked at, for a writer that is about to finish it.
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A folder that changed this recently may still be in the making.
const IN_THE_MAKING: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionSet {
    pub id: QuestionSetId,
    pub questions: Vec<Question>,
    pub state: QuestionSetState,
    pub created_at: Timestamp,
    pub modified_at: Timestamp,
    pub call_id: Option<String>,
    pub working_directory: Option<String>,
    /// The session of coven that asked, if it was one.
    pub session: Option<String>,
    /// Who answered or rejected it, where that is known not to be the human: `session:<id>`.
    pub answered_by: Option<String>,
    pub rejection_reason: Option<String>,
    /// Why it was abandoned, where coven did it.
    pub abandon_reason: Option<String>,
    pub answers: Option<Answers>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    pub answers: Vec<Answer>,
    pub timestamp: Timestamp,
    pub last_read_at: Option<Timestamp>,
}

impl QuestionSet {
    /// What a home's store remembers of it.
    pub fn summary(&self) -> QuestionSetSummary {
        QuestionSetSummary {
            id: self.id,
            state: self.state,
            session: self.asking_session(),
            title: title_of(&self.questions),
            question_count: u32::try_from(self.questions.len()).unwrap_or(u32::MAX),
            created_at: self.created_at,
            modified_at: self.modified_at,
        }
    }

    /// The session of coven that asked; none if what stands there is no id of one.
    pub fn asking_session(&self) -> Option<SessionId> {
        self.session.as_deref()?.parse().ok()
    }
}

/// One entry of the folder.
#[derive(Debug)]
pub enum Listed {
    Sound(QuestionSet),
    Broken { id: QuestionSetId, why: QuestionError },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestFile {
    pub(super) questions: Vec<Question>,
    pub(super) session_id: String,
    pub(super) working_directory: Option<String>,
    pub(super) call_id: Option<String>,
    pub(super) coven_session_id: Option<String>,
    pub(super) coven_asker: Option<Owner>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusFile {
    pub(super) created_at: Timestamp,
    pub(super) last_modified: Timestamp,
    pub(super) session_id: String,
    #[serde(deserialize_with = "state")]
    pub(super) status: QuestionSetState,
    pub(super) total_questions: usize,
    pub(super) working_directory: Option<String>,
    pub(super) call_id: Option<String>,
    pub(super) answered_by: Option<String>,
    pub(super) rejection_reason: Option<String>,
    pub(super) abandon_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswersFile {
    pub(super) session_id: Option<String>,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) answers: Vec<Answer>,
    pub(super) call_id: Option<String>,
    pub(super) last_read_at: Option<Timestamp>,
}

impl AnswersFile {
    /// Answers that name another call are not for this one.
    pub(super) fn are_for(&self, call_id: Option<&str>) -> bool {
        match (self.call_id.as_deref(), call_id) {
            (Some(theirs), Some(ours)) => theirs == ours,
            _ => true,
        }
    }
}

/// The state behind a status. The three words that nobody has to end a set with leave it open.
fn state<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<QuestionSetState, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "in-progress" | "elaborate_requested" | "rephrase_requested" => Ok(QuestionSetState::Pending),
        word => word.parse().map_err(serde::de::Error::custom),
    }
}

impl QuestionFolder {
    /// The whole set. A file that is missing or malformed gets two more chances.
    pub fn read(&self, id: &QuestionSetId) -> Result<QuestionSet, QuestionError> {
        with_attempts(|| self.read_once(id))
    }

    /// Every set, oldest first; broken ones at the end, with the reason.
    pub fn list(&self) -> Result<Vec<Listed>, QuestionError> {
        self.list_those(|_| true)
    }

    /// The sets that are wanted; the files of the others are not touched.
    pub fn list_those(&self, is_wanted: impl Fn(&QuestionSetId) -> bool) -> Result<Vec<Listed>, QuestionError> {
        let mut sound = Vec::new();
        let mut broken = Vec::new();
        for id in self.ids()?.into_iter().filter(is_wanted) {
            let found = match self.read_once(&id) {
                // Only what is in the making gets more chances: a folder full of old ruins must not take minutes.
                Err(_) if self.is_in_the_making(&id) => self.read(&id),
                found => found,
            };
            match found {
                Ok(set) => sound.push(set),
                // Gone between the look at the folder and the look at the set.
                Err(QuestionError::NotFound { .. }) => {}
                Err(why) => broken.push((id, why)),
            }
        }
        sound.sort_by_key(|set| (set.created_at, set.id));
        broken.sort_by_key(|(id, _)| *id);
        let broken = broken.into_iter().map(|(id, why)| Listed::Broken { id, why });
        Ok(sound.into_iter().map(Listed::Sound).chain(broken).collect())
    }

    /// Whether all that belongs to the set is there and fits together.
    pub fn validate(&self, id: &QuestionSetId) -> Result<(), QuestionError> {
        let set = self.read(id)?;
        if let Some(given) = set.answers {
            check_stored_answers(&set.questions, &given.answers)?;
        }
        Ok(())
    }

    /// One look, without more chances: for who looks again as soon as something changes.
    pub fn read_once(&self, id: &QuestionSetId) -> Result<QuestionSet, QuestionError> {
        let dir = self.dir(id);
        let request: RequestFile = required(&dir, id, REQUEST)?;
        // The status before the answers: they are written the other way round, so nothing finished looks half done.
        let status: StatusFile = required(&dir, id, STATUS)?;
        belongs(id, REQUEST, &request.session_id)?;
        belongs(id, STATUS, &status.session_id)?;
        let contradiction = |problem| Err(QuestionError::Contradiction { id: *id, problem });
        if request.questions.len() != status.total_questions {
            let (asked, counted) = (request.questions.len(), status.total_questions);
            return contradiction(format!("{REQUEST} has {asked} questions and {STATUS} counts {counted}"));
        }
        let call_id = status.call_id.or(request.call_id);
        let answers = match status.status {
            QuestionSetState::Pending | QuestionSetState::Completed => answers(&dir, id)?,
            // Nobody gets them any more, so it does not matter what they look like.
            QuestionSetState::Rejected | QuestionSetState::TimedOut | QuestionSetState::Abandoned => None,
        };
        let answers = answers.filter(|given| given.are_for(call_id.as_deref()));
        let state = match (status.status, &answers) {
            // Written, and the status not yet: whoever did it is about to, or died in between.
            (QuestionSetState::Pending, Some(_)) => QuestionSetState::Completed,
            (QuestionSetState::Completed, None) => return contradiction(format!("completed, but no {ANSWERS}")),
            (state, _) => state,
        };
        Ok(QuestionSet {
            id: *id,
            questions: request.questions,
            state,
            created_at: status.created_at,
            modified_at: status.last_modified,
            call_id,
            working_directory: status.working_directory.or(request.working_directory),
            session: request.coven_session_id,
            answered_by: status.answered_by,
            rejection_reason: status.rejection_reason,
            abandon_reason: status.abandon_reason,
            answers: answers.map(|AnswersFile { answers, timestamp, last_read_at, .. }| Answers {
                answers,
                timestamp: timestamp.unwrap_or(status.last_modified),
                last_read_at,
            }),
        })
    }

    fn is_in_the_making(&self, id: &QuestionSetId) -> bool {
        let changed_at = fs::metadata(self.dir(id)).and_then(|folder| folder.modified());
        changed_at.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < IN_THE_MAKING))
    }
}

/// Looks up to three times, with a longer pause each time, unless there is nothing to wait for.
pub(super) fn with_attempts<T>(mut look: impl FnMut() -> Result<T, QuestionError>) -> Result<T, QuestionError> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match look() {
            Err(
                QuestionError::Missing { .. }
                | QuestionError::Malformed { .. }
                | QuestionError::Contradiction { .. }
                | QuestionError::Unreadable { .. },
            ) => thread::sleep(pause),
            settled => return settled,
        }
        pause *= 2;
    }
    look()
}

/// The answers, if they are there.
pub(super) fn answers(dir: &Path, id: &QuestionSetId) -> Result<Option<AnswersFile>, QuestionError> {
    let given: Option<AnswersFile> = optional(dir, id, ANSWERS)?;
    match given.as_ref().and_then(|given| given.session_id.as_deref()) {
        Some(named) if !is_named(id, named) => {
            let problem = format!("it is about {named:?}");
            Err(QuestionError::Malformed { id: *id, file: ANSWERS, problem })
        }
        _ => Ok(given),
    }
}

pub(super) fn required<T: DeserializeOwned>(
    dir: &Path,
    id: &QuestionSetId,
    file: &'static str,
) -> Result<T, QuestionError> {
    optional(dir, id, file)?.ok_or_else(|| match dir.is_dir() {
        true => QuestionError::Missing { id: *id, file },
        false => QuestionError::NotFound { id: id.to_string() },
    })
}

fn optional<T: DeserializeOwned>(
    dir: &Path,
    id: &QuestionSetId,
    file: &'static str,
) -> Result<Option<T>, QuestionError> {
    let path = dir.join(file);
    let malformed = |problem| QuestionError::Malformed { id: *id, file, problem };
    let text = match coven_files::read(&path, QUESTION_FILE, Links::Refuse) {
        Ok(text) => text,
        Err(ReadError::Io { path, source }) => {
            return match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(QuestionError::Unreadable { path, source }),
            };
        }
        // A fifo, a link or a huge file: only this set is broken.
        Err(error) => return Err(malformed(error.to_string())),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| malformed(error.to_string()))
}

fn belongs(id: &QuestionSetId, file: &'static str, found: &str) -> Result<(), QuestionError> {
    match is_named(id, found) {
        true => Ok(()),
        false => Err(QuestionError::Contradiction { id: *id, problem: format!("{file} is about {found:?}") }),
    }
}

fn is_named(id: &QuestionSetId, text: &str) -> bool {
    text.parse() == Ok(*id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ask_15_what_is_not_whole_is_looked_at_three_times() {
        let id = QuestionSetId::from_random_bytes([7; 16]);
        let looks = |whole_at: u32| {
            let mut count = 0;
            let found = with_attempts(|| {
                count += 1;
                match count == whole_at {
                    true => Ok(count),
                    false => Err(QuestionError::Missing { id, file: STATUS }),
                }
            });
            (count, found.ok())
        };
        assert_eq!(looks(1), (1, Some(1)));
        assert_eq!(looks(3), (3, Some(3)));
        assert_eq!(looks(9), (3, None));
        let mut count = 0;
        let gone = with_attempts(|| -> Result<(), _> {
            count += 1;
            Err(QuestionError::NotFound { id: id.to_string() })
        });
        assert!(gone.is_err() && count == 1, "nothing to wait for");
    }
}
