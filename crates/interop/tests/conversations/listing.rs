//! The list of conversations: newest first, filtered, and reading only both ends of each file.

use std::fs::File;
use std::time::{Duration, SystemTime};

use coven_domain::conversation::{ConversationState, Line, Summary};
use coven_interop::conversations::{Filter, NewConversation};

use crate::files::bytes_read;
use crate::fixture::{Fixture, NOW, exchange, id};

/// Sets the modification time of a conversation to `ago`.
pub fn last_written(fixture: &Fixture, name: &str, ago: Duration) {
    let file = File::options().append(true).open(fixture.all.file(&id(name))).expect("exists");
    file.set_modified(SystemTime::now() - ago).expect("writable");
}

fn with_agent(fixture: &Fixture, name: &str, agent: Option<&str>) {
    let new = NewConversation { id: Some(id(name)), agent: agent.map(str::to_owned), ..NewConversation::default() };
    fixture.all.create(&new, NOW).expect("created");
}

fn listed(fixture: &Fixture, filter: &Filter) -> Vec<String> {
    let listing = fixture.all.list(filter).expect("readable folder");
    assert!(listing.broken.is_empty(), "{listing:?}");
    listing.conversations.into_iter().map(|summary| summary.id.to_string()).collect()
}

#[test]
fn chat_04_the_list_is_complete_and_most_recent_first() {
    let fixture = Fixture::new();
    assert_eq!(listed(&fixture, &Filter::default()), Vec::<String>::new(), "a missing folder counts as empty");
    for (name, hours) in [("second", 2), ("first", 1), ("third", 3)] {
        fixture.with_exchanges(name, hours);
        last_written(&fixture, name, Duration::from_secs(hours as u64 * 3600));
    }
    assert_eq!(listed(&fixture, &Filter::default()), ["first", "second", "third"]);
    let summary = fixture.all.summary(&id("second")).expect("sound");
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
        size_bytes: fixture.bytes(&id("second")).len() as u64,
    };
    assert_eq!(summary, expected);
}

#[test]
fn chat_05_the_list_can_be_filtered_by_agent() {
    let fixture = Fixture::new();
    with_agent(&fixture, "a", Some("qa-test"));
    with_agent(&fixture, "b", Some("architect"));
    with_agent(&fixture, "c", None);
    let of = |agent: &str| listed(&fixture, &Filter { agent: Some(agent.into()), status: None });
    assert_eq!(of("qa-test"), ["a"]);
    assert_eq!(of("qa"), Vec::<String>::new());
}

#[test]
fn chat_06_the_list_can_be_filtered_by_status() {
    let fixture = Fixture::new();
    for name in ["active", "done", "interrupted", "resumed"] {
        fixture.with_exchanges(name, 1);
    }
    let set_status = |name: &str, status| {
        fixture.append(&id(name), &mut [Line::Status { status, timestamp: NOW }]).expect("saved");
    };
    set_status("done", ConversationState::Completed);
    set_status("interrupted", ConversationState::Interrupted);
    set_status("resumed", ConversationState::Completed);
    fixture.exchange(&id("resumed"), "more", "yes");
    let with = |status| {
        let mut names = listed(&fixture, &Filter { agent: None, status: Some(status) });
        names.sort();
        names
    };
    assert_eq!(with(ConversationState::Active), ["active", "resumed"]);
    assert_eq!(with(ConversationState::Completed), ["done"]);
    assert_eq!(with(ConversationState::Interrupted), ["interrupted"]);
    for name in ["active", "done", "interrupted", "resumed"] {
        let loaded = fixture.load(&id(name)).transcript.status;
        assert_eq!(fixture.all.summary(&id(name)).expect("sound").status, loaded, "{name}: list and file agree");
    }
}

#[test]
fn chat_04_listing_reads_only_both_ends_of_long_files() {
    let fixture = Fixture::new();
    for name in ["a", "b"] {
        fixture.with_exchanges(name, 3);
        // One line that is longer than a page.
        fixture.exchange(&id(name), "q", &"long \"answer\"\n".repeat(100_000));
    }
    fixture.append(&id("b"), &mut [Line::Clear { timestamp: NOW }]).expect("saved");
    let (listing, read) = bytes_read(|| fixture.all.list(&Filter::default()).expect("readable folder"));
    let counts: Vec<u64> = listing.conversations.iter().map(|summary| summary.turn_count).collect();
    assert_eq!(counts, [8, 8]);
    assert!(read <= 4 * 4096, "{read} bytes of two files of a megabyte each");
}

#[test]
fn short_or_unusual_files_are_listed_consistently_with_loading() {
    let fixture = Fixture::new();
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
        fixture.put(&id, text);
        let (loaded, summary) = (fixture.load(&id).transcript, fixture.all.summary(&id).expect("sound"));
        assert_eq!(
            (summary.turn_count, summary.status, summary.cwd.as_ref(), summary.created_at),
            (loaded.turns.len() as u64, loaded.status, loaded.metadata.cwd.as_ref(), loaded.metadata.created_at),
            "{number}"
        );
    }
    let mut lines = exchange("a", "b");
    fixture.append(&id("file-7"), &mut lines).expect("saved");
    assert_eq!(fixture.all.summary(&id("file-7")).expect("sound").turn_count, 3);
}
