//! Rows of `repos`.

use coven_domain::Timestamp;
use coven_domain::repo::Repo;
use rusqlite::{Connection, params};

use super::parsed;
use crate::StoreError;

pub(super) fn insert(connection: &Connection, repo: &Repo) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT INTO repos (id, name, path, created_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![repo.id.to_string(), repo.name, repo.path, repo.created_at.as_millis()])?;
    Ok(())
}

/// Oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<Repo>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT id, name, path, created_at FROM repos ORDER BY created_at, rowid")?;
    let mut rows = statement.query([])?;
    let mut repos = Vec::new();
    while let Some(row) = rows.next()? {
        repos.push(Repo {
            id: parsed(row.get_ref(0)?.as_str()?)?,
            name: row.get(1)?,
            path: row.get(2)?,
            created_at: Timestamp::from_millis(row.get(3)?),
        });
    }
    Ok(repos)
}
