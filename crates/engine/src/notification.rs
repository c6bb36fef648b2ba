//! Notifications: what needs the user, and what they say about it.

use std::path::Path;

use coven_domain::activity::{Activity, ActivityStatus};
use coven_domain::query::RequestQuery;
use coven_domain::session::Session;
use coven_domain::task::TaskState;
use coven_domain::{QuestionSetId, RequestId, SessionId, TaskId, Timestamp};
use coven_host::config::NotificationKind;
use serde::Serialize;

use super::Engine;
use super::live::LiveSession;
use super::question_set::Listed;

/// Queue capacity. When full, new notifications are dropped; the inbox still lists the item.
pub const NOTIFICATION_QUEUE: usize = 256;
/// An agent that was busy for longer than this is worth a notification when it is idle.
const LONG_WORK_MILLIS: i64 = 60_000;

/// A need of which the user is notified once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxNotification {
    pub need: Need,
    pub kind: NotificationKind,
    pub session: Option<SessionId>,
    /// What is wanted, in one line.
    pub title: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Request(RequestId),
    QuestionSet(QuestionSetId),
    /// A task that is blocked or ready for review.
    Task(TaskId),
    /// A session's activity since then, without an inbox item.
    Activity(SessionId, Activity, Timestamp),
}

/// A notification as `notifications.command` gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotificationRecord {
    /// The id of the inbox item; that of the session if there is none.
    pub id: String,
    pub kind: NotificationKind,
    pub title: String,
    /// What is wanted, in one line.
    pub detail: String,
    pub session: Option<NotifiedSession>,
    /// The folder of the project.
    pub project: Option<String>,
    /// The start of the command that answers; complete for `coven attach`.
    pub answer_command: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotifiedSession {
    pub id: SessionId,
    pub harness: String,
    pub title: String,
}

impl InboxNotification {
    /// Returns the notification for a change of activity, if it is worth one. `busy_since` is when the agent left `idle`.
    fn of_activity(session: &Session, busy_since: Option<Timestamp>) -> Option<Self> {
        let ActivityStatus { activity, since, detail, .. } = &session.activity;
        let since = (*since)?;
        let (kind, said) = match activity {
            Activity::Permission => (NotificationKind::Permission, "waits for an approval in its terminal"),
            Activity::Question => (NotificationKind::Question, "waits for an answer in its terminal"),
            Activity::Limited => (NotificationKind::Limited, "reached a limit"),
            Activity::Idle => {
                let worked = since.as_millis() - busy_since?.as_millis();
                if worked <= LONG_WORK_MILLIS {
                    return None;
                }
                (NotificationKind::Idle, "finished its turn")
            }
            Activity::Working | Activity::Unknown => return None,
        };
        Some(Self {
            need: Need::Activity(session.id, *activity, since),
            kind,
            session: Some(session.id),
            title: detail.clone().unwrap_or_else(|| said.to_owned()),
        })
    }
}

impl Engine {
    /// Queues a notification for something that is stored.
    pub(crate) fn notify(&self, notification: InboxNotification) {
        if self.config.notifications.on.contains(&notification.kind) {
            // The receiver is closed if notifications are off.
            let _ = self.notifications.try_send(notification);
        }
    }

    /// Queues a notification for a stored change of activity.
    pub(crate) fn notify_of_activity(&self, live: &LiveSession, session: &Session) {
        let mut activity = super::activity::lock(&live.activity);
        let busy_since = activity.busy_since;
        activity.busy_since = busy_after(&session.activity, busy_since);
        drop(activity);
        if let Some(notification) = InboxNotification::of_activity(session, busy_since) {
            self.notify(notification);
        }
    }

    /// Reports whether the need still exists, and no other notification is about it.
    pub async fn is_still_pending(&self, notification: &InboxNotification) -> bool {
        match notification.need {
            Need::Request(id) => {
                self.store.request(id).await.is_ok_and(|request| request.is_some_and(|it| it.is_pending()))
            }
            Need::QuestionSet(id) => self.is_question_set_pending(id),
            Need::Task(id) => self.store.task(id).await.is_ok_and(|task| {
                task.is_some_and(|task| matches!(task.state, TaskState::Blocked | TaskState::PendingMerge))
            }),
            Need::Activity(id, activity, since) => {
                let Ok(Some(session)) = self.store.session(id).await else { return false };
                let status = &session.activity;
                let is_same = session.is_live() && (status.activity, status.since) == (activity, Some(since));
                is_same && !(activity.needs_a_human() && self.has_pending_request(id).await)
            }
        }
    }

    /// Reports whether an inbox item of the session announces what its agent waits for.
    async fn has_pending_request(&self, id: SessionId) -> bool {
        let query = RequestQuery { session: Some(id), ..RequestQuery::default() };
        self.store.requests(&query).await.is_ok_and(|pending| !pending.is_empty())
    }

