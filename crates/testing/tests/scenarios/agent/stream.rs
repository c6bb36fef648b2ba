//! Live messages, over the session's stream and the event feed.

use std::fs;

use coven_api::acp_state::AcpStateRecord;
use coven_api::message::{MessageRecord, MessagesResponse};
use coven_api::message_content::{MessageContent, MessageText};
use coven_domain::message::{Activity, Role};
use coven_testing::agents::counted;
use coven_testing::records::SessionRecord;
use coven_testing::sessions::path;
use coven_testing::{EventFeed, TestHome};
use serde_json::json;

const STREAM: &[(&str, &str)] = &[("accept", "text/event-stream")];

#[test]
fn a_subscriber_gets_the_chunks_the_complete_message_and_the_end() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.wait_for_rest(&id);
    let gate = home.project().join("gate");
    let mut stream = EventFeed::subscribe(&home, &path(&id, "/messages"), STREAM);
    let first = stream.next_message();
    assert_eq!(first.event, "state");
    assert_eq!(serde_json::from_str::<AcpStateRecord>(&first.data).expect("a state").activity, Activity::Idle);

    home.prompt(&id, &format!("say one ;; until {} ;; say two", gate.display()));
    let mut messages: Vec<MessageRecord> = Vec::new();
    let mut take_until = |stream: &mut EventFeed, is_last: &dyn Fn(&MessageRecord) -> bool| loop {
        let event = stream.next_message();
        if event.event == "message" {
            let message: MessageRecord = serde_json::from_str(&event.data).expect("a message");
            assert_eq!(event.id, Some(message.number));
            let is_over = is_last(&message);
            messages.push(message);
            if is_over {
                return messages.clone();
            }
        }
    };
    take_until(&mut stream, &|it| it.content.text().is_some_and(|it| it.text == "one"));
    fs::write(&gate, "").expect("disk has space");
    let seen = take_until(&mut stream, &|it| it.role == Role::Agent && it.content.text().is_some_and(|it| !it.partial));

    assert_eq!(seen[0].role, Role::User);
    assert!(seen.windows(2).all(|pair| pair[0].number < pair[1].number));
    let whole = seen.last().expect("a message");
    assert_eq!(whole.content, MessageContent::Text(MessageText::whole("onetwo")));
    let is_piece = |it: &&MessageRecord| it.content.text().is_some_and(|it| it.partial);
    let pieces: Vec<&MessageRecord> = seen.iter().filter(is_piece).collect();
    assert!(pieces.iter().all(|it| it.message_id == whole.message_id), "{seen:?}");
    let text: String = pieces.iter().filter_map(|it| Some(it.content.text()?.text.as_str())).collect();
    assert!("onetwo".starts_with(&text) && text.starts_with("one"), "{text}");

    home.cancel_session(&id);
    let end = loop {
        let event = stream.next_message();
        if event.event == "end" {
            break serde_json::from_str::<SessionRecord>(&event.data).expect("a session");
        }
    };
    assert_eq!((end.id, end.status.as_str()), (id, "killed"));
}

#[test]
fn history_is_folded_and_paged_and_a_stream_starts_after_the_last_seen_message() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "chunks 500");
    home.turn(&id, "say two");

    let page: MessagesResponse = home.read(&path(&id, "/messages?limit=2"));
    let rest: MessagesResponse = home.read(&path(&id, &format!("/messages?after={}", page.next)));

    let texts: Vec<&str> =
        page.items.iter().chain(&rest.items).filter_map(|it| Some(it.content.text()?.text.as_str())).collect();
    assert_eq!(texts, ["chunks 500", &counted(500), "say two", "two"]);
    assert_eq!(page.items.len(), 2);
    let last = page.next.to_string();
    let mut stream =
        EventFeed::subscribe(&home, &path(&id, "/messages"), &[STREAM[0], ("last-event-id", last.as_str())]);
    let first = loop {
        let event = stream.next_message();
        if event.event == "message" {
            break event;
        }
    };
    assert_eq!(serde_json::from_str::<MessageRecord>(&first.data).expect("a message"), rest.items[0]);
}

#[test]
fn the_feed_has_events_for_turns_and_messages() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.wait_for_rest(&id);
    let mut feed = EventFeed::open(&home);

    home.prompt(&id, "say hello ;; stop max_tokens");

    let started = feed.next_of("turn.started");
    assert_eq!(started.payload["session_id"], json!(id));
    loop {
        let added = feed.next_of("message.added");
        if added.payload["message"]["role"] == "agent" {
            let content = json!(MessageContent::Text(MessageText::whole("hello")));
            assert_eq!(added.payload["message"]["content"], content);
            break;
        }
    }
    let ended = feed.next_of("turn.ended");
    assert_eq!(ended.payload, json!({ "session_id": id, "stop_reason": "max_tokens" }));
    home.wait_for_rest(&id);
    let messages = home.messages(&id);
    let turn = json!({ "type": "turn", "stopReason": "max_tokens" });
    assert!(messages.iter().any(|it| it.role == "system" && it.content == turn), "{messages:?}");
}
