//! ACP sessions: messages, checkpoints, permission requests and repositories.

use std::sync::Arc;

use coven_domain::message::{Chunk, Message, MessageChange, Role, TextKind};
use coven_domain::query::{MessageQuery, RequestQuery, RequestScope, WaitingItem, WaitingQuery};
use coven_domain::request::{AnsweredBy, PermissionOption, Request, RequestAnswer, RequestKind, RequestSource};
use coven_domain::session::{Channel, Session, SessionState};
use coven_domain::{MessageId, RequestId};
use coven_store::{AcpCheckpoint, AcpCheckpointUpdate, Change, Store, StoreError};
use serde_json::json;

use super::samples::*;

fn message_id(nth: u32) -> MessageId {
    format!("{nth:08x}-0000-4000-a000-{nth:012x}").parse().expect("an id")
}

fn message(nth: u32, text: &str) -> Message {
    Message::new(message_id(nth), Role::Agent, &json!({ "type": "text", "text": text, "partial": false }))
}

fn chunk(nth: u32, of_message: u32, text: &str) -> MessageChange {
    MessageChange::Chunk(Chunk {
        id: message_id(nth),
        message_id: message_id(of_message),
        role: Role::Agent,
        kind: TextKind::Text,
        text: text.to_owned(),
        is_replayed: false,
    })
}

async fn change(store: &dyn Store, changes: Vec<MessageChange>) {
    record(store, Change::MessagesChanged { session: id(1), changes }).await.expect("messages");
}

/// Returns number, text and whether the message is a chunk.
async fn texts(store: &dyn Store, query: MessageQuery) -> Vec<(u64, String, bool)> {
    let messages = store.messages(id(1), &query).await.expect("a read");
    let text = |content: &str| {
        serde_json::from_str::<serde_json::Value>(content).expect("JSON")["text"].as_str().expect("text").to_owned()
    };
    messages.iter().map(|it| (it.number, text(&it.content), it.is_chunk)).collect()
}

pub async fn a_finished_message_replaces_its_chunks(store: Arc<dyn Store>) {
    create(&*store, [running(1)]).await;
    change(&*store, vec![MessageChange::Added(message(1, "before")), chunk(2, 9, "on"), chunk(3, 9, "e")]).await;
    let all = MessageQuery::default;
    let growing = [(1, "before".to_owned(), false), (2, "on".to_owned(), true), (3, "e".to_owned(), true)];
    assert_eq!(texts(&*store, all()).await, growing);

    change(&*store, vec![MessageChange::Replaced(message(9, "one"))]).await;
    change(&*store, vec![MessageChange::Replaced(message(9, "once more"))]).await;

    assert_eq!(texts(&*store, all()).await, [(1, "before".to_owned(), false), (5, "once more".to_owned(), false)]);
    let after = MessageQuery { after: 1, ..all() };
    assert_eq!(texts(&*store, after).await, [(5, "once more".to_owned(), false)]);
    let kinds: Vec<String> =
        store.events_after(1, 10).await.expect("a read").iter().map(|it| it.kind.clone()).collect();
    assert_eq!(kinds, ["message.added", "message.chunk", "message.chunk", "message.added", "message.added"]);
}

pub async fn every_message_has_a_unique_time(store: Arc<dyn Store>) {
    create(&*store, [running(1)]).await;
    change(&*store, vec![MessageChange::Added(message(1, "a")), MessageChange::Added(message(2, "b"))]).await;
    change(&*store, vec![MessageChange::Added(message(3, "c"))]).await;

    let messages = store.messages(id(1), &MessageQuery::default()).await.expect("a read");
    let times: Vec<_> = messages.iter().map(|it| it.at).collect();
    assert_eq!(times, [NOW, at(1), at(2)]);
    let since = MessageQuery { since: Some(at(1)), ..MessageQuery::default() };
    assert_eq!(texts(&*store, since).await, [(3, "c".to_owned(), false)]);
    let before = |before, limit| MessageQuery { before: Some(before), limit: Some(limit), ..MessageQuery::default() };
    let (a, b, c) = ((1, "a".to_owned(), false), (2, "b".to_owned(), false), (3, "c".to_owned(), false));
    assert_eq!(texts(&*store, before(u64::MAX, 2)).await, [b, c], "the last ones, oldest first");
    assert_eq!(texts(&*store, before(2, 2)).await, [a]);
    // The activity time of the session was updated.
    assert_eq!(store.session(id(1)).await.expect("a read").expect("the session").updated_at, at(1));
}

