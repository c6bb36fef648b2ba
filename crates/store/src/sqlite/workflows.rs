//! Rows of `workflows`: runs, with everything needed to resume them.

use coven_domain::workflow::{RunProgress, WorkflowRun};
use coven_domain::{TaskId, Timestamp, WorkflowId};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use super::{RowsAfter, count, from_json, parsed, to_json};
use crate::StoreError;
use coven_domain::query::{Page, WorkflowQuery};

const COLUMNS: &str =
    "id, task_id, agent_id, name, state, definition, progress, error, created_at, updated_at, ended_at";

pub(super) fn put(connection: &Connection, workflow: &WorkflowRun) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO workflows (id, task_id, agent_id, name, state, step, definition, progress, error, created_at,
                updated_at, ended_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (id) DO UPDATE SET agent_id = ?3, state = ?5, step = ?6, progress = ?8, error = ?9,
                updated_at = ?11, ended_at = ?12",
        )?
        .execute(params![
            workflow.id.to_string(),
            workflow.task.to_string(),
            workflow.agent.map(|id| id.to_string()),
            workflow.name,
            workflow.state.as_str(),
            count(workflow.progress.position.first().copied().unwrap_or(0)),
            workflow.definition,
            to_json(&workflow.progress),
            workflow.error,
            workflow.created_at.as_millis(),
            workflow.updated_at.as_millis(),
            workflow.ended_at.map(Timestamp::as_millis),
        ])?;
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: WorkflowId) -> Result<Option<WorkflowRun>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM workflows WHERE id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

/// A task's newest run.
pub(super) fn latest_of(connection: &Connection, task: TaskId) -> Result<Option<WorkflowRun>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM workflows WHERE task_id = ?1 ORDER BY created_at DESC, rowid DESC LIMIT 1"
    ))?;
    let mut rows = statement.query([task.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

pub(super) fn rows_after(
    connection: &Connection,
    row: i64,
    limit: usize,
) -> Result<RowsAfter<WorkflowRun>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, rowid FROM workflows WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
    super::rows_after(connection, &sql, row, limit, from_row, |run| run.definition.len())
}

/// Newest first.
pub(super) fn page(connection: &Connection, query: &WorkflowQuery) -> Result<Page<WorkflowRun>, StoreError> {
    let (mut parts, mut values): (Vec<String>, Vec<Value>) = (vec!["1".to_owned()], Vec::new());
    if !query.states.is_empty() {
        parts.push(format!("state IN ({})", vec!["?"; query.states.len()].join(", ")));
        values.extend(query.states.iter().map(|state| Value::from(state.as_str().to_owned())));
    }
    if let Some(task) = query.task {
        parts.push("task_id = ?".to_owned());
        values.push(task.to_string().into());
    }
    if let Some(place) = query.after {
        parts.push("(created_at, rowid) < (?, ?)".to_owned());
        values.extend([place.at.as_millis().into(), place.row.into()]);
    }
    let from = format!("SELECT {COLUMNS}, rowid FROM workflows WHERE {}", parts.join(" AND "));
    super::newest_first(connection, &from, values, query.limit, from_row, |workflow| workflow.created_at)
}

fn from_row(row: &Row<'_>) -> Result<WorkflowRun, StoreError> {
    let created_at = Timestamp::from_millis(row.get(8)?);
    Ok(WorkflowRun {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        task: parsed(row.get_ref(1)?.as_str()?)?,
        agent: row.get_ref(2)?.as_str_or_null()?.map(parsed).transpose()?,
        name: row.get(3)?,
        state: parsed(row.get_ref(4)?.as_str()?)?,
        definition: row.get(5)?,
        progress: match row.get_ref(6)?.as_str()? {
            // A row from before runs were kept.
            "" => RunProgress::new(created_at),
            text => from_json(text)?,
        },
        error: row.get(7)?,
        created_at,
        updated_at: Timestamp::from_millis(row.get(9)?),
        ended_at: row.get::<_, Option<i64>>(10)?.map(Timestamp::from_millis),
    })
}
