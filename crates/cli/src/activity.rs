//! Formats what agents do for people: the activity of a session, its detail, and the group that it belongs to.

use coven_api::SessionRecord;
use coven_domain::Timestamp;
use coven_domain::activity::Activity;
use coven_domain::session::SessionState;

use crate::format;

/// Groups of sessions, in the order in which lists show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    NeedsYou,
    Working,
    Idle,
    Finished,
}

impl Group {
    pub fn of(session: &SessionRecord) -> Self {
        match session.status {
            SessionState::Created => Self::Idle,
            SessionState::Running => match session.activity.unwrap_or(Activity::Unknown) {
                Activity::Permission | Activity::Question => Self::NeedsYou,
                // Nothing is known of most programs, and a program that runs is busy as far as a list can tell.
                Activity::Working | Activity::Unknown => Self::Working,
                Activity::Idle | Activity::Limited => Self::Idle,
            },
            SessionState::Completed | SessionState::Failed | SessionState::Killed | SessionState::Orphaned => {
                Self::Finished
            }
        }
    }
}

/// Formats the activity with its age, for a cell of a table: `permission 2m`, `idle 5m, unseen`.
pub fn cell(session: &SessionRecord, now: Timestamp) -> String {
    let Some(activity) = session.activity else { return "-".to_owned() };
    let mut text = activity.to_string();
    if let Some(since) = session.activity_since {
        text.push(' ');
        text.push_str(&format::format_duration(now.since(since)));
    }
    if session.unseen && !activity.needs_a_human() {
        text.push_str(", unseen");
    }
    text
}

/// Formats the activity with its detail on one line: `permission for 2m: wants to run: cargo test`.
pub fn sentence(session: &SessionRecord, now: Timestamp) -> Option<String> {
    let activity = session.activity?;
    let mut text = activity.to_string();
    if let Some(since) = session.activity_since {
        text.push_str(&format!(" for {}", format::format_duration(now.since(since))));
    }
    if let Some(detail) = &session.activity_detail {
        text.push_str(&format!(": {detail}"));
    }
    Some(text)
}
