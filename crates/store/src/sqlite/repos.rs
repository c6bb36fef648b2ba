//! Rows of `repos`.

use coven_domain::repo::Repo;
use coven_domain::{RepoId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::parsed;
use crate::StoreError;

pub(super) fn insert(connection: &Connection, repo: &Repo) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT INTO repos (id, name, path, created_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![repo.id.to_string(), repo.name, repo.path, repo.created_at.as_millis()])?;
    Ok(())
}

/// Removes a repository from the list or restores it.
pub(super) fn update(connection: &Connection, repo: &Repo) -> Result<(), StoreError> {
    let changed = connection
        .prepare_cached("UPDATE repos SET name = ?2, removed_at = ?3 WHERE id = ?1")?
        .execute(params![repo.id.to_string(), repo.name, repo.removed_at.map(Timestamp::as_millis)])?;
    if changed == 1 { Ok(()) } else { Err(StoreError::NotFound) }
}

/// Returns repositories that were not removed, oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<Repo>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, name, path, created_at, removed_at FROM repos WHERE removed_at IS NULL ORDER BY created_at, rowid",
    )?;
    let mut rows = statement.query([])?;
    let mut repos = Vec::new();
    while let Some(row) = rows.next()? {
        repos.push(from_row(row)?);
    }
    Ok(repos)
}

pub(super) fn by_id(connection: &Connection, id: RepoId) -> Result<Option<Repo>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT id, name, path, created_at, removed_at FROM repos WHERE id = ?1")?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

pub(super) fn at(connection: &Connection, path: &str) -> Result<Option<Repo>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT id, name, path, created_at, removed_at FROM repos WHERE path = ?1")?;
    let mut rows = statement.query([path])?;
    rows.next()?.map(from_row).transpose()
}

fn from_row(row: &Row<'_>) -> Result<Repo, StoreError> {
    Ok(Repo {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        name: row.get(1)?,
        path: row.get(2)?,
        created_at: Timestamp::from_millis(row.get(3)?),
        removed_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
    })
}
