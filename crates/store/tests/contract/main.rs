//! The contract of every store. Each rule runs against each backend.

mod acp;
mod operations;
mod output;
mod question_sets;
#[path = "../samples/mod.rs"]
mod samples;
mod tasks;

use std::sync::Arc;

use acp::*;
use coven_domain::RequestId;
use coven_domain::activity::ActivityCheckpoint;
use coven_domain::event::EventBody;
use coven_domain::query::SweepPart;
use coven_domain::retention::Cutoffs;
use coven_domain::session::{EndIntent, ProcessIdentity, Session, SessionState};
use coven_domain::task::Task;
use coven_store::{Change, FaultInjectingStore, SqliteStore, Store, StoreError};
use operations::*;
use output::*;
use question_sets::*;
use samples::*;
use serde_json::json;
use tasks::*;

/// Runs each of these against each backend.
macro_rules! every_store {
    ($($rule:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let folder = tempfile::tempdir().expect("a folder");
                let store = coven_store::SqliteStore::open(folder.path().join("coven.db"), super::render).expect("a new store");
                super::$rule(std::sync::Arc::new(store)).await;
            })+
        }
        /// Checks that one runtime thread is enough, and that the decorator changes nothing unless a call must fail.
        mod failing_never {
            $(#[tokio::test]
            async fn $rule() {
                let folder = tempfile::tempdir().expect("a folder");
                let store = coven_store::SqliteStore::open(folder.path().join("coven.db"), super::render).expect("a new store");
                super::$rule(std::sync::Arc::new(coven_store::FaultInjectingStore::new(store))).await;
            })+
        }
    };
}

every_store!(
    operations_round_trip,
    operations_are_listed_newest_first_in_pages,
    one_operation_of_a_kind_runs_for_each_record,
    ended_operations_expire_with_the_events,
    a_session_round_trips,
    store_08_a_running_process_is_in_the_store_once_committed,
    store_10_every_change_has_one_event_in_the_same_transaction,
    a_dropped_transaction_leaves_nothing_and_no_gap_in_the_numbers,
    numbers_continue_after_every_event_has_expired,
    a_failed_write_rolls_back_the_whole_transaction,
    a_refusal_leaves_the_transaction_usable,
    the_ledger_stores_each_entry_once_and_refuses_gaps,
    the_newest_keyframe_at_or_before_an_offset_is_found,
    a_sacrificed_session_is_deleted_with_all_its_data,
    the_checkpoint_of_an_activity_is_replaced,
    ids_are_found_by_any_prefix,
    sessions_are_found_by_their_exact_title,
    sessions_to_recover_are_those_that_a_starting_daemon_must_check,
    repos_are_listed_oldest_first,
    store_11_events_are_found_by_number_and_by_time,
    store_01_a_snapshot_is_consistent,
    a_long_snapshot_is_streamed_in_consistent_pages,
    snapshot_pages_have_every_row_once,
    writers_are_serialized,
    store_17_old_events_are_deleted_and_an_event_reports_it,
    store_18_null_keeps_events_forever_and_zero_deletes_them_immediately,
    a_finished_message_replaces_its_chunks,
    every_message_has_a_unique_time,
    a_checkpoint_round_trips_and_drops_delivered_lines,
    pending_permissions_are_listed_oldest_first_until_answered,
    a_sacrificed_acp_session_leaves_nothing,
    active_sessions_are_counted_by_channel_and_repo,
    a_removed_repo_is_unlisted_but_still_found,
    question_sets_are_listed_oldest_first_and_every_change_has_an_event,
    an_unknown_question_set_cannot_be_removed,
    question_sets_are_in_the_snapshot,
    a_task_round_trips,
    tasks_are_listed_by_priority_then_age_and_filtered,
    a_page_of_long_tasks_is_shorter_and_has_a_successor,
    ready_tasks_are_open_without_open_dependencies,
    a_reason_alone_does_not_keep_a_task_from_being_started,
    tasks_of_an_operation_are_listed_in_the_order_of_its_request,
    every_change_of_a_task_has_a_history_entry_and_an_event,
    new_output_replaces_only_the_previous_output_event,
    the_range_starts_after_the_expired_events,
);

