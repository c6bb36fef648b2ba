//! A session played again as it was: the same bytes at the same pace.

mod keys;
mod player;
mod tape;

pub use player::{Speed, play};
pub use tape::Tape;
