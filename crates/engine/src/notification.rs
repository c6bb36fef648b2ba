//! Something new that waits for a human, on its way to whoever tells them.

use coven_domain::query::PermissionQuery;
use coven_domain::task::TaskState;
use coven_domain::{PermissionId, QuestionId, QuestionSetId, SessionId, TaskId};

use super::Engine;

/// So many may be on their way. When it is full the next one is not told of: whoever looks at the inbox sees it.
pub const NOTIFICATION_QUEUE: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxNotification {
    pub item: InboxItemId,
    pub session: Option<SessionId>,
    /// What is asked, in one line.
    pub title: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxItemId {
    Permission(PermissionId),
    QuestionSet(QuestionSetId),
    /// An agent of a task waits at its terminal.
    TerminalPrompt(QuestionId),
    /// It is blocked, or there to be reviewed.
    Task(TaskId),
}

impl Engine {
    /// Called once it is stored.
    pub(crate) fn notify(&self, notification: InboxNotification) {
        // Nobody listens where notifications are switched off.
        let _ = self.notifications.try_send(notification);
    }

    /// Whether nobody has answered meanwhile.
    pub async fn is_still_pending(&self, notification: &InboxNotification) -> bool {
        match notification.item {
            InboxItemId::Permission(id) => {
                let query = PermissionQuery { prefix: Some(id.to_string()), ..PermissionQuery::default() };
                self.store.permissions(&query).await.is_ok_and(|pending| !pending.is_empty())
            }
            InboxItemId::QuestionSet(id) => self.is_question_set_pending(id),
            InboxItemId::TerminalPrompt(id) => self
                .open_terminal_prompts()
                .await
                .is_ok_and(|open| open.iter().any(|question| question.id == id && question.answer.is_none())),
            InboxItemId::Task(id) => self.store.task(id).await.is_ok_and(|task| {
                task.is_some_and(|task| matches!(task.state, TaskState::Blocked | TaskState::PendingMerge))
            }),
        }
    }

    /// Who asks, for people: the harness and what its session is called.
    pub async fn notification_title(&self, notification: &InboxNotification) -> String {
        let session = match notification.session {
            // It may be a session of another home.
            Some(id) => self.store.session(id).await.ok().flatten(),
            None => None,
        };
        match session {
            Some(session) => format!("{} asks: {}", session.harness, session.title),
            None if matches!(notification.item, InboxItemId::Task(_)) => "A task waits for you".to_owned(),
            None => "An agent asks".to_owned(),
        }
    }
}