pub async fn a_checkpoint_round_trips_and_drops_delivered_lines(store: Arc<dyn Store>) {
    create(&*store, [running(1)]).await;
    assert_eq!(store.acp_checkpoint(id(1)).await.expect("a read"), None);
    let lines = [(0, "one\n".to_owned()), (4, "zwölf\n".to_owned())];
    let first = AcpCheckpointUpdate {
        read_to: 7,
        written_to: 11,
        delivered_to: 0,
        active_at: None,
        state: Some("{}"),
        lines: &lines,
    };
    save(&*store, &first).await.expect("a checkpoint");
    // The second line is only half delivered: it stays in the outbox.
    let second =
        AcpCheckpointUpdate { read_to: 9, written_to: 11, delivered_to: 6, active_at: None, state: None, lines: &[] };
    save(&*store, &second).await.expect("a checkpoint");

    let kept = AcpCheckpoint { read_to: 9, written_to: 11, state: "{}".to_owned(), outbox: vec![lines[1].clone()] };
    assert_eq!(store.acp_checkpoint(id(1)).await.expect("a read"), Some(kept));
    let last = AcpCheckpointUpdate { delivered_to: 11, ..second };
    save(&*store, &last).await.expect("a checkpoint");
    assert_eq!(store.acp_checkpoint(id(1)).await.expect("a read").expect("the checkpoint").outbox, []);
}

async fn save(store: &dyn Store, progress: &AcpCheckpointUpdate<'_>) -> Result<(), StoreError> {
    let mut tx = store.begin_unsynced().await?;
    tx.save_acp_checkpoint(id(1), progress).await?;
    tx.commit().await.map(drop)
}

fn permission(nth: u32) -> Request {
    let id: RequestId = format!("{nth:08x}-0000-4000-b000-{nth:012x}").parse().expect("an id");
    let options = vec![PermissionOption { id: "y".into(), name: "Yes".into(), kind: "allow_once".into() }];
    let content = (options, json!({ "toolCallId": "c" }));
    let what = (id, RequestSource::Acp);
    Request::permission(what, super::samples::id(1), "touch x".into(), content, at(i64::from(nth)))
}

pub async fn pending_permissions_are_listed_oldest_first_until_answered(store: Arc<dyn Store>) {
    create(&*store, [running(1), running(2)]).await;
    for nth in [2, 1] {
        let change = Change::RequestChanged { request: permission(nth), event: "requested" };
        record(&*store, change).await.expect("a request");
    }
    let pending = store.requests(&RequestQuery::default()).await.expect("a read");
    assert_eq!(pending, [permission(1), permission(2)]);

    let mut answered = permission(1);
    answered.answered(RequestAnswer::Option("y".into()), AnsweredBy::From(id(2)), at(9)).expect("a pending request");
    let change = Change::RequestChanged { request: answered.clone(), event: "answered" };
    record(&*store, change).await.expect("an answer");

    let left = store.requests(&RequestQuery::default()).await.expect("a read");
    assert_eq!(left, [permission(2)]);
    let every = RequestQuery { scope: RequestScope::All, session: Some(id(1)), ..RequestQuery::default() };
    assert_eq!(store.requests(&every).await.expect("a read"), [answered.clone(), permission(2)]);
    let others = RequestQuery { session: Some(id(2)), ..every.clone() };
    assert_eq!(store.requests(&others).await.expect("a read"), []);
    let inputs = RequestQuery { kinds: vec![RequestKind::Input], ..every };
    assert_eq!(store.requests(&inputs).await.expect("a read"), []);
    let found = store.waiting_with_prefix("00000001-0", 10).await.expect("a read");
    assert_eq!(found, [WaitingItem::Request(Box::new(answered.clone()))]);
    let waiting = store.waiting(&WaitingQuery { limit: 10, ..WaitingQuery::default() }).await.expect("a read");
    assert_eq!(waiting, [WaitingItem::Request(Box::new(permission(2)))]);
    let mut tx = store.begin().await.expect("a transaction");
    assert_eq!(tx.request(answered.id).await.expect("a read"), Some(answered));
}