async fn a_session_round_trips(store: Arc<dyn Store>) {
    let repo = repo(1);
    record(&*store, Change::RepoAdded(repo.clone())).await.expect("a new repo");
    let full = Session {
        title: "naïve 'title' \"quoted\"; DROP TABLE sessions".into(),
        exit_code: Some(-3),
        process: Some(ProcessIdentity { pid: u32::MAX, started_ticks: 1 << 60, boot_id: "b".into() }),
        repo_id: Some(repo.id),
        archived_at: Some(at(7)),
        launching_at: Some(at(-9)),
        end_intent: Some(EndIntent::IdleTimeout),
        metadata: json!({"reason": "idle_timeout", "nested": {"list": [1, null, "ü"]}})
            .as_object()
            .cloned()
            .expect("an object"),
        ..session(1)
    };
    create(&*store, [full.clone(), session(2)]).await;

    assert_eq!(store.session(full.id).await.expect("a read"), Some(full.clone()));
    assert_eq!(store.session(id(2)).await.expect("a read"), Some(session(2)));
    assert_eq!(store.session(id(3)).await.expect("a read"), None);

    let changed = Session { title: "other".into(), archived_at: None, end_intent: None, repo_id: None, ..full };
    record(&*store, Change::SessionChanged { session: changed.clone(), event: "renamed" }).await.expect("a change");
    assert_eq!(store.session(changed.id).await.expect("a read"), Some(changed));
}

async fn store_08_a_running_process_is_in_the_store_once_committed(store: Arc<dyn Store>) {
    create(&*store, [session(1)]).await;

    let mut tx = store.begin().await.expect("a transaction");
    let mut it = tx.session(id(1)).await.expect("a read").expect("an existing session");
    it.spawned(ProcessIdentity { pid: 5, started_ticks: 6, boot_id: "b".into() }, NOW).expect("created may be spawned");
    tx.record(Change::SessionChanged { session: it.clone(), event: "spawned" }, NOW).await.expect("a change");
    // Only the transaction itself sees the change before the commit.
    assert_eq!(store.session(id(1)).await.expect("a read"), Some(session(1)));
    assert_eq!(tx.session(id(1)).await.expect("a read"), Some(it.clone()));
    tx.commit().await.expect("a commit");

    assert_eq!(store.session(id(1)).await.expect("a read"), Some(it));
}

async fn store_10_every_change_has_one_event_in_the_same_transaction(store: Arc<dyn Store>) {
    let payload = json!({"pid": 1});
    let mut killed = running(1);
    killed.killed(at(50)).expect("running may be killed");
    let changes = [
        Change::RepoAdded(repo(1)),
        Change::SessionCreated(running(1)),
        Change::SessionChanged { session: killed.clone(), event: "killed" },
        Change::SessionSacrificed(id(1)),
        Change::EventOnly { kind: "daemon.started".into(), subject: String::new(), payload: payload.clone() },
    ];

    let mut tx = store.begin().await.expect("a transaction");
    for change in changes {
        tx.record(change, NOW).await.expect("a change");
    }
    assert_eq!(store.events_after(0, 10).await.expect("a read"), []);
    assert_eq!(tx.commit().await.expect("a commit"), 5);

    let events = store.events_after(0, 10).await.expect("a read");
    let published: Vec<_> = events.iter().map(|it| (it.number, it.kind.as_str(), it.subject.clone())).collect();
    let session_id = id(1).to_string();
    assert_eq!(
        published,
        [
            (1, "repo.added", repo(1).id.to_string()),
            (2, "session.created", session_id.clone()),
            (3, "session.killed", session_id.clone()),
            (4, "session.sacrificed", session_id),
            (5, "daemon.started", String::new()),
        ]
    );
    let payloads: Vec<&str> = events.iter().map(|it| it.payload.as_str()).collect();
    let expected = [
        EventBody::Repo(&repo(1)),
        EventBody::Session(&running(1)),
        EventBody::Session(&killed),
        EventBody::Session(&killed),
        EventBody::Payload(&payload),
    ];
    assert_eq!(payloads, expected.map(render));
    assert!(events.iter().all(|it| it.at == NOW));
}

