//! Rows of `tasks`, their dependencies and their history.

use coven_domain::task::{CANCELLED, Claim, FieldChange, Priority, Task, TaskState};
use coven_domain::{OperationId, TaskId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::{PAGE_BYTES, RowsAfter, count, from_json, integer, parsed, to_json, unsigned};
use crate::StoreError;
use coven_domain::query::{TaskCursor, TaskHistoryEntry, TaskPage, TaskQuery};

const COLUMNS: &str = "id, title, body, type, priority, parent_id, tags, state, reason, claimed_by, claimed_until,
    base_branch, base_commit, harness, workflow, created_at, updated_at, closed_at, deleted_at,
    (SELECT group_concat(depends_on) FROM task_dependencies WHERE task_id = tasks.id),
    repo, args, changes, merged";

/// Open, unclaimed, and all dependencies are closed.
const READY: &str = "state = 'open' AND claimed_by IS NULL AND deleted_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM task_dependencies JOIN tasks AS other ON other.id = task_dependencies.depends_on
    WHERE task_dependencies.task_id = tasks.id AND other.state <> 'closed')";

/// The newest run was cancelled. The reason alone does not say so: a user may have written the same text.
const CANCELLED_RUN: &str = "(SELECT state FROM workflows WHERE task_id = tasks.id
    ORDER BY created_at DESC, rowid DESC LIMIT 1) IS 'cancelled'";

/// Inserts or updates a task with its dependencies.
pub(super) fn put(connection: &Connection, task: &Task) -> Result<(), StoreError> {
    let id = task.id.to_string();
    // Tasks created together may refer to each other; all of them exist at the commit. Set only if needed: the pragma
    // makes SQLite prepare every statement again.
    if names_unknown(connection, task)? {
        connection.pragma_update(None, "defer_foreign_keys", true)?;
    }
    connection
        .prepare_cached(
            "INSERT INTO tasks (id, title, body, type, priority, parent_id, tags, state, reason, claimed_by,
                claimed_until, base_branch, base_commit, harness, workflow, created_at, updated_at, closed_at, deleted_at,
                repo, args, changes, merged)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                ?22, ?23)
             ON CONFLICT (id) DO UPDATE SET title = ?2, body = ?3, type = ?4, priority = ?5, parent_id = ?6, tags = ?7,
                state = ?8, reason = ?9, claimed_by = ?10, claimed_until = ?11, base_branch = ?12, base_commit = ?13,
                harness = ?14, workflow = ?15, updated_at = ?17, closed_at = ?18, deleted_at = ?19,
                repo = ?20, args = ?21, changes = ?22, merged = ?23",
        )?
        .execute(params![
            id,
            task.title,
            task.body,
            task.kind.as_str(),
            task.priority.get(),
            task.parent.map(|parent| parent.to_string()),
            to_json(&task.tags),
            task.state.as_str(),
            task.reason,
            task.claim.as_ref().map(|claim| &claim.by),
            task.claim.as_ref().map(|claim| claim.until.as_millis()),
            task.base_branch,
            task.base_commit,
            task.harness,
            task.workflow,
            task.created_at.as_millis(),
            task.updated_at.as_millis(),
            task.closed_at.map(Timestamp::as_millis),
            task.deleted_at.map(Timestamp::as_millis),
            task.repo,
            to_json(&task.args),
            task.changes.as_ref().map(to_json),
            task.merged,
        ])?;
    if depends_on(connection, task.id)? == task.depends_on {
        return Ok(());
    }
    connection.prepare_cached("DELETE FROM task_dependencies WHERE task_id = ?1")?.execute([&id])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO task_dependencies (task_id, depends_on) VALUES (?1, ?2)")?;
    for other in &task.depends_on {
        insert.execute(params![id, other.to_string()])?;
    }
    Ok(())
}

