//! Outcomes that a target reports for an input. The worker keeps inputs with new outcomes.
//!
//! Stable Rust offers no coverage data at run time, so the targets report their outcomes themselves.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

thread_local! {
    static SEEN: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
}

/// Reports an outcome of the current input: a kind of record, an error or a state.
pub fn saw(what: impl Hash) {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    SEEN.with_borrow_mut(|seen| seen.insert(hasher.finish()));
}

/// Reports a message by its first lowercase letters, which leaves out most numbers and names.
pub(crate) fn saw_message(message: &str) {
    let letters: String = message.chars().filter(|c| c.is_ascii_lowercase()).take(24).collect();
    saw(letters);
}

/// Runs a target and returns its outcomes.
pub fn outcomes_of(run: fn(&[u8]), input: &[u8]) -> BTreeSet<u64> {
    SEEN.take();
    run(input);
    SEEN.take()
}
