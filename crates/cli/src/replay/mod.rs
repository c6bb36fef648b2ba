//! Replays a session: the same bytes at the same pace.

mod keys;
mod player;
mod recording;

pub use player::{Speed, play};
pub use recording::Recording;
