//! Why the store could not do what was asked.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("Database locked by another process")]
    Locked,
    #[error("there is no such record in the store")]
    NotFound,
    #[error("the ledger goes on at entry {expected}; entry {got} would leave a gap")]
    Gap { expected: u64, got: u64 },
    #[error("the disk is full; free some space and try again")]
    Full,
    #[error(
        "the store is damaged: {what}; stop the daemon, check the file with `coven db status`, and try `coven db repair` or replace \
         coven.db with a backup, such as a coven.db.bak-* next to it, after removing coven.db-wal"
    )]
    Corrupt { what: String },
    #[error("the store has schema version {found}, this coven knows versions up to {known}; upgrade coven")]
    TooNew { found: u32, known: u32 },
    /// After a failed write a transaction can only be given up, or a row might stay without its event.
    #[error("an earlier step of this transaction failed; nothing of it was written")]
    Aborted,
    #[error("{} is not a regular file; remove it", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot {doing}")]
    Io { doing: String, source: io::Error },
    #[error("a statement failed")]
    Sql { source: rusqlite::Error },
    #[error("call {call} of the store failed on purpose")]
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
