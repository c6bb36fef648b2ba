//! Files that no tool of the format writes, such as endless lines and fifos. They neither exhaust memory nor block.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use coven_domain::conversation::ConversationId;
use coven_interop::conversations::{ConversationError, Conversations, Filter, Wait};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::fixture::{Fixture, NOW, error_with_cause, exchange, id, report_of};

/// In KiB. One of the long lines alone would need twice as much.
const DATA_LIMIT: u64 = 128 << 10;
const LONG: u64 = 256 << 20;

/// Appends a very long line that consists mostly of a hole.
fn append_long_line(path: &Path, end: &str) {
    let mut file = OpenOptions::new().append(true).open(path).expect("exists");
    let len = file.metadata().expect("exists").len();
    file.set_len(len + LONG).and_then(|()| file.write_all(end.as_bytes())).expect("sparse file");
}

/// A conversation with a very long line between two exchanges.
fn with_long_line(fixture: &Fixture) -> ConversationId {
    let id = fixture.with_exchanges("long", 1);
    append_long_line(&fixture.all.file(&id), "\n");
    fixture.exchange(&id, "after", "all");
    id
}

/// Runs the role in another process with little memory and returns its report.
fn with_little_memory(fixture: &Fixture, role: &str, id: &ConversationId) -> String {
    let role = format!("hostile {role}");
    report_of(fixture.other_after(&format!("ulimit -d {DATA_LIMIT}"), &role, id).spawn().expect("process starts"))
}

/// Runs the role in that process.
pub fn act(all: &Conversations, id: &ConversationId, what: &str) -> Result<String, ConversationError> {
    Ok(match what {
        "list" => {
            let listing = all.list(&Filter::default())?;
            let sound = listing.conversations.iter().map(|it| format!("{}: {} turns", it.id, it.turn_count));
            let broken = listing.broken.iter().map(|(id, why)| format!("{id}: {}", error_with_cause(why)));
            sound.chain(broken).collect::<Vec<_>>().join(" | ")
        }
        "load" => format!("{} turns", all.load(id)?.transcript.turns.len()),
        "outline" => format!("{} turns", all.outline(id)?.0.turns),
        "turns" => {
            let mut count = 0;
            all.each_turn(id, |_| {
                count += 1;
                Ok(())
            })?;
            format!("{count} turns, last {}", all.load_last(id, 3)?.turns.len())
        }
        "append" => format!("{:?}", all.writer(id, Wait::NoWait)?.append(&mut exchange("q", "a"))?.len()),
        "recover" => {
            let done = all.recover(id, NOW)?;
            format!("kept {}, lost {}", done.kept_lines, done.lost_lines)
        }
        other => panic!("unknown role: {other}"),
    })
}

#[test]
fn listing_a_very_long_line_takes_little_memory() {
    let fixture = Fixture::new();
    let sound = fixture.with_exchanges("sound", 2);
    with_long_line(&fixture);
    let first = fixture.create("first");
    File::create(fixture.all.file(&first)).and_then(|file| file.set_len(LONG)).expect("sparse file");
    let last = fixture.with_exchanges("last", 1);
    append_long_line(&fixture.all.file(&last), "");
    let listed = with_little_memory(&fixture, "list", &sound);
    assert!(listed.contains("sound: 4 turns") && listed.contains("long: 4 turns"), "{listed}");
    assert!(listed.contains("first: ") && listed.contains("last: "), "both are listed as broken: {listed}");
    assert_eq!(listed.matches("is larger than 64 MiB, the limit for a conversation").count(), 2, "{listed}");
}

#[test]
fn a_very_long_line_is_damage_that_recovery_removes() {
    let fixture = Fixture::new();
    let id = with_long_line(&fixture);
    let damaged = with_little_memory(&fixture, "load", &id);
    assert!(damaged.contains("line 4: longer than 16 MiB, the limit for a line of a conversation"), "{damaged}");
    assert_eq!(with_little_memory(&fixture, "outline", &id), damaged);
    assert_eq!(with_little_memory(&fixture, "turns", &id), "4 turns, last 3");
    assert_eq!(with_little_memory(&fixture, "recover", &id), "kept 5, lost 1");
    assert_eq!(fixture.texts(&id), ["question 0", "answer 0", "after", "all"]);
}

#[test]
fn a_very_long_incomplete_line_is_moved_to_a_backup() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("s", 1);
    append_long_line(&fixture.all.file(&id), "");
    assert_eq!(with_little_memory(&fixture, "append", &id), "1");
    assert_eq!(fixture.texts(&id).len(), 4);
    let kept = fixture.names().into_iter().find(|name| name.contains(".torn-")).expect("backup exists");
    assert_eq!(std::fs::metadata(fixture.all.path().join(kept)).expect("exists").len(), LONG);
}

#[test]
fn a_fifo_is_listed_as_broken_and_never_read() {
    let fixture = Fixture::new();
    let sound = fixture.with_exchanges("sound", 1);
    let fifo = id("fifo");
    mkfifoat(CWD, fixture.all.file(&fifo), Mode::from_raw_mode(0o600)).expect("fifo");
    let listing = fixture.all.list(&Filter::default()).expect("readable folder");
    assert_eq!(listing.conversations.iter().map(|it| &it.id).collect::<Vec<_>>(), [&sound]);
    let [(broken, why)] = &listing.broken[..] else { panic!("{:?}", listing.broken) };
    assert!(*broken == fifo && why.to_string().contains("is a fifo, not a regular file"), "{why}");
    for refused in [fixture.all.load(&fifo).err(), fixture.all.writer(&fifo, Wait::NoWait).err()] {
        assert!(matches!(refused, Some(ConversationError::Refused(_))), "{refused:?}");
    }
}

#[test]
fn a_fifo_as_use_file_does_not_block() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("s", 1);
    mkfifoat(CWD, fixture.all.path().join("s.jsonl.use"), Mode::from_raw_mode(0o600)).expect("fifo");
    assert!(!fixture.all.is_in_use(&id));
}

#[test]
fn a_turn_too_long_to_read_is_not_saved() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("s", 1);
    let error = fixture.append(&id, &mut exchange("q", &"x".repeat(17 << 20))).expect_err("too long");
    let message = error_with_cause(&error);
    assert!(message.ends_with("larger than 16 MiB, the limit for a line of a conversation"), "{message}");
    assert_eq!(fixture.texts(&id).len(), 2, "nothing was saved");
}

#[test]
fn older_turns_are_loaded_in_pages() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("s", 5);
    let page = fixture.all.load_before(&id, 3, 6).expect("sound");
    let texts: Vec<&str> = page.turns.iter().map(|turn| turn.content.as_str()).collect();
    assert_eq!((texts, page.before), (vec!["answer 1", "question 2", "answer 2"], Some(3)));
    let page = fixture.all.load_before(&id, 100, 100).expect("sound");
    assert_eq!((page.turns.len(), page.before), (10, Some(0)));
}
