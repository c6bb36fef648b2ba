//! Errors of question sets. Messages that programs match on have the same text as in AUQ.

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
    #[error("id prefix {prefix:?} matches {} question sets; use a longer prefix", matches.len())]
    Ambiguous { prefix: String, matches: Vec<QuestionSetId> },
    #[error("question set {id} is already {state} and cannot be changed")]
    AlreadyFinished { id: QuestionSetId, state: QuestionSetState },
    #[error(
        "{max} question sets are already waiting for answers; answer or reject some, or raise questions.maxSessions"
    )]
    Full { max: u32 },
    #[error("question set {id} has no answers yet")]
    NoAnswers { id: QuestionSetId },
    #[error("question set {id}: {file} is missing")]
    Missing { id: QuestionSetId, file: &'static str },
    #[error("question set {id}: {file} is malformed: {problem}")]
    Malformed { id: QuestionSetId, file: &'static str, problem: String },
    #[error("question set {id}: inconsistent files: {problem}")]
    Contradiction { id: QuestionSetId, problem: String },
    #[error("Failed to acquire file lock: {}", path.display())]
    Lock { path: PathBuf },
    #[error(transparent)]
    AtomicWrite(#[from] AtomicWriteError),
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("cannot watch {}", path.display())]
    Watch { path: PathBuf, source: io::Error },
}