pub async fn a_sacrificed_acp_session_leaves_nothing(store: Arc<dyn Store>) {
    let over = Session { state: SessionState::Completed, ..running(1) };
    create(&*store, [over]).await;
    change(&*store, vec![MessageChange::Added(message(1, "a"))]).await;
    let lines = [(0, "one\n".to_owned())];
    let update = AcpCheckpointUpdate {
        read_to: 0,
        written_to: 4,
        delivered_to: 0,
        active_at: None,
        state: Some("{}"),
        lines: &lines,
    };
    save(&*store, &update).await.expect("a checkpoint");
    let change = Change::RequestChanged { request: permission(1), event: "requested" };
    record(&*store, change).await.expect("a request");

    record(&*store, Change::SessionSacrificed(id(1))).await.expect("a sacrifice");

    assert_eq!(store.messages(id(1), &MessageQuery::default()).await.expect("a read"), []);
    assert_eq!(store.acp_checkpoint(id(1)).await.expect("a read"), None);
    assert_eq!(store.requests(&RequestQuery::default()).await.expect("a read"), []);
}

pub async fn active_sessions_are_counted_by_channel_and_repo(store: Arc<dyn Store>) {
    record(&*store, Change::RepoAdded(repo(1))).await.expect("a repo");
    let acp = |session: Session| Session { channel: Channel::Acp, repo_id: Some(repo(1).id), ..session };
    let launching = Session { launching_at: Some(NOW), ..session(2) };
    let killed = Session { state: SessionState::Killed, ..running(3) };
    let over = Session { state: SessionState::Failed, exit_code: Some(1), ..running(4) };
    create(&*store, [acp(running(1)), acp(launching), acp(killed), acp(over), acp(session(5)), running(6)]).await;

    let mut tx = store.begin().await.expect("a transaction");
    assert_eq!(tx.active_sessions(Channel::Acp).await.expect("a count"), 2);
    assert_eq!(tx.active_sessions(Channel::Terminal).await.expect("a count"), 1);
    assert_eq!(tx.active_sessions_of(repo(1).id).await.expect("a count"), 2);
    assert_eq!(tx.active_sessions_of(repo(2).id).await.expect("a count"), 0);
}

pub async fn a_removed_repo_is_unlisted_but_still_found(store: Arc<dyn Store>) {
    for nth in [1, 2] {
        record(&*store, Change::RepoAdded(repo(nth))).await.expect("a repo");
    }
    let gone = coven_domain::repo::Repo { removed_at: Some(at(5)), ..repo(1) };
    record(&*store, Change::RepoChanged { repo: gone.clone(), event: "removed" }).await.expect("a removal");

    assert_eq!(store.repos().await.expect("a read"), [repo(2)]);
    assert_eq!(store.repo(repo(1).id).await.expect("a read"), Some(gone.clone()));
    let mut tx = store.begin().await.expect("a transaction");
    assert_eq!(tx.repo_at("/src/repo-1").await.expect("a read"), Some(gone));
    assert_eq!(tx.repo(repo(9).id).await.expect("a read"), None);
}
