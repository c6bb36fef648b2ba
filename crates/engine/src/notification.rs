//! Queue of desktop notifications for new inbox items.

use coven_domain::task::TaskState;
use coven_domain::{QuestionSetId, RequestId, SessionId, TaskId};

use super::Engine;

/// Queue capacity. When full, new notifications are dropped; the inbox still lists the item.
pub const NOTIFICATION_QUEUE: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxNotification {
    pub item: InboxItemId,
    pub session: Option<SessionId>,
    /// The question, in one line.
    pub title: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxItemId {
    Request(RequestId),
    QuestionSet(QuestionSetId),
    /// A task that is blocked or ready for review.
    Task(TaskId),
}

impl Engine {
    /// Queues a notification for an item that is stored.
    pub(crate) fn notify(&self, notification: InboxNotification) {
        // The receiver is closed if notifications are off.
        let _ = self.notifications.try_send(notification);
    }

    /// Reports whether the item still needs an answer.
    pub async fn is_still_pending(&self, notification: &InboxNotification) -> bool {
        match notification.item {
            InboxItemId::Request(id) => {
                self.store.request(id).await.is_ok_and(|request| request.is_some_and(|it| it.is_pending()))
            }
            InboxItemId::QuestionSet(id) => self.is_question_set_pending(id),
            InboxItemId::Task(id) => self.store.task(id).await.is_ok_and(|task| {
                task.is_some_and(|task| matches!(task.state, TaskState::Blocked | TaskState::PendingMerge))
            }),
        }
    }

    /// Returns the title: the harness and the title of its session.
    pub async fn notification_title(&self, notification: &InboxNotification) -> String {
        let session = match notification.session {
            // Another home may own the session.
            Some(id) => self.store.session(id).await.ok().flatten(),
            None => None,
        };
        match session {
            Some(session) => format!("{} asks: {}", session.harness, session.title),
            None if matches!(notification.item, InboxItemId::Task(_)) => "A task needs your attention".to_owned(),
            None => "An agent asks".to_owned(),
        }
    }
}
