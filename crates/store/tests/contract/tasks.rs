//! Tasks: rows, links, order, readiness, history.

use std::sync::Arc;

use coven_domain::TaskId;
use coven_domain::event::EventBody;
use coven_domain::query::{AddedBy, TaskCursor, TaskPage, TaskQuery};
use coven_domain::retention::Cutoffs;
use coven_domain::task::{CANCELLED, Claim, FieldChange, Task, TaskEdit, TaskFact, TaskKind, TaskState, WorkSize};
use coven_domain::workflow::{WorkflowRun, WorkflowState};
use coven_store::{Change, Store};
use serde_json::json;

use super::samples::*;

fn task_id(nth: u32) -> TaskId {
    format!("{nth:08x}-0000-4000-a000-{nth:012x}").parse().expect("an id")
}

fn task(nth: u32) -> Task {
    Task::new(task_id(nth), &format!("task {nth}"), at(i64::from(nth))).expect("a title")
}

fn edited(nth: u32, edit: TaskEdit) -> Task {
    let mut task = task(nth);
    task.edit(edit, task.created_at).expect("a good edit");
    task
}

async fn written(store: &dyn Store, task: &Task, event: &'static str, changes: Vec<FieldChange>) {
    let change = Change::TaskChanged { task: task.clone(), event, changes, by: "user".into() };
    record(store, change).await.expect("a change");
}

async fn created(store: &dyn Store, task: &Task) {
    written(store, task, "created", task.first_fields()).await;
}

async fn listed(store: &dyn Store, query: TaskQuery) -> Vec<TaskId> {
    let query = TaskQuery { limit: 100, ..query };
    store.tasks(&query).await.expect("a read").tasks.iter().map(|task| task.id).collect()
}

pub async fn a_task_round_trips(store: Arc<dyn Store>) {
    created(&*store, &task(1)).await;
    created(&*store, &task(2)).await;
    let mut full = edited(
        3,
        TaskEdit {
            title: Some("naïve 'title'; DROP TABLE tasks".into()),
            body: Some("two\nlines".into()),
            kind: Some(TaskKind::Bug),
            priority: Some(0),
            parent: Some(Some(task_id(1))),
            depends_on: Some(vec![task_id(2), task_id(1)]),
            tags: Some(vec!["ui".into(), "a\"b".into()]),
            base_branch: Some(Some("main".into())),
            harness: Some(Some("claude".into())),
            args: Some(vec!["--model".into(), "o \"pus\"".into()]),
            workflow: Some(Some("implement".into())),
        },
    );
    full.claim = Some(Claim { by: "agent".into(), until: at(60_000) });
    full.state = TaskState::InProgress;
    full.base_commit = Some("abc".into());
    full.changes = Some(WorkSize { files: 2, additions: 12, deletions: 3 });
    full.merged = Some("abc..def".into());
    created(&*store, &full).await;
    assert_eq!(store.task(full.id).await.expect("a read"), Some(full.clone()));
    assert_eq!(store.task_ids_with_prefix("00000003", 5).await.expect("a read"), [full.id]);
    assert_eq!(
        store.task_dependencies(full.id).await.expect("a read"),
        [(task_id(1), TaskState::Open), (task_id(2), TaskState::Open)]
    );
    let mut tx = store.begin().await.expect("a transaction");
    assert_eq!(tx.task(full.id).await.expect("a read"), Some(full.clone()));
    assert_eq!(tx.task_dependents(task_id(2)).await.expect("a read"), [full.id]);
    assert_eq!(tx.task_children(task_id(1)).await.expect("a read"), [full.id]);
    drop(tx);
    // When the task is written again.
    let changes = full.apply(TaskFact::Closed, Some("done"), at(9)).expect("allowed");
    full.edit(TaskEdit { depends_on: Some(vec![]), ..TaskEdit::default() }, at(9)).expect("a good edit");
    written(&*store, &full, "closed", changes).await;
    assert_eq!(store.task(full.id).await.expect("a read"), Some(full));
}

