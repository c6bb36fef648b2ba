//! The inbox: everything that waits for a human, in one list with one way to answer.

use std::sync::Arc;

use coven_domain::permission::Permission;
use coven_domain::question_set::QuestionSetState;
use coven_domain::{QuestionSetId, SessionId, Timestamp};
use coven_host::clock;
use coven_host::questions::Listed;
use coven_store::PermissionQuery;

use super::Engine;
use super::acp::Answer;
use super::question_set::Ending;
use crate::error::EngineError;

/// What waits, or did.
#[derive(Debug)]
pub enum Item {
    Permission(Permission),
    QuestionSet {
        set: Listed,
        /// When it was asked; for a set that cannot be read, when it was last touched.
        at: Timestamp,
    },
}

/// How somebody answers.
#[derive(Debug, Clone)]
pub enum Reply {
    ToPermission(Answer),
    ToQuestions(Ending),
}

/// Something of the inbox before it is read.
enum Found {
    Permission(Box<Permission>),
    QuestionSet(QuestionSetId),
}

impl Engine {
    /// Oldest first.
    pub async fn inbox(&self, session: Option<SessionId>, include_settled: bool) -> Result<Vec<Item>, EngineError> {
        let query = PermissionQuery { include_settled, session, prefix: None };
        let permissions = self.store.permissions(&query).await?;
        let mut items: Vec<Item> = permissions.into_iter().map(Item::Permission).collect();
        for set in self.question_sets(session, include_settled).await? {
            items.push(self.question_item(set).await);
        }
        items.sort_by_key(|item| match item {
            Item::Permission(permission) => permission.created_at,
            Item::QuestionSet { at, .. } => *at,
        });
        Ok(items)
    }

    /// By its id or a prefix that only one has; those that wait are meant before those that are history.
    pub async fn inbox_item(&self, text: &str) -> Result<Item, EngineError> {
        let found = self.find_in_inbox(text).await?;
        self.read_found(found, text).await
    }

    /// The first answer wins; a second one is told so. Gives the item as it is then.
    pub async fn answer_in_inbox(self: &Arc<Self>, text: &str, reply: Reply) -> Result<Item, EngineError> {
        match (self.find_in_inbox(text).await?, reply) {
            (Found::Permission(permission), Reply::ToPermission(answer)) => {
                Ok(Item::Permission(self.answer_permission(&permission, &answer).await?))
            }
            (Found::QuestionSet(id), Reply::ToQuestions(ending)) => {
                self.end_question_set(id, ending).await?;
                self.read_found(Found::QuestionSet(id), text).await
            }
            (Found::Permission(permission), Reply::ToQuestions(_)) => Err(EngineError::Invalid(format!(
                "it is a request for permission and takes option or decision, not answers or reject: {}",
                permission.id
            ))),
            (Found::QuestionSet(id), Reply::ToPermission(_)) => Err(EngineError::Invalid(format!(
                "it is a question set and takes answers or reject, not option or decision: {id}"
            ))),
        }
    }

    async fn read_found(&self, found: Found, text: &str) -> Result<Item, EngineError> {
        match found {
            Found::Permission(permission) => Ok(Item::Permission(*permission)),
            Found::QuestionSet(id) => match self.question_set(id).await {
                Some(set) => Ok(self.question_item(set).await),
                None => Err(unknown(text)),
            },
        }
    }

    async fn question_item(&self, set: Listed) -> Item {
        let at = match &set {
            Listed::Sound(set) => set.created_at,
            Listed::Broken { id, .. } => self.question_set_touched_at(*id).await.unwrap_or_else(clock::now),
        };
        Item::QuestionSet { set, at }
    }

    async fn find_in_inbox(&self, text: &str) -> Result<Found, EngineError> {
        let is_sound = !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if !is_sound {
            return Err(unknown(text));
        }
        let prefix = text.to_lowercase();
        let mut sets = self.question_sets_with_prefix(&prefix).await?;
        let query = PermissionQuery { include_settled: true, session: None, prefix: Some(prefix) };
        let mut permissions = self.store.permissions(&query).await?;
        if permissions.len() + sets.len() > 1 {
            let mut waiting = Vec::new();
            for id in &sets {
                let set = self.question_set(*id).await;
                if matches!(set, Some(Listed::Sound(set)) if set.state == QuestionSetState::Pending) {
                    waiting.push(*id);
                }
            }
            let open = permissions.iter().filter(|permission| permission.answered_at.is_none()).count();
            if open + waiting.len() == 1 {
                permissions.retain(|permission| permission.answered_at.is_none());
                sets = waiting;
            }
        }
        let mut found: Vec<Found> = permissions.into_iter().map(|it| Found::Permission(Box::new(it))).collect();
        found.extend(sets.into_iter().map(Found::QuestionSet));
        match (found.len(), found.pop()) {
            (1, Some(only)) => Ok(only),
            (_, None) => Err(unknown(text)),
            (_, Some(last)) => {
                found.push(last);
                let candidates = found.iter().map(|found| match found {
                    Found::Permission(permission) => permission.id.to_string(),
                    Found::QuestionSet(id) => id.to_string(),
                });
                Err(EngineError::AmbiguousItem { prefix: text.to_owned(), candidates: candidates.collect() })
            }
        }
    }
}

fn unknown(text: &str) -> EngineError {
    EngineError::QuestionNotFound(text.chars().take(64).collect())
}
