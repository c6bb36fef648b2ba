//! One session over ACP, as the daemon's REST interface shows it.

use std::time::Duration;

use coven_api::agent::PromptRequest;
use coven_api::inbox::{AnswerRequest, InboxItem, InboxQuery};
use coven_api::message::{AgentStateRecord, MessageRecord, MessagesQuery, ModeRequest};
use coven_api::routes::{
    AnswerInboxItem, CancelTurn, ChangeMode, CreateSession, Endpoint, GetInboxItem, GetSession, ListInbox,
    ListMessages, PromptSession, ReadAgentState,
};
use coven_api::session::{CreateSessionRequest, SessionRecord};
use serde_json::json;

use super::super::coven::Coven;
use super::super::process_table::{self, Process};
use super::super::{Outcome, eventually};
use super::rest::Rest;

/// Some agents need most of a minute to start on a busy machine.
const HANDSHAKE: Duration = Duration::from_secs(150);
/// The stub model answers at once; the agent around it does not always.
pub const TURN: Duration = Duration::from_secs(90);

pub struct Conversation<'a> {
    rest: &'a Rest,
    pub id: String,
    pub leader: Process,
}

/// What has happened since a prompt was sent.
pub struct Turn<'a, 'b> {
    conversation: &'b Conversation<'a>,
    prompt: String,
    /// The number of the last message before it.
    after: u64,
}

impl<'a> Conversation<'a> {
    /// Creates a session; `resume` names an earlier one whose conversation goes on.
    pub fn create(coven: &Coven, rest: &'a Rest, harness: &str, resume: Option<&str>) -> Outcome<Self> {
        let request = CreateSessionRequest {
            harness: Some(harness.to_owned()),
            channel: Some("acp".to_owned()),
            cwd: Some(coven.project.to_string_lossy().into_owned()),
            resume: resume.map(str::to_owned),
            ..CreateSessionRequest::default()
        };
        let session = rest.call(CreateSession::request().body(&request))?;
        if session.channel != "acp" || session.status != "running" {
            return Err(format!("the session is {} on {}", session.status, session.channel).into());
        }
        if let Some(earlier) = resume
            && session.metadata.get("resumed_from") != Some(&json!(earlier))
        {
            return Err(format!("resumed_from is not {earlier} in {:?}", session.metadata).into());
        }
        let leader = session.pid.and_then(process_table::find).ok_or("the session has no living process")?;
        Ok(Self { rest, id: session.id, leader })
    }

    /// Waits until the agent listens.
    pub fn opened(&self) -> Outcome<AgentStateRecord> {
        self.wait(HANDSHAKE, "it does not get ready", || {
            let agent = self.agent()?;
            Ok((agent.activity == "idle").then_some(agent))
        })
    }

    pub fn record(&self) -> Outcome<SessionRecord> {
        self.rest.call(GetSession::of(&self.id))
    }

    pub fn agent(&self) -> Outcome<AgentStateRecord> {
        self.rest.call(ReadAgentState::of(&self.id))
    }

    pub fn messages(&self, mut after: u64) -> Outcome<Vec<MessageRecord>> {
        let mut messages = Vec::new();
        loop {
            let query = MessagesQuery { after: Some(after), limit: Some(1000) };
            let page = self.rest.call(ListMessages::of(&self.id).query(&query))?;
            if page.messages.is_empty() {
                return Ok(messages);
            }
            messages.extend(page.messages);
            after = page.next;
        }
    }

    pub fn prompt(&self, text: &str) -> Outcome<Turn<'a, '_>> {
        let after = self.messages(0)?.iter().map(|message| message.number).max().unwrap_or(0);
        self.rest.call(PromptSession::of(&self.id).body(&PromptRequest { text: text.to_owned() }))?;
        Ok(Turn { conversation: self, prompt: text.to_owned(), after })
    }

    pub fn cancel(&self) -> Outcome<()> {
        self.rest.call(CancelTurn::of(&self.id)).map(drop)
    }

    pub fn set_mode(&self, mode: &str) -> Outcome<()> {
        self.rest.call(ChangeMode::of(&self.id).body(&ModeRequest { mode_id: mode.to_owned() })).map(drop)
    }

