//! Claiming under fire: every call of the store fails in turn, and many claim at once.

use std::sync::Arc;
use std::time::Duration;

use coven_domain::query::{AgentQuery, WorkflowQuery};
use coven_domain::task::{Task, TaskState};
use coven_domain::{TaskId, Timestamp};
use coven_store::{Change, Failing, SqliteStore, Store, StoreError};
use coven_workflow::{BUILT_IN, Definition};
use uuid::Uuid;

use super::{Plan, claim};
use crate::error::EngineError;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn plan(limit: u64) -> Plan {
    Plan {
        definition: Definition::built_in(),
        text: BUILT_IN.1.to_owned(),
        base: ("main".to_owned(), "0".repeat(40)),
        worktree: "/w".to_owned(),
        branch: "coven/x".to_owned(),
        lease: Duration::from_secs(1800),
        limit,
        by: "test".to_owned(),
    }
}

async fn add(store: &dyn Store, count: u128) -> Vec<TaskId> {
    let mut tx = store.begin().await.expect("the writer's turn");
    let mut ids = Vec::new();
    for nth in 0..count {
        let id = TaskId::from_uuid(Uuid::from_u128(nth + 1));
        let task = Task::new(id, &format!("task {nth}"), NOW).expect("a title");
        let changes = task.first_fields();
        tx.record(Change::TaskWritten { task, event: "created", changes, by: "test".into() }, NOW)
            .await
            .expect("a row");
        ids.push(id);
    }
    tx.commit().await.expect("a commit");
    ids
}

async fn claim_one(store: &dyn Store, id: TaskId) -> Result<(), EngineError> {
    let mut tx = store.begin().await?;
    claim(&mut tx, id, &plan(10), NOW).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::test]
async fn store_15_whatever_call_fails_nothing_of_a_claim_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let store =
        Failing::new(SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("a new store"));
    let calls = store.calls();
    let id = add(&store, 1).await[0];
    let before = store.snapshot().await.expect("a snapshot");
    let mut failed = 0;
    loop {
        calls.fail_at(failed + 1);
        let result = claim_one(&store, id).await;
        calls.fail_at(0);
        match result {
            Ok(()) => break,
            Err(EngineError::Store(StoreError::Injected { .. })) => failed += 1,
            Err(other) => panic!("{other}"),
        }
        assert_eq!(store.snapshot().await.expect("a snapshot"), before, "after call {failed} failed");
    }
    // Begin, task, dependencies, how many are at work, three rows, commit.
    assert_eq!(failed, 8);
    let after = store.snapshot().await.expect("a snapshot");
    assert_eq!((after.agents.len(), after.workflows.len(), after.event_number), (1, 1, before.event_number + 3));
    assert_eq!(
        (after.tasks[0]["status"].as_str(), after.agents[0]["status"].as_str()),
        (Some("in_progress"), Some("starting"))
    );
    assert_eq!((&after.workflows[0]["step"], &after.workflows[0]["status"]), (&0.into(), &"running".into()));
    assert_eq!(after.tasks[0]["claimed_by"], after.agents[0]["id"]);
    // Once is enough.
    assert!(matches!(claim_one(&store, id).await, Err(EngineError::TaskNotReady { .. })));
}

/// Eight schedulers, each taking whatever is ready as fast as it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_schedulers_give_every_task_out_once() {
    const TASKS: u128 = 200;
    let folder = tempfile::tempdir().expect("a folder");
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("a new store"));
    add(store.as_ref(), TASKS).await;
    let mut schedulers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        schedulers.spawn(async move {
            let mut claimed = Vec::new();
            loop {
                // Looked at before, as a scheduler does that asks git in between.
                let mut tx = store.begin().await.expect("the writer's turn");
                let Some(task) = tx.ready_tasks(1).await.expect("a read").pop() else { return claimed };
                drop(tx);
                tokio::task::yield_now().await;
                let mut tx = store.begin().await.expect("the writer's turn");
                match claim(&mut tx, task.id, &plan(1000), NOW).await {
                    Ok(_) => {
                        tx.commit().await.expect("a commit");
                        claimed.push(task.id);
                    }
                    Err(EngineError::TaskNotReady { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    let mut all: Vec<TaskId> = schedulers.join_all().await.concat();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!((count as u128, all.len() as u128), (TASKS, TASKS), "each task once");
    assert_eq!(store.agents(AgentQuery::Live).await.expect("a read").len() as u128, TASKS);
}

#[tokio::test]
async fn a_claim_is_counted_inside_its_transaction() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("a new store");
    let ids = add(&store, 3).await;
    for (nth, id) in ids.iter().enumerate() {
        let mut tx = store.begin().await.expect("the writer's turn");
        let claimed = claim(&mut tx, *id, &plan(2), NOW).await;
        assert_eq!(claimed.is_ok(), nth < 2, "{claimed:?}");
        if claimed.is_ok() {
            tx.commit().await.expect("a commit");
        }
    }
    let query = WorkflowQuery { limit: 10, ..WorkflowQuery::default() };
    assert_eq!(store.workflows(&query).await.expect("a read").len(), 2);
    assert_eq!(store.task(ids[2]).await.expect("a read").map(|task| task.state), Some(TaskState::Open));
}

/// Whoever writes, whatever they believe: the database itself refuses a second one.
#[tokio::test]
async fn two_living_agents_on_one_task_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("a new store");
    let id = add(&store, 1).await[0];
    claim_one(&store, id).await.expect("a claim");
    let mut agent = store.agents(AgentQuery::Live).await.expect("a read").remove(0);
    agent.id = coven_domain::AgentId::from_uuid(Uuid::from_u128(99));
    let mut tx = store.begin().await.expect("the writer's turn");
    assert!(tx.record(Change::AgentWritten { agent, event: "starting" }, NOW).await.is_err());
}
