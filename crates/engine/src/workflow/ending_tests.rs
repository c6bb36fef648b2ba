//! Ends of runs under fire: every call of the store fails in turn, and task, agent and run stay what they were together.

use std::sync::Arc;

use coven_domain::agent::AgentFact;
use coven_domain::operation::OperationError;
use coven_domain::query::StateSnapshot;
use coven_domain::task::Task;
use coven_domain::workflow::StepResult;
use coven_domain::{TaskId, Timestamp};
use coven_host::Home;
use coven_host::config::Config;
use coven_host::trust::Withheld;
use coven_interop::conversations::Conversations;
use coven_interop::questions::QuestionFolder;
use coven_store::failing::Calls;
use coven_store::{Change, Failing, SqliteStore, StoreError};
use coven_workflow::StepOver;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{After, Stop, StopKind};
use crate::error::EngineError;
use crate::events::Hub;
use crate::operation::OperationRender;
use crate::workflow::Claimed;
use crate::workflow::claim::{Plan, claim};
use crate::{Engine, Parts};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const ONE_SCRIPT: &str = "steps:\n  - { name: build, type: script, command: make }\n";
const TWO_STEPS: &str = "steps:\n  - { name: build, type: script, command: make }\n  - { name: land, type: merge }\n";

struct Bench {
    _folder: tempfile::TempDir,
    engine: Arc<Engine>,
    calls: Arc<Calls>,
    claimed: Claimed,
}

/// An engine over a store that fails on demand, with one task that runs by this file.
async fn bench(definition: &str) -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::at(&folder.path().join("p/.coven")).expect("a home");
    home.create().expect("room on disk");
    let store = Failing::new(SqliteStore::open(home.db(), |_| "{}".to_owned()).expect("a new store"));
    let calls = store.calls();
    let parts = Parts {
        store: Arc::new(store),
        config: Config::default(),
        withheld: Withheld::default(),
        questions: QuestionFolder::at(folder.path().join("q")),
        conversations: Conversations::at(folder.path().join("c")),
        arrivals: mpsc::channel(1).0,
        operation_render: OperationRender {
            result: |_| "{}".to_owned(),
            error: |error| OperationError { code: "failed".to_owned(), message: error.to_string(), details: None },
        },
        hub: Arc::new(Hub::new(0, |_, _| 0..0)),
        program: "/bin/true".into(),
        open_files: None,
        background: tokio::runtime::Handle::current(),
        home,
    };
    let engine = Arc::new(Engine::new(parts).expect("threads"));
    let id = TaskId::from_uuid(Uuid::from_u128(1));
    let task = Task::new(id, "a task", NOW).expect("a title");
    let mut tx = engine.store.begin().await.expect("the writer's turn");
    tx.record(Change::TaskWritten { task, event: "created", changes: vec![], by: "t".into() }, NOW)
        .await
        .expect("a row");
    let plan = Plan {
        definition: coven_workflow::Definition::parse("x", definition).expect("a sound file"),
        text: definition.to_owned(),
        base: ("main".to_owned(), "0".repeat(40)),
        worktree: "/w".to_owned(),
        branch: "coven/x".to_owned(),
        lease: std::time::Duration::from_secs(1800),
        limit: 3,
        by: "t".to_owned(),
    };
    let mut claimed = claim(&mut tx, id, &plan, NOW).await.expect("a claim");
    claimed.workflow.name = "x".to_owned();
    claimed.agent.apply(AgentFact::Started, None, NOW).expect("it was starting");
    tx.record(Change::AgentWritten { agent: claimed.agent.clone(), event: "started" }, NOW).await.expect("a row");
    tx.commit().await.expect("a commit");
    Bench { _folder: folder, engine, calls, claimed }
}

impl Bench {
    async fn snapshot(&self) -> StateSnapshot {
        self.engine.store.snapshot().await.expect("a snapshot")
    }

