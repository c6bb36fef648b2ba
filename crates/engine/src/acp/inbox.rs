//! Answers permission requests of ACP sessions, each once.

use std::sync::Arc;

use coven_domain::request::{AnswerError, AnsweredBy, Decision, Request, RequestAnswer};
use coven_holder::clock;

use super::super::Engine;
use super::{CONNECTION_TIMEOUT, new_effects};
use crate::error::EngineError;

/// An answer: one of the agent's options, or a decision that selects one.
#[derive(Debug, Clone)]
pub enum InboxAnswer {
    Option(String),
    Decision(Decision),
}

impl InboxAnswer {
    /// Returns the id of the option; `None` for a denial that the agent offers no option for.
    pub(crate) fn option_of(&self, request: &Request) -> Result<Option<String>, AnswerError> {
        match self {
            Self::Option(option) => Ok(Some(option.clone())),
            Self::Decision(decision) => match (decision.select_option(request.options()), decision) {
                (Ok(option), _) => Ok(Some(option.id.clone())),
                (Err(_), Decision::Deny) => Ok(None),
                (Err(error), Decision::Allow) => Err(error),
            },
        }
    }

    /// Records this answer in the request.
    pub(crate) fn apply(&self, request: &mut Request, by: AnsweredBy) -> Result<Option<String>, AnswerError> {
        let option = self.option_of(request)?;
        match &option {
            Some(option) => request.answered(RequestAnswer::Option(option.clone()), by, clock::now())?,
            None => request.denied(by, clock::now())?,
        }
        Ok(option)
    }
}

impl Engine {
    /// Answers a permission request. The first answer wins and goes to the agent; a later one fails.
    pub(crate) async fn answer_acp_permission(
        self: &Arc<Self>,
        permission: &Request,
        answer: &InboxAnswer,
        by: AnsweredBy,
    ) -> Result<Request, EngineError> {
        let no_answer = |source| EngineError::RequestAnswer { id: permission.id, source };
        let Some(acp) = permission.session.and_then(|session| self.acp_session(session)) else {
            // The session has ended; the row says whether the request was answered before.
            let mut known = self.known_request(permission.id).await?;
            answer.apply(&mut known, by).map_err(no_answer)?;
            return Err(no_answer(AnswerError::Cancelled));
        };
        // The lock of the connection serializes concurrent answers.
        let waited = tokio::time::timeout(CONNECTION_TIMEOUT, acp.connection()).await;
        let mut connection = waited.map_err(|_| EngineError::Busy(acp.id))?;
        let mut known = self.known_request(permission.id).await?;
        // Without an option for a denial, the agent gets `cancelled`.
        let option = answer.apply(&mut known, by).map_err(no_answer)?;
        let before = connection.machine.state().clone();
        let mut effects = new_effects();
        if connection.is_over || !connection.machine.decide(known.id, option.as_deref(), &mut effects) {
            return Err(no_answer(AnswerError::Cancelled));
        }
        self.commit_or_revert(&acp, &mut connection, before, effects, Some(known.clone())).await?;
        Ok(known)
    }
}
