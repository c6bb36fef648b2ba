//! Reads question sets of any tool. Takes no locks: files are replaced atomically, so each read finds a complete file.

use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io, thread};

use coven_domain::question::{Question, QuestionAnswer, check_stored_answers};
use coven_domain::question_set::{Answers, QuestionSet, QuestionSetState};
use coven_domain::{QuestionSetId, Timestamp};
use coven_files::{Links, ReadError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::owner::Owner;
use super::{ANSWERS, QUESTION_FILE, QuestionError, QuestionFolder, REQUEST, STATUS};

/// Maximum number of attempts to read a missing or malformed file, which a writer may be about to complete.
const MAX_ATTEMPTS: u32 = 3;
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
/// A folder that changed this recently may still be incomplete.
const MAX_CREATION_TIME: Duration = Duration::from_secs(1);

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
    pub(super) answers: Vec<QuestionAnswer>,
    pub(super) call_id: Option<String>,
    pub(super) last_read_at: Option<Timestamp>,
}

impl AnswersFile {
    /// Returns whether the answers are for this call. Answers without a call id are for any call.
    pub(super) fn are_for(&self, call_id: Option<&str>) -> bool {
        match (self.call_id.as_deref(), call_id) {
            (Some(theirs), Some(ours)) => theirs == ours,
            _ => true,
        }
    }
}

/// Parses a status. The three other statuses that AUQ uses do not end a set, so they count as pending.
fn state<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<QuestionSetState, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "in-progress" | "elaborate_requested" | "rephrase_requested" => Ok(QuestionSetState::Pending),
        status => status.parse().map_err(serde::de::Error::custom),
    }
}

impl QuestionFolder {
    /// Reads the whole set. Retries twice if a file is missing or malformed.
    pub fn read(&self, id: &QuestionSetId) -> Result<QuestionSet, QuestionError> {
        with_attempts(|| self.read_once(id))
    }

    /// Returns all sets, oldest first, followed by the broken ones with the reason.
    pub fn list(&self) -> Result<Vec<Listed>, QuestionError> {
        self.list_those(|_| true)
    }

    /// Returns the sets that `is_wanted` selects. Does not read the files of the others.
    pub fn list_those(&self, is_wanted: impl Fn(&QuestionSetId) -> bool) -> Result<Vec<Listed>, QuestionError> {
        Ok(self.read_those(self.ids()?.into_iter().filter(is_wanted)))
    }

    /// Returns these sets, oldest first, followed by the broken ones. Omits sets that do not exist.
    pub fn read_those(&self, ids: impl IntoIterator<Item = QuestionSetId>) -> Vec<Listed> {
        let mut sound = Vec::new();
        let mut broken = Vec::new();
        for id in ids {
            let found = match self.read_once(&id) {
                // Retry only recent sets: a folder full of old broken sets must not take minutes.
                Err(_) if self.is_recent(&id) => self.read(&id),
                found => found,
            };
            match found {
                Ok(set) => sound.push(set),
                // Removed after the folder was listed.
                Err(QuestionError::NotFound { .. }) => {}
                Err(why) => broken.push((id, why)),
            }
        }
        sound.sort_by_key(|set| (set.created_at, set.id));
        broken.sort_by_key(|(id, _)| *id);
        let broken = broken.into_iter().map(|(id, why)| Listed::Broken { id, why });
        sound.into_iter().map(Listed::Sound).chain(broken).collect()
    }

    /// Checks that the set is complete and consistent.
    pub fn validate(&self, id: &QuestionSetId) -> Result<(), QuestionError> {
        let set = self.read(id)?;
        if let Some(given) = set.answers {
            check_stored_answers(&set.questions, &given.answers)?;
        }
        Ok(())
    }

