//! Imports the state of an older coven in one transaction, then renames its files.

use std::collections::BTreeSet;
use std::sync::Arc;

use coven_domain::Timestamp;
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::query::AgentQuery;
use coven_domain::task::{FieldChange, Task, TaskState};
use coven_holder::clock;
use coven_interop::legacy::{self, Import, Known, Legacy, LegacyFile, LegacyFindings, import};
pub use coven_interop::legacy::{Counts, SkippedItem};
use coven_store::{Change, StoreError, Tx};

use super::Engine;
use crate::blocking::blocking;
use crate::error::EngineError;
use crate::operation::{OperationResult, Reporter};
use coven_holder::fault;

/// Actor recorded in the history.
const BY: &str = "migrate";
/// Reading, importing, renaming.
const STEPS: u64 = 3;

/// Result of an import, or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    pub taken: Counts,
    pub known: Counts,
    pub left: Vec<SkippedItem>,
    /// Files without anything to import.
    pub leftovers: Vec<SkippedItem>,
    /// Files with their old and new names.
    pub renamed: Vec<(String, String)>,
}

impl Engine {
    /// Starts the operation that imports the older coven's files.
    pub async fn start_migrate(self: &Arc<Self>, dry_run: bool) -> Result<Operation, EngineError> {
        self.start_operation(OperationKind::MigrateRun, async move |engine: Arc<Self>, report| {
            let done = engine.migrate(dry_run, &report).await?;
            Ok(Some(OperationResult::Migrated { done, dry_run }))
        })
        .await
    }

    /// Can be repeated: records that are already stored do not change, and only files that were imported completely are
    /// renamed.
    async fn migrate(&self, dry_run: bool, report: &Reporter) -> Result<Migrated, EngineError> {
        let home = self.home.clone();
        report.step(0, Some(STEPS), "reading the files of the older coven");
        let LegacyFindings { legacy, mut left, leftovers, files } =
            blocking(move || legacy::read(home.path(), home.project_root().as_deref())).await;
        report.step(1, Some(STEPS), "importing");
        let mut tx = self.store.begin().await?;
        let known = self.known(&mut tx, &legacy).await?;
        let import = import(&legacy, &known);
        let (taken, known) = (import.counts(), import.known);
        left.extend(import.left.iter().cloned());
        match dry_run || taken == Counts::default() {
            true => drop(tx),
            false => {
                write(&mut tx, import, clock::now()).await?;
                self.commit(tx).await?;
                fault::point("after_migrate");
            }
        }
        report.step(2, Some(STEPS), "renaming imported files");
        let unfinished: BTreeSet<String> = left.iter().map(|it| it.file.clone()).collect();
        let whole: Vec<LegacyFile> = files.into_iter().filter(|file| !unfinished.contains(&file.name)).collect();
        let renamed = match dry_run {
            true => whole.into_iter().map(|file| (file.name.clone(), file.aside_name())).collect(),
            false => {
                let (renamed, failed) = blocking(move || rename_imported(whole)).await;
                left.extend(failed);
                renamed
            }
        };
        tracing::info!(
            dry_run,
            ?taken,
            ?known,
            left = left.len(),
            leftovers = leftovers.len(),
            renamed = renamed.len(),
            "migrated"
        );
        Ok(Migrated { taken, known, left, leftovers, renamed })
    }

    /// Returns the records that are already stored.
    async fn known(&self, tx: &mut Box<dyn Tx>, legacy: &Legacy) -> Result<Known, EngineError> {
        let mut known = Known::default();
        for id in legacy.task_ids() {
            if tx.task(id).await?.is_none() {
                continue;
            }
            known.tasks.insert(id);
            if let Some(newest) = self.store.agents(AgentQuery::Task(id), None, usize::MAX).await?.items.last() {
                known.agent_of.insert(id, newest.id);
            }
        }
        for agent in &legacy.agents {
            known.agents.extend(tx.agent(agent.id()).await?.map(|agent| agent.id));
        }
        for workflow in &legacy.workflows {
            known.workflows.extend(tx.workflow(workflow.id()).await?.map(|workflow| workflow.id));
        }
        for question in &legacy.questions {
            known.questions.extend(tx.request(question.id()).await?.map(|question| question.id));
        }
        Ok(known)
    }
}

