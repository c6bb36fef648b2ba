//! Rows of `sessions`.

use coven_domain::activity::ActivityStatus;
use coven_domain::session::{ProcessIdentity, Session};
use coven_domain::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, Rows, ToSql, params};

use super::{
    RowsAfter, count, entries, from_json, integer, messages, observations, parsed, requests, to_json, unsigned,
};
use crate::StoreError;

/// A query for complete rows, with columns in the order of [`from_row`].
macro_rules! select {
    ($rest:literal) => {
        select!("", $rest)
    };
    ($more:literal, $rest:literal) => {
        concat!(
            "SELECT id, harness, channel, title, state, exit_code, pid, started_ticks, boot_id, project_root, cwd, \
             repo_id, created_at, updated_at, archived_at, launching_at, end_intent, launch, metadata, activity, \
             activity_since, activity_source, activity_detail, unseen, activity_until",
            $more,
            " FROM sessions ",
            $rest
        )
    };
}

pub(super) fn by_id(connection: &Connection, id: SessionId) -> Result<Option<Session>, StoreError> {
    let mut statement = connection.prepare_cached(select!("WHERE id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

/// Returns the rows with these keys, in this order.
pub(super) fn by_keys(connection: &Connection, keys: &[i64]) -> Result<Vec<Session>, StoreError> {
    let mut statement = connection.prepare_cached(select!("WHERE key = ?1"))?;
    let mut sessions = Vec::with_capacity(keys.len());
    for key in keys {
        sessions.extend(collect(statement.query([key])?)?);
    }
    Ok(sessions)
}

/// Returns rows in creation order.
pub(super) fn rows_after(connection: &Connection, row: i64, limit: usize) -> Result<RowsAfter<Session>, StoreError> {
    const SQL: &str = select!(", key", "WHERE key > ?1 ORDER BY key LIMIT ?2");
    super::rows_after(connection, SQL, row, limit, from_row, |_| 0)
}

/// Returns sessions that are launching, running, or killed without an exit code; oldest first.
pub(super) fn to_recover(connection: &Connection) -> Result<Vec<Session>, StoreError> {
    // SQLite uses the index only if the condition is the same.
    const SQL: &str = select!(
        "INDEXED BY sessions_unsettled \
         WHERE state = 'running' OR (state = 'created' AND launching_at IS NOT NULL) \
             OR (state = 'killed' AND exit_code IS NULL) ORDER BY key"
    );
    collect(connection.prepare_cached(SQL)?.query([])?)
}

pub(super) fn key_of(connection: &Connection, id: SessionId) -> Result<Option<i64>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT key FROM sessions WHERE id = ?1")?;
    Ok(statement.query_row([id.to_string()], |row| row.get(0)).optional()?)
}

pub(super) fn ids_with_prefix(
    connection: &Connection,
    prefix: &str,
    limit: usize,
) -> Result<Vec<SessionId>, StoreError> {
    let Some(first) = hyphenated(prefix) else { return Ok(Vec::new()) };
    // Every character of an id sorts before `g`.
    let end = format!("{first}g");
    let mut statement =
        connection.prepare_cached("SELECT id FROM sessions WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3")?;
    let mut rows = statement.query(params![first, end, count(limit)])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.push(parsed(row.get_ref(0)?.as_str()?)?);
    }
    Ok(ids)
}

/// Newest first.
pub(super) fn with_title(connection: &Connection, title: &str, limit: usize) -> Result<Vec<Session>, StoreError> {
    const SQL: &str = select!("WHERE title = ?1 ORDER BY created_at DESC, key DESC LIMIT ?2");
    collect(connection.prepare_cached(SQL)?.query(params![title, count(limit)])?)
}

/// Formats an id prefix as stored; `None` if no id can start with it.
fn hyphenated(prefix: &str) -> Option<String> {
    let mut text = String::with_capacity(36);
    for digit in prefix.chars().filter(|c| *c != '-') {
        if matches!(text.len(), 8 | 13 | 18 | 23) {
            text.push('-');
        }
        if !digit.is_ascii_hexdigit() || text.len() == 36 {
            return None;
        }
        text.push(digit.to_ascii_lowercase());
    }
    Some(text)
}

pub(super) fn insert(connection: &Connection, session: &Session) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO sessions (id, harness, channel, title, state, exit_code, pid, started_ticks, boot_id, project_root,
             cwd, repo_id, created_at, updated_at, archived_at, launching_at, end_intent, launch, metadata, activity,
             activity_since, activity_source, activity_detail, unseen, activity_until, archived)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
             ?24, ?25, ?15 IS NOT NULL)",
    )?;
    with_columns(session, |columns| statement.execute(columns))?;
    Ok(())
}