async fn a_dropped_transaction_leaves_nothing_and_no_gap_in_the_numbers(store: Arc<dyn Store>) {
    create(&*store, [session(1)]).await;

    let mut tx = store.begin().await.expect("a transaction");
    tx.record(Change::SessionCreated(session(2)), NOW).await.expect("a new session");
    tx.record(Change::SessionSacrificed(id(1)), NOW).await.expect("a sacrifice");
    drop(tx);

    assert_eq!(store.session(id(1)).await.expect("a read"), Some(session(1)));
    assert_eq!(store.session(id(2)).await.expect("a read"), None);
    assert_eq!(store.event_range().await.expect("a read"), 1..2);
    assert_eq!(record(&*store, Change::SessionCreated(session(3))).await.expect("a new session"), 2);
    assert_eq!(store.sessions(&Default::default()).await.expect("a read").total, 2);
}

async fn numbers_continue_after_every_event_has_expired(store: Arc<dyn Store>) {
    assert_eq!(store.event_range().await.expect("a read"), 1..1);
    create(&*store, [session(1), session(2)]).await;

    store.sweep(&Cutoffs { events: Some(at(1)), ..NEVER }, at(2)).await.expect("a sweep");
    let swept = store.sweep(&Cutoffs { events: Some(at(3)), ..NEVER }, at(4)).await.expect("a sweep");

    assert_eq!((swept.events_deleted, swept.event_number), (1, None));
    assert_eq!(store.event_range().await.expect("a read"), 4..4);
    assert_eq!(store.state_page(None, 1).await.expect("a read").event_number, 3);
    assert_eq!(record(&*store, Change::SessionCreated(session(3))).await.expect("a new session"), 4);
    assert_eq!(store.event_range().await.expect("a read"), 4..5);
}

async fn a_failed_write_rolls_back_the_whole_transaction(store: Arc<dyn Store>) {
    let mut tx = store.begin().await.expect("a transaction");
    tx.record(Change::SessionCreated(session(1)), NOW).await.expect("a new session");
    let twice = tx.record(Change::SessionCreated(session(1)), NOW).await;
    assert!(matches!(twice, Err(StoreError::Sql { .. })), "{twice:?}");

    let late = tx.record(Change::SessionCreated(session(2)), NOW).await;
    assert!(matches!(late, Err(StoreError::Aborted)), "{late:?}");
    assert!(matches!(tx.commit().await, Err(StoreError::Aborted)));

    assert_eq!(store.sessions(&Default::default()).await.expect("a read").total, 0);
    assert_eq!(store.event_range().await.expect("a read"), 1..1);
}

async fn a_refusal_leaves_the_transaction_usable(store: Arc<dyn Store>) {
    let mut tx = store.begin().await.expect("a transaction");
    let unknown = Change::SessionChanged { session: session(9), event: "killed" };
    assert!(matches!(tx.record(unknown, NOW).await, Err(StoreError::NotFound)));
    assert!(matches!(tx.record(Change::SessionSacrificed(id(9)), NOW).await, Err(StoreError::NotFound)));
    assert!(matches!(tx.append_entries(id(9), &[entry(1)]).await, Err(StoreError::NotFound)));
    assert!(matches!(tx.put_keyframe(id(9), 0, 1, 1, b"").await, Err(StoreError::NotFound)));
    tx.record(Change::SessionCreated(session(1)), NOW).await.expect("a new session");
    assert_eq!(tx.commit().await.expect("a commit"), 1);
}

async fn the_ledger_stores_each_entry_once_and_refuses_gaps(store: Arc<dyn Store>) {
    create(&*store, [session(1), session(2)]).await;
    let ledger: Vec<_> = (1..=9).map(entry).collect();
    assert_eq!(store.last_entry(id(1)).await.expect("a read"), 0);

    append(&*store, id(1), &ledger[..3]).await.expect("the first entries");
    append(&*store, id(1), &ledger[1..6]).await.expect("an overlapping range");
    append(&*store, id(1), &ledger[..2]).await.expect("nothing new");
    append(&*store, id(2), &ledger[..1]).await.expect("another ledger");
    let gap = append(&*store, id(1), &ledger[7..]).await;
    assert!(matches!(gap, Err(StoreError::Gap { expected: 7, got: 8 })), "{gap:?}");
    let torn = append(&*store, id(1), &[ledger[6].clone(), ledger[8].clone()]).await;
    assert!(matches!(torn, Err(StoreError::Gap { expected: 8, got: 9 })), "{torn:?}");

    assert_eq!(store.last_entry(id(1)).await.expect("a read"), 6);
    assert_eq!(store.entries(id(1), 0, 100).await.expect("a read"), ledger[..6]);
    assert_eq!(store.entries(id(1), 2, 3).await.expect("a read"), ledger[2..5]);
    assert_eq!(store.entries(id(1), 5, 1000).await.expect("a read"), ledger[5..6]);
    assert_eq!(store.entries(id(1), u64::MAX, 10).await.expect("a read"), []);
    assert_eq!(store.entries(id(9), 0, 10).await.expect("a read"), []);
    assert_eq!(store.last_entry(id(2)).await.expect("a read"), 1);
}

