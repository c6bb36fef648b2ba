//! What a pane shows: a terminal, a conversation, a question or a task.

mod clipboard;
pub mod conversation;
pub mod form;
pub mod keys;
pub mod panes;
pub mod scrollback;
pub mod task;
pub mod terminal;
