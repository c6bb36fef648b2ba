//! Support for scenario and fault tests: each test has its own home and runs the built binary.
//!
//! [`TestHome`] is a project with a `.coven` home, its daemon and the daemon's processes. Dropping it kills all of them and
//! waits until they have exited. [`TestTerminal`] runs `coven` in a real terminal. [`invariants::check_invariants`] checks
//! what must hold after every test.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

// For the fake agent, a binary of this package.
use {signal_hook as _, uuid as _};

pub mod agents;
pub mod events;
pub mod evidence;
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
pub use home::{CommandOutput, TestHome};
pub use http::HttpResponse;
pub use invariants::{check_invariants, check_tasks};
pub use terminal::TestTerminal;
pub use waiting::{DEADLINE, eventually, wait_until};
