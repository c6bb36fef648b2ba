//! What scenario and fault tests stand on: a home of its own for every test, driven through the built binary.
//!
//! [`TestHome`] is a project with a `.coven` home, its daemon and everything that daemon starts; dropped, it ends all of
//! it and makes sure that nothing is left. [`TestTerminal`] is a real terminal with a `coven` in it.
//! [`invariants::check_invariants`] says what must hold after whatever a test did.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

// For the fake agent, a binary of this package.
use {signal_hook as _, uuid as _};

pub mod agents;
pub mod events;
pub mod home;
pub mod http;
pub mod invariants;
pub mod journal;
mod operations;
pub mod pattern;
pub mod process;
pub mod program;
pub mod records;
pub mod samples;
pub mod sessions;
pub mod terminal;
mod waiting;
pub mod work;

pub use events::EventFeed;
pub use home::{Ran, TestHome};
pub use http::Answer;
pub use invariants::{check_invariants, check_tasks};
pub use terminal::TestTerminal;
pub use waiting::{DEADLINE, eventually, wait_until};