    /// What waits for an answer.
    pub fn questions(&self) -> Outcome<Vec<InboxItem>> {
        let query = InboxQuery { session: Some(self.id.clone()), ..InboxQuery::default() };
        let inbox = self.rest.call(ListInbox::request().query(&query))?;
        Ok(inbox.items)
    }

    pub fn question(&self, id: &str) -> Outcome<InboxItem> {
        self.rest.call(GetInboxItem::of(id))
    }

    /// `allow` or `deny`.
    pub fn answer(&self, question: &InboxItem, decision: &str) -> Outcome<InboxItem> {
        let answer = AnswerRequest { decision: Some(decision.to_owned()), ..AnswerRequest::default() };
        self.rest.call(AnswerInboxItem::of(&question.id).body(&answer))
    }

    /// Waits until no turn runs.
    pub fn idle(&self) -> Outcome<AgentStateRecord> {
        self.wait(TURN, "the turn does not end", || {
            let agent = self.agent()?;
            Ok((agent.activity == "idle" && agent.queued == 0).then_some(agent))
        })
    }

    /// Ends a turn that went wrong, so that the next check starts from rest.
    pub fn settle(&self) -> Outcome<()> {
        if self.agent()?.activity != "idle" {
            // It fails only if the turn has just ended by itself.
            let _ = self.cancel();
        }
        self.idle().map(drop)
    }

    /// The errors that the session tells.
    pub fn errors(&self) -> Vec<String> {
        let messages = self.messages(0).unwrap_or_default();
        messages
            .iter()
            .filter(|message| message.content["type"] == "error")
            .map(|one| one.content.to_string())
            .collect()
    }

    /// Asks until there is an answer; a session that has ended never gives one.
    fn wait<T>(&self, within: Duration, trouble: &str, ask: impl Fn() -> Outcome<Option<T>>) -> Outcome<T> {
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

impl Turn<'_, '_> {
    pub fn messages(&self) -> Outcome<Vec<MessageRecord>> {
        let messages = self.conversation.messages(self.after)?;
        Ok(messages.into_iter().filter(|message| message.content["replayed"] != true).collect())
    }

    /// Whether the agent has answered the prompt.
    pub fn is_over(&self) -> Outcome<bool> {
        let agent = self.conversation.agent()?;
        Ok(agent.activity == "idle" && agent.queued == 0 && agent.stop_reason.is_some())
    }

    /// What the agent said so far.
    pub fn answer(&self) -> Outcome<String> {
        let messages = self.messages()?;
        let texts = messages.iter().filter(|message| message.role == "agent" && message.content["type"] == "text");
        Ok(texts.filter_map(|message| message.content["text"].as_str()).collect())
    }

    /// Waits until the answer has this in it.
    pub fn wait_for(&self, wanted: &str) -> Outcome<()> {
        self.wait_until(&format!("no {wanted:?} comes"), || Ok(self.answer()?.contains(wanted).then_some(())))
    }

    /// Waits for something that the turn brings about; an error message ends the wait.
    pub fn wait_until<T>(&self, trouble: &str, ask: impl Fn() -> Outcome<Option<T>>) -> Outcome<T> {
        self.conversation.wait(TURN, trouble, || match ask()? {
            Some(found) => Ok(Some(found)),
            None => match self.messages()?.iter().find(|message| message.content["type"] == "error") {
                Some(error) => Err(format!("{trouble}: {}", error.content).into()),
                None => Ok(None),
            },
        })
    }

    /// Nothing if the prompt stands once among the user's messages and `answer` once among the agent's.
    pub fn flaw(&self, answer: &str) -> Outcome<Option<String>> {
        let messages = self.messages()?;
        let prompts = messages.iter().filter(|message| message.role == "user").count();
        let is_prompt =
            |message: &&MessageRecord| message.role == "user" && message.content["text"] == self.prompt.as_str();
        if prompts != 1 || messages.iter().filter(is_prompt).count() != 1 {
            return Ok(Some(format!("the prompt gave {prompts} messages of the user")));
        }
        let said = self.answer()?;
        let count = said.matches(answer).count();
        Ok((count != 1).then(|| format!("{answer:?} is {count} times in {said:?}")))
    }
}
