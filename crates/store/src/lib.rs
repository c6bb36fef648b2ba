//! The store: a trait in domain terms, its SQLite implementation and migrations. No other crate contains SQL.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod error;
pub mod fault_injection;
pub mod sqlite;
mod traits;

pub use error::StoreError;
pub use fault_injection::FaultInjectingStore;
pub use sqlite::{SqliteStore, migrations};
pub use traits::{AcpCheckpoint, AcpCheckpointUpdate, Change, Keyframe, Publish, Render, Store, Tx};