async fn the_newest_keyframe_at_or_before_an_offset_is_found(store: Arc<dyn Store>) {
    create(&*store, [session(1), session(2)]).await;
    let mut tx = store.begin().await.expect("a transaction");
    for (offset, screen) in [(100, "a"), (300, "first"), (200, "b"), (300, "again")] {
        tx.put_keyframe(id(1), offset, 40, 120, screen.as_bytes()).await.expect("a keyframe");
    }
    tx.commit().await.expect("a commit");

    let mut found = Vec::new();
    for offset in [99, 100, 250, 300, u64::MAX] {
        let keyframe = store.keyframe_before(id(1), offset).await.expect("a read");
        found.push(keyframe.map(|it| (it.offset, it.rows, it.cols, String::from_utf8(it.screen).expect("text"))));
    }
    let screen = |offset, text: &str| Some((offset, 40, 120, text.to_owned()));
    assert_eq!(found, [None, screen(100, "a"), screen(200, "b"), screen(300, "again"), screen(300, "again")]);
    assert_eq!(store.keyframe_before(id(2), 500).await.expect("a read"), None);

    // A screen that is too large is not stored; the previous keyframe is used.
    let before = store.keyframe_before(id(1), u64::MAX >> 1).await.expect("a read");
    let mut tx = store.begin().await.expect("a transaction");
    tx.put_keyframe(id(1), 1 << 40, 40, 120, &vec![b'x'; 17 << 20]).await.expect("not an error");
    tx.commit().await.expect("a commit");
    assert_eq!(store.keyframe_before(id(1), u64::MAX >> 1).await.expect("a read"), before);
}

async fn the_checkpoint_of_an_activity_is_replaced(store: Arc<dyn Store>) {
    create(&*store, [session(1), session(2)]).await;
    let checkpoint = |background, calls: &[u32]| ActivityCheckpoint {
        background,
        is_turn_over: background > 0,
        hook_calls: calls.iter().map(|nth| RequestId::from_uuid(*id(*nth).as_uuid())).collect(),
    };
    let put = async |nth, checkpoint: &ActivityCheckpoint| {
        let mut tx = store.begin().await.expect("a transaction");
        let put = tx.put_activity_checkpoint(id(nth), checkpoint).await;
        put.and(tx.commit().await.map(drop))
    };
    let read = async |nth| store.activity_checkpoint(id(nth)).await.expect("a read");
    assert_eq!(read(1).await, ActivityCheckpoint::default());

    put(1, &checkpoint(2, &[7])).await.expect("a checkpoint");
    put(2, &checkpoint(0, &[])).await.expect("a checkpoint");
    put(1, &checkpoint(1, &[7, 8])).await.expect("a checkpoint");

    assert_eq!((read(1).await, read(2).await), (checkpoint(1, &[7, 8]), checkpoint(0, &[])));
    assert!(matches!(put(9, &checkpoint(1, &[])).await, Err(StoreError::NotFound)));
    record(&*store, Change::SessionSacrificed(id(1))).await.expect("a sacrifice");
    assert_eq!(read(1).await, ActivityCheckpoint::default());
}

