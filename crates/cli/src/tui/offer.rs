//! What the browser offers for a session: the actions its record allows, each with its key.

use std::str::FromStr;

use super::item::Item;
use coven_domain::session::Action;

use crate::frame::menu;
pub use crate::frame::menu::{ENTER, key_name};

pub type Offer = menu::Offer<Action>;

/// In the order of the menu. `k` moves up as in vi, so kill is `x`.
pub const OFFERS: &[Offer] = &[
    Offer { action: Action::Attach, key: ENTER, word: "attach", help: "attach; a finished session opens as a log" },
    Offer { action: Action::Start, key: 's', word: "start", help: "launch a record that was made with --detach" },
    Offer { action: Action::Replay, key: 'r', word: "replay", help: "replay in its original timing" },
    Offer { action: Action::Input, key: 'i', word: "input", help: "type lines to it without attaching" },
    Offer { action: Action::Finish, key: 'f', word: "finish", help: "ask it to end: completed" },
    Offer { action: Action::Kill, key: 'x', word: "kill", help: "end it now: killed" },
    Offer { action: Action::Summon, key: 'u', word: "summon", help: "bring it back from the archive and open it" },
    Offer { action: Action::Archive, key: 'a', word: "archive", help: "hide it, keep everything" },
    Offer { action: Action::Export, key: 'e', word: "export", help: "show the command that exports it" },
    Offer { action: Action::Sacrifice, key: 'd', word: "sacrifice", help: "delete it for good; asks for the word" },
];

/// A finished session cannot be attached to; Enter opens its log instead.
const OPEN_LOG: Offer = Offer { action: Action::Replay, key: ENTER, word: "open log", help: "" };

/// What a conversation is offered for: it goes on in `coven spawn`, and is only read here.
pub const RESUME: (char, &str) = (ENTER, "resume");
pub const EXPORT: (char, &str) = ('e', "export");

pub fn allows(record: &Item, action: Action) -> bool {
    // A newer daemon may know actions that this browser does not; they are not offered.
    record.actions.iter().any(|word| Action::from_str(word) == Ok(action))
}

/// The menu of a session.
pub fn offers(record: &Item) -> Vec<Offer> {
    let log = (!allows(record, Action::Attach) && allows(record, Action::Replay)).then_some(OPEN_LOG);
    let allowed = OFFERS.iter().copied().filter(|offer| allows(record, offer.action));
    log.into_iter().chain(allowed).collect()
}

/// What pressing `key` on a session would do, if it is allowed.
pub fn offered(record: &Item, key: char) -> Option<Offer> {
    offers(record).into_iter().find(|offer| offer.key == key)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{completed, record};
    use super::*;

    fn menu(record: &Item) -> Vec<&'static str> {
        offers(record).iter().map(|offer| offer.word).collect()
    }

    #[test]
    fn only_what_the_record_allows_is_offered() {
        assert_eq!(menu(&record("a", 1)), ["attach", "replay", "input", "finish", "kill", "export"]);
        assert_eq!(menu(&completed("a", 1)), ["open log", "replay", "archive", "export", "sacrifice"]);
        let mut odd = record("a", 1);
        odd.actions = vec!["start".into(), "levitate".into()];
        assert_eq!(menu(&odd), ["start"]);
        odd.actions.clear();
        assert!(menu(&odd).is_empty());
    }

    #[test]
    fn every_action_has_a_key_of_its_own() {
        let mut keys: Vec<char> = OFFERS.iter().map(|offer| offer.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), Action::ALL.len());
        assert!(Action::ALL.iter().all(|action| OFFERS.iter().any(|offer| offer.action == *action)));
    }
}
