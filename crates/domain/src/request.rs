//! A request of an agent to a human: a permission, questions, or a line of terminal input.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lifecycle::{Lifecycle, UnknownValue};
use crate::question::{Question, QuestionAnswer};
use crate::question_set::title_of;
use crate::string_enum;
use crate::text::one_line;
use crate::{AgentId, RequestId, SessionId, Timestamp};

const TITLE_CHARS: usize = 200;

string_enum! {
    pub enum RequestKind {
        /// The agent wants to do something and offers options.
        Permission = "permission",
        /// The agent asks questions with choices.
        Question = "question",
        /// A program waits for a line at its terminal.
        Input = "input",
    }
}

string_enum! {
    /// How coven learned about a request, and how its answer reaches the agent.
    pub enum RequestSource { Acp = "acp", Hook = "hook", Terminal = "terminal" }
}

string_enum! {
    pub enum RequestState {
        Pending = "pending",
        Answered = "answered",
        /// A human declined to answer.
        Rejected = "rejected",
        /// The turn was cancelled, the session ended, or the agent got its answer in another way.
        Cancelled = "cancelled",
    }
}

string_enum! {
    /// Where a request was settled.
    pub enum SettledFrom {
        /// Answered over the Unix socket.
        Socket = "socket",
        /// Answered over TCP.
        Tcp = "tcp",
        /// Answered or closed in the agent's own dialog.
        Terminal = "terminal",
        /// The hook that waited for the answer has ended.
        Hook = "hook",
        /// The agent withdrew it over its protocol, or its turn ended.
        Protocol = "protocol",
        /// The session has ended.
        Session = "session",
    }
}

string_enum! {
    pub enum RequestFact { Answered = "answered", Rejected = "rejected", Cancelled = "cancelled" }
}

impl Lifecycle for RequestState {
    type Fact = RequestFact;

    const NOUN: &'static str = "request";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [RequestFact] = RequestFact::ALL;
    const TRANSITIONS: &'static [(Self, RequestFact, Self)] = {
        use RequestFact as On;
        use RequestState::*;
        &[(Pending, On::Answered, Answered), (Pending, On::Rejected, Rejected), (Pending, On::Cancelled, Cancelled)]
    };
}

/// Who decided a request. Stored and sent as `human`, `rule`, `session` or `session:<id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnsweredBy {
    Human,
    Rule,
    /// No one decided: the turn was cancelled or the session ended.
    Session,
    /// A process in another session, acting by itself or for a human who works there.
    From(SessionId),
}

impl fmt::Display for AnsweredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Human => f.write_str("human"),
            Self::Rule => f.write_str("rule"),
            Self::Session => f.write_str("session"),
            Self::From(session) => write!(f, "session:{session}"),
        }
    }
}

impl FromStr for AnsweredBy {
    type Err = UnknownValue;

    fn from_str(text: &str) -> Result<Self, UnknownValue> {
        match text {
            "human" => Ok(Self::Human),
            "rule" => Ok(Self::Rule),
            "session" => Ok(Self::Session),
            other => other.strip_prefix("session:").and_then(|id| id.parse().ok()).map(Self::From).ok_or_else(|| {
                UnknownValue { value: other.to_owned(), known: vec!["human", "rule", "session", "session:<id>"] }
            }),
        }
    }
}

impl Serialize for AnsweredBy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionOption {
    pub id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or another kind that the agent sent.
    pub kind: String,
}

/// The content of a request. Stored as JSON; the kind is stored beside it.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestBody {
    Permission {
        options: Vec<PermissionOption>,
        /// The tool call as the agent sent it.
        tool_call: Value,
    },
    Question {
        questions: Vec<Question>,
    },
    Input {
        /// The screen text up to the cursor.
        prompt: String,
        /// Log length when the prompt was detected. Output beyond it means that the program is no longer waiting.
        offset: u64,
    },
}

/// A recorded answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestAnswer {
    /// The id of the chosen option.
    Option(String),
    Answers(Vec<QuestionAnswer>),
    Line {
        text: String,
        /// The line was typed into the terminal.
        is_delivered: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub id: RequestId,
    /// `None` for a prompt whose session was deleted or never recorded.
    pub session: Option<SessionId>,
    /// The agent of a task.
    pub agent: Option<AgentId>,
    pub source: RequestSource,
    pub state: RequestState,
    /// The requested action or the first question, on one line.
    pub title: String,
    pub body: RequestBody,
    pub answer: Option<RequestAnswer>,
    pub answered_by: Option<AnsweredBy>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub answered_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("the request is already answered: {0}")]
    AlreadyAnswered(String),
    #[error("the request was withdrawn: the turn was cancelled or the session ended")]
    Cancelled,
    #[error("unknown option {asked:?}; choose one of: {known}")]
    UnknownOption { asked: String, known: String },
    #[error("the agent offers no {0} option for this request; choose one of its options by id, or deny the request")]
    NoSuchOption(Decision),
    #[error("the request needs {0}")]
    WrongAnswer(&'static str),
}