async fn a_sacrificed_session_is_deleted_with_all_its_data(store: Arc<dyn Store>) {
    create(&*store, [session(1), session(2)]).await;
    for nth in [1, 2] {
        append(&*store, id(nth), &[entry(1), entry(2)]).await.expect("a ledger");
        let mut tx = store.begin().await.expect("a transaction");
        tx.put_keyframe(id(nth), 1, 1, 1, b"x").await.expect("a keyframe");
        tx.commit().await.expect("a commit");
    }

    record(&*store, Change::SessionSacrificed(id(1))).await.expect("a sacrifice");

    assert_eq!(store.session(id(1)).await.expect("a read"), None);
    assert_eq!(store.entries(id(1), 0, 10).await.expect("a read"), []);
    assert_eq!(store.keyframe_before(id(1), 10).await.expect("a read"), None);
    assert_eq!(store.last_entry(id(2)).await.expect("a read"), 2);
    assert!(store.keyframe_before(id(2), 10).await.expect("a read").is_some());
    // A later session with the same id starts with an empty ledger.
    create(&*store, [session(1)]).await;
    assert_eq!(store.last_entry(id(1)).await.expect("a read"), 0);
}

async fn ids_are_found_by_any_prefix(store: Arc<dyn Store>) {
    create(&*store, [0xabcd_0001, 0xabcd_0002, 0xabce_0001, 0xffff_ffff].map(session)).await;
    let cases: [(&str, usize, &[u32]); 11] = [
        ("abcd", 10, &[0xabcd_0001, 0xabcd_0002]),
        ("ABCD0001", 10, &[0xabcd_0001]),
        ("abcd0001-", 10, &[0xabcd_0001]),
        ("abcd00010", 10, &[0xabcd_0001]),
        ("abcd0001-0000-4", 10, &[0xabcd_0001]),
        ("abcd00010000400080000000abcd0001", 10, &[0xabcd_0001]),
        ("f", 10, &[0xffff_ffff]),
        ("abc", 2, &[0xabcd_0001, 0xabcd_0002]),
        ("abcd00010000400080000000abcd00010", 10, &[]),
        ("%", 10, &[]),
        ("xyz", 10, &[]),
    ];
    for (prefix, limit, expected) in cases {
        let found = store.session_ids_with_prefix(prefix, limit).await.expect("a read");
        assert_eq!(found, expected.iter().map(|nth| id(*nth)).collect::<Vec<_>>(), "{prefix}");
    }
    assert_eq!(store.session_ids_with_prefix("", 10).await.expect("a read").len(), 4);
}

async fn sessions_are_found_by_their_exact_title(store: Arc<dyn Store>) {
    let titled = |nth, title: &str| Session { title: title.to_owned(), ..session(nth) };
    create(&*store, [titled(1, "Fix it"), titled(2, "Fix it"), titled(3, "Fix it all")]).await;
    let found = async |title: &str, limit| {
        let sessions = store.sessions_with_title(title, limit).await.expect("a read");
        sessions.into_iter().map(|session| session.id).collect::<Vec<_>>()
    };
    assert_eq!(found("Fix it", 10).await, [id(2), id(1)]);
    assert_eq!(found("Fix it", 1).await, [id(2)]);
    assert_eq!(found("Fix it all", 10).await, [id(3)]);
    assert!(found("Fix", 10).await.is_empty());
}

async fn sessions_to_recover_are_those_that_a_starting_daemon_must_check(store: Arc<dyn Store>) {
    let with = |nth, state| Session { state, ..session(nth) };
    let launching = Session { launching_at: Some(NOW), ..session(2) };
    let dying = with(3, SessionState::Killed);
    let reaped = Session { exit_code: Some(143), ..with(4, SessionState::Killed) };
    create(&*store, [session(1), launching.clone(), dying.clone(), reaped, running(5)]).await;
    create(
        &*store,
        [SessionState::Completed, SessionState::Failed, SessionState::Orphaned]
            .map(|state| with(10 + state as u32, state)),
    )
    .await;

    assert_eq!(store.sessions_to_recover().await.expect("a read"), [launching, dying, running(5)]);
}

async fn repos_are_listed_oldest_first(store: Arc<dyn Store>) {
    let mut first = repo(2);
    first.created_at = at(-5);
    record(&*store, Change::RepoAdded(repo(1))).await.expect("a new repo");
    record(&*store, Change::RepoAdded(first.clone())).await.expect("a new repo");
    assert_eq!(store.repos().await.expect("a read"), [first, repo(1)]);
}

