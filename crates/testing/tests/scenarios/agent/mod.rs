//! AGENT: ACP sessions in a repository, through `/api/sessions`.

mod client_methods;
mod content;
mod endpoints;
mod idle;
mod limits;
mod listing;
mod permissions;
mod persistence;
mod repos;
mod resume;
mod same_sessions;
mod schema;
mod status;
mod stream;

use coven_testing::TestHome;
use rusqlite::{Connection, OpenFlags};

/// Opens the database read-only, like another program.
fn database(home: &TestHome) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(home.path().join("coven.db"), flags).expect("a database")
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::parse_str(text).is_ok()
}

/// `2025-11-15T20:23:09.007Z`.
fn is_iso_time(text: &str) -> bool {
    text.parse::<coven_domain::Timestamp>().is_ok_and(|it| it.to_string() == text)
}
