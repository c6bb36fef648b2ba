//! What goes when it is deleted or old, and what stays.

use std::fs;
use std::time::Duration;

use coven_domain::Timestamp;
use coven_holder::clock;
use coven_interop::conversations::{Cleaned, ConversationError};

use crate::listing::last_written;
use crate::stand::{NOW, Stand, id};

const DAY: Duration = Duration::from_secs(86_400);

fn clean(stand: &Stand, days: u32) -> Cleaned {
    stand.all.clean(DAY * days, clock::now()).expect("a folder")
}

#[test]
fn chat_07_a_deleted_conversation_is_gone_with_all_that_was_kept_of_it() {
    let stand = Stand::new();
    let gone = stand.with_exchanges("session-123", 1);
    stand.with_exchanges("session-1234", 1);
    for name in ["session-123.jsonl.torn-1", "session-123.jsonl.damaged-2", "session-1234.jsonl.torn-1", "notes"] {
        fs::write(stand.all.path().join(name), "x").expect("room");
    }
    stand.all.delete(&gone).expect("nobody uses it");
    assert_eq!(stand.names(), ["notes", "session-1234.jsonl", "session-1234.jsonl.torn-1"]);
    assert_eq!(stand.all.ids().expect("a folder"), [id("session-1234")]);
    let error = stand.all.delete(&gone).expect_err("once");
    assert_eq!(error.to_string(), "Session not found: session-123");
}

#[test]
fn chat_08_conversations_go_by_their_last_activity() {
    let stand = Stand::new();
    for name in ["old", "older", "old-but-written-to", "recent"] {
        // All were begun long ago.
        stand.with_exchanges(name, 1);
        last_written(&stand, name, DAY * if name == "recent" { 29 } else { 31 });
    }
    stand.exchange(&id("old-but-written-to"), "more", "yes");
    fs::write(stand.all.path().join("old.jsonl.torn-1"), "x").expect("room");
    let cleaned = clean(&stand, 30);
    assert_eq!(cleaned, Cleaned { removed: vec![id("old"), id("older")], ..Cleaned::default() });
    assert_eq!(stand.names(), ["old-but-written-to.jsonl", "recent.jsonl"]);
    assert_eq!(clean(&stand, 30), Cleaned::default());
    assert_eq!(clean(&stand, 28).removed, [id("recent")]);
}

#[test]
fn chat_09_a_folder_that_is_not_there_is_clean_and_a_clock_set_back_deletes_nothing() {
    let stand = Stand::new();
    assert_eq!(clean(&stand, 0), Cleaned::default());
    stand.create("s");
    let before = Timestamp::from_millis(1_000);
    assert_eq!(stand.all.clean(Duration::ZERO, before).expect("a folder"), Cleaned::default());
    assert_eq!(stand.names(), ["s.jsonl"]);
}

#[test]
fn chat_09_what_is_in_use_is_neither_cleaned_nor_deleted() {
    let stand = Stand::new();
    let id = stand.with_exchanges("s", 1);
    let first = stand.holder("open", &id);
    let second = stand.holder("open", &id);
    last_written(&stand, "s", DAY * 365);
    for holder in [first, second] {
        assert!(stand.all.is_in_use(&id));
        assert_eq!(clean(&stand, 30), Cleaned { spared: vec![id.clone()], ..Cleaned::default() });
        let error = stand.all.delete(&id).expect_err("in use");
        assert!(matches!(error, ConversationError::InUse { .. }), "{error}");
        holder.release();
    }
    assert!(!stand.all.is_in_use(&id));
    assert_eq!(stand.names(), ["s.jsonl"], "the last one took the mark away");
    assert_eq!(clean(&stand, 30).removed, [id]);
}

#[test]
fn chat_09_a_user_that_was_killed_does_not_keep_it() {
    let stand = Stand::new();
    let id = stand.with_exchanges("s", 1);
    stand.holder("open", &id).kill();
    assert_eq!(stand.names(), ["s.jsonl", "s.jsonl.use"]);
    assert!(!stand.all.is_in_use(&id));
    last_written(&stand, "s", DAY * 31);
    assert_eq!(clean(&stand, 30).removed, [id]);
    assert!(stand.names().is_empty());
}

#[test]
fn what_is_being_saved_is_not_deleted() {
    let stand = Stand::new();
    let id = stand.with_exchanges("s", 1);
    let saving = stand.holder("lock", &id);
    assert!(matches!(stand.all.delete(&id), Err(ConversationError::InUse { .. })));
    saving.release();
    stand.all.delete(&id).expect("now it is free");
}

#[test]
fn remains_of_files_whose_making_was_cut_short_go_after_an_hour() {
    let stand = Stand::new();
    stand.create("s");
    let remains = stand.all.path().join(".x.jsonl.0123.tmp");
    fs::write(&remains, "x").expect("room");
    clean(&stand, 30);
    assert!(remains.exists(), "it may still be in the making");
    let later = Timestamp::from_millis(clock::now().as_millis() + 3_700_000);
    stand.all.clean(DAY, later).expect("a folder");
    assert_eq!(stand.names(), ["s.jsonl"]);
}

#[test]
fn a_conversation_that_cannot_be_deleted_holds_up_no_other() {
    let stand = Stand::new();
    fs::create_dir_all(stand.all.file(&id("a-folder")).join("in-the-way")).expect("room");
    stand.create("s");
    let cleaned = stand.all.clean(DAY, Timestamp::from_millis(NOW.as_millis() * 2)).expect("a folder");
    assert_eq!(cleaned.removed, [id("s")]);
    assert!(
        matches!(&cleaned.failed[..], [(failed, why)] if *failed == id("a-folder") && why.contains("a-folder")),
        "{cleaned:?}"
    );
}