impl Request {
    /// A permission request of a session.
    pub fn permission(
        (id, source): (RequestId, RequestSource),
        session: SessionId,
        title: String,
        (options, tool_call): (Vec<PermissionOption>, Value),
        now: Timestamp,
    ) -> Self {
        Self::new((id, source), Some(session), title, RequestBody::Permission { options, tool_call }, now)
    }

    /// Questions of a session.
    pub fn question(
        (id, source): (RequestId, RequestSource),
        session: SessionId,
        questions: Vec<Question>,
        now: Timestamp,
    ) -> Self {
        let title = title_of(&questions);
        Self::new((id, source), Some(session), title, RequestBody::Question { questions }, now)
    }

    /// A program that waits for a line at its terminal.
    pub fn input(id: RequestId, session: Option<SessionId>, prompt: String, offset: u64, now: Timestamp) -> Self {
        let title = input_title(&prompt);
        Self::new((id, RequestSource::Terminal), session, title, RequestBody::Input { prompt, offset }, now)
    }

    fn new(
        (id, source): (RequestId, RequestSource),
        session: Option<SessionId>,
        title: String,
        body: RequestBody,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            session,
            agent: None,
            source,
            state: RequestState::Pending,
            title,
            body,
            answer: None,
            answered_by: None,
            created_at: now,
            updated_at: now,
            answered_at: None,
        }
    }

    pub const fn kind(&self) -> RequestKind {
        match self.body {
            RequestBody::Permission { .. } => RequestKind::Permission,
            RequestBody::Question { .. } => RequestKind::Question,
            RequestBody::Input { .. } => RequestKind::Input,
        }
    }

    pub fn is_pending(&self) -> bool {
        self.state == RequestState::Pending
    }

    /// Returns the options of a permission; other requests have none.
    pub fn options(&self) -> &[PermissionOption] {
        match &self.body {
            RequestBody::Permission { options, .. } => options,
            RequestBody::Question { .. } | RequestBody::Input { .. } => &[],
        }
    }

    /// Returns the log length at which a terminal prompt was detected.
    pub const fn offset(&self) -> Option<u64> {
        match self.body {
            RequestBody::Input { offset, .. } => Some(offset),
            RequestBody::Permission { .. } | RequestBody::Question { .. } => None,
        }
    }

    /// Returns a line that was given as the answer but not typed yet.
    pub fn undelivered(&self) -> Option<&str> {
        match &self.answer {
            Some(RequestAnswer::Line { text, is_delivered: false }) => Some(text),
            _ => None,
        }
    }

    fn ensure_pending(&self) -> Result<(), AnswerError> {
        match self.state {
            RequestState::Pending => Ok(()),
            RequestState::Answered => Err(AnswerError::AlreadyAnswered(self.answer_text().unwrap_or_default())),
            RequestState::Rejected => Err(AnswerError::AlreadyAnswered("rejected".to_owned())),
            RequestState::Cancelled => Err(AnswerError::Cancelled),
        }
    }

    /// Returns the option or the line that was given as the answer.
    pub fn answer_text(&self) -> Option<String> {
        match self.answer.as_ref()? {
            RequestAnswer::Option(option) => Some(option.clone()),
            RequestAnswer::Line { text, .. } => Some(text.clone()),
            RequestAnswer::Answers(_) => Some("answers".to_owned()),
        }
    }

    /// Records an answer; the first one wins.
    pub fn answered(&mut self, answer: RequestAnswer, by: AnsweredBy, now: Timestamp) -> Result<(), AnswerError> {
        self.ensure_pending()?;
        match (&self.body, &answer) {
            (RequestBody::Permission { options, .. }, RequestAnswer::Option(option)) => {
                if !options.iter().any(|known| known.id == *option) {
                    let known: Vec<&str> = options.iter().map(|known| known.id.as_str()).collect();
                    return Err(AnswerError::UnknownOption { asked: option.clone(), known: known.join(", ") });
                }
            }
            (RequestBody::Question { .. }, RequestAnswer::Answers(_))
            | (RequestBody::Input { .. }, RequestAnswer::Line { .. }) => {}
            (RequestBody::Permission { .. }, _) => return Err(AnswerError::WrongAnswer("one of its options")),
            (RequestBody::Question { .. }, _) => return Err(AnswerError::WrongAnswer("answers to its questions")),
            (RequestBody::Input { .. }, _) => return Err(AnswerError::WrongAnswer("one line of text")),
        }
        self.settled(RequestFact::Answered, by, now);
        self.answer = Some(answer);
        Ok(())
    }

    /// Denies a permission that offers no option for a denial, by cancelling it.
    pub fn denied(&mut self, by: AnsweredBy, now: Timestamp) -> Result<(), AnswerError> {
        self.ensure_pending()?;
        self.settled(RequestFact::Cancelled, by, now);
        Ok(())
    }

    /// Records that a human declined to answer.
    pub fn rejected(&mut self, by: AnsweredBy, now: Timestamp) -> Result<(), AnswerError> {
        self.ensure_pending()?;
        self.settled(RequestFact::Rejected, by, now);
        Ok(())
    }

    /// Cancels a pending request; returns whether it was pending.
    pub fn cancelled(&mut self, by: AnsweredBy, now: Timestamp) -> bool {
        let was_pending = self.is_pending();
        if was_pending {
            self.settled(RequestFact::Cancelled, by, now);
        }
        was_pending
    }

    fn settled(&mut self, fact: RequestFact, by: AnsweredBy, now: Timestamp) {
        self.state = self.state.after(fact).expect("the request is pending");
        self.answered_by = Some(by);
        self.updated_at = now.not_before(self.updated_at);
        // A terminal prompt that its program no longer needs was not answered.
        let is_withdrawn = fact == RequestFact::Cancelled && self.kind() == RequestKind::Input;
        self.answered_at = (!is_withdrawn).then_some(now);
    }

    /// Records that the answer was typed into the terminal.
    pub fn delivered(&mut self, now: Timestamp) {
        if let Some(RequestAnswer::Line { is_delivered, .. }) = &mut self.answer {
            *is_delivered = true;
            self.updated_at = now.not_before(self.updated_at);
        }
    }
}

