//! Wire types and the table of routes. The only JSON names; no I/O.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod acp_state;
pub mod activity;
pub mod compat;
pub mod conversation;
pub mod entry;
pub mod error;
pub mod event;
mod field_names;
pub mod harness;
pub mod health;
pub mod inbox;
pub mod list;
pub mod live;
pub mod message;
pub mod message_content;
pub mod migrate;
#[cfg(feature = "schema")]
pub mod openapi;
pub mod operation;
pub mod question;
pub mod repo;
pub mod request;
pub mod retention;
pub mod routes;
#[cfg(feature = "schema")]
pub mod schema;
pub mod screen;
pub mod session;
pub mod state;
pub mod task;
pub mod workflow;

pub use conversation::ConversationRecord;
pub use error::{ErrorBody, ErrorCode};
pub use list::List;
pub use session::SessionRecord;

/// Names of headers that carry what a raw body cannot.
pub mod header {
    /// The byte offset of the log that a screen or a piece of log belongs to.
    pub const OFFSET: &str = "x-coven-offset";
    /// The whole id of a session that was asked for by prefix.
    pub const SESSION: &str = "x-coven-session";
    /// Of a request: the session that the caller runs in, from its `COVEN_SESSION_ID`.
    pub const CALLER_SESSION: &str = "x-coven-caller-session";
    pub const STATUS: &str = "x-coven-status";
    pub const ROWS: &str = "x-coven-rows";
    pub const COLS: &str = "x-coven-cols";
}