    /// Lets each call of `work` fail in turn until it succeeds; nothing may have changed before.
    async fn under_fire<T>(&self, work: impl AsyncFn() -> Result<T, EngineError>) -> (u64, T) {
        let before = self.snapshot().await;
        for nth in 1.. {
            self.calls.fail_at(nth);
            let result = work().await;
            self.calls.fail_at(0);
            match result {
                Ok(done) => return (nth - 1, done),
                Err(EngineError::Store(StoreError::Injected { .. })) => {}
                Err(other) => panic!("{other}"),
            }
            assert_eq!(self.snapshot().await, before, "after call {nth} failed");
        }
        unreachable!("a work has an end")
    }
}

fn states(snapshot: &StateSnapshot) -> [&str; 3] {
    [&snapshot.tasks, &snapshot.agents, &snapshot.workflows].map(|rows| rows[0]["status"].as_str().unwrap_or_default())
}

fn success() -> StepOver {
    StepOver::Ended(StepResult { success: true, exit_code: Some(0), ..StepResult::default() })
}

#[tokio::test]
async fn store_16_a_workflow_completes_and_its_task_closes_together_or_not_at_all() {
    let bench = bench(ONE_SCRIPT).await;
    let (workflow, agent) = (bench.claimed.workflow.id, bench.claimed.agent.id);
    let (failed, after) = bench
        .under_fire(async || bench.engine.end_step(workflow, agent, AgentFact::Succeeded, success(), None).await)
        .await;
    assert_eq!((failed, after), (8, After::Over));
    let snapshot = bench.snapshot().await;
    assert_eq!(states(&snapshot), ["closed", "completed", "completed"]);
    // Told twice, it happens once.
    let again =
        bench.engine.end_step(workflow, agent, AgentFact::Failed, StepOver::Ended(StepResult::default()), None).await;
    assert_eq!(again.expect("nothing to do"), After::Over);
    assert_eq!(bench.snapshot().await, snapshot);
}

#[tokio::test]
async fn a_merge_is_awaited_by_all_three_or_by_none() {
    let bench = bench(TWO_STEPS).await;
    let (workflow, agent) = (bench.claimed.workflow.id, bench.claimed.agent.id);
    bench
        .under_fire(async || bench.engine.end_step(workflow, agent, AgentFact::Succeeded, success(), None).await)
        .await;
    assert_eq!(states(&bench.snapshot().await), ["pending_merge", "completed", "pending_merge"]);
}

#[tokio::test]
async fn a_failed_step_blocks_its_task_with_the_reason_or_changes_nothing() {
    let bench = bench(ONE_SCRIPT).await;
    let (workflow, agent) = (bench.claimed.workflow.id, bench.claimed.agent.id);
    let failure = || {
        let error = Some("exit code 2".to_owned());
        StepOver::Ended(StepResult { error, exit_code: Some(2), ..StepResult::default() })
    };
    bench.under_fire(async || bench.engine.end_step(workflow, agent, AgentFact::Failed, failure(), None).await).await;
    let snapshot = bench.snapshot().await;
    assert_eq!(states(&snapshot), ["blocked", "failed", "failed"]);
    assert_eq!(snapshot.tasks[0]["reason"], "build: exit code 2");
    assert!(snapshot.tasks[0]["claimed_by"].is_null());
}

#[tokio::test]
async fn a_cancelled_run_ends_for_all_three_or_for_none() {
    let bench = bench(ONE_SCRIPT).await;
    let stop = Stop { kind: StopKind::Cancel, by: "me".to_owned() };
    bench.under_fire(async || bench.engine.write_stop(bench.claimed.workflow.id, &stop).await).await;
    assert_eq!(states(&bench.snapshot().await), ["open", "killed", "cancelled"]);
    // A run that is over cannot be cancelled.
    let again = bench.engine.write_stop(bench.claimed.workflow.id, &stop).await;
    assert!(matches!(again, Err(EngineError::WorkflowRefused(_))), "{again:?}");
}
