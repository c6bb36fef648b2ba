//! Questions to a person: sets in folders, and agents that wait at their terminals.

use coven_domain::question::{Question, QuestionAnswer};
use coven_domain::question_set::{QuestionSet, QuestionSetState, title_of};
use coven_domain::request::{Request, RequestAnswer, RequestBody, RequestKind, RequestState};
use coven_domain::text::one_line;
use coven_domain::{AgentId, QuestionId, SessionId, Timestamp, string_enum};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema::{DateTime, Id, StringEnumSchema};

const TITLE_CHARS: usize = 200;

string_enum! {
    /// `question_set`: a set in a folder; `question`: questions of a terminal agent; `terminal`: an agent of a task waits at
    /// its terminal.
    pub enum QuestionKind { QuestionSet = "question_set", Question = "question", Terminal = "terminal" }
}

string_enum! {
    /// `broken`: the files of the set cannot be read.
    pub enum QuestionStatus {
        Pending = "pending",
        Completed = "completed",
        Rejected = "rejected",
        TimedOut = "timed_out",
        Abandoned = "abandoned",
        Broken = "broken",
    }
}

impl From<QuestionSetState> for QuestionStatus {
    fn from(state: QuestionSetState) -> Self {
        match state {
            QuestionSetState::Pending => Self::Pending,
            QuestionSetState::Completed => Self::Completed,
            QuestionSetState::Rejected => Self::Rejected,
            QuestionSetState::TimedOut => Self::TimedOut,
            QuestionSetState::Abandoned => Self::Abandoned,
        }
    }
}

/// One of the answers to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChoiceRecord {
    pub label: String,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionRecord {
    pub title: String,
    pub prompt: String,
    pub multi_select: bool,
    /// None for a terminal, which takes any line.
    pub options: Vec<ChoiceRecord>,
}