async fn store_11_events_are_found_by_number_and_by_time(store: Arc<dyn Store>) {
    for (nth, millis) in [(1, 10), (2, 20), (3, 20), (4, 30)] {
        assert_eq!(note(&*store, &format!("test.{nth}"), at(millis)).await, nth);
    }
    let numbers = |events: Vec<coven_domain::event::Event>| events.iter().map(|it| it.number).collect::<Vec<_>>();
    assert_eq!(numbers(store.events_after(0, 2).await.expect("a read")), [1, 2]);
    assert_eq!(numbers(store.events_after(2, 1000).await.expect("a read")), [3, 4]);
    assert_eq!(numbers(store.events_after(u64::MAX, 10).await.expect("a read")), [0; 0]);
    assert_eq!(store.event_range().await.expect("a read"), 1..5);
    for (millis, number) in [(9, 0), (10, 1), (19, 1), (20, 3), (29, 3), (1000, 4)] {
        assert_eq!(store.event_number_at(at(millis)).await.expect("a read"), number, "at {millis}");
    }
}

async fn store_01_a_snapshot_is_consistent(store: Arc<dyn Store>) {
    // Every commit adds two sessions and two events: an inconsistent snapshot would have an odd or different count.
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for pair in 0..40 {
                create(&*store, [session(pair * 2), session(pair * 2 + 1)]).await;
            }
        }
    });
    while !writer.is_finished() {
        let snapshot = store.state_page(None, usize::MAX).await.expect("a read");
        assert_eq!(snapshot.sessions.len() as u64, snapshot.event_number);
        assert_eq!(snapshot.event_number % 2, 0);
    }
    writer.await.expect("the writer ends");
    let snapshot = store.state_page(None, usize::MAX).await.expect("a read");
    assert_eq!((snapshot.event_number, snapshot.sessions.len()), (80, 80));
    assert_eq!((snapshot.tasks.len(), snapshot.agents.len()), (0, 0));
}

async fn a_long_snapshot_is_streamed_in_consistent_pages(store: Arc<dyn Store>) {
    create(&*store, (0..700).map(session)).await;
    let mut pages = store.state().await.expect("a read");
    let first = pages.recv().await.expect("a page").expect("a read");
    // A session created in the meantime is not included.
    create(&*store, [session(1000)]).await;
    let rest = pages.recv().await.expect("a page").expect("a read");
    assert_eq!((first.sessions.len(), rest.sessions.len()), (500, 200));
    assert_eq!((first.event_number, rest.event_number, rest.next), (700, 700, None));
    assert!(pages.recv().await.is_none());
}

async fn snapshot_pages_have_every_row_once(store: Arc<dyn Store>) {
    create(&*store, [session(1), session(2), session(3)]).await;
    for nth in [1, 2, 3] {
        let task = Task::new(format!("{nth:08x}-0000-4000-a000-{nth:012x}").parse().expect("an id"), "t", at(nth));
        let change =
            Change::TaskChanged { task: task.expect("a title"), event: "created", changes: vec![], by: "me".into() };
        record(&*store, change).await.expect("a change");
    }
    for limit in 1..=7 {
        let (mut after, mut sessions, mut tasks) = (None, Vec::new(), Vec::new());
        loop {
            let page = store.state_page(after, limit).await.expect("a read");
            assert!(page.sessions.len() + page.tasks.len() <= limit, "at most {limit}");
            sessions.extend(page.sessions.iter().map(|it| it.id));
            tasks.extend(page.tasks.iter().map(|it| it.id.short()));
            after = page.next;
            assert_eq!(after.map(|place| place.to_string().parse()), after.map(Ok));
            if after.is_none() {
                break;
            }
        }
        assert_eq!(sessions, [1, 2, 3].map(id), "limit {limit}");
        assert_eq!(tasks, ["00000001", "00000002", "00000003"], "limit {limit}");
    }
}

async fn writers_are_serialized(store: Arc<dyn Store>) {
    create(&*store, [session(1)]).await;
    let mut writers = Vec::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        writers.push(tokio::spawn(async move {
            for _ in 0..5 {
                let mut tx = store.begin().await.expect("a transaction");
                let mut it = tx.session(id(1)).await.expect("a read").expect("an existing session");
                // A concurrent writer would lose one of the two additions.
                tokio::task::yield_now().await;
                let so_far = it.metadata.get("count").and_then(|count| count.as_u64()).unwrap_or(0);
                it.metadata.insert("count".into(), json!(so_far + 1));
                tx.record(Change::SessionChanged { session: it, event: "counted" }, NOW).await.expect("a change");
                tx.commit().await.expect("a commit");
            }
        }));
    }
    for writer in writers {
        writer.await.expect("the writer ends");
    }
    let it = store.session(id(1)).await.expect("a read").expect("an existing session");
    assert_eq!(it.metadata["count"], 40);
    assert_eq!(store.event_range().await.expect("a read"), 1..42);
}

