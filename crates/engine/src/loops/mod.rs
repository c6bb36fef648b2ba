//! Background loops: they find candidates and call the engine like any client.

pub mod activity;
pub mod idle;
pub mod launch_queue;
pub mod notify;
mod notify_channels;
pub mod question_sets;
pub mod recovery;
pub mod retention;
pub mod scheduler;
pub mod stored_calls;
pub mod terminal_prompts;
