//! What can go wrong with question sets. Texts that programs look for are those of the format's first tool.

use std::io;
use std::path::PathBuf;

use coven_domain::QuestionSetId;
use coven_domain::question::{BadAnswers, BadQuestions};
use coven_domain::question_set::QuestionSetState;

use super::atomic::AtomicWriteError;

#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    #[error(transparent)]
    BadQuestions(#[from] BadQuestions),
    #[error(transparent)]
    BadAnswers(#[from] BadAnswers),
    #[error("Session not found: {id}")]
    NotFound { id: String },
    #[error("{prefix:?} is the beginning of {} question sets; give more of the id", matches.len())]
    Ambiguous { prefix: String, matches: Vec<QuestionSetId> },
    #[error("the question set is {state} already; nothing can happen to it any more: {id}")]
    AlreadyFinished { id: QuestionSetId, state: QuestionSetState },
    #[error("{max} question sets are waiting for answers already; answer or reject some (questions.maxSessions)")]
    Full { max: u32 },
    #[error("the question set has no answers yet: {id}")]
    NoAnswers { id: QuestionSetId },
    #[error("the question set's {file} is missing: {id}")]
    Missing { id: QuestionSetId, file: &'static str },
    #[error("the question set's {file} is malformed: {problem}: {id}")]
    Malformed { id: QuestionSetId, file: &'static str, problem: String },
    #[error("the question set's files contradict each other: {problem}: {id}")]
    Contradiction { id: QuestionSetId, problem: String },
    #[error("Failed to acquire file lock: {}", path.display())]
    Lock { path: PathBuf },
    #[error(transparent)]
    AtomicWrite(#[from] AtomicWriteError),
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} cannot be written", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{} cannot be watched", path.display())]
    Watch { path: PathBuf, source: io::Error },
}