async fn store_17_old_events_are_deleted_and_an_event_reports_it(store: Arc<dyn Store>) {
    for (nth, millis) in [(1, 10), (2, 90), (3, 20), (4, 100)] {
        note(&*store, &format!("test.{nth}"), at(millis)).await;
    }

    let report = store.sweep(&Cutoffs { events: Some(at(50)), ..NEVER }, at(1000)).await.expect("a sweep");

    // Event 3 is old too, but it follows event 2, which is kept: the range has no gaps.
    assert_eq!((report.events_deleted, report.event_number), (1, Some(5)));
    let events = store.events_after(0, 10).await.expect("a read");
    assert_eq!(events.iter().map(|it| it.number).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!((events[3].kind.as_str(), events[3].at), ("retention.swept", at(1000)));
    let swept = SweepPart { events_deleted: 1, ..SweepPart::default() };
    assert_eq!(events[3].payload, render(EventBody::Swept(swept)));
    let again = store.sweep(&Cutoffs { events: Some(at(50)), ..NEVER }, at(1001)).await.expect("a sweep");
    assert_eq!(again, Default::default());
    assert_eq!(store.event_range().await.expect("a read"), 2..6);
}

async fn store_18_null_keeps_events_forever_and_zero_deletes_them_immediately(store: Arc<dyn Store>) {
    create(&*store, [session(1)]).await;
    let report = store.sweep(&NEVER, at(i64::from(i32::MAX))).await.expect("a sweep");
    assert_eq!(report, Default::default());
    assert_eq!(store.event_range().await.expect("a read"), 1..2);
    let report = store.sweep(&Cutoffs { events: Some(NOW), ..NEVER }, NOW).await.expect("a sweep");
    assert_eq!(report.events_deleted, 1);
}

/// Fails every call in turn: afterwards the change is stored completely or not at all.
#[tokio::test]
async fn a_failure_at_any_call_leaves_all_or_nothing() {
    async fn launch(store: &dyn Store) -> Result<(), StoreError> {
        let mut tx = store.begin().await?;
        tx.record(Change::SessionCreated(session(1)), NOW).await?;
        let mut it = tx.session(id(1)).await?.ok_or(StoreError::NotFound)?;
        it.spawned(ProcessIdentity { pid: 5, started_ticks: 6, boot_id: "b".into() }, NOW)
            .expect("created may be spawned");
        tx.record(Change::SessionChanged { session: it, event: "spawned" }, NOW).await?;
        tx.append_entries(id(1), &[entry(1)]).await?;
        tx.put_keyframe(id(1), 0, 24, 80, b"").await?;
        tx.commit().await?;
        store.session(id(1)).await.map(|_| ())
    }
    let mut tried = 0;
    for nth in 1.. {
        let folder = tempfile::tempdir().expect("a folder");
        let store =
            FaultInjectingStore::new(SqliteStore::open(folder.path().join("coven.db"), render).expect("a new store"));
        store.fault_plan().fail_at(nth);
        let outcome = launch(&store).await;
        let calls = store.fault_plan().made();
        store.fault_plan().fail_at(0);

        let events = store.events_after(0, 10).await.expect("a read").len();
        let entries = store.last_entry(id(1)).await.expect("a read");
        let state = store.session(id(1)).await.expect("a read").map(|it| it.state);
        match outcome {
            Ok(()) => {
                assert_eq!((state, events, entries), (Some(SessionState::Running), 2, 1));
                break;
            }
            Err(StoreError::Injected { call }) => {
                assert_eq!((call, calls), (nth, nth));
                let complete = (Some(SessionState::Running), 2, 1);
                assert!((state, events, entries) == (None, 0, 0) || (state, events, entries) == complete);
            }
            Err(other) => panic!("call {nth}: {other}"),
        }
        tried += 1;
    }
    assert_eq!(tried, 8);
}