    /// Reads the set without retries, for callers that read it again when it changes.
    pub fn read_once(&self, id: &QuestionSetId) -> Result<QuestionSet, QuestionError> {
        let dir = self.dir(id);
        let request: RequestFile = required(&dir, id, REQUEST)?;
        // The status first: writers store the answers before the status, so a completed set has its answers.
        let status: StatusFile = required(&dir, id, STATUS)?;
        belongs(id, REQUEST, &request.session_id)?;
        belongs(id, STATUS, &status.session_id)?;
        let contradiction = |problem| Err(QuestionError::Contradiction { id: *id, problem });
        if request.questions.len() != status.total_questions {
            let (asked, counted) = (request.questions.len(), status.total_questions);
            return contradiction(format!("{REQUEST} has {asked} questions, but {STATUS} says {counted}"));
        }
        let call_id = status.call_id.or(request.call_id);
        let answers = match status.status {
            QuestionSetState::Pending | QuestionSetState::Completed => answers(&dir, id)?,
            // The answers are ignored, so they may be malformed.
            QuestionSetState::Rejected | QuestionSetState::TimedOut | QuestionSetState::Abandoned => None,
        };
        let answers = answers.filter(|given| given.are_for(call_id.as_deref()));
        let state = match (status.status, &answers) {
            // The answerer has not updated the status yet, or died before it could.
            (QuestionSetState::Pending, Some(_)) => QuestionSetState::Completed,
            (QuestionSetState::Completed, None) => {
                return contradiction(format!("{STATUS} says completed, but there is no {ANSWERS}"));
            }
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

    fn is_recent(&self, id: &QuestionSetId) -> bool {
        let changed_at = fs::metadata(self.dir(id)).and_then(|folder| folder.modified());
        changed_at.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age < MAX_CREATION_TIME))
    }
}

/// Tries up to three times with increasing delays, unless a retry cannot help.
pub(super) fn with_attempts<T>(mut read: impl FnMut() -> Result<T, QuestionError>) -> Result<T, QuestionError> {
    let mut pause = FIRST_RETRY_DELAY;
    for _ in 1..MAX_ATTEMPTS {
        match read() {
            Err(
                QuestionError::Missing { .. }
                | QuestionError::Malformed { .. }
                | QuestionError::Contradiction { .. }
                | QuestionError::Unreadable { .. },
            ) => thread::sleep(pause),
            result => return result,
        }
        pause *= 2;
    }
    read()
}

/// Reads the answers, if they exist.
pub(super) fn answers(dir: &Path, id: &QuestionSetId) -> Result<Option<AnswersFile>, QuestionError> {
    let given: Option<AnswersFile> = optional(dir, id, ANSWERS)?;
    match given.as_ref().and_then(|given| given.session_id.as_deref()) {
        Some(named) if !is_named(id, named) => {
            let problem = format!("its sessionId is {named:?}");
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
        // A fifo, a link or a huge file breaks only this set.
        Err(error) => return Err(malformed(error.to_string())),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| malformed(error.to_string()))
}

fn belongs(id: &QuestionSetId, file: &'static str, found: &str) -> Result<(), QuestionError> {
    match is_named(id, found) {
        true => Ok(()),
        false => {
            Err(QuestionError::Contradiction { id: *id, problem: format!("the sessionId in {file} is {found:?}") })
        }
    }
}

fn is_named(id: &QuestionSetId, text: &str) -> bool {
    text.parse() == Ok(*id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ask_15_an_incomplete_set_is_read_three_times() {
        let id = QuestionSetId::from_random_bytes([7; 16]);
        let attempts = |complete_at: u32| {
            let mut count = 0;
            let found = with_attempts(|| {
                count += 1;
                match count == complete_at {
                    true => Ok(count),
                    false => Err(QuestionError::Missing { id, file: STATUS }),
                }
            });
            (count, found.ok())
        };
        assert_eq!(attempts(1), (1, Some(1)));
        assert_eq!(attempts(3), (3, Some(3)));
        assert_eq!(attempts(9), (3, None));
        let mut count = 0;
        let gone = with_attempts(|| -> Result<(), _> {
            count += 1;
            Err(QuestionError::NotFound { id: id.to_string() })
        });
        assert!(gone.is_err() && count == 1, "no retry for a missing set");
    }
}
