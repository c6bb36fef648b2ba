//! Rows of `operations`.

use coven_domain::operation::{Operation, OperationError, OperationKind, OperationProgress};
use coven_domain::query::{OperationQuery, Page};
use coven_domain::{OperationId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

use super::{from_json, integer, parsed, to_json, unsigned};
use crate::StoreError;

const COLUMNS: &str =
    "id, kind, state, subject, done, total, message, result, error_code, error_message, error_details,
    created_at, updated_at, ended_at, rowid";

pub(super) fn put(connection: &Connection, operation: &Operation) -> Result<(), StoreError> {
    let error = operation.error.as_ref();
    connection
        .prepare_cached(
            "INSERT INTO operations (id, kind, state, subject, done, total, message, result, error_code, error_message,
                error_details, created_at, updated_at, ended_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT (id) DO UPDATE SET state = ?3, done = ?5, total = ?6, message = ?7, result = ?8,
                error_code = ?9, error_message = ?10, error_details = ?11, updated_at = ?13, ended_at = ?14",
        )?
        .execute(params![
            operation.id.to_string(),
            operation.kind.as_str(),
            operation.state.as_str(),
            operation.subject,
            integer(operation.progress.done),
            operation.progress.total.map(integer),
            operation.progress.message,
            operation.result,
            error.map(|error| error.code.as_str()),
            error.map(|error| error.message.as_str()),
            error.and_then(|error| error.details.as_ref()).map(to_json),
            operation.created_at.as_millis(),
            operation.updated_at.as_millis(),
            operation.ended_at.map(Timestamp::as_millis),
        ])?;
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: OperationId) -> Result<Option<Operation>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM operations WHERE id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

/// The running operation of this kind about `subject`.
pub(super) fn running(
    connection: &Connection,
    kind: OperationKind,
    subject: &str,
) -> Result<Option<Operation>, StoreError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM operations WHERE subject = ?1 AND kind = ?2 AND state = 'running'"
    ))?;
    let mut rows = statement.query([subject, kind.as_str()])?;
    rows.next()?.map(from_row).transpose()
}

/// Newest first.
pub(super) fn page(connection: &Connection, query: &OperationQuery) -> Result<Page<Operation>, StoreError> {
    let (mut parts, mut values): (Vec<String>, Vec<Value>) = (vec!["1".to_owned()], Vec::new());
    let mut any_of = |column: &str, words: Vec<&'static str>| {
        if !words.is_empty() {
            parts.push(format!("{column} IN ({})", vec!["?"; words.len()].join(", ")));
            values.extend(words.into_iter().map(|word| Value::from(word.to_owned())));
        }
    };
    any_of("state", query.states.iter().map(|state| state.as_str()).collect());
    any_of("kind", query.kinds.iter().map(|kind| kind.as_str()).collect());
    if let Some(subject) = &query.subject {
        parts.push("subject = ?".to_owned());
        values.push(subject.clone().into());
    }
    if let Some(place) = query.after {
        parts.push("(created_at, rowid) < (?, ?)".to_owned());
        values.extend([place.at.as_millis().into(), place.row.into()]);
    }
    let from = format!("SELECT {COLUMNS} FROM operations WHERE {}", parts.join(" AND "));
    super::newest_first(connection, &from, values, query.limit, from_row, |operation| operation.created_at)
}

/// Deletes the operations that ended before `cutoff`; returns their number.
pub(super) fn expire(connection: &Connection, cutoff: Timestamp) -> Result<u64, StoreError> {
    let deleted =
        connection.prepare_cached("DELETE FROM operations WHERE ended_at <= ?1")?.execute([cutoff.as_millis()])?;
    Ok(deleted as u64)
}

fn from_row(row: &Row<'_>) -> Result<Operation, StoreError> {
    let error = match row.get::<_, Option<String>>(8)? {
        Some(code) => Some(OperationError {
            code,
            message: row.get(9)?,
            details: row.get_ref(10)?.as_str_or_null()?.map(from_json).transpose()?,
        }),
        None => None,
    };
    Ok(Operation {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        kind: parsed(row.get_ref(1)?.as_str()?)?,
        state: parsed(row.get_ref(2)?.as_str()?)?,
        subject: row.get(3)?,
        progress: OperationProgress {
            done: unsigned(row.get(4)?)?,
            total: row.get::<_, Option<i64>>(5)?.map(unsigned).transpose()?,
            message: row.get(6)?,
        },
        result: row.get(7)?,
        error,
        created_at: Timestamp::from_millis(row.get(11)?),
        updated_at: Timestamp::from_millis(row.get(12)?),
        ended_at: row.get::<_, Option<i64>>(13)?.map(Timestamp::from_millis),
    })
}
