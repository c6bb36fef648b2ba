//! Errors of the store.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("Database locked by another process")]
    Locked,
    #[error("the store has no such record")]
    NotFound,
    #[error("cannot append entry {got} to the ledger: entry {expected} is next")]
    Gap { expected: u64, got: u64 },
    #[error("the disk is full; free some space and retry")]
    Full,
    #[error(
        "the store is damaged: {what}; stop the daemon and check the file with `coven db status`, then run \
         `coven db repair`, or remove coven.db-wal and replace coven.db with a backup such as coven.db.bak-*"
    )]
    Corrupt { what: String },
    #[error("the store has schema version {found}, but this coven supports versions up to {known}; upgrade coven")]
    TooNew { found: u32, known: u32 },
    /// After a failed write a transaction can only be rolled back: a row must not be committed without its event.
    #[error("the transaction was rolled back because an earlier step failed")]
    Aborted,
    #[error("{} is not a regular file; remove it", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot {doing}")]
    Io { doing: String, source: io::Error },
    #[error("an SQL statement failed")]
    Sql { source: rusqlite::Error },
    #[error("injected failure of store call {call}")]
    Injected { call: u64 },
}

impl StoreError {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into() }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Io { doing, source },
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::corrupt(source.to_string()),
            Some(ErrorCode::SystemIoFailure)
                if source.sqlite_error().is_some_and(|it| it.extended_code == rusqlite::ffi::SQLITE_IOERR_DATA) =>
            {
                Self::corrupt(format!("page {} does not match its checksum", crate::sqlite::checksums::damaged_page()))
            }
            _ => Self::Sql { source },
        }
    }
}

impl From<rusqlite::types::FromSqlError> for StoreError {
    fn from(problem: rusqlite::types::FromSqlError) -> Self {
        Self::corrupt(problem.to_string())
    }
}
