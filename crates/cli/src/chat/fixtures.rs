//! Messages for the chat's tests.

use coven_api::acp_state::AcpStateRecord;
use coven_api::inbox::InboxDetail;
use coven_api::message::MessageRecord;
use coven_api::message_content::MessageContent;
use coven_domain::request::{Request, RequestSource};
use coven_domain::{MessageId, Timestamp};
use serde_json::{Value, json};

/// A message with content as the daemon stores it.
pub fn message(number: u64, name: &str, role: &str, content: Value) -> MessageRecord {
    MessageRecord {
        number,
        id: message_id(&format!("m{number}")),
        message_id: message_id(name),
        role: role.parse().expect("a role"),
        at: "2026-11-15T20:23:05.000Z".parse().expect("a time"),
        content: MessageContent::read(&content.to_string()),
    }
}

/// An id, or one that is made of a short name.
pub fn message_id(name: &str) -> MessageId {
    let bits = || name.bytes().fold(0, |bits: u128, byte| bits << 8 | u128::from(byte));
    name.parse().unwrap_or_else(|_| MessageId::from_uuid(uuid::Uuid::from_u128(bits())))
}

pub fn user(number: u64, text: &str) -> MessageRecord {
    message(number, &format!("00000000-0000-4000-8000-{number:012}"), "user", json!({"type": "text", "text": text}))
}

/// A whole text of the agent.
pub fn agent(number: u64, id: &str, text: &str) -> MessageRecord {
    message(number, id, "agent", json!({"type": "text", "text": text, "partial": false}))
}

/// A piece of one.
pub fn piece(number: u64, id: &str, text: &str) -> MessageRecord {
    message(number, id, "agent", json!({"type": "text", "text": text, "partial": true}))
}

pub fn system(number: u64, content: Value) -> MessageRecord {
    message(number, &format!("s{number}"), "system", content)
}

pub fn tool(number: u64, id: &str, title: &str, status: &str) -> MessageRecord {
    let content =
        json!({"type": "tool", "tool": title, "args": {}, "result": null, "status": status, "toolCallId": id});
    message(number, id, "system", content)
}

pub fn state(activity: &str, queued: usize) -> AcpStateRecord {
    AcpStateRecord { queued, ..AcpStateRecord::new(activity.parse().expect("an activity")) }
}

/// The detail of an item that asks for permission.
pub fn permission_detail(tool_call: Value) -> InboxDetail {
    let id = "0c7e49a2-0000-4000-8000-000000000001".parse().expect("an id");
    let session = "5e550000-0000-4000-8000-000000000001".parse().expect("an id");
    let (what, content) = ((id, RequestSource::Acp), (Vec::new(), tool_call));
    let permission = Request::permission(what, session, "a tool call".to_owned(), content, Timestamp::from_millis(0));
    InboxDetail::Permission { permission: (&permission).into() }
}
