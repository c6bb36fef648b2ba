//! The store: one trait in the domain's words, its SQLite implementation, and migrations. The only SQL.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod error;
pub mod failing;
pub mod sqlite;
mod traits;

pub use error::StoreError;
pub use failing::Failing;
pub use sqlite::{SqliteStore, migrations};
pub use traits::{Change, Conversation, Keyframe, Progress, Publish, Render, Store, Tx};
