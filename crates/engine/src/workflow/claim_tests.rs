//! Claims with a store that fails at each call in turn, and concurrent claims.

use std::sync::Arc;
use std::time::Duration;

use coven_domain::agent::AgentState;
use coven_domain::query::{AgentQuery, WorkflowQuery};
use coven_domain::task::{Task, TaskState};
use coven_domain::workflow::WorkflowState;
use coven_domain::{TaskId, Timestamp};
use coven_store::{Change, FaultInjectingStore, SqliteStore, Store, StoreError};
use coven_workflow::{BUILT_IN, WorkflowDefinition};
use uuid::Uuid;

use super::{Plan, claim};
use crate::error::EngineError;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn plan(limit: u64) -> Plan {
    Plan {
        definition: WorkflowDefinition::built_in(),
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
    let mut tx = store.begin().await.expect("begin transaction");
    let mut ids = Vec::new();
    for nth in 0..count {
        let id = TaskId::from_uuid(Uuid::from_u128(nth + 1));
        let task = Task::new(id, &format!("task {nth}"), NOW).expect("valid title");
        let changes = task.first_fields();
        tx.record(Change::TaskChanged { task, event: "created", changes, by: "test".into() }, NOW)
            .await
            .expect("record change");
        ids.push(id);
    }
    tx.commit().await.expect("commit");
    ids
}

async fn claim_one(store: &dyn Store, id: TaskId) -> Result<(), EngineError> {
    let mut tx = store.begin().await?;
    claim(&mut tx, id, &plan(10), NOW).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::test]
async fn store_15_a_claim_changes_nothing_if_any_store_call_fails() {
    let folder = tempfile::tempdir().expect("create temporary folder");
    let store = FaultInjectingStore::new(
        SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("create store"),
    );
    let calls = store.fault_plan();
    let id = add(&store, 1).await[0];
    let before = store.state_page(None, usize::MAX).await.expect("read state");
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
        assert_eq!(store.state_page(None, usize::MAX).await.expect("read state"), before, "after call {failed} failed");
    }
    // The transaction, task, dependencies, number of tasks in progress, three rows, commit.
    assert_eq!(failed, 8);
    let after = store.state_page(None, usize::MAX).await.expect("read state");
    assert_eq!((after.agents.len(), after.workflows.len(), after.event_number), (1, 1, before.event_number + 3));
    assert_eq!((after.tasks[0].state, after.agents[0].state), (TaskState::InProgress, AgentState::Starting));
    let run = &after.workflows[0];
    assert_eq!((run.progress.position.as_slice(), run.state), ([0].as_slice(), WorkflowState::Running));
    let claimed_by = after.tasks[0].claim.as_ref().map(|claim| claim.by.as_str());
    assert_eq!(claimed_by, Some(after.agents[0].id.to_string().as_str()));
    // A second claim fails.
    assert!(matches!(claim_one(&store, id).await, Err(EngineError::TaskNotReady { .. })));
}

/// Eight schedulers claim ready tasks as fast as they can.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_schedulers_claim_every_task_exactly_once() {
    const TASKS: u128 = 200;
    let folder = tempfile::tempdir().expect("create temporary folder");
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("create store"));
    add(store.as_ref(), TASKS).await;
    let mut schedulers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        schedulers.spawn(async move {
            let mut claimed = Vec::new();
            loop {
                // Read in a separate transaction, like a scheduler that runs git before it claims.
                let mut tx = store.begin().await.expect("begin transaction");
                let Some(task) = tx.ready_tasks(1).await.expect("read store").pop() else { return claimed };
                drop(tx);
                tokio::task::yield_now().await;
                let mut tx = store.begin().await.expect("begin transaction");
                match claim(&mut tx, task.id, &plan(1000), NOW).await {
                    Ok(_) => {
                        tx.commit().await.expect("commit");
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
    assert_eq!((count as u128, all.len() as u128), (TASKS, TASKS), "each task is claimed once");
    assert_eq!(store.agents(AgentQuery::Live, None, usize::MAX).await.expect("read store").items.len() as u128, TASKS);
}

#[tokio::test]
async fn the_task_limit_is_checked_inside_the_claim_transaction() {
    let folder = tempfile::tempdir().expect("create temporary folder");
    let store = SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("create store");
    let ids = add(&store, 3).await;
    for (nth, id) in ids.iter().enumerate() {
        let mut tx = store.begin().await.expect("begin transaction");
        let claimed = claim(&mut tx, *id, &plan(2), NOW).await;
        assert_eq!(claimed.is_ok(), nth < 2, "{claimed:?}");
        if claimed.is_ok() {
            tx.commit().await.expect("commit");
        }
    }
    let query = WorkflowQuery { limit: 10, ..WorkflowQuery::default() };
    assert_eq!(store.workflows(&query).await.expect("read store").items.len(), 2);
    assert_eq!(store.task(ids[2]).await.expect("read store").map(|task| task.state), Some(TaskState::Open));
}

/// A constraint of the database rejects a second live agent.
#[tokio::test]
async fn the_store_rejects_a_second_live_agent_of_a_task() {
    let folder = tempfile::tempdir().expect("create temporary folder");
    let store = SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("create store");
    let id = add(&store, 1).await[0];
    claim_one(&store, id).await.expect("claim task");
    let mut agent = store.agents(AgentQuery::Live, None, 1).await.expect("read store").items.remove(0);
    agent.id = coven_domain::AgentId::from_uuid(Uuid::from_u128(99));
    let mut tx = store.begin().await.expect("begin transaction");
    assert!(tx.record(Change::AgentChanged { agent, event: "starting" }, NOW).await.is_err());
}
