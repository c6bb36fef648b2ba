//! The store: one trait in the domain's words, its SQLite implementation, and migrations. The only SQL.

mod error;
pub mod failing;
pub mod page;
pub mod sqlite;
mod traits;

pub use error::StoreError;
pub use page::{Order, SessionFilter, SessionPage, SessionQuery, StateSnapshot, SweepReport};
pub use traits::{Change, Keyframe, NewMessage, Store, Tx};
