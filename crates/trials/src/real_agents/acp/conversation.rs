//! One ACP session, through the daemon's REST API.

use std::time::Duration;

use coven_api::acp_state::AcpStateRecord;
use coven_api::compat::PromptRequest;
use coven_api::inbox::{AnswerRequest, InboxItem, InboxQuery};
use coven_api::message::{MessageRecord, MessagesQuery, ModeRequest};
use coven_api::message_content::MessageContent;
use coven_api::routes::{
    AnswerInboxItem, CancelTurn, ChangeMode, CreateSession, Endpoint, GetInboxItem, GetSession, ListInbox,
    ListMessages, PromptSession, ReadAcpState,
};
use coven_api::session::{CreateSessionRequest, SessionRecord};
use coven_domain::message::{Activity, Role};
use coven_domain::session::{Channel, SessionState};
use serde_json::json;

use super::super::coven::Coven;
use super::super::process_table::{self, Process};
use super::super::{TrialResult, eventually};
use super::rest::Rest;

/// Some agents need almost a minute to start on a busy machine.
const HANDSHAKE: Duration = Duration::from_secs(150);
/// The stub model answers immediately; some agents take longer.
pub const TURN: Duration = Duration::from_secs(90);

pub struct Conversation<'a> {
    rest: &'a Rest,
    pub id: String,
    pub leader: Process,
}

/// A prompt and the messages that follow it.
pub struct Turn<'a, 'b> {
    conversation: &'b Conversation<'a>,
    prompt: String,
    /// The number of the last message before the prompt.
    after: u64,
}

impl<'a> Conversation<'a> {
    /// Creates a session; `resume` is the id of an earlier session to resume.
    pub fn create(coven: &Coven, rest: &'a Rest, harness: &str, resume: Option<&str>) -> TrialResult<Self> {
        let request = CreateSessionRequest {
            harness: Some(harness.to_owned()),
            channel: Some("acp".to_owned()),
            cwd: Some(coven.project.to_string_lossy().into_owned()),
            resume: resume.map(str::to_owned),
            ..CreateSessionRequest::default()
        };
        let session = rest.call(CreateSession::request().body(&request))?;
        if session.channel != Channel::Acp || session.status != SessionState::Running {
            return Err(format!("the session is {} on {}", session.status, session.channel).into());
        }
        if let Some(earlier) = resume
            && session.metadata.get("resumed_from") != Some(&json!(earlier))
        {
            return Err(format!("resumed_from is not {earlier} in {:?}", session.metadata).into());
        }
        let leader = session.pid.and_then(process_table::find).ok_or("the session has no live process")?;
        Ok(Self { rest, id: session.id.to_string(), leader })
    }

    /// Waits until the agent is ready for prompts.
    pub fn opened(&self) -> TrialResult<AcpStateRecord> {
        self.wait(HANDSHAKE, "the agent does not become ready", || {
            let agent = self.agent()?;
            Ok((agent.activity == Activity::Idle).then_some(agent))
        })
    }

    pub fn record(&self) -> TrialResult<SessionRecord> {
        self.rest.call(GetSession::of(&self.id))
    }

    pub fn agent(&self) -> TrialResult<AcpStateRecord> {
        self.rest.call(ReadAcpState::of(&self.id))
    }

    pub fn messages(&self, mut after: u64) -> TrialResult<Vec<MessageRecord>> {
        let mut messages = Vec::new();
        loop {
            let query = MessagesQuery { after: Some(after), limit: Some(1000), ..MessagesQuery::default() };
            let page = self.rest.call(ListMessages::of(&self.id).query(&query))?;
            if page.items.is_empty() {
                return Ok(messages);
            }
            messages.extend(page.items);
            after = page.next;
        }
    }

    pub fn prompt(&self, text: &str) -> TrialResult<Turn<'a, '_>> {
        let after = self.messages(0)?.iter().map(|message| message.number).max().unwrap_or(0);
        self.rest.call(PromptSession::of(&self.id).body(&PromptRequest { text: text.to_owned() }))?;
        Ok(Turn { conversation: self, prompt: text.to_owned(), after })
    }

    pub fn cancel(&self) -> TrialResult<()> {
        self.rest.call(CancelTurn::of(&self.id)).map(drop)
    }

    pub fn set_mode(&self, mode: &str) -> TrialResult<()> {
        self.rest.call(ChangeMode::of(&self.id).body(&ModeRequest { mode_id: mode.to_owned() })).map(drop)
    }

    /// Returns the inbox items that wait for an answer.
    pub fn questions(&self) -> TrialResult<Vec<InboxItem>> {
        let query = InboxQuery { session: Some(self.id.clone()), ..InboxQuery::default() };
        let inbox = self.rest.call(ListInbox::request().query(&query))?;
        Ok(inbox.items)
    }

    pub fn question(&self, id: &str) -> TrialResult<InboxItem> {
        self.rest.call(GetInboxItem::of(id))
    }