/// Updates all columns except the id and `created_at`, which never change.
pub(super) fn update(connection: &Connection, session: &Session) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "UPDATE sessions SET harness = ?2, channel = ?3, title = ?4, state = ?5, exit_code = ?6, pid = ?7,
             started_ticks = ?8, boot_id = ?9, project_root = ?10, cwd = ?11, repo_id = ?12, updated_at = ?14,
             archived_at = ?15, launching_at = ?16, end_intent = ?17, launch = ?18, metadata = ?19, activity = ?20,
             activity_since = ?21, activity_source = ?22, activity_detail = ?23, unseen = ?24,
             activity_until = ?25, archived = ?15 IS NOT NULL
         WHERE id = ?1",
    )?;
    match with_columns(session, |columns| statement.execute(columns))? {
        0 => Err(StoreError::NotFound),
        _ => Ok(()),
    }
}

/// Deletes the row and everything that belongs to it.
pub(super) fn delete(connection: &Connection, id: SessionId) -> Result<(), StoreError> {
    let key = key_of(connection, id)?.ok_or(StoreError::NotFound)?;
    entries::delete(connection, key)?;
    messages::delete(connection, key)?;
    requests::delete_of_session(connection, key)?;
    observations::delete_of_session(connection, key)?;
    connection.prepare_cached("DELETE FROM sessions WHERE key = ?1")?.execute([key])?;
    Ok(())
}

/// Counts sessions that are launching or running, for a channel or a repository.
pub(super) fn active(connection: &Connection, channel: Option<&str>, repo: Option<&str>) -> Result<u64, StoreError> {
    let count = connection
        .prepare_cached(
            "SELECT count(*) FROM sessions INDEXED BY sessions_unsettled
             WHERE (state = 'running' OR (state = 'created' AND launching_at IS NOT NULL)
                     OR (state = 'killed' AND exit_code IS NULL))
                 AND state <> 'killed' AND (?1 IS NULL OR channel = ?1) AND (?2 IS NULL OR repo_id = ?2)",
        )?
        .query_row(params![channel, repo], |row| row.get(0))?;
    unsigned(count)
}

/// Calls `run` with the columns in the order of [`select`].
fn with_columns<T>(session: &Session, run: impl FnOnce(&[&dyn ToSql]) -> T) -> T {
    let process = session.process.as_ref();
    let millis = |moment: Option<Timestamp>| moment.map(Timestamp::as_millis);
    run(params![
        session.id.to_string(),
        session.harness,
        session.channel.as_str(),
        session.title,
        session.state.as_str(),
        session.exit_code,
        process.map(|process| process.pid),
        process.map(|process| integer(process.started_ticks)),
        process.map(|process| process.boot_id.as_str()),
        session.project_root,
        session.cwd,
        session.repo_id.map(|id| id.to_string()),
        session.created_at.as_millis(),
        session.updated_at.as_millis(),
        millis(session.archived_at),
        millis(session.launching_at),
        session.end_intent.map(|intent| intent.as_str()),
        to_json(&session.launch),
        to_json(&session.metadata),
        session.activity.activity.as_str(),
        millis(session.activity.since),
        session.activity.source.map(|source| source.as_str()),
        session.activity.detail,
        session.activity.is_unseen,
        millis(session.activity.until),
    ])
}

pub(super) fn collect(mut rows: Rows<'_>) -> Result<Vec<Session>, StoreError> {
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        sessions.push(from_row(row)?);
    }
    Ok(sessions)
}

fn from_row(row: &Row<'_>) -> Result<Session, StoreError> {
    let text = |column: usize| Ok::<_, StoreError>(row.get_ref(column)?.as_str()?);
    let text_or_null = |column: usize| Ok::<_, StoreError>(row.get_ref(column)?.as_str_or_null()?);
    let moment = |column: usize| Ok::<_, StoreError>(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis));
    let process = match (row.get(6)?, row.get::<_, Option<i64>>(7)?, text_or_null(8)?) {
        (Some(pid), Some(ticks), Some(boot_id)) => {
            Some(ProcessIdentity { pid, started_ticks: unsigned(ticks)?, boot_id: boot_id.to_owned() })
        }
        _ => None,
    };
    Ok(Session {
        id: parsed(text(0)?)?,
        harness: row.get(1)?,
        channel: parsed(text(2)?)?,
        title: row.get(3)?,
        state: parsed(text(4)?)?,
        exit_code: row.get(5)?,
        process,
        project_root: row.get(9)?,
        cwd: row.get(10)?,
        repo_id: text_or_null(11)?.map(parsed).transpose()?,
        created_at: Timestamp::from_millis(row.get(12)?),
        updated_at: Timestamp::from_millis(row.get(13)?),
        archived_at: moment(14)?,
        launching_at: moment(15)?,
        end_intent: text_or_null(16)?.map(parsed).transpose()?,
        launch: from_json(text(17)?)?,
        metadata: from_json(text(18)?)?,
        activity: ActivityStatus {
            activity: parsed(text(19)?)?,
            since: moment(20)?,
            source: text_or_null(21)?.map(parsed).transpose()?,
            detail: row.get(22)?,
            is_unseen: row.get(23)?,
            until: moment(24)?,
        },
    })
}
