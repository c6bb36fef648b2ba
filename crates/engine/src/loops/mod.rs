//! What the daemon does by itself: clients of the engine that find candidates and call it.

pub mod idle;
pub mod notify;
pub mod question_sets;
pub mod recovery;
pub mod retention;
pub mod scheduler;
pub mod terminal_prompts;