    /// Answers with `allow` or `deny`.
    pub fn answer(&self, question: &InboxItem, decision: &str) -> TrialResult<InboxItem> {
        let answer = AnswerRequest { decision: Some(decision.to_owned()), ..AnswerRequest::default() };
        self.rest.call(AnswerInboxItem::of(&question.id).body(&answer))
    }

    /// Waits until no turn is running.
    pub fn idle(&self) -> TrialResult<AcpStateRecord> {
        self.wait(TURN, "the turn does not end", || {
            let agent = self.agent()?;
            Ok((agent.activity == Activity::Idle && agent.queued == 0).then_some(agent))
        })
    }

    /// Cancels a turn that is still running, so that the next check starts with an idle agent.
    pub fn cancel_running_turn(&self) -> TrialResult<()> {
        if self.agent()?.activity != Activity::Idle {
            // It fails only if the turn has just ended by itself.
            let _ = self.cancel();
        }
        self.idle().map(drop)
    }

    /// Returns the session's error messages.
    pub fn errors(&self) -> Vec<String> {
        let messages = self.messages(0).unwrap_or_default();
        messages.iter().filter_map(error).map(str::to_owned).collect()
    }

    /// Polls until `ask` returns a value. Fails if the session has ended or the time is over.
    fn wait<T>(&self, within: Duration, trouble: &str, ask: impl Fn() -> TrialResult<Option<T>>) -> TrialResult<T> {
        let found = eventually(within, || match ask() {
            Ok(None) => self.has_ended().map(Err),
            Ok(Some(found)) => Some(Ok(found)),
            Err(error) => Some(Err(error)),
        });
        found.unwrap_or_else(|| {
            let agent = self.agent().map_or_else(|error| error.to_string(), |agent| format!("{:?}", agent.activity));
            Err(format!("{trouble} within {} s; the agent is {agent}", within.as_secs()).into())
        })
    }

    fn has_ended(&self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        let session = self.record().ok()?;
        if matches!(session.status.as_str(), "running" | "created") {
            return None;
        }
        Some(format!("the session is {}: {}", session.status, self.errors().join("; ")).into())
    }
}

/// The text of a message that is not a thought.
pub fn text(message: &MessageRecord) -> Option<&str> {
    match &message.content {
        MessageContent::Text(text) => Some(&text.text),
        _ => None,
    }
}

fn error(message: &MessageRecord) -> Option<&str> {
    match &message.content {
        MessageContent::Error { message, .. } => Some(message),
        _ => None,
    }
}

impl Turn<'_, '_> {
    pub fn messages(&self) -> TrialResult<Vec<MessageRecord>> {
        let messages = self.conversation.messages(self.after)?;
        Ok(messages.into_iter().filter(|message| !message.content.is_replayed()).collect())
    }

    /// Reports whether the agent has answered the prompt.
    pub fn is_over(&self) -> TrialResult<bool> {
        let agent = self.conversation.agent()?;
        Ok(agent.activity == Activity::Idle && agent.queued == 0 && agent.stop_reason.is_some())
    }

    /// Returns the agent's text so far.
    pub fn answer(&self) -> TrialResult<String> {
        let messages = self.messages()?;
        Ok(messages.iter().filter(|message| message.role == Role::Agent).filter_map(text).collect())
    }

    /// Waits until the answer contains `wanted`.
    pub fn wait_for(&self, wanted: &str) -> TrialResult<()> {
        self.wait_until(&format!("the answer does not contain {wanted:?}"), || {
            Ok(self.answer()?.contains(wanted).then_some(()))
        })
    }

    /// Waits until `ask` returns a value; fails if the turn produces an error message.
    pub fn wait_until<T>(&self, trouble: &str, ask: impl Fn() -> TrialResult<Option<T>>) -> TrialResult<T> {
        self.conversation.wait(TURN, trouble, || match ask()? {
            Some(found) => Ok(Some(found)),
            None => match self.messages()?.iter().find_map(error) {
                Some(error) => Err(format!("{trouble}: {error}").into()),
                None => Ok(None),
            },
        })
    }

    /// Returns `None` if the prompt is in the user's messages once and `answer` is in the agent's text once; else the
    /// difference.
    pub fn flaw(&self, answer: &str) -> TrialResult<Option<String>> {
        let messages = self.messages()?;
        let prompts = messages.iter().filter(|message| message.role == Role::User).count();
        let is_prompt =
            |message: &&MessageRecord| message.role == Role::User && text(message) == Some(self.prompt.as_str());
        if prompts != 1 || messages.iter().filter(is_prompt).count() != 1 {
            return Ok(Some(format!("the prompt produced {prompts} user messages instead of one")));
        }
        let text = self.answer()?;
        let count = text.matches(answer).count();
        Ok((count != 1).then(|| format!("{answer:?} occurs {count} times in {text:?}")))
    }
}
