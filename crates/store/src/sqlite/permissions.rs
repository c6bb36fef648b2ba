//! Rows of `permissions`.

use coven_domain::permission::{AnsweredBy, Permission};
use coven_domain::{PermissionId, SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{behind, count, from_json, parsed, sessions, to_json};
use crate::StoreError;
use coven_domain::query::PermissionQuery;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT permissions.id, sessions.id, permissions.state, permissions.title, options, tool_call, answer, \
             answered_by, permissions.created_at, answered_at, answering_session \
             FROM permissions JOIN sessions ON sessions.key = permissions.session_key ",
            $rest
        )
    };
}

pub(super) fn put(connection: &Connection, permission: &Permission) -> Result<(), StoreError> {
    let key = sessions::key_of(connection, permission.session)?.ok_or(StoreError::NotFound)?;
    // The column accepts only fixed values; the session id has a separate column.
    let (answered_by, answering_session) = match permission.answered_by {
        Some(AnsweredBy::From(session)) => (Some(AnsweredBy::Session), Some(session.to_string())),
        by => (by, None),
    };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO permissions
             (id, session_key, state, title, options, tool_call, answer, answered_by, created_at, answered_at,
              answering_session)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            permission.id.to_string(),
            key,
            permission.state.as_str(),
            permission.title,
            to_json(&permission.options),
            to_json(&permission.tool_call),
            permission.answer,
            answered_by.map(|by| by.to_string()),
            permission.created_at.as_millis(),
            permission.answered_at.map(Timestamp::as_millis),
            answering_session,
        ])?;
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: PermissionId) -> Result<Option<Permission>, StoreError> {
    let mut statement = connection.prepare_cached(select!("WHERE permissions.id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

/// Oldest first.
pub(super) fn list(connection: &Connection, query: &PermissionQuery) -> Result<Vec<Permission>, StoreError> {
    let mut statement = connection.prepare_cached(select!(
        "WHERE (?1 OR permissions.state = 'pending') AND (?2 IS NULL OR sessions.id = ?2) \
             AND (?3 IS NULL OR permissions.id LIKE ?3) \
             AND (permissions.created_at, permissions.id) > (?4, ?5) \
         ORDER BY permissions.created_at, permissions.id LIMIT ?6"
    ))?;
    let session = query.session.map(|id: SessionId| id.to_string());
    // The engine admits only hex digits and dashes, so the pattern needs no escaping.
    let prefix = query.prefix.as_ref().map(|prefix| format!("{prefix}%"));
    let (at, id) = behind(query.after.as_ref());
    let limit = query.limit.map_or(-1, count);
    let mut rows = statement.query(params![query.include_settled, session, prefix, at, id, limit])?;
    let mut permissions = Vec::new();
    while let Some(row) = rows.next()? {
        permissions.push(from_row(row)?);
    }
    Ok(permissions)
}

fn from_row(row: &Row<'_>) -> Result<Permission, StoreError> {
    let answered_by = row.get_ref(7)?.as_str_or_null()?.map(parsed).transpose()?;
    let answering_session = row.get_ref(10)?.as_str_or_null()?.map(parsed).transpose()?;
    Ok(Permission {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        session: parsed(row.get_ref(1)?.as_str()?)?,
        state: parsed(row.get_ref(2)?.as_str()?)?,
        title: row.get(3)?,
        options: from_json(row.get_ref(4)?.as_str()?)?,
        tool_call: from_json(row.get_ref(5)?.as_str()?)?,
        answer: row.get(6)?,
        answered_by: answering_session.map(AnsweredBy::From).or(answered_by),
        created_at: Timestamp::from_millis(row.get(8)?),
        answered_at: row.get::<_, Option<i64>>(9)?.map(Timestamp::from_millis),
    })
}
