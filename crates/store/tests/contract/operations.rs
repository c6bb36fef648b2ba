//! Operations: written with events, listed newest first, at most one running per kind and record, expiring like events.

use std::sync::Arc;

use coven_domain::OperationId;
use coven_domain::operation::{
    Operation, OperationEnd, OperationError, OperationKind, OperationProgress, OperationState,
};
use coven_domain::query::OperationQuery;
use coven_domain::retention::Cutoffs;
use coven_store::{Change, Store, StoreError};
use serde_json::json;

use super::samples::*;

fn operation(nth: u32, kind: OperationKind, subject: Option<&str>) -> Operation {
    let id: OperationId = format!("{nth:08x}-0000-4000-a000-{nth:012x}").parse().expect("an id");
    Operation::new(id, kind, subject.map(str::to_owned), at(i64::from(nth)))
}

async fn write(store: &Arc<impl Store>, operation: &Operation, event: &'static str) -> Result<u64, StoreError> {
    let mut tx = store.begin().await?;
    let change = Change::OperationChanged { operation: operation.clone(), event };
    tx.record(change, operation.updated_at).await?;
    tx.commit().await
}

fn failed(mut operation: Operation) -> Operation {
    let details = Some(json!({ "conflicts": ["a.txt"] }));
    let error = OperationError { code: "merge_failed".to_owned(), message: "why".to_owned(), details };
    operation.end(OperationEnd::Failed(error), operation.created_at).expect("the operation is running");
    operation
}

pub async fn operations_round_trip(store: Arc<impl Store>) {
    let mut approval = operation(1, OperationKind::TaskApprove, Some("a"));
    write(&store, &approval, "started").await.expect("a row");
    let progress = OperationProgress { done: 1, total: Some(4), message: "merging".to_owned() };
    approval.progressed(progress, at(2)).expect("the operation is running");
    write(&store, &approval, "progress").await.expect("a row");
    assert_eq!(store.operation(approval.id).await.expect("a read"), Some(approval.clone()));
    let ended = failed(approval.clone());
    write(&store, &ended, "failed").await.expect("a row");
    assert_eq!(store.operation(approval.id).await.expect("a read"), Some(ended));
    let mut migration = operation(2, OperationKind::MigrateRun, None);
    migration.end(OperationEnd::Completed(r#"{"z":1,"a":2}"#.to_owned()), at(3)).expect("the operation is running");
    write(&store, &migration, "completed").await.expect("a row");
    assert_eq!(store.operation(migration.id).await.expect("a read"), Some(migration.clone()));
    assert_eq!(store.operation_ids_with_prefix("00000002-00", 9).await.expect("a read"), [migration.id]);
    let kinds: Vec<String> = store.events_after(0, 9).await.expect("a read").into_iter().map(|it| it.kind).collect();
    assert_eq!(kinds, ["operation.started", "operation.progress", "operation.failed", "operation.completed"]);
}

pub async fn operations_are_listed_newest_first_in_pages(store: Arc<impl Store>) {
    let all: Vec<Operation> = (1..=5)
        .map(|nth| match nth % 2 {
            0 => failed(operation(nth, OperationKind::TaskApprove, Some("a"))),
            _ => operation(nth, OperationKind::RetentionRun, None),
        })
        .collect();
    for it in &all {
        write(&store, it, "started").await.expect("a row");
    }
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let query = OperationQuery { after, limit: 2, ..OperationQuery::default() };
        let page = store.operations(&query).await.expect("a read");
        listed.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
        assert_eq!(after.expect("more").to_string().parse(), Ok(after.expect("more")));
    }
    assert_eq!(listed, all.iter().rev().cloned().collect::<Vec<_>>());
    let found = async |query: OperationQuery| {
        let page = store.operations(&OperationQuery { limit: 9, ..query }).await.expect("a read");
        page.items.len()
    };
    assert_eq!(found(OperationQuery { states: vec![OperationState::Failed], ..OperationQuery::default() }).await, 2);
    assert_eq!(
        found(OperationQuery { kinds: vec![OperationKind::RetentionRun], ..OperationQuery::default() }).await,
        3
    );
    assert_eq!(found(OperationQuery { subject: Some("a".to_owned()), ..OperationQuery::default() }).await, 2);
}

pub async fn one_operation_of_a_kind_runs_for_each_record(store: Arc<impl Store>) {
    let first = operation(1, OperationKind::TaskApprove, Some("a"));
    write(&store, &first, "started").await.expect("a row");
    let mut tx = store.begin().await.expect("a transaction");
    assert_eq!(tx.running_operation(OperationKind::TaskApprove, "a").await.expect("a read"), Some(first.clone()));
    assert_eq!(tx.running_operation(OperationKind::TaskApprove, "b").await.expect("a read"), None);
    drop(tx);
    write(&store, &operation(2, OperationKind::TaskApprove, Some("a")), "started").await.expect_err("one is running");
    write(&store, &failed(first), "failed").await.expect("a row");
    write(&store, &operation(3, OperationKind::TaskApprove, Some("a")), "started")
        .await
        .expect("the first operation ended");
}

pub async fn ended_operations_expire_with_the_events(store: Arc<impl Store>) {
    let (old, new, running) = (
        failed(operation(1, OperationKind::TaskApprove, Some("a"))),
        failed(operation(50, OperationKind::TaskApprove, Some("a"))),
        operation(2, OperationKind::TaskApprove, Some("b")),
    );
    for it in [&old, &new, &running] {
        write(&store, it, "started").await.expect("a row");
    }
    let cutoffs = Cutoffs { closed_tasks: None, deleted_tasks: None, completed_workflows: None, events: Some(at(20)) };
    let preview = store.sweep_preview(&cutoffs, at(60)).await.expect("a preview");
    let report = store.sweep(&cutoffs, at(60)).await.expect("a sweep");
    assert_eq!((preview.operations_deleted, report.operations_deleted), (1, 1));
    let left = store.operations(&OperationQuery { limit: 9, ..OperationQuery::default() }).await.expect("a read");
    assert_eq!(left.items, [new, running]);
}
