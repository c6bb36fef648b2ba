//! Many processes that write to one conversation, one that holds the lock, and those who read meanwhile.

use std::sync::mpsc;
use std::time::Duration;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Role};
use coven_interop::conversations::{ConversationError, Conversations, Filter, Wait};

use crate::stand::{NOW, Stand, exchange, said_by};

const WRITERS: usize = 20;
const EXCHANGES: usize = 25;
const DEADLINE: Duration = Duration::from_secs(60);

/// Appends so many exchanges, each with its number, of all sizes up to some pages.
pub fn append(all: &Conversations, id: &ConversationId, name: &str) -> Result<String, ConversationError> {
    let mut writer = all.writer(id, Wait::ForLock(Box::new(|| {})))?;
    for number in 0..EXCHANGES {
        writer.append(&mut exchange(&format!("{name} asks {number}"), &answer(name, number)))?;
    }
    Ok("saved".to_owned())
}

fn answer(name: &str, number: usize) -> String {
    format!("{name} answers {number}: {}", "line \"é\"\n".repeat(number * number * 2))
}

#[test]
fn chat_13_what_many_processes_append_is_whole_and_chat_14_readers_see_it_grow() {
    let stand = Stand::new();
    let id = stand.create("crowded");
    let mut writers: Vec<_> =
        (0..WRITERS).map(|name| stand.other(&format!("crowd {name}"), &id).spawn().expect("own binary")).collect();

    // Meanwhile everybody can read, and sees whole exchanges only.
    let mut seen = 0;
    while writers.iter_mut().any(|writer| writer.try_wait().expect("own child").is_none()) {
        let loaded = stand.load(&id);
        assert_eq!(loaded.notices, [], "a line that is being written is no damage");
        let turns = loaded.transcript.turns.len();
        assert!(turns >= seen, "{turns} after {seen}");
        seen = turns;
        let listed = stand.all.list(&Filter::default()).expect("a folder");
        assert!(listed.broken.is_empty() && listed.conversations[0].turn_count >= seen as u64, "{listed:?}");
        let last = stand.all.load_last(&id, 4).expect("readable");
        assert!(last.turns.len() <= 4);
    }
    for writer in writers {
        assert_eq!(said_by(writer), "saved");
    }

    let turns = stand.load(&id).transcript.turns;
    assert_eq!(turns.len(), WRITERS * EXCHANGES * 2);
    let mut next = [0; WRITERS];
    for (at, pair) in turns.chunks(2).enumerate() {
        let [asked, answered] = pair else { panic!("pairs") };
        assert_eq!((asked.role, answered.role), (Role::User, Role::Assistant));
        assert_eq!((asked.number, answered.number), (Some(at as u64 * 2 + 1), Some(at as u64 * 2 + 2)));
        let name = asked.content.split(' ').next().expect("a name");
        let number = &mut next[name.parse::<usize>().expect("a number")];
        assert_eq!(asked.content, format!("{name} asks {number}"), "each one's in its order, none lost");
        assert_eq!(answered.content, answer(name, *number));
        *number += 1;
    }
    assert_eq!(stand.names(), ["crowded.jsonl"], "nothing else is left");
}

#[test]
fn chat_13_a_second_writer_says_that_it_waits_and_then_saves() {
    let stand = Stand::new();
    let id = stand.create("busy");
    let first = stand.holder("lock", &id);
    let (told, is_told) = mpsc::channel();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let says = move || told.send(()).expect("somebody listens");
            let mut writer = stand.all.writer(&id, Wait::ForLock(Box::new(says))).expect("opening needs no lock");
            writer.append(&mut exchange("asked", "answered")).expect("once it is free")
        });
        is_told.recv_timeout(DEADLINE).expect("it says that it waits");
        assert_eq!(stand.texts(&id), Vec::<String>::new(), "reading needs no lock");
        first.release();
        second.join().expect("no panic");
    });
    assert_eq!(stand.texts(&id), ["asked", "answered"]);
}

#[test]
fn chat_13_who_will_not_wait_fails_with_a_clear_message() {
    let stand = Stand::new();
    let id = stand.create("busy");
    let before = stand.bytes(&id);
    let first = stand.holder("lock", &id);
    let error = stand.append(&id, &mut exchange("asked", "answered")).expect_err("taken");
    assert_eq!(error.to_string(), "another process is writing to the session; try again in a moment: busy");
    assert_eq!(stand.bytes(&id), before);
    // A lock goes with its process, however that ends.
    first.kill();
    stand.exchange(&id, "asked", "answered");
}

#[test]
fn chat_14_half_a_line_under_a_lock_is_a_line_that_is_being_written() {
    let stand = Stand::new();
    let id = stand.with_exchanges("growing", 1);
    let mut bytes = stand.bytes(&id);
    bytes.extend(b"{\"type\":\"turn\",\"role\":\"us");
    stand.put(&id, &bytes);
    let writing = stand.holder("lock", &id);
    let loaded = stand.load(&id);
    assert_eq!((loaded.transcript.turns.len(), loaded.notices), (2, vec![]));
    writing.kill();
    assert_eq!(stand.load(&id).notices.len(), 1, "and half a line once nobody writes any more");
}

#[test]
fn two_who_write_in_turn_both_number_on() {
    let stand = Stand::new();
    let id = stand.create("shared");
    let mut writers = [0, 1].map(|_| stand.all.writer(&id, Wait::NoWait).expect("both may"));
    for round in 0..3 {
        for (who, writer) in writers.iter_mut().enumerate() {
            let mut lines = exchange(&format!("{who} {round}"), "yes");
            writer.append(&mut lines).expect("saved");
            let Line::Turn(last) = &lines[1] else { panic!("a turn") };
            assert_eq!(last.number, Some((round * 2 + who as u64) * 2 + 2), "the caller gets the numbers, too");
        }
    }
    writers[0].append(&mut [Line::Status { status: ConversationState::Completed, timestamp: NOW }]).expect("saved");
    let summary = stand.all.summary(&id).expect("sound");
    assert_eq!((summary.turn_count, summary.status), (12, ConversationState::Completed));
}