async fn write(tx: &mut Box<dyn Tx>, import: Import, now: Timestamp) -> Result<(), StoreError> {
    let event = "imported";
    for task in import.tasks {
        let changes = imported_fields(&task);
        tx.record(Change::TaskChanged { task, event, changes, by: BY.to_owned() }, now).await?;
    }
    for agent in import.agents {
        tx.record(Change::AgentChanged { agent, event }, now).await?;
    }
    for workflow in import.workflows {
        tx.record(Change::RunChanged { workflow, event }, now).await?;
    }
    for question in import.questions {
        tx.record(Change::RequestChanged { request: question, event }, now).await?;
    }
    Ok(())
}

/// Returns all fields that were set, and the state if it differs from a new task's.
fn imported_fields(task: &Task) -> Vec<FieldChange> {
    let new = Task { state: TaskState::Open, reason: None, deleted_at: None, ..task.clone() };
    [task.first_fields(), new.differences(task)].concat()
}

fn rename_imported(files: Vec<LegacyFile>) -> (Vec<(String, String)>, Vec<SkippedItem>) {
    let (mut renamed, mut failed) = (Vec::new(), Vec::new());
    for file in files {
        match file.rename_imported() {
            Ok(Some(to)) => renamed.push((file.name, to)),
            Ok(None) => {}
            Err(left) => failed.push(left),
        }
    }
    (renamed, failed)
}

#[cfg(test)]
mod tests {
    use coven_domain::agent::AgentState;
    use coven_interop::legacy::{LegacyAgent, LegacyQuestion, LegacyTask, Source};
    use coven_store::{FaultInjectingStore, SqliteStore, Store};

    use super::*;

    fn found() -> Legacy {
        let source = Source { file: "state.json".into(), line: None, modified_at: Timestamp::from_millis(1_000) };
        let agent = LegacyAgent {
            source: source.clone(),
            name: "a".into(),
            task: "a".into(),
            step: None,
            state: AgentState::Running,
            pid: None,
            worktree: None,
            branch: None,
            output_file: None,
            error: None,
            exit_code: None,
            started_at: None,
            ended_at: None,
        };
        let question = LegacyQuestion {
            source: source.clone(),
            id: "q".into(),
            task: "a".into(),
            kind: None,
            text: "?".into(),
            options: vec![],
            is_answered: false,
            answer: None,
            asked_at: None,
            answered_at: None,
        };
        let child = LegacyTask { parents: vec!["a".into()], ..LegacyTask::new(source.clone(), "b", TaskState::Open) };
        Legacy {
            tasks: vec![child, LegacyTask::new(source, "a", TaskState::InProgress)],
            agents: vec![agent],
            questions: vec![question],
            ..Legacy::default()
        }
    }

    async fn take(store: &FaultInjectingStore<SqliteStore>) -> Result<(), StoreError> {
        let mut tx = store.begin().await?;
        write(&mut tx, import(&found(), &Known::default()), Timestamp::from_millis(2_000)).await?;
        tx.commit().await.map(drop)
    }

    #[tokio::test]
    async fn store_02_a_failed_write_imports_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = FaultInjectingStore::new(
            SqliteStore::open(folder.path().join("coven.db"), |_| "{}".to_owned()).expect("a new store"),
        );
        let calls = store.fault_plan();
        // The transaction, two tasks, an agent, a question, the commit.
        for nth in 1..=6 {
            calls.fail_at(nth);
            assert!(take(&store).await.is_err(), "call {nth}");
            calls.fail_at(0);
            let state = store.state_page(None, usize::MAX).await.expect("a read");
            assert_eq!((state.event_number, state.tasks.len(), state.agents.len()), (0, 0, 0), "call {nth}");
        }
        take(&store).await.expect("no call fails");
        let state = store.state_page(None, usize::MAX).await.expect("a read");
        assert_eq!((state.tasks.len(), state.agents.len(), state.questions.len()), (2, 1, 1));
        assert_eq!(state.event_number, 4, "an event each");
    }
}