/// Returns the title of a terminal prompt: its last line.
pub fn input_title(prompt: &str) -> String {
    one_line(prompt.lines().last().unwrap_or_default(), TITLE_CHARS)
}

string_enum! {
    /// A decision of a human or a rule, independent of the names of the agent's options.
    pub enum Decision { Allow = "allow", Deny = "deny" }
}

impl Decision {
    /// Returns the option for this decision with the smallest scope: "once" before "always".
    pub fn select_option(self, options: &[PermissionOption]) -> Result<&PermissionOption, AnswerError> {
        let kinds: [&str; 2] = match self {
            Self::Allow => ["allow_once", "allow_always"],
            Self::Deny => ["reject_once", "reject_always"],
        };
        kinds
            .iter()
            .find_map(|kind| options.iter().find(|option| option.kind == *kind))
            .ok_or(AnswerError::NoSuchOption(self))
    }
}

/// Extracts the prompt from the screen lines up to the cursor: the last block of non-empty lines, at most 6.
pub fn extract_prompt(lines: &[&str]) -> String {
    const MAX_LINES: usize = 6;
    let last = lines.iter().rposition(|line| !line.trim().is_empty());
    let Some(last) = last else { return String::new() };
    let above = lines[..=last].iter().rev().take(MAX_LINES).take_while(|line| !line.trim().is_empty());
    let mut asked: Vec<&str> = above.map(|line| line.trim_end()).collect();
    asked.reverse();
    asked.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn option(id: &str, kind: &str) -> PermissionOption {
        PermissionOption { id: id.to_owned(), name: id.to_owned(), kind: kind.to_owned() }
    }

    fn id() -> RequestId {
        RequestId::from_uuid(uuid::Uuid::from_u128(1))
    }

    fn session() -> SessionId {
        SessionId::from_uuid(uuid::Uuid::from_u128(2))
    }

    fn request_with(options: Vec<PermissionOption>) -> Request {
        let (what, title) = ((id(), RequestSource::Acp), "touch x".to_owned());
        Request::permission(what, session(), title, (options, Value::Null), at(1))
    }

    fn request() -> Request {
        // "Always" comes first, as some agents send it.
        request_with(vec![option("aa", "allow_always"), option("a", "allow_once"), option("r", "reject_once")])
    }

    fn chosen(id: &str) -> RequestAnswer {
        RequestAnswer::Option(id.to_owned())
    }

    #[test]
    fn the_first_answer_wins() {
        let mut it = request();
        it.answered(chosen("a"), AnsweredBy::Human, at(2)).expect("a pending request");
        let second = it.answered(chosen("r"), AnsweredBy::Human, at(3));
        assert_eq!(second, Err(AnswerError::AlreadyAnswered("a".to_owned())));
        assert_eq!((it.answer_text().as_deref(), it.answered_at), (Some("a"), Some(at(2))));
        assert!(!it.cancelled(AnsweredBy::Session, at(4)), "an answered request stays answered");
    }

    #[test]
    fn an_unknown_option_is_refused_and_changes_nothing() {
        let mut it = request();
        let refused = it.answered(chosen("yes"), AnsweredBy::Human, at(2)).expect_err("no such option");
        assert_eq!(refused.to_string(), "unknown option \"yes\"; choose one of: aa, a, r");
        assert_eq!(it, request());
    }

    #[test]
    fn an_answer_of_another_kind_is_refused_and_changes_nothing() {
        let line = || RequestAnswer::Line { text: "y".to_owned(), is_delivered: false };
        let mut it = request();
        assert!(it.answered(line(), AnsweredBy::Human, at(2)).is_err());
        assert_eq!(it, request());
        let mut it = Request::input(id(), Some(session()), "ok?".into(), 7, at(1));
        assert!(it.answered(chosen("a"), AnsweredBy::Human, at(2)).is_err() && it.is_pending());
        let mut it = Request::question((id(), RequestSource::Hook), session(), Vec::new(), at(1));
        assert!(it.answered(line(), AnsweredBy::Human, at(2)).is_err() && it.is_pending());
    }

    #[test]
    fn a_denial_without_an_option_for_it_cancels_the_request() {
        let mut it = request_with(Vec::new());
        it.denied(AnsweredBy::Human, at(2)).expect("a pending request");
        assert_eq!((it.state, it.answered_by), (RequestState::Cancelled, Some(AnsweredBy::Human)));
        assert_eq!(it.denied(AnsweredBy::Human, at(3)), Err(AnswerError::Cancelled));
    }

    #[test]
    fn a_withdrawn_request_accepts_no_answer() {
        let mut it = request();
        assert!(it.cancelled(AnsweredBy::Session, at(2)));
        assert_eq!(it.answered(chosen("a"), AnsweredBy::Human, at(3)), Err(AnswerError::Cancelled));
    }

    #[test]
    fn a_line_is_delivered_once() {
        let mut it = Request::input(id(), Some(session()), "Delete?\nok? ".into(), 7, at(1));
        assert_eq!(it.title, "ok?");
        let line = RequestAnswer::Line { text: "yes".to_owned(), is_delivered: false };
        it.answered(line, AnsweredBy::Human, at(2)).expect("a pending request");
        assert_eq!(it.undelivered(), Some("yes"));
        it.delivered(at(3));
        assert_eq!((it.undelivered(), it.answer_text().as_deref()), (None, Some("yes")));
    }

    #[test]
    fn answered_by_round_trips_as_text() {
        for by in [AnsweredBy::Human, AnsweredBy::Rule, AnsweredBy::Session, AnsweredBy::From(session())] {
            assert_eq!(by.to_string().parse(), Ok(by));
            assert_eq!(serde_json::json!(by), by.to_string());
        }
        assert!("session:x".parse::<AnsweredBy>().is_err());
    }

    #[test]
    fn allow_means_once_regardless_of_the_order_of_options() {
        let it = request();
        let options = it.options();
        assert_eq!(Decision::Allow.select_option(options).map(|option| option.id.as_str()), Ok("a"));
        assert_eq!(Decision::Deny.select_option(options).map(|option| option.id.as_str()), Ok("r"));
        assert_eq!(Decision::Deny.select_option(&options[..1]), Err(AnswerError::NoSuchOption(Decision::Deny)));
    }

    #[test]
    fn the_prompt_is_the_last_block_of_non_empty_lines() {
        assert_eq!(
            extract_prompt(&["Building", "", "Two ways:", "  1) a", "Which? ", "", ""]),
            "Two ways:\n  1) a\nWhich?"
        );
        assert_eq!(extract_prompt(&["a", "b", "c", "d", "e", "f", "g", "h"]), "c\nd\ne\nf\ng\nh");
        assert_eq!(extract_prompt(&["", " "]), "");
    }
}
