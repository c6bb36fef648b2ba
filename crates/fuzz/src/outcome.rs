//! What a target says about an input: the worker keeps inputs that led to something new.
//!
//! Stable Rust gives no coverage to a running program, so the targets name their outcomes themselves.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

thread_local! {
    static SEEN: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
}

/// Names something that the current input led to: a kind of record, an error, a state.
pub fn saw(what: impl Hash) {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    SEEN.with_borrow_mut(|seen| seen.insert(hasher.finish()));
}

/// The letters of a message: what an error says without the numbers and names in it.
pub(crate) fn saw_message(message: &str) {
    let letters: String = message.chars().filter(|c| c.is_ascii_lowercase()).take(24).collect();
    saw(letters);
}

/// Runs a target; gives what it saw.
pub fn outcomes_of(run: fn(&[u8]), input: &[u8]) -> BTreeSet<u64> {
    SEEN.take();
    run(input);
    SEEN.take()
}