pub async fn tasks_are_listed_by_priority_then_age_and_filtered(store: Arc<dyn Store>) {
    let urgent = edited(4, TaskEdit { priority: Some(0), tags: Some(vec!["ui".into()]), ..TaskEdit::default() });
    let child =
        edited(5, TaskEdit { parent: Some(Some(task_id(1))), kind: Some(TaskKind::Bug), ..TaskEdit::default() });
    for task in [&task(2), &task(1), &task(3), &urgent, &child] {
        created(&*store, task).await;
    }
    let all = TaskQuery::default;
    assert_eq!(listed(&*store, all()).await, [4, 1, 2, 3, 5].map(task_id));
    assert_eq!(listed(&*store, TaskQuery { tag: Some("ui".into()), ..all() }).await, [task_id(4)]);
    assert_eq!(listed(&*store, TaskQuery { kinds: vec![TaskKind::Bug], ..all() }).await, [task_id(5)]);
    assert_eq!(listed(&*store, TaskQuery { parent: Some(task_id(1)), ..all() }).await, [task_id(5)]);
    assert_eq!(listed(&*store, TaskQuery { priorities: vec![urgent.priority], ..all() }).await, [task_id(4)]);
    assert_eq!(listed(&*store, TaskQuery { states: vec![TaskState::Closed], ..all() }).await, []);
    assert_eq!(listed(&*store, TaskQuery { ids: vec![task_id(5), task_id(2)], ..all() }).await, [2, 5].map(task_id));
    // Pages after a cursor stay complete although tasks are deleted in between: 4, 1 | 3, 5.
    let first = store.tasks(&TaskQuery { limit: 2, ..all() }).await.expect("a read");
    let next = first.next.expect("more tasks follow");
    assert_eq!(first.total, Some(5));
    assert_eq!((next.to_string().parse(), "1.2".parse::<TaskCursor>().is_err()), (Ok(next), true));
    // When a task is deleted.
    let mut gone = task(2);
    gone.deleted_at = Some(at(10));
    written(&*store, &gone, "deleted", vec![]).await;
    assert_eq!(listed(&*store, all()).await, [4, 1, 3, 5].map(task_id));
    let mut gone_first = task(1);
    gone_first.deleted_at = Some(at(10));
    written(&*store, &gone_first, "deleted", vec![]).await;
    let rest = store.tasks(&TaskQuery { after: Some(next), limit: 2, ..all() }).await.expect("a read");
    let ids: Vec<TaskId> = rest.tasks.iter().map(|task| task.id).collect();
    assert_eq!((ids, rest.total, rest.next), ([3, 5].map(task_id).into(), None, None));
    assert_eq!(listed(&*store, TaskQuery { include_deleted: true, ..all() }).await.len(), 5);
    assert_eq!(store.task_ids_with_prefix("00000002", 5).await.expect("a read"), []);
}

