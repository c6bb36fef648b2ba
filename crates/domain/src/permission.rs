//! An agent's permission request: the action, the offered options and the decision.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lifecycle::UnknownValue;
use crate::string_enum;
use crate::{PermissionId, SessionId, Timestamp};

string_enum! {
    /// The state of a request. The first answer wins. A cancelled turn or the end of the session cancels it.
    pub enum PermissionState { Pending = "pending", Answered = "answered", Cancelled = "cancelled" }
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

#[derive(Debug, Clone, PartialEq)]
pub struct Permission {
    pub id: PermissionId,
    pub session: SessionId,
    pub state: PermissionState,
    /// The requested action, on one line.
    pub title: String,
    pub options: Vec<PermissionOption>,
    /// The tool call as the agent sent it.
    pub tool_call: Value,
    pub answer: Option<String>,
    pub answered_by: Option<AnsweredBy>,
    pub created_at: Timestamp,
    pub answered_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("the request was already answered: {0}")]
    AlreadyAnswered(String),
    #[error("the request was withdrawn: the turn was cancelled or the session ended")]
    Cancelled,
    #[error("unknown option {asked:?}; choose one of: {known}")]
    UnknownOption { asked: String, known: String },
    #[error("the agent offers no {0} option for this request; choose one of its options by id, or deny the request")]
    NoSuchOption(Decision),
}

impl Permission {
    fn ensure_pending(&self) -> Result<(), AnswerError> {
        match self.state {
            PermissionState::Pending => Ok(()),
            PermissionState::Answered => Err(AnswerError::AlreadyAnswered(self.answer.clone().unwrap_or_default())),
            PermissionState::Cancelled => Err(AnswerError::Cancelled),
        }
    }

    /// Denies a request that offers no option for a denial by cancelling it.
    pub fn denied(&mut self, by: AnsweredBy, now: Timestamp) -> Result<(), AnswerError> {
        self.ensure_pending()?;
        self.cancelled(by, now);
        Ok(())
    }

    /// Records an answer; the first one wins.
    pub fn answered(&mut self, option: &str, by: AnsweredBy, now: Timestamp) -> Result<(), AnswerError> {
        self.ensure_pending()?;
        if !self.options.iter().any(|known| known.id == option) {
            let known: Vec<&str> = self.options.iter().map(|known| known.id.as_str()).collect();
            return Err(AnswerError::UnknownOption { asked: option.to_owned(), known: known.join(", ") });
        }
        self.state = PermissionState::Answered;
        self.answer = Some(option.to_owned());
        self.answered_by = Some(by);
        self.answered_at = Some(now);
        Ok(())
    }

    /// Cancels a pending request; returns whether it was pending.
    pub fn cancelled(&mut self, by: AnsweredBy, now: Timestamp) -> bool {
        let was_pending = self.state == PermissionState::Pending;
        if was_pending {
            self.state = PermissionState::Cancelled;
            self.answered_by = Some(by);
            self.answered_at = Some(now);
        }
        was_pending
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn option(id: &str, kind: &str) -> PermissionOption {
        PermissionOption { id: id.to_owned(), name: id.to_owned(), kind: kind.to_owned() }
    }

    fn request() -> Permission {
        Permission {
            id: PermissionId::from_uuid(uuid::Uuid::from_u128(1)),
            session: SessionId::from_uuid(uuid::Uuid::from_u128(2)),
            state: PermissionState::Pending,
            title: "touch x".to_owned(),
            // "Always" comes first, as some agents send it.
            options: vec![option("aa", "allow_always"), option("a", "allow_once"), option("r", "reject_once")],
            tool_call: Value::Null,
            answer: None,
            answered_by: None,
            created_at: Timestamp::from_millis(1),
            answered_at: None,
        }
    }

    #[test]
    fn the_first_answer_wins() {
        let mut it = request();
        it.answered("a", AnsweredBy::Human, Timestamp::from_millis(2)).expect("a pending request");
        let second = it.answered("r", AnsweredBy::Human, Timestamp::from_millis(3));
        assert_eq!(second, Err(AnswerError::AlreadyAnswered("a".to_owned())));
        assert_eq!((it.answer.as_deref(), it.answered_at), (Some("a"), Some(Timestamp::from_millis(2))));
        assert!(!it.cancelled(AnsweredBy::Session, Timestamp::from_millis(4)), "an answered request stays answered");
    }

    #[test]
    fn an_unknown_option_is_refused_and_changes_nothing() {
        let mut it = request();
        let refused = it.answered("yes", AnsweredBy::Human, Timestamp::from_millis(2)).expect_err("no such option");
        assert_eq!(refused.to_string(), "unknown option \"yes\"; choose one of: aa, a, r");
        assert_eq!(it, request());
    }

    #[test]
    fn a_denial_without_an_option_for_it_cancels_the_request() {
        let mut it = Permission { options: Vec::new(), ..request() };
        it.denied(AnsweredBy::Human, Timestamp::from_millis(2)).expect("a pending request");
        assert_eq!((it.state, it.answered_by), (PermissionState::Cancelled, Some(AnsweredBy::Human)));
        assert_eq!(it.denied(AnsweredBy::Human, Timestamp::from_millis(3)), Err(AnswerError::Cancelled));
    }

    #[test]
    fn a_withdrawn_request_accepts_no_answer() {
        let mut it = request();
        assert!(it.cancelled(AnsweredBy::Session, Timestamp::from_millis(2)));
        assert_eq!(it.answered("a", AnsweredBy::Human, Timestamp::from_millis(3)), Err(AnswerError::Cancelled));
    }

    #[test]
    fn answered_by_round_trips_as_text() {
        let session = SessionId::from_uuid(uuid::Uuid::from_u128(2));
        for by in [AnsweredBy::Human, AnsweredBy::Rule, AnsweredBy::Session, AnsweredBy::From(session)] {
            assert_eq!(by.to_string().parse(), Ok(by));
            assert_eq!(serde_json::json!(by), by.to_string());
        }
        assert!("session:x".parse::<AnsweredBy>().is_err());
    }

    #[test]
    fn allow_means_once_regardless_of_the_order_of_options() {
        let it = request();
        assert_eq!(Decision::Allow.select_option(&it.options).map(|option| option.id.as_str()), Ok("a"));
        assert_eq!(Decision::Deny.select_option(&it.options).map(|option| option.id.as_str()), Ok("r"));
        assert_eq!(Decision::Deny.select_option(&it.options[..1]), Err(AnswerError::NoSuchOption(Decision::Deny)));
    }
}
