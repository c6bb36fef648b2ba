//! Rows of `agents`: attempts at the steps of tasks.

use coven_domain::agent::Agent;
use coven_domain::{AgentId, TaskId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{RowsAfter, count, parsed};
use crate::StoreError;
use coven_domain::query::{AgentQuery, Page, RowPlace};

const COLUMNS: &str = "id, task_id, workflow_id, step, session_id, state, pid, worktree, branch, output_file, error,
    created_at, updated_at, ended_at";

pub(super) fn put(connection: &Connection, agent: &Agent) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO agents (id, task_id, workflow_id, step, session_id, state, pid, worktree, branch, output_file,
                error, created_at, updated_at, ended_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT (id) DO UPDATE SET workflow_id = ?3, step = ?4, session_id = ?5, state = ?6, pid = ?7,
                worktree = ?8, branch = ?9, output_file = ?10, error = ?11, updated_at = ?13, ended_at = ?14",
        )?
        .execute(params![
            agent.id.to_string(),
            agent.task.to_string(),
            agent.workflow.map(|id| id.to_string()),
            agent.step,
            agent.session.map(|id| id.to_string()),
            agent.state.as_str(),
            agent.pid,
            agent.worktree,
            agent.branch,
            agent.output_file,
            agent.error,
            agent.created_at.as_millis(),
            agent.updated_at.as_millis(),
            agent.ended_at.map(Timestamp::as_millis),
        ])?;
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: AgentId) -> Result<Option<Agent>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM agents WHERE id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

/// Returns a task's agent that is starting or running.
pub(super) fn live_of(connection: &Connection, task: TaskId) -> Result<Option<Agent>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM agents WHERE task_id = ?1 AND state IN ('starting', 'running')"
    ))?;
    let mut rows = statement.query([task.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

/// Oldest first.
pub(super) fn page(
    connection: &Connection,
    query: AgentQuery,
    after: Option<RowPlace>,
    limit: usize,
) -> Result<Page<Agent>, StoreError> {
    // A separate statement for each query lets SQLite use the matching index.
    let (condition, value) = match query {
        AgentQuery::Live => ("state IN ('starting', 'running') AND ?1 IS NULL", None),
        AgentQuery::Task(task) => ("task_id = ?1", Some(task.to_string())),
        AgentQuery::Run(workflow) => ("workflow_id = ?1", Some(workflow.to_string())),
        AgentQuery::Session(session) => ("session_id = ?1", Some(session.to_string())),
        AgentQuery::All => ("?1 IS NULL", None),
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS}, rowid FROM agents WHERE {condition} AND (created_at, rowid) > (?2, ?3)
         ORDER BY created_at, rowid LIMIT ?4"
    ))?;
    let after = after.unwrap_or(RowPlace { at: Timestamp::from_millis(i64::MIN), row: i64::MIN });
    let mut rows = statement.query(params![value, after.at.as_millis(), after.row, count(limit.saturating_add(1))])?;
    let (mut items, mut last): (Vec<Agent>, _) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        if items.len() == limit {
            return Ok(Page { items, next: last });
        }
        let agent = from_row(row)?;
        last = Some(RowPlace { at: agent.created_at, row: row.get(14)? });
        items.push(agent);
    }
    Ok(Page { items, next: None })
}

pub(super) fn rows_after(connection: &Connection, row: i64, limit: usize) -> Result<RowsAfter<Agent>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, rowid FROM agents WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
    super::rows_after(connection, &sql, row, limit, from_row, |_| 0)
}

fn from_row(row: &Row<'_>) -> Result<Agent, StoreError> {
    let text = |column: usize| -> Result<Option<String>, StoreError> { Ok(row.get(column)?) };
    Ok(Agent {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        task: parsed(row.get_ref(1)?.as_str()?)?,
        workflow: row.get_ref(2)?.as_str_or_null()?.map(parsed).transpose()?,
        step: text(3)?,
        session: row.get_ref(4)?.as_str_or_null()?.map(parsed).transpose()?,
        state: parsed(row.get_ref(5)?.as_str()?)?,
        pid: row.get(6)?,
        worktree: text(7)?,
        branch: text(8)?,
        output_file: text(9)?,
        error: text(10)?,
        created_at: Timestamp::from_millis(row.get(11)?),
        updated_at: Timestamp::from_millis(row.get(12)?),
        ended_at: row.get::<_, Option<i64>>(13)?.map(Timestamp::from_millis),
    })
}