pub async fn a_page_of_long_tasks_is_shorter_and_has_a_successor(store: Arc<dyn Store>) {
    let long = "x".repeat(1 << 20);
    for nth in 1..=9 {
        created(&*store, &edited(nth, TaskEdit { body: Some(long.clone()), ..TaskEdit::default() })).await;
    }
    let (mut after, mut sizes, mut ids) = (None, Vec::new(), Vec::new());
    loop {
        let query = TaskQuery { after, limit: 100, ..TaskQuery::default() };
        let TaskPage { tasks, next, .. } = store.tasks(&query).await.expect("a read");
        sizes.push(tasks.len());
        ids.extend(tasks.iter().map(|task| task.id));
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((sizes, ids), (vec![4, 4, 1], [1, 2, 3, 4, 5, 6, 7, 8, 9].map(task_id).into()));
}

pub async fn ready_tasks_are_open_without_open_dependencies(store: Arc<dyn Store>) {
    let dependent = edited(2, TaskEdit { depends_on: Some(vec![task_id(1)]), ..TaskEdit::default() });
    let mut claimed = task(3);
    claimed.state = TaskState::InProgress;
    claimed.claim = Some(Claim { by: "agent".into(), until: at(1) });
    for task in [&task(1), &dependent, &claimed] {
        created(&*store, task).await;
    }
    let ready = || TaskQuery { is_ready: true, ..TaskQuery::default() };
    assert_eq!(listed(&*store, ready()).await, [task_id(1)]);
    let mut done = task(1);
    done.apply(TaskFact::Closed, None, at(5)).expect("allowed");
    written(&*store, &done, "closed", vec![]).await;
    assert_eq!(listed(&*store, ready()).await, [task_id(2)]);
}

pub async fn a_reason_alone_does_not_keep_a_task_from_being_started(store: Arc<dyn Store>) {
    let mut written_by_a_user = task(1);
    written_by_a_user.reason = Some(CANCELLED.to_owned());
    let mut cancelled = task(2);
    cancelled.reason = Some(CANCELLED.to_owned());
    for task in [&written_by_a_user, &cancelled] {
        created(&*store, task).await;
    }
    let id = "00000002-0000-4000-b000-000000000002".parse().expect("an id");
    let mut run = WorkflowRun::new(id, cancelled.id, "implement", "", at(3));
    run.state = WorkflowState::Cancelled;
    record(&*store, Change::RunChanged { workflow: run, event: "cancelled" }).await.expect("a change");

    let ready = store.begin().await.expect("a transaction").ready_tasks(9).await.expect("a read");
    assert_eq!(ready.iter().map(|it| it.id).collect::<Vec<_>>(), [task_id(1)]);
}

pub async fn tasks_of_an_operation_are_listed_in_the_order_of_its_request(store: Arc<dyn Store>) {
    let operation = "00000009-0000-4000-b000-000000000009".parse().expect("an id");
    created(&*store, &task(9)).await;
    for (nth, priority) in [(3, 4), (1, 0), (2, 2)] {
        let task = edited(nth, TaskEdit { priority: Some(priority), ..TaskEdit::default() });
        let changes = task.first_fields();
        let added = Change::TaskAdded { task, changes, by: "user".into(), operation };
        record(&*store, added).await.expect("a change");
    }
    let query =
        |after, limit| TaskQuery { operation: Some(AddedBy { operation, after }), limit, ..TaskQuery::default() };
    let first = store.tasks(&query(None, 2)).await.expect("a read");
    assert_eq!(first.tasks.iter().map(|it| it.id).collect::<Vec<_>>(), [task_id(3), task_id(1)]);
    assert_eq!((first.total, first.next.is_some()), (Some(3), true));
    let rest = store.tasks(&query(Some(task_id(1)), 2)).await.expect("a read");
    assert_eq!(rest.tasks.iter().map(|it| it.id).collect::<Vec<_>>(), [task_id(2)]);
    assert_eq!((rest.total, rest.next), (None, None));
    // A change of a task keeps the operation that added it.
    let mut closed = rest.tasks[0].clone();
    closed.apply(TaskFact::Closed, None, at(9)).expect("allowed");
    written(&*store, &closed, "closed", vec![]).await;
    assert_eq!(store.tasks(&query(None, 9)).await.expect("a read").tasks.len(), 3);
}

pub async fn every_change_of_a_task_has_a_history_entry_and_an_event(store: Arc<dyn Store>) {
    let mut it = task(1);
    created(&*store, &it).await;
    let changes = it.edit(TaskEdit { priority: Some(1), ..TaskEdit::default() }, at(5)).expect("a good edit");
    written(&*store, &it, "updated", changes.clone()).await;
    let history = store.task_history(it.id, 0, 10).await.expect("a read");
    let entries: Vec<_> =
        history.iter().map(|it| (it.change.field.as_str(), it.change.new.clone(), it.by.as_str())).collect();
    assert_eq!(entries, [("title", json!("task 1"), "user"), ("priority", json!(1), "user")]);
    let rest = store.task_history(it.id, history[0].number, 10).await.expect("a read");
    assert_eq!(rest, history[1..]);
    let events = store.events_after(0, 10).await.expect("a read");
    let kinds: Vec<&str> = events.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["task.created", "task.updated"]);
    assert_eq!(events[1].payload, render(EventBody::Task { task: &it, changes: &changes, by: "user" }));
    // When its retention period has passed.
    it.deleted_at = Some(at(6));
    written(&*store, &it, "deleted", vec![]).await;
    let cutoffs = Cutoffs { deleted_tasks: Some(at(7)), ..NEVER };
    let range = store.event_range().await.expect("a read");
    let preview = store.sweep_preview(&cutoffs, at(7)).await.expect("a preview");
    assert_eq!(preview.tasks_deleted, [it.id.to_string()]);
    assert_eq!(store.event_range().await.expect("a read"), range);
    assert_eq!(store.task(it.id).await.expect("a read"), Some(it.clone()), "a preview deletes nothing");
    let swept = store.sweep(&cutoffs, at(7)).await.expect("a sweep");
    assert_eq!(swept.tasks_deleted, preview.tasks_deleted);
    assert_eq!(store.task(it.id).await.expect("a read"), None);
    assert_eq!(store.task_history(it.id, 0, 10).await.expect("a read"), []);
}
