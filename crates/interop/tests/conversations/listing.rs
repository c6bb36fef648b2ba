//! Conversations in a list: newest first, filtered, and read at both ends only.

use std::fs::File;
use std::time::{Duration, SystemTime};

use coven_domain::conversation::{ConversationState, Line, Summary};
use coven_interop::conversations::{Filter, NewConversation};

use crate::files::bytes_read;
use crate::stand::{NOW, Stand, exchange, id};

/// As if it had last been written to so long ago.
pub fn last_written(stand: &Stand, name: &str, ago: Duration) {
    let file = File::options().append(true).open(stand.all.file(&id(name))).expect("there");
    file.set_modified(SystemTime::now() - ago).expect("ours");
}

fn with_agent(stand: &Stand, name: &str, agent: Option<&str>) {
    let new = NewConversation { id: Some(id(name)), agent: agent.map(str::to_owned), ..NewConversation::default() };
    stand.all.create(&new, NOW).expect("made");
}

fn listed(stand: &Stand, filter: &Filter) -> Vec<String> {
    let listing = stand.all.list(filter).expect("a folder");
    assert!(listing.broken.is_empty(), "{listing:?}");
    listing.conversations.into_iter().map(|summary| summary.id.to_string()).collect()
}

#[test]
fn chat_04_all_are_listed_most_recent_first_with_what_the_table_needs() {
    let stand = Stand::new();
    assert_eq!(listed(&stand, &Filter::default()), Vec::<String>::new(), "a folder that is not there is empty");
    for (name, hours) in [("second", 2), ("first", 1), ("third", 3)] {
        stand.with_exchanges(name, hours);
        last_written(&stand, name, Duration::from_secs(hours as u64 * 3600));
    }
    assert_eq!(listed(&stand, &Filter::default()), ["first", "second", "third"]);
    let summary = stand.all.summary(&id("second")).expect("sound");
    let expected = Summary {
        id: id("second"),
        title: None,
        agent: None,
        harness: None,
        cwd: None,
        turn_count: 4,
        created_at: NOW,
        status: ConversationState::Active,
        last_activity_at: summary.last_activity_at,
        size_bytes: stand.bytes(&id("second")).len() as u64,
    };
    assert_eq!(summary, expected);
}

#[test]
fn chat_05_only_those_of_an_agent_are_listed() {
    let stand = Stand::new();
    with_agent(&stand, "a", Some("qa-test"));
    with_agent(&stand, "b", Some("architect"));
    with_agent(&stand, "c", None);
    let of = |agent: &str| listed(&stand, &Filter { agent: Some(agent.into()), status: None });
    assert_eq!(of("qa-test"), ["a"]);
    assert_eq!(of("qa"), Vec::<String>::new());
}

#[test]
fn chat_06_only_those_of_a_status_are_listed() {
    let stand = Stand::new();
    for name in ["goes-on", "done", "broken-off", "taken-up-again"] {
        stand.with_exchanges(name, 1);
    }
    let says = |name: &str, status| {
        stand.append(&id(name), &mut [Line::Status { status, timestamp: NOW }]).expect("saved");
    };
    says("done", ConversationState::Completed);
    says("broken-off", ConversationState::Interrupted);
    says("taken-up-again", ConversationState::Completed);
    stand.exchange(&id("taken-up-again"), "more", "yes");
    let with = |status| {
        let mut names = listed(&stand, &Filter { agent: None, status: Some(status) });
        names.sort();
        names
    };
    assert_eq!(with(ConversationState::Active), ["goes-on", "taken-up-again"]);
    assert_eq!(with(ConversationState::Completed), ["done"]);
    assert_eq!(with(ConversationState::Interrupted), ["broken-off"]);
    for name in ["goes-on", "done", "broken-off", "taken-up-again"] {
        let loaded = stand.load(&id(name)).transcript.status;
        assert_eq!(stand.all.summary(&id(name)).expect("sound").status, loaded, "{name}: the list and the file agree");
    }
}

#[test]
fn chat_04_of_long_files_only_both_ends_are_read() {
    let stand = Stand::new();
    for name in ["a", "b"] {
        stand.with_exchanges(name, 3);
        // One line longer than any page, and one more line after it.
        stand.exchange(&id(name), "q", &"long \"answer\"\n".repeat(100_000));
    }
    stand.append(&id("b"), &mut [Line::Clear { timestamp: NOW }]).expect("saved");
    let (listing, read) = bytes_read(|| stand.all.list(&Filter::default()).expect("a folder"));
    let counts: Vec<u64> = listing.conversations.iter().map(|summary| summary.turn_count).collect();
    assert_eq!(counts, [8, 8]);
    assert!(read <= 4 * 4096, "{read} bytes of two files of a megabyte each");
}

#[test]
fn a_short_or_unusual_file_is_listed_as_it_loads() {
    let stand = Stand::new();
    let metadata = |more: &str| {
        format!("{{\"type\":\"metadata\",\"session_id\":\"x\",\"created_at\":\"2026-01-14T10:00:00Z\"{more}}}\n")
    };
    let turn = "{\"type\":\"turn\",\"role\":\"user\",\"content\":\"hi\",\"timestamp\":\"2026-01-14T10:00:00Z\"}\n";
    let long = format!(",\"cwd\":\"/{}\"", "x".repeat(20_000));
    let files = [
        metadata(""),
        metadata("").trim_end().to_owned(),
        metadata(&long),
        metadata(&long) + turn,
        metadata(",\"status\":\"completed\""),
        metadata(",\"status\":\"completed\"") + turn,
        metadata("") + &turn.repeat(1000),
        metadata("") + turn + &"{\"type\":\"note\"}\n".repeat(1000),
        metadata("") + "\n\n",
        String::new(),
    ];
    for (number, text) in files.iter().enumerate() {
        let id = id(&format!("file-{number}"));
        stand.put(&id, text);
        let (loaded, summary) = (stand.load(&id).transcript, stand.all.summary(&id).expect("sound"));
        assert_eq!(
            (summary.turn_count, summary.status, summary.cwd.as_ref(), summary.created_at),
            (loaded.turns.len() as u64, loaded.status, loaded.metadata.cwd.as_ref(), loaded.metadata.created_at),
            "{number}"
        );
    }
    let mut lines = exchange("a", "b");
    stand.append(&id("file-7"), &mut lines).expect("saved");
    assert_eq!(stand.all.summary(&id("file-7")).expect("sound").turn_count, 3);
}
