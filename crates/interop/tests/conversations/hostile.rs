//! Files that no tool of the format writes: lines without an end, fifos. They cost no memory and hang nothing.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use coven_domain::conversation::ConversationId;
use coven_interop::conversations::{ConversationError, Conversations, Filter, Wait};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::stand::{NOW, Stand, exchange, id, said_by, tell};

/// In KiB. Holding one of the long lines would take twice as much.
const DATA_LIMIT: u64 = 128 << 10;
const LONG: u64 = 256 << 20;

/// Appends a very long line, most of it a hole.
fn append_long_line(path: &Path, end: &str) {
    let mut file = OpenOptions::new().append(true).open(path).expect("there");
    let len = file.metadata().expect("there").len();
    file.set_len(len + LONG).and_then(|()| file.write_all(end.as_bytes())).expect("a sparse file");
}

/// A conversation with a very long line between two exchanges.
fn with_long_line(stand: &Stand) -> ConversationId {
    let id = stand.with_exchanges("long", 1);
    append_long_line(&stand.all.file(&id), "\n");
    stand.exchange(&id, "after", "all");
    id
}

/// What another process does, with little memory.
fn with_little_memory(stand: &Stand, role: &str, id: &ConversationId) -> String {
    let role = format!("hostile {role}");
    said_by(stand.other_after(&format!("ulimit -d {DATA_LIMIT}"), &role, id).spawn().expect("a process"))
}

/// The part of that process.
pub fn act(all: &Conversations, id: &ConversationId, what: &str) -> Result<String, ConversationError> {
    Ok(match what {
        "list" => {
            let listing = all.list(&Filter::default())?;
            let sound = listing.conversations.iter().map(|it| format!("{}: {} turns", it.id, it.turn_count));
            let broken = listing.broken.iter().map(|(id, why)| format!("{id}: {}", tell(why)));
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
        other => panic!("no such part: {other}"),
    })
}

#[test]
fn a_very_long_line_takes_little_memory_to_list() {
    let stand = Stand::new();
    let sound = stand.with_exchanges("sound", 2);
    with_long_line(&stand);
    let first = stand.create("first");
    File::create(stand.all.file(&first)).and_then(|file| file.set_len(LONG)).expect("a sparse file");
    let last = stand.with_exchanges("last", 1);
    append_long_line(&stand.all.file(&last), "");
    let listed = with_little_memory(&stand, "list", &sound);
    assert!(listed.contains("sound: 4 turns") && listed.contains("long: 4 turns"), "{listed}");
    assert!(listed.contains("first: ") && listed.contains("last: "), "both are listed as broken: {listed}");
    assert_eq!(listed.matches("is larger than 64 MiB, the limit for a conversation").count(), 2, "{listed}");
}

#[test]
fn a_very_long_line_is_damage_that_can_be_put_right() {
    let stand = Stand::new();
    let id = with_long_line(&stand);
    let damaged = with_little_memory(&stand, "load", &id);
    assert!(damaged.contains("line 4: it is longer than 16 MiB, the limit for a line of a conversation"), "{damaged}");
    assert_eq!(with_little_memory(&stand, "outline", &id), damaged);
    assert_eq!(with_little_memory(&stand, "turns", &id), "4 turns, last 3");
    assert_eq!(with_little_memory(&stand, "recover", &id), "kept 5, lost 1");
    assert_eq!(stand.texts(&id), ["question 0", "answer 0", "after", "all"]);
}

#[test]
fn half_a_very_long_line_is_cut_off_and_kept_beside() {
    let stand = Stand::new();
    let id = stand.with_exchanges("s", 1);
    append_long_line(&stand.all.file(&id), "");
    assert_eq!(with_little_memory(&stand, "append", &id), "1");
    assert_eq!(stand.texts(&id).len(), 4);
    let kept = stand.names().into_iter().find(|name| name.contains(".torn-")).expect("kept beside");
    assert_eq!(std::fs::metadata(stand.all.path().join(kept)).expect("there").len(), LONG);
}

#[test]
fn a_fifo_is_listed_as_broken_and_read_by_nobody() {
    let stand = Stand::new();
    let sound = stand.with_exchanges("sound", 1);
    let fifo = id("fifo");
    mkfifoat(CWD, stand.all.file(&fifo), Mode::from_raw_mode(0o600)).expect("a fifo");
    let listing = stand.all.list(&Filter::default()).expect("a folder");
    assert_eq!(listing.conversations.iter().map(|it| &it.id).collect::<Vec<_>>(), [&sound]);
    let [(broken, why)] = &listing.broken[..] else { panic!("{:?}", listing.broken) };
    assert!(*broken == fifo && why.to_string().contains("is a fifo, not a regular file"), "{why}");
    for refused in [stand.all.load(&fifo).err(), stand.all.writer(&fifo, Wait::NoWait).err()] {
        assert!(matches!(refused, Some(ConversationError::Refused(_))), "{refused:?}");
    }
}

#[test]
fn the_mark_of_use_may_be_a_fifo_and_hangs_nothing() {
    let stand = Stand::new();
    let id = stand.with_exchanges("s", 1);
    mkfifoat(CWD, stand.all.path().join("s.jsonl.use"), Mode::from_raw_mode(0o600)).expect("a fifo");
    assert!(!stand.all.is_in_use(&id));
}

#[test]
fn a_turn_that_could_not_be_read_again_is_not_saved() {
    let stand = Stand::new();
    let id = stand.with_exchanges("s", 1);
    let error = stand.append(&id, &mut exchange("q", &"x".repeat(17 << 20))).expect_err("too long");
    assert!(tell(&error).ends_with("larger than 16 MiB, the limit for a line of a conversation"), "{}", tell(&error));
    assert_eq!(stand.texts(&id).len(), 2, "nothing was saved");
}

#[test]
fn older_turns_are_read_by_page() {
    let stand = Stand::new();
    let id = stand.with_exchanges("s", 5);
    let page = stand.all.load_before(&id, 3, 6).expect("sound");
    let texts: Vec<&str> = page.turns.iter().map(|turn| turn.content.as_str()).collect();
    assert_eq!((texts, page.before), (vec!["answer 1", "question 2", "answer 2"], Some(3)));
    let page = stand.all.load_before(&id, 100, 100).expect("sound");
    assert_eq!((page.turns.len(), page.before), (10, Some(0)));
}
