//! The task board as text and JSON. The app has the one to work on.

mod lines;
pub mod once;
mod read;
mod tasks;