    /// Describes a need for people and programs.
    pub async fn describe_notification(&self, notification: &InboxNotification) -> NotificationRecord {
        let session = match notification.session {
            // Another home may own the session.
            Some(id) => self.store.session(id).await.ok().flatten(),
            None => None,
        };
        let project = self.project_of(notification, session.as_ref()).await;
        let (id, verb) = match notification.need {
            Need::Request(id) => (id.to_string(), "inbox answer"),
            Need::QuestionSet(id) => (id.to_string(), "inbox answer"),
            Need::Task(id) => (id.to_string(), "inbox answer"),
            Need::Activity(id, ..) => (id.to_string(), "attach"),
        };
        let short = id.get(..8).unwrap_or(&id);
        NotificationRecord {
            title: title(notification.kind, session.as_ref(), project.as_deref()),
            kind: notification.kind,
            detail: notification.title.clone(),
            session: session.map(|it| NotifiedSession { id: it.id, harness: it.harness, title: it.title }),
            project,
            answer_command: format!("{} {verb} {short}", self.own_command()),
            id,
        }
    }

    /// Returns the folder of the project that a need belongs to.
    async fn project_of(&self, notification: &InboxNotification, session: Option<&Session>) -> Option<String> {
        if let Some(session) = session {
            return Some(session.project_root.clone());
        }
        let named = match notification.need {
            Need::QuestionSet(id) => match self.question_set(id).await {
                Some(Listed::Sound(set)) => set.working_directory,
                Some(Listed::Broken { .. }) | None => None,
            },
            Need::Task(id) => self.store.task(id).await.ok().flatten().and_then(|task| task.repo),
            Need::Request(_) | Need::Activity(..) => None,
        };
        named.or_else(|| match notification.need {
            // Questions of a process may come from any folder.
            Need::QuestionSet(_) => None,
            _ => Some(self.home.project_root()?.display().to_string()),
        })
    }

    /// Returns the command that uses this home from any folder.
    fn own_command(&self) -> String {
        let home = self.home.path();
        let is_users = std::env::var_os("HOME").is_some_and(|user| Path::new(&user).join(".coven") == home);
        match is_users {
            true => "coven".to_owned(),
            false => format!("coven --home {}", quoted(&home.display().to_string())),
        }
    }
}

/// Returns since when the agent is busy, after a change of its activity.
pub(crate) fn busy_after(status: &ActivityStatus, before: Option<Timestamp>) -> Option<Timestamp> {
    match status.activity {
        // Time that it waits for the user belongs to the work.
        Activity::Working | Activity::Permission | Activity::Question => before.or(status.since),
        Activity::Idle | Activity::Limited | Activity::Unknown => None,
    }
}

/// Names the session, the project and what is wanted.
fn title(kind: NotificationKind, session: Option<&Session>, project: Option<&str>) -> String {
    let asker = session.map_or("an agent", |session| session.harness.as_str());
    let wanted = match kind {
        NotificationKind::Permission => format!("{asker} asks for permission"),
        NotificationKind::Question => format!("{asker} asks a question"),
        NotificationKind::Input => format!("{asker} waits for input"),
        NotificationKind::Review => "a task is ready for review".to_owned(),
        NotificationKind::Blocked => "a task is blocked".to_owned(),
        NotificationKind::Idle => format!("{asker} has finished its turn"),
        NotificationKind::Limited => format!("{asker} has reached a limit"),
    };
    let folder = project.and_then(|project| Path::new(project).file_name()).map(|name| name.to_string_lossy());
    let place = folder.map(|folder| format!(" in {folder}")).unwrap_or_default();
    let about = session.map(|session| format!(": {}", session.title)).unwrap_or_default();
    format!("{wanted}{place}{about}")
}

/// Quotes a word for a shell if it needs it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_user_belongs_to_the_work() {
        let at = Timestamp::from_millis;
        let status = |activity, millis| ActivityStatus { activity, since: Some(at(millis)), ..Default::default() };
        let mut busy = None;
        for (activity, millis) in [(Activity::Working, 10), (Activity::Permission, 50_000), (Activity::Working, 90_000)]
        {
            busy = busy_after(&status(activity, millis), busy);
        }
        assert_eq!(busy, Some(at(10)));
        assert_eq!(busy_after(&status(Activity::Idle, 95_000), busy), None);
    }

    #[test]
    fn a_folder_with_blanks_is_quoted() {
        assert_eq!(quoted("/home/a/.coven"), "/home/a/.coven");
        assert_eq!(quoted("/home/a b/it's"), "'/home/a b/it'\\''s'");
    }
}