fn names_unknown(connection: &Connection, task: &Task) -> Result<bool, StoreError> {
    for other in task.depends_on.iter().chain(&task.parent) {
        if !connection.prepare_cached("SELECT 1 FROM tasks WHERE id = ?1")?.exists([other.to_string()])? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn added_by(connection: &Connection, id: TaskId, operation: OperationId) -> Result<(), StoreError> {
    let mut update = connection.prepare_cached("UPDATE tasks SET operation = ?2 WHERE id = ?1")?;
    update.execute(params![id.to_string(), operation.to_string()])?;
    Ok(())
}

pub(super) fn note(
    connection: &Connection,
    id: &str,
    changes: &[FieldChange],
    by: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO task_history (task_id, at, changed_by, field, old, new) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for change in changes {
        let (old, new) = (to_json(&change.old), to_json(&change.new));
        insert.execute(params![id, at.as_millis(), by, change.field, old, new])?;
    }
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: TaskId) -> Result<Option<Task>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM tasks WHERE id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

/// Returns ids of tasks that were not deleted.
pub(super) fn ids_with_prefix(connection: &Connection, prefix: &str, limit: usize) -> Result<Vec<TaskId>, StoreError> {
    let (from, to) = (prefix.to_ascii_lowercase(), format!("{}~", prefix.to_ascii_lowercase()));
    ids(
        connection,
        "SELECT id FROM tasks WHERE id >= ?1 AND id < ?2 AND deleted_at IS NULL ORDER BY id LIMIT ?3",
        &[from.into(), to.into(), count(limit).into()],
    )
}

fn depends_on(connection: &Connection, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
    let sql = "SELECT depends_on FROM task_dependencies WHERE task_id = ?1 ORDER BY depends_on";
    ids(connection, sql, &[id.to_string().into()])
}

/// Returns tasks that depend on this one and are neither closed nor deleted.
pub(super) fn dependents(connection: &Connection, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
    let sql = "SELECT id FROM task_dependencies JOIN tasks ON tasks.id = task_dependencies.task_id
        WHERE depends_on = ?1 AND state <> 'closed' AND deleted_at IS NULL ORDER BY id";
    ids(connection, sql, &[id.to_string().into()])
}

/// Returns the direct subtasks that were not deleted.
pub(super) fn children(connection: &Connection, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
    let sql = "SELECT id FROM tasks WHERE parent_id = ?1 AND deleted_at IS NULL ORDER BY created_at, rowid";
    ids(connection, sql, &[id.to_string().into()])
}

fn ids(connection: &Connection, sql: &str, values: &[Value]) -> Result<Vec<TaskId>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.push(parsed(row.get_ref(0)?.as_str()?)?);
    }
    Ok(ids)
}

/// Returns the states of the tasks that this one depends on.
pub(super) fn dependencies(connection: &Connection, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT depends_on, state FROM task_dependencies JOIN tasks ON tasks.id = depends_on
         WHERE task_id = ?1 ORDER BY depends_on",
    )?;
    let mut rows = statement.query([id.to_string()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push((parsed(row.get_ref(0)?.as_str()?)?, parsed(row.get_ref(1)?.as_str()?)?));
    }
    Ok(found)
}

/// Returns ready tasks in scheduling order, without those whose run was cancelled.
pub(super) fn ready(connection: &Connection, limit: usize) -> Result<Vec<Task>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM tasks WHERE {READY} AND NOT (reason IS ?1 AND {CANCELLED_RUN})
         ORDER BY priority, created_at, rowid LIMIT ?2"
    ))?;
    let mut rows = statement.query(params![CANCELLED, count(limit)])?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next()? {
        tasks.push(from_row(row)?);
    }
    Ok(tasks)
}

