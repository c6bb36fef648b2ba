//! Terminal prompts: agents of tasks that wait for terminal input. Each is answered once and typed in.

use std::sync::Arc;

use coven_domain::agent::Agent;
use coven_domain::query::{AgentQuery, TerminalPromptQuery};
use coven_domain::terminal_prompt::{TerminalPrompt, extract_prompt};
use coven_domain::text::one_line;
use coven_domain::{AgentId, QuestionId, SessionId};
use coven_holder::clock;
use coven_store::Change;
use uuid::Uuid;

use super::Engine;
use super::notification::{InboxItemId, InboxNotification};
use crate::error::EngineError;

impl Engine {
    /// Returns prompts without an answer and prompts whose answer is not typed yet.
    pub(crate) async fn open_terminal_prompts(&self) -> Result<Vec<TerminalPrompt>, EngineError> {
        Ok(self.store.terminal_prompts(&TerminalPromptQuery::Open).await?)
    }

    pub(crate) async fn agent_of_prompt(&self, agent: AgentId) -> Result<Option<Agent>, EngineError> {
        Ok(self.store.agent(agent).await?)
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
        let id = QuestionId::from_uuid(Uuid::new_v4());
        let title = one_line(prompt.lines().last().unwrap_or_default(), 200);
        let question = TerminalPrompt::new(id, agent.id, prompt, offset, now);
        let mut tx = self.store.begin().await?;
        tx.record(Change::TerminalPromptChanged { question, event: "asked" }, now).await?;
        self.commit(tx).await?;
        self.notify(InboxNotification { item: InboxItemId::TerminalPrompt(id), session: Some(session), title });
        Ok(())
    }

    /// Abandons a prompt, because the terminal has new output or its agent is gone.
    pub(crate) async fn abandon_terminal_prompt(&self, id: QuestionId) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut question) = tx.terminal_prompt(id).await? else { return Ok(()) };
        if question.abandoned(now).is_err() {
            return Ok(());
        }
        tx.record(Change::TerminalPromptChanged { question, event: "abandoned" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Answers a prompt. The first answer wins. It is stored before it is typed, so that a restart can finish typing it.
    pub(crate) async fn answer_terminal_prompt(
        &self,
        id: QuestionId,
        text: &str,
    ) -> Result<TerminalPrompt, EngineError> {
        if text.contains(['\n', '\r']) {
            let why = "answer: send one line only; further lines would answer later prompts";
            return Err(EngineError::Invalid(why.to_owned()));
        }
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let known = tx.terminal_prompt(id).await?;
        let mut question = known.ok_or_else(|| EngineError::QuestionNotFound(id.to_string()))?;
        question.answered(text, now).map_err(|_| EngineError::AnsweredAlready(id))?;
        tx.record(Change::TerminalPromptChanged { question: question.clone(), event: "answered" }, now).await?;
        self.commit(tx).await?;
        coven_holder::fault::point("after_agent_answer");
        self.deliver_answer(&question).await?;
        Ok(question)
    }

    /// Types an answer, unless new output shows that it was typed already.
    pub(crate) async fn deliver_answer(&self, question: &TerminalPrompt) -> Result<(), EngineError> {
        let Some(text) = question.answer.as_deref().filter(|_| !question.is_delivered) else { return Ok(()) };
        let agent = self.agent_of_prompt(question.agent).await?.filter(|agent| !agent.is_over());
        if let Some(agent) = agent {
            // The session is not followed yet, or is ending; the loop retries.
            let Some(live) = agent.session.and_then(|session| self.live_session(session)) else { return Ok(()) };
            if live.log_end().await <= question.offset {
                self.send_input(live.id, format!("{text}\r").into_bytes()).await?;
            }
        }
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut question) = tx.terminal_prompt(question.id).await? else { return Ok(()) };
        question.is_delivered = true;
        tx.record(Change::TerminalPromptChanged { question, event: "delivered" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Returns the agents that are running.
    pub(crate) async fn agents_at_work(&self) -> Result<Vec<Agent>, EngineError> {
        Ok(self.store.agents(AgentQuery::Live, None, usize::MAX).await?.items)
    }
}
