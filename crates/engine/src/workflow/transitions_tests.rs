//! Ends of runs with a store that fails at each call in turn: task, agent and run change together or not at all.

use std::sync::Arc;

use coven_domain::agent::AgentFact;
use coven_domain::operation::OperationError;
use coven_domain::query::StatePage;
use coven_domain::task::Task;
use coven_domain::workflow::StepResult;
use coven_domain::{TaskId, Timestamp};
use coven_host::Home;
use coven_host::config::Config;
use coven_host::trust::Withheld;
use coven_interop::conversations::Conversations;
use coven_interop::questions::QuestionFolder;
use coven_store::fault_injection::FaultPlan;
use coven_store::{Change, FaultInjectingStore, SqliteStore, StoreError};
use coven_workflow::StepCompletion;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{NextAction, Stop, StopKind};
use crate::error::EngineError;
use crate::events::Hub;
use crate::operation::OperationRender;
use crate::workflow::Claimed;
use crate::workflow::claim::{Plan, claim};
use crate::{Engine, EngineDeps};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const ONE_SCRIPT: &str = "steps:\n  - { name: build, type: script, command: make }\n";
const TWO_STEPS: &str = "steps:\n  - { name: build, type: script, command: make }\n  - { name: land, type: merge }\n";

struct Fixture {
    _folder: tempfile::TempDir,
    engine: Arc<Engine>,
    calls: Arc<FaultPlan>,
    claimed: Claimed,
}

/// Creates an engine with a store that fails on demand and one task that runs this workflow.
async fn fixture(definition: &str) -> Fixture {
    let folder = tempfile::tempdir().expect("create temporary folder");
    let home = Home::at(&folder.path().join("p/.coven")).expect("valid home path");
    home.create().expect("create home");
    let store = FaultInjectingStore::new(SqliteStore::open(home.db(), |_| "{}".to_owned()).expect("create store"));
    let calls = store.fault_plan();
    let deps = EngineDeps {
        store: Arc::new(store),
        config: Config::default(),
        withheld: Withheld::default(),
        questions: QuestionFolder::at(folder.path().join("q")),
        conversations: Conversations::at(folder.path().join("c")),
        notifications: mpsc::channel(1).0,
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
    let engine = Arc::new(Engine::new(deps).expect("start engine"));
    let id = TaskId::from_uuid(Uuid::from_u128(1));
    let task = Task::new(id, "a task", NOW).expect("valid title");
    let mut tx = engine.store.begin().await.expect("begin transaction");
    tx.record(Change::TaskChanged { task, event: "created", changes: vec![], by: "t".into() }, NOW)
        .await
        .expect("record change");
    let plan = Plan {
        definition: coven_workflow::WorkflowDefinition::parse("x", definition).expect("valid workflow"),
        text: definition.to_owned(),
        base: ("main".to_owned(), "0".repeat(40)),
        worktree: "/w".to_owned(),
        branch: "coven/x".to_owned(),
        lease: std::time::Duration::from_secs(1800),
        limit: 3,
        by: "t".to_owned(),
    };
    let mut claimed = claim(&mut tx, id, &plan, NOW).await.expect("claim task");
    claimed.workflow.name = "x".to_owned();
    claimed.agent.apply(AgentFact::Started, None, NOW).expect("agent is starting");
    tx.record(Change::AgentChanged { agent: claimed.agent.clone(), event: "started" }, NOW)
        .await
        .expect("record change");
    tx.commit().await.expect("commit");
    Fixture { _folder: folder, engine, calls, claimed }
}

impl Fixture {
    async fn snapshot(&self) -> StatePage {
        self.engine.store.state_page(None, usize::MAX).await.expect("read state")
    }

    /// Runs `work` with a failure at each store call in turn until it succeeds,
    /// and asserts that a failure changes nothing.
    async fn failing_at_each_call<T>(&self, work: impl AsyncFn() -> Result<T, EngineError>) -> (u64, T) {
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
        unreachable!("`work` makes a finite number of store calls")
    }
}

fn states(snapshot: &StatePage) -> [&str; 3] {
    [snapshot.tasks[0].state.as_str(), snapshot.agents[0].state.as_str(), snapshot.workflows[0].state.as_str()]
}

fn success() -> StepCompletion {
    StepCompletion::Ended(StepResult { success: true, exit_code: Some(0), ..StepResult::default() })
}

#[tokio::test]
async fn store_16_a_workflow_completes_and_its_task_closes_together_or_not_at_all() {
    let fixture = fixture(ONE_SCRIPT).await;
    let (workflow, agent) = (fixture.claimed.workflow.id, fixture.claimed.agent.id);
    let (failed, after) = fixture
        .failing_at_each_call(async || {
            fixture.engine.end_step(workflow, agent, AgentFact::Succeeded, success(), None).await
        })
        .await;
    assert_eq!((failed, after), (8, NextAction::Over));
    let snapshot = fixture.snapshot().await;
    assert_eq!(states(&snapshot), ["closed", "completed", "completed"]);
    // Ending the step again changes nothing.
    let again = fixture
        .engine
        .end_step(workflow, agent, AgentFact::Failed, StepCompletion::Ended(StepResult::default()), None)
        .await;
    assert_eq!(again.expect("ignore the second end"), NextAction::Over);
    assert_eq!(fixture.snapshot().await, snapshot);
}

#[tokio::test]
async fn a_pending_merge_changes_all_three_rows_or_none() {
    let fixture = fixture(TWO_STEPS).await;
    let (workflow, agent) = (fixture.claimed.workflow.id, fixture.claimed.agent.id);
    fixture
        .failing_at_each_call(async || {
            fixture.engine.end_step(workflow, agent, AgentFact::Succeeded, success(), None).await
        })
        .await;
    assert_eq!(states(&fixture.snapshot().await), ["pending_merge", "completed", "pending_merge"]);
}

#[tokio::test]
async fn a_failed_step_blocks_its_task_with_the_reason_or_changes_nothing() {
    let fixture = fixture(ONE_SCRIPT).await;
    let (workflow, agent) = (fixture.claimed.workflow.id, fixture.claimed.agent.id);
    let failure = || {
        let error = Some("exit code 2".to_owned());
        StepCompletion::Ended(StepResult { error, exit_code: Some(2), ..StepResult::default() })
    };
    fixture
        .failing_at_each_call(async || {
            fixture.engine.end_step(workflow, agent, AgentFact::Failed, failure(), None).await
        })
        .await;
    let snapshot = fixture.snapshot().await;
    assert_eq!(states(&snapshot), ["blocked", "failed", "failed"]);
    assert_eq!(snapshot.tasks[0].reason.as_deref(), Some("build: exit code 2"));
    assert_eq!(snapshot.tasks[0].claim, None);
}

#[tokio::test]
async fn cancelling_a_run_changes_all_three_rows_or_none() {
    let fixture = fixture(ONE_SCRIPT).await;
    let stop = Stop { kind: StopKind::Cancel, by: "me".to_owned() };
    fixture.failing_at_each_call(async || fixture.engine.write_stop(fixture.claimed.workflow.id, &stop).await).await;
    assert_eq!(states(&fixture.snapshot().await), ["open", "killed", "cancelled"]);
    // An ended run cannot be cancelled.
    let again = fixture.engine.write_stop(fixture.claimed.workflow.id, &stop).await;
    assert!(matches!(again, Err(EngineError::WorkflowRefused(_))), "{again:?}");
}
