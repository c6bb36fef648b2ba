//! What a screen offers for what is selected on it.

/// One line of the menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer<Action> {
    pub action: Action,
    pub key: char,
    pub word: &'static str,
    pub help: &'static str,
}

pub const ENTER: char = '\n';

/// The key of an offer as people read it.
pub fn key_name(key: char) -> String {
    if key == ENTER { "⏎".to_owned() } else { key.to_string() }
}