pub(super) fn in_progress(connection: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM tasks WHERE state = 'in_progress' AND deleted_at IS NULL";
    unsigned(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Returns a page in scheduling order: by priority, then by age. Tasks of one operation are in the order of their request.
pub(super) fn page(connection: &Connection, query: &TaskQuery) -> Result<TaskPage, StoreError> {
    let read = connection.unchecked_transaction()?;
    let (condition, filter) = condition(query);
    let order = if query.operation.is_some() { "rowid" } else { "priority, created_at, rowid" };
    let (behind, place) = match (query.after, query.operation.and_then(|it| it.after)) {
        (_, Some(last)) => (" AND rowid > (SELECT rowid FROM tasks WHERE id = ?)", vec![last.to_string().into()]),
        (Some(place), None) => {
            let values = [place.priority.into(), place.created_at.as_millis().into(), place.row.into()];
            (" AND (priority, created_at, rowid) > (?, ?, ?)", values.to_vec())
        }
        (None, None) => ("", Vec::new()),
    };
    let sql = format!("SELECT {COLUMNS}, rowid FROM tasks WHERE {condition}{behind} ORDER BY {order} LIMIT ?");
    let mut statement = read.prepare_cached(&sql)?;
    let row_column = statement.column_count() - 1;
    // One extra row shows whether more follow; only then a count is needed.
    let limit = Value::from(count(query.limit.saturating_add(1)));
    let mut rows = statement.query(params_from_iter(filter.iter().chain(&place).chain([&limit])))?;
    let (mut tasks, mut bytes, mut last) = (Vec::new(), 0, None);
    let mut next = None;
    while let Some(row) = rows.next()? {
        if tasks.len() == query.limit || bytes >= PAGE_BYTES {
            next = last;
            break;
        }
        let task = from_row(row)?;
        bytes += task.body.len();
        last = Some(TaskCursor {
            priority: task.priority.get().into(),
            created_at: task.created_at,
            row: row.get(row_column)?,
        });
        tasks.push(task);
    }
    drop(rows);
    drop(statement);
    let total = match (place.is_empty(), next) {
        (false, _) => None,
        (true, None) => Some(tasks.len() as u64),
        (true, Some(_)) => {
            let sql = format!("SELECT count(*) FROM tasks WHERE {condition}");
            Some(unsigned(read.prepare_cached(&sql)?.query_row(params_from_iter(&filter), |row| row.get(0))?)?)
        }
    };
    read.commit()?;
    Ok(TaskPage { tasks, total, next })
}

/// Returns tasks that were not deleted, in row order.
pub(super) fn rows_after(connection: &Connection, row: i64, limit: usize) -> Result<RowsAfter<Task>, StoreError> {
    let sql =
        format!("SELECT {COLUMNS}, rowid FROM tasks WHERE rowid > ?1 AND deleted_at IS NULL ORDER BY rowid LIMIT ?2");
    super::rows_after(connection, &sql, row, limit, from_row, |task| task.body.len())
}

fn condition(query: &TaskQuery) -> (String, Vec<Value>) {
    let (mut parts, mut values): (Vec<String>, Vec<Value>) = (Vec::new(), Vec::new());
    if query.is_ready {
        parts.push(READY.to_owned());
    }
    if !query.include_deleted {
        parts.push("deleted_at IS NULL".to_owned());
    }
    let mut among = |column: &str, words: Vec<Value>| {
        if !words.is_empty() {
            parts.push(format!("{column} IN ({})", vec!["?"; words.len()].join(", ")));
            values.extend(words);
        }
    };
    among("id", query.ids.iter().map(|id| id.to_string().into()).collect());
    among("state", query.states.iter().map(|state| state.as_str().to_owned().into()).collect());
    among("type", query.kinds.iter().map(|kind| kind.as_str().to_owned().into()).collect());
    among("priority", query.priorities.iter().map(|priority| i64::from(priority.get()).into()).collect());
    if let Some(tag) = &query.tag {
        parts.push("EXISTS (SELECT 1 FROM json_each(tasks.tags) WHERE value = ?)".to_owned());
        values.push(tag.clone().into());
    }
    if let Some(added) = query.operation {
        parts.push("operation = ?".to_owned());
        values.push(added.operation.to_string().into());
    }
    if let Some(parent) = query.parent {
        parts.push("parent_id = ?".to_owned());
        values.push(parent.to_string().into());
    }
    (if parts.is_empty() { "1".to_owned() } else { parts.join(" AND ") }, values)
}

/// Oldest first.
pub(super) fn history(
    connection: &Connection,
    id: TaskId,
    after: u64,
    limit: usize,
) -> Result<Vec<TaskHistoryEntry>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, at, changed_by, field, old, new FROM task_history
         WHERE task_id = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
    )?;
    let mut rows = statement.query(params![id.to_string(), integer(after), count(limit)])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(TaskHistoryEntry {
            number: unsigned(row.get(0)?)?,
            at: Timestamp::from_millis(row.get(1)?),
            by: row.get(2)?,
            change: FieldChange {
                field: row.get(3)?,
                old: from_json(row.get_ref(4)?.as_str()?)?,
                new: from_json(row.get_ref(5)?.as_str()?)?,
            },
        });
    }
    Ok(entries)
}

fn from_row(row: &Row<'_>) -> Result<Task, StoreError> {
    let moment = |column: usize| -> Result<Option<Timestamp>, StoreError> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
    };
    let id_at = |column: usize| -> Result<Option<TaskId>, StoreError> {
        row.get_ref(column)?.as_str_or_null()?.map(parsed).transpose()
    };
    let named = row.get_ref(19)?.as_str_or_null()?.unwrap_or_default();
    let mut depends_on = named.split_terminator(',').map(parsed).collect::<Result<Vec<TaskId>, _>>()?;
    depends_on.sort_unstable();
    let priority: i64 = row.get(4)?;
    let (claimed_by, until): (Option<String>, _) = (row.get(9)?, moment(10)?);
    Ok(Task {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        title: row.get(1)?,
        body: row.get(2)?,
        kind: parsed(row.get_ref(3)?.as_str()?)?,
        priority: Priority::try_from(priority).map_err(|bad| StoreError::corrupt(bad.to_string()))?,
        parent: id_at(5)?,
        tags: from_json(row.get_ref(6)?.as_str()?)?,
        state: parsed(row.get_ref(7)?.as_str()?)?,
        reason: row.get(8)?,
        claim: claimed_by.map(|by| Claim { by, until: until.unwrap_or_default() }),
        base_branch: row.get(11)?,
        base_commit: row.get(12)?,
        harness: row.get(13)?,
        workflow: row.get(14)?,
        created_at: Timestamp::from_millis(row.get(15)?),
        updated_at: Timestamp::from_millis(row.get(16)?),
        closed_at: moment(17)?,
        deleted_at: moment(18)?,
        depends_on,
        repo: row.get(20)?,
        args: from_json(row.get_ref(21)?.as_str()?)?,
        changes: row.get_ref(22)?.as_str_or_null()?.map(from_json).transpose()?,
        merged: row.get(23)?,
    })
}
