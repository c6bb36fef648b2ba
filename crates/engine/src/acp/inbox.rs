//! Answers permission requests, each once.

use std::sync::Arc;

use coven_domain::PermissionId;
use coven_domain::permission::{AnswerError, AnsweredBy, Decision, Permission};
use coven_domain::query::PermissionQuery;
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

impl Engine {
    /// Reads the permission request from the store.
    async fn known_permission(&self, id: PermissionId) -> Result<Permission, EngineError> {
        let query =
            PermissionQuery { include_settled: true, prefix: Some(id.to_string()), ..PermissionQuery::default() };
        let found = self.store.permissions(&query).await?.pop();
        found.ok_or_else(|| EngineError::QuestionNotFound(id.to_string()))
    }

    /// Answers a permission request. The first answer wins and goes to the agent; a later one fails.
    pub async fn answer_permission(
        self: &Arc<Self>,
        permission: &Permission,
        answer: &InboxAnswer,
        by: AnsweredBy,
    ) -> Result<Permission, EngineError> {
        let no_answer = |source| EngineError::PermissionAnswer { id: permission.id, source };
        let option = match answer {
            InboxAnswer::Option(option) => Some(option.clone()),
            InboxAnswer::Decision(decision) => match (decision.select_option(&permission.options), decision) {
                (Ok(option), _) => Some(option.id.clone()),
                // The agent offers no option to deny, so it gets `cancelled`.
                (Err(_), Decision::Deny) => None,
                (Err(error), Decision::Allow) => return Err(no_answer(error)),
            },
        };
        let apply = |known: &mut Permission| match &option {
            Some(option) => known.answered(option, by, clock::now()).map_err(no_answer),
            None => known.denied(by, clock::now()).map_err(no_answer),
        };
        let Some(acp) = self.acp_session(permission.session) else {
            // The session has ended; the row says whether the request was answered before.
            let mut known = self.known_permission(permission.id).await?;
            apply(&mut known)?;
            return Err(no_answer(AnswerError::Cancelled));
        };
        // The lock of the connection serializes concurrent answers.
        let waited = tokio::time::timeout(CONNECTION_TIMEOUT, acp.connection()).await;
        let mut connection = waited.map_err(|_| EngineError::Busy(acp.id))?;
        let mut known = self.known_permission(permission.id).await?;
        apply(&mut known)?;
        let before = connection.machine.state().clone();
        let mut effects = new_effects();
        if connection.is_over || !connection.machine.decide(known.id, option.as_deref(), &mut effects) {
            return Err(no_answer(AnswerError::Cancelled));
        }
        self.commit_or_revert(&acp, &mut connection, before, effects, Some(known.clone())).await?;
        Ok(known)
    }
}
