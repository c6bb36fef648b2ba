//! Deletion and cleanup of conversations.

use std::fs;
use std::time::Duration;

use coven_domain::Timestamp;
use coven_holder::clock;
use coven_interop::conversations::{Cleaned, ConversationError};

use crate::fixture::{Fixture, NOW, id};
use crate::listing::last_written;

const DAY: Duration = Duration::from_secs(86_400);

fn clean(fixture: &Fixture, days: u32) -> Cleaned {
    fixture.all.clean(DAY * days, clock::now()).expect("readable folder")
}

#[test]
fn chat_07_deleting_a_conversation_also_deletes_its_backups() {
    let fixture = Fixture::new();
    let gone = fixture.with_exchanges("session-123", 1);
    fixture.with_exchanges("session-1234", 1);
    for name in ["session-123.jsonl.torn-1", "session-123.jsonl.damaged-2", "session-1234.jsonl.torn-1", "notes"] {
        fs::write(fixture.all.path().join(name), "x").expect("disk has space");
    }
    fixture.all.delete(&gone).expect("not in use");
    assert_eq!(fixture.names(), ["notes", "session-1234.jsonl", "session-1234.jsonl.torn-1"]);
    assert_eq!(fixture.all.ids().expect("readable folder"), [id("session-1234")]);
    let error = fixture.all.delete(&gone).expect_err("already deleted");
    assert_eq!(error.to_string(), "Session not found: session-123");
}

#[test]
fn chat_08_cleanup_goes_by_last_activity() {
    let fixture = Fixture::new();
    for name in ["old", "older", "old-but-written-to", "recent"] {
        // All have the same old creation time.
        fixture.with_exchanges(name, 1);
        last_written(&fixture, name, DAY * if name == "recent" { 29 } else { 31 });
    }
    fixture.exchange(&id("old-but-written-to"), "more", "yes");
    fs::write(fixture.all.path().join("old.jsonl.torn-1"), "x").expect("disk has space");
    let cleaned = clean(&fixture, 30);
    assert_eq!(cleaned, Cleaned { removed: vec![id("old"), id("older")], ..Cleaned::default() });
    assert_eq!(fixture.names(), ["old-but-written-to.jsonl", "recent.jsonl"]);
    assert_eq!(clean(&fixture, 30), Cleaned::default());
    assert_eq!(clean(&fixture, 28).removed, [id("recent")]);
}

#[test]
fn chat_09_cleanup_accepts_a_missing_folder_and_deletes_nothing_if_the_clock_is_set_back() {
    let fixture = Fixture::new();
    assert_eq!(clean(&fixture, 0), Cleaned::default());
    fixture.create("s");
    let before = Timestamp::from_millis(1_000);
    assert_eq!(fixture.all.clean(Duration::ZERO, before).expect("readable folder"), Cleaned::default());
    assert_eq!(fixture.names(), ["s.jsonl"]);
}

#[test]
fn chat_09_a_conversation_in_use_is_neither_cleaned_up_nor_deleted() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("s", 1);
    let first = fixture.holder("open", &id);
    let second = fixture.holder("open", &id);
    last_written(&fixture, "s", DAY * 365);
    for holder in [first, second] {
        assert!(fixture.all.is_in_use(&id));
        assert_eq!(clean(&fixture, 30), Cleaned { spared: vec![id.clone()], ..Cleaned::default() });
        let error = fixture.all.delete(&id).expect_err("in use");
        assert!(matches!(error, ConversationError::InUse { .. }), "{error}");
        holder.release();
    }
    assert!(!fixture.all.is_in_use(&id));
    assert_eq!(fixture.names(), ["s.jsonl"], "the last user removed the `.use` file");
    assert_eq!(clean(&fixture, 30).removed, [id]);
}

#[test]
fn chat_09_a_killed_user_does_not_protect_a_conversation() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("s", 1);
    fixture.holder("open", &id).kill();
    assert_eq!(fixture.names(), ["s.jsonl", "s.jsonl.use"]);
    assert!(!fixture.all.is_in_use(&id));
    last_written(&fixture, "s", DAY * 31);
    assert_eq!(clean(&fixture, 30).removed, [id]);
    assert!(fixture.names().is_empty());
}

#[test]
fn a_conversation_is_not_deleted_during_a_save() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("s", 1);
    let saving = fixture.holder("lock", &id);
    assert!(matches!(fixture.all.delete(&id), Err(ConversationError::InUse { .. })));
    saving.release();
    fixture.all.delete(&id).expect("no longer in use");
}

#[test]
fn cleanup_removes_temporary_files_after_an_hour() {
    let fixture = Fixture::new();
    fixture.create("s");
    let temp = fixture.all.path().join(".x.jsonl.0123.tmp");
    fs::write(&temp, "x").expect("disk has space");
    clean(&fixture, 30);
    assert!(temp.exists(), "a process may still be writing it");
    let later = Timestamp::from_millis(clock::now().as_millis() + 3_700_000);
    fixture.all.clean(DAY, later).expect("readable folder");
    assert_eq!(fixture.names(), ["s.jsonl"]);
}

#[test]
fn cleanup_continues_after_a_conversation_that_cannot_be_deleted() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.all.file(&id("a-folder")).join("in-the-way")).expect("disk has space");
    fixture.create("s");
    let cleaned = fixture.all.clean(DAY, Timestamp::from_millis(NOW.as_millis() * 2)).expect("readable folder");
    assert_eq!(cleaned.removed, [id("s")]);
    assert!(
        matches!(&cleaned.failed[..], [(failed, why)] if *failed == id("a-folder") && why.contains("a-folder")),
        "{cleaned:?}"
    );
}
