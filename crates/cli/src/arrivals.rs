//! What newly waits for a person, as the daemon's events tell it.

use std::io::{self, Write, stdout};

use coven_api::ErrorCode;
use coven_api::event::EventRecord;
use coven_api::inbox::{InboxItem, InboxStatus};
use coven_api::routes::{Endpoint, GetInboxItem};
use coven_client::{Client, ClientError, SseEvent};
use coven_host::config;
use coven_host::home::Home;

/// The thing that an event tells of, if it is new in the inbox and still waits.
pub async fn newly_waiting(client: &mut Client, event: &SseEvent) -> Result<Option<InboxItem>, ClientError> {
    match event.kind.as_str() {
        "permission.requested" | "question_set.asked" | "question.asked" | "task.pending_merge" | "task.blocked" => {
            let record: EventRecord = serde_json::from_str(&event.data)?;
            Ok(item(client, &record.subject).await?.filter(|item| item.status == InboxStatus::Pending))
        }
        _ => Ok(None),
    }
}

/// Something of the inbox; none if it is gone.
pub async fn item(client: &mut Client, id: &str) -> Result<Option<InboxItem>, ClientError> {
    match client.call(GetInboxItem::of(id)).await {
        Ok(item) => Ok(Some(item)),
        Err(error) if error.is(ErrorCode::QuestionNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the terminal's bell may ring. A config that cannot be read is somebody else's to complain about.
pub fn rings(home: &Home) -> bool {
    config::read(home).unwrap_or_default().notifications.bell
}

/// Rings the terminal's bell.
pub fn ring() -> io::Result<()> {
    let mut out = stdout();
    out.write_all(b"\x07").and_then(|()| out.flush())
}
