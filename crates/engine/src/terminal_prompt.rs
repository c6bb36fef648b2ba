//! Terminal prompts: agents of tasks that wait for terminal input. Each is answered once and typed in.

use std::sync::Arc;

use coven_domain::agent::Agent;
use coven_domain::query::{AgentQuery, RequestQuery, RequestScope};
use coven_domain::request::{AnsweredBy, Request, RequestAnswer, RequestKind, SettledFrom, extract_prompt};
use coven_domain::{RequestId, SessionId};
use coven_holder::clock;
use coven_host::config::NotificationKind;
use coven_store::Change;
use uuid::Uuid;

use super::Engine;
use super::notification::{InboxNotification, Need};
use crate::error::EngineError;

impl Engine {
    /// Returns prompts without an answer and prompts whose answer is not typed yet.
    pub(crate) async fn open_terminal_prompts(&self) -> Result<Vec<Request>, EngineError> {
        let (scope, kinds) = (RequestScope::Unfinished, vec![RequestKind::Input]);
        Ok(self.store.requests(&RequestQuery { scope, kinds, ..RequestQuery::default() }).await?)
    }

    /// Returns the agent of a task that made the request.
    pub(crate) async fn agent_of_request(&self, request: &Request) -> Result<Option<Agent>, EngineError> {
        match request.agent {
            Some(agent) => Ok(self.store.agent(agent).await?),
            None => Ok(None),
        }
    }

    /// Records a prompt with the text before the cursor, because the agent reads from its terminal.
    pub(crate) async fn record_terminal_prompt(
        self: &Arc<Self>,
        agent: &Agent,
        session: SessionId,
        offset: u64,
    ) -> Result<(), EngineError> {
        let shown = self.screen(session, None).await?;
        let text = shown.screen.text();
        let cursor = shown.screen.cursor();
        let lines: Vec<&str> = text.lines().take(usize::from(cursor.row) + 1).collect();
        let prompt = match extract_prompt(&lines) {
            empty if empty.is_empty() => "the agent waits for input".to_owned(),
            prompt => prompt,
        };
        let now = clock::now();
        let id = RequestId::from_uuid(Uuid::new_v4());
        let request = Request { agent: Some(agent.id), ..Request::input(id, Some(session), prompt, offset, now) };
        let title = request.title.clone();
        let mut tx = self.store.begin().await?;
        tx.record(Change::RequestChanged { request, event: "asked" }, now).await?;
        self.commit(tx).await?;
        let kind = NotificationKind::Input;
        self.notify(InboxNotification { need: Need::Request(id), kind, session: Some(session), title });
        Ok(())
    }

    /// Abandons a prompt, because the terminal has new output or its agent is gone.
    pub(crate) async fn abandon_terminal_prompt(&self, id: RequestId) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut request) = tx.request(id).await? else { return Ok(()) };
        if !request.cancelled(AnsweredBy::Session, now) {
            return Ok(());
        }
        tx.record(Change::RequestChanged { request: request.clone(), event: "abandoned" }, now).await?;
        self.commit(tx).await?;
        self.note_settled(&request, SettledFrom::Terminal);
        Ok(())
    }

    /// Answers a prompt. The first answer wins. It is stored before it is typed, so that a restart can finish typing it.
    pub(crate) async fn answer_terminal_prompt(
        &self,
        id: RequestId,
        text: &str,
        by: AnsweredBy,
    ) -> Result<Request, EngineError> {
        if text.contains(['\n', '\r']) {
            let why = "answer: send one line only; further lines would answer later prompts";
            return Err(EngineError::Invalid(why.to_owned()));
        }
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let known = tx.request(id).await?;
        let mut request = known.ok_or_else(|| EngineError::QuestionNotFound(id.to_string()))?;
        let line = RequestAnswer::Line { text: text.to_owned(), is_delivered: false };
        request.answered(line, by, now).map_err(|source| EngineError::RequestAnswer { id, source })?;
        tx.record(Change::RequestChanged { request: request.clone(), event: "answered" }, now).await?;
        self.commit(tx).await?;
        coven_holder::fault::point("after_agent_answer");
        self.deliver_answer(&request).await?;
        Ok(request)
    }

    /// Types an answer, unless new output shows that it was typed already.
    pub(crate) async fn deliver_answer(&self, request: &Request) -> Result<(), EngineError> {
        let Some(text) = request.undelivered() else { return Ok(()) };
        let agent = self.agent_of_request(request).await?.filter(|agent| !agent.is_over());
        if let Some(agent) = agent {
            // The session is not followed yet, or is ending; the loop retries.
            let Some(live) = agent.session.and_then(|session| self.live_session(session)) else { return Ok(()) };
            if Some(live.log_end().await) <= request.offset() {
                self.send_input(live.id, format!("{text}\r").into_bytes()).await?;
            }
        }
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut request) = tx.request(request.id).await? else { return Ok(()) };
        request.delivered(now);
        tx.record(Change::RequestChanged { request, event: "delivered" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Returns the agents that are running.
    pub(crate) async fn agents_at_work(&self) -> Result<Vec<Agent>, EngineError> {
        Ok(self.store.agents(AgentQuery::Live, None, usize::MAX).await?.items)
    }
}
