//! Everything at one moment.

use coven_domain::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde_json::{Map, Value};

use super::{events, from_json, sessions};
use crate::StoreError;
use coven_domain::query::StateSnapshot;

const TASKS: &str = "SELECT id, title, body, type, priority, parent_id, tags,
        (SELECT json_group_array(depends_on) FROM task_dependencies WHERE task_id = tasks.id) AS depends_on,
        state AS status, reason, claimed_by, claimed_until, base_branch, base_commit, changes, harness, args, workflow, repo,
        created_at, updated_at, closed_at
    FROM tasks WHERE deleted_at IS NULL ORDER BY created_at, rowid";
const AGENTS: &str =
    "SELECT id, task_id, workflow_id, step, session_id, state AS status, pid, worktree, branch, output_file, error,
        created_at, updated_at, ended_at
    FROM agents ORDER BY created_at, rowid";
const WORKFLOWS: &str =
    "SELECT id, task_id, agent_id, name, state AS status, step, error, created_at, updated_at, ended_at
    FROM workflows ORDER BY created_at, rowid";
const QUESTIONS: &str = "SELECT id, agent_id, state AS status, questions, answers, created_at, updated_at, answered_at
    FROM questions ORDER BY created_at, rowid";

const QUESTION_SETS: &str = "SELECT id, 'question_set' AS kind, session_id, state AS status, title, question_count,
        created_at, modified_at AS updated_at
    FROM question_sets ORDER BY created_at, id";

/// Columns whose text is JSON.
const DOCUMENTS: [&str; 6] = ["args", "changes", "tags", "depends_on", "questions", "answers"];

pub(super) fn take(connection: &Connection) -> Result<StateSnapshot, StoreError> {
    let read = connection.unchecked_transaction()?;
    let mut questions = objects(&read, QUESTIONS)?;
    questions.extend(objects(&read, QUESTION_SETS)?);
    let snapshot = StateSnapshot {
        event_number: events::newest(&read)?,
        sessions: sessions::all(&read)?,
        tasks: objects(&read, TASKS)?,
        agents: objects(&read, AGENTS)?,
        workflows: objects(&read, WORKFLOWS)?,
        questions,
    };
    read.commit()?;
    Ok(snapshot)
}

/// Every row as an object with the columns' names.
fn objects(connection: &Connection, sql: &str) -> Result<Vec<Value>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    let mut objects = Vec::new();
    while let Some(row) = rows.next()? {
        objects.push(object(row, &names)?);
    }
    Ok(objects)
}

fn object(row: &Row<'_>, names: &[String]) -> Result<Value, StoreError> {
    let mut object = Map::new();
    for (column, name) in names.iter().enumerate() {
        let is_moment = name.ends_with("_at") || name.ends_with("_until");
        let value = match row.get_ref(column)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(millis) if is_moment => Value::from(Timestamp::from_millis(millis).to_string()),
            ValueRef::Integer(number) => Value::from(number),
            ValueRef::Real(number) => Value::from(number),
            ValueRef::Text(_) if DOCUMENTS.contains(&name.as_str()) => from_json(row.get_ref(column)?.as_str()?)?,
            ValueRef::Text(_) => Value::from(row.get_ref(column)?.as_str()?),
            ValueRef::Blob(_) => return Err(StoreError::corrupt(format!("{name} holds bytes"))),
        };
        object.insert(name.clone(), value);
    }
    Ok(Value::Object(object))
}