impl From<Question> for QuestionRecord {
    fn from(question: Question) -> Self {
        let choice = |it: coven_domain::question::Choice| ChoiceRecord { label: it.label, description: it.description };
        Self {
            title: question.title,
            prompt: question.prompt,
            multi_select: question.multi_select,
            options: question.options.into_iter().map(choice).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnswerRecord {
    /// Counted from 0.
    pub question_index: usize,
    /// The labels of the options that were chosen.
    pub selected_options: Vec<String>,
    pub custom_text: Option<String>,
}

impl From<QuestionAnswer> for AnswerRecord {
    fn from(answer: QuestionAnswer) -> Self {
        Self {
            question_index: answer.question_index,
            selected_options: answer.selected().map(str::to_owned).collect(),
            custom_text: answer.custom_text,
        }
    }
}

/// Questions that are asked together, with their answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionSetRecord {
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub id: QuestionId,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<QuestionKind>"))]
    pub kind: QuestionKind,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<QuestionStatus>"))]
    pub status: QuestionStatus,
    /// The session that asks, or whose process asks with `coven ask`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub session_id: Option<SessionId>,
    /// The agent that waits at its terminal.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub agent_id: Option<AgentId>,
    /// The first question in one line.
    pub title: String,
    pub questions: Vec<QuestionRecord>,
    /// Null while there are none.
    pub answers: Option<Vec<AnswerRecord>>,
    pub call_id: Option<String>,
    pub working_directory: Option<String>,
    /// `human`, or `session:<id>` for a process that runs in that session.
    pub answered_by: Option<String>,
    pub rejection_reason: Option<String>,
    pub abandon_reason: Option<String>,
    /// Why a broken set cannot be read.
    pub error: Option<String>,
    /// Whether the answer was typed into the terminal; null for a set.
    pub delivered: Option<bool>,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub updated_at: Timestamp,
    /// When it was answered, rejected, timed out or abandoned.
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub answered_at: Option<Timestamp>,
    /// When the asking process read the answers.
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub read_at: Option<Timestamp>,
}

impl QuestionSetRecord {
    /// A set whose files cannot be read; `at` is when they were last changed.
    pub fn broken(id: QuestionId, error: String, at: Timestamp) -> Self {
        Self {
            id,
            kind: QuestionKind::QuestionSet,
            status: QuestionStatus::Broken,
            session_id: None,
            agent_id: None,
            title: one_line(&error, TITLE_CHARS),
            questions: Vec::new(),
            answers: None,
            call_id: None,
            working_directory: None,
            answered_by: None,
            rejection_reason: None,
            abandon_reason: None,
            error: Some(error),
            delivered: None,
            created_at: at,
            updated_at: at,
            answered_at: None,
            read_at: None,
        }
    }
}

impl From<&QuestionSet> for QuestionSetRecord {
    fn from(set: &QuestionSet) -> Self {
        set.clone().into()
    }
}

impl From<QuestionSet> for QuestionSetRecord {
    fn from(set: QuestionSet) -> Self {
        let session_id = set.asking_session();
        let ended_at = set.answers.as_ref().map_or(set.modified_at, |given| given.timestamp);
        let by_person = matches!(set.state, QuestionSetState::Completed | QuestionSetState::Rejected);
        Self {
            id: set.id.into(),
            kind: QuestionKind::QuestionSet,
            status: set.state.into(),
            session_id,
            agent_id: None,
            title: title_of(&set.questions),
            questions: set.questions.into_iter().map(QuestionRecord::from).collect(),
            read_at: set.answers.as_ref().and_then(|given| given.last_read_at),
            answers: set.answers.map(|given| given.answers.into_iter().map(AnswerRecord::from).collect()),
            call_id: set.call_id,
            working_directory: set.working_directory,
            answered_by: by_person.then(|| set.answered_by.unwrap_or_else(|| "human".to_owned())),
            rejection_reason: set.rejection_reason,
            abandon_reason: set.abandon_reason,
            error: None,
            delivered: None,
            created_at: set.created_at,
            updated_at: set.modified_at,
            answered_at: (set.state != QuestionSetState::Pending).then_some(ended_at),
        }
    }
}

impl From<RequestState> for QuestionStatus {
    fn from(state: RequestState) -> Self {
        match state {
            RequestState::Pending => Self::Pending,
            RequestState::Answered => Self::Completed,
            RequestState::Rejected => Self::Rejected,
            RequestState::Cancelled => Self::Abandoned,
        }
    }
}

impl From<&Request> for QuestionSetRecord {
    fn from(request: &Request) -> Self {
        request.clone().into()
    }
}

impl From<Request> for QuestionSetRecord {
    fn from(request: Request) -> Self {
        let is_input = request.kind() == RequestKind::Input;
        let by_person = matches!(request.state, RequestState::Answered | RequestState::Rejected);
        let questions = match request.body {
            RequestBody::Question { questions } => questions.into_iter().map(QuestionRecord::from).collect(),
            RequestBody::Input { prompt, .. } => {
                vec![QuestionRecord { title: request.title.clone(), prompt, multi_select: false, options: Vec::new() }]
            }
            RequestBody::Permission { .. } => Vec::new(),
        };
        let line =
            |text: String| AnswerRecord { question_index: 0, selected_options: Vec::new(), custom_text: Some(text) };
        let (answers, delivered) = match request.answer {
            Some(RequestAnswer::Answers(answers)) => {
                (Some(answers.into_iter().map(AnswerRecord::from).collect()), None)
            }
            Some(RequestAnswer::Line { text, is_delivered }) => (Some(vec![line(text)]), Some(is_delivered)),
            Some(RequestAnswer::Option(_)) | None => (None, is_input.then_some(false)),
        };
        Self {
            id: request.id.into(),
            kind: if is_input { QuestionKind::Terminal } else { QuestionKind::Question },
            status: request.state.into(),
            session_id: request.session,
            agent_id: request.agent,
            title: request.title,
            questions,
            answers,
            call_id: None,
            working_directory: None,
            answered_by: request.answered_by.filter(|_| by_person).map(|by| by.to_string()),
            rejection_reason: None,
            abandon_reason: None,
            error: None,
            delivered,
            created_at: request.created_at,
            updated_at: request.updated_at,
            answered_at: request.answered_at,
            read_at: None,
        }
    }
}
