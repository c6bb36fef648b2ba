//! Retention: deletes expired records in one transaction, with events that list them.

use coven_domain::event::EventBody;
use coven_domain::retention::Cutoffs;
use coven_domain::task::FieldChange;
use coven_domain::{SessionId, Timestamp};
use rusqlite::{Connection, ToSql};
use serde_json::{Value, json};

use super::events::{self, Recorder};
use super::{operations, parsed, sessions, tasks};
use crate::StoreError;
use coven_domain::query::SweepReport;

/// Maximum number of ids of each kind in one event.
const MAX_EVENT_IDS: usize = 100;

/// Tasks soft-deleted before the cutoff. A task with a live agent or session is kept until a later sweep.
const EXPIRED_TASKS: &str = "SELECT id FROM tasks
    WHERE deleted_at <= ?1 AND NOT EXISTS (
        SELECT 1 FROM agents LEFT JOIN sessions ON sessions.id = agents.session_id
        WHERE agents.task_id = tasks.id AND (
            agents.state IN ('starting', 'running') OR sessions.state = 'running'
            OR (sessions.state = 'created' AND sessions.launching_at IS NOT NULL)))";

pub(super) fn sweep(
    connection: &Connection,
    recorder: &mut Recorder,
    cutoffs: &Cutoffs,
    now: Timestamp,
) -> Result<SweepReport, StoreError> {
    let mut report = SweepReport::default();
    if let Some(cutoff) = cutoffs.closed_tasks {
        report.tasks_soft_deleted = ids(
            connection,
            "UPDATE tasks SET deleted_at = ?2, updated_at = max(updated_at, ?2)
             WHERE closed_at <= ?1 AND deleted_at IS NULL RETURNING id",
            &[&cutoff.as_millis(), &now.as_millis()],
        )?;
        for task in &report.tasks_soft_deleted {
            note(connection, task, "deleted", json!(false), json!(true), now)?;
        }
    }
    if let Some(cutoff) = cutoffs.deleted_tasks {
        for task in ids(connection, EXPIRED_TASKS, &[&cutoff.as_millis()])? {
            delete_task(connection, task, &mut report, now)?;
        }
    }
    if let Some(cutoff) = cutoffs.completed_workflows {
        report.workflows_deleted.extend(ids(
            connection,
            "DELETE FROM workflows WHERE state = 'completed' AND coalesce(ended_at, updated_at) <= ?1 RETURNING id",
            &[&cutoff.as_millis()],
        )?);
    }
    let mut noteworthy = report != SweepReport::default();
    if let Some(cutoff) = cutoffs.events {
        // Deleting only sweep events must not write another one, or there would always be one to delete.
        let (gone, beyond_sweeps) = events::expire(connection, cutoff)?;
        report.events_deleted = gone;
        report.operations_deleted = operations::expire(connection, cutoff)?;
        noteworthy |= beyond_sweeps;
    }
    if noteworthy {
        for part in report.parts(MAX_EVENT_IDS) {
            recorder.add(connection, "retention.swept".to_owned(), String::new(), now, EventBody::Swept(part))?;
        }
        report.event_number = recorder.written.last().map(|event| event.number);
    }
    Ok(report)
}

/// Deletes a task with its agents, their terminal prompts and sessions, and its runs.
fn delete_task(
    connection: &Connection,
    task: String,
    report: &mut SweepReport,
    now: Timestamp,
) -> Result<(), StoreError> {
    // Record in the history that other tasks lose their links to this one.
    for child in ids(connection, "SELECT id FROM tasks WHERE parent_id = ?1", &[&task])? {
        note(connection, &child, "parent", json!(task), Value::Null, now)?;
    }
    for dependent in ids(connection, "SELECT task_id FROM task_dependencies WHERE depends_on = ?1", &[&task])? {
        let all = "SELECT depends_on FROM task_dependencies WHERE task_id = ?1 ORDER BY depends_on";
        let before = ids(connection, all, &[&dependent])?;
        let after: Vec<_> = before.iter().filter(|id| **id != task).collect();
        note(connection, &dependent, "depends_on", json!(before), json!(after), now)?;
    }
    let written =
        ids(connection, "SELECT session_id FROM agents WHERE task_id = ?1 AND session_id IS NOT NULL", &[&task])?;
    report.workflows_deleted.extend(ids(
        connection,
        "DELETE FROM workflows WHERE task_id = ?1 RETURNING id",
        &[&task],
    )?);
    report.questions_deleted.extend(ids(
        connection,
        "DELETE FROM requests WHERE agent_id IN (SELECT id FROM agents WHERE task_id = ?1) RETURNING id",
        &[&task],
    )?);
    report.agents_deleted.extend(ids(connection, "DELETE FROM agents WHERE task_id = ?1 RETURNING id", &[&task])?);
    for id in written {
        let id: SessionId = parsed(&id)?;
        sessions::delete(connection, id)?;
        report.sessions_deleted.push(id);
    }
    connection.prepare_cached("DELETE FROM tasks WHERE id = ?1")?.execute([&task])?;
    report.tasks_deleted.push(task);
    Ok(())
}

/// Adds one changed field to the history of a task.
fn note(
    connection: &Connection,
    task: &str,
    field: &str,
    old: Value,
    new: Value,
    now: Timestamp,
) -> Result<(), StoreError> {
    let change = FieldChange { field: field.to_owned(), old, new };
    tasks::note(connection, task, &[change], "retention", now)
}

fn ids(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.push(row.get(0)?);
    }
    Ok(ids)
}
