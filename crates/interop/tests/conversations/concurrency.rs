//! Concurrent writers and readers of one conversation, and a process that holds its lock.

use std::sync::mpsc;
use std::time::Duration;

use coven_domain::conversation::{ConversationId, ConversationState, Line, TurnRole};
use coven_interop::conversations::{ConversationError, Conversations, Filter, Wait};

use crate::fixture::{Fixture, NOW, exchange, report_of};

const WRITERS: usize = 20;
const EXCHANGES: usize = 25;
const DEADLINE: Duration = Duration::from_secs(60);

/// Appends `EXCHANGES` numbered exchanges of increasing size, up to several pages.
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
fn chat_13_concurrent_appends_stay_intact_and_chat_14_readers_see_them() {
    let fixture = Fixture::new();
    let id = fixture.create("crowded");
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|name| fixture.other(&format!("append-many {name}"), &id).spawn().expect("test binary starts"))
        .collect();

    // Readers must see only complete exchanges meanwhile.
    let mut seen = 0;
    while writers.iter_mut().any(|writer| writer.try_wait().expect("child process").is_none()) {
        let loaded = fixture.load(&id);
        assert_eq!(loaded.notices, [], "a line being written is not damage");
        let turns = loaded.transcript.turns.len();
        assert!(turns >= seen, "{turns} after {seen}");
        seen = turns;
        let listed = fixture.all.list(&Filter::default()).expect("readable folder");
        assert!(listed.broken.is_empty() && listed.conversations[0].turn_count >= seen as u64, "{listed:?}");
        let last = fixture.all.load_last(&id, 4).expect("readable");
        assert!(last.turns.len() <= 4);
    }
    for writer in writers {
        assert_eq!(report_of(writer), "saved");
    }

    let turns = fixture.load(&id).transcript.turns;
    assert_eq!(turns.len(), WRITERS * EXCHANGES * 2);
    let mut next = [0; WRITERS];
    for (at, pair) in turns.chunks(2).enumerate() {
        let [asked, answered] = pair else { panic!("pairs") };
        assert_eq!((asked.role, answered.role), (TurnRole::User, TurnRole::Assistant));
        assert_eq!((asked.number, answered.number), (Some(at as u64 * 2 + 1), Some(at as u64 * 2 + 2)));
        let name = asked.content.split(' ').next().expect("name");
        let number = &mut next[name.parse::<usize>().expect("number")];
        assert_eq!(
            asked.content,
            format!("{name} asks {number}"),
            "the turns of each writer are in order and none is lost"
        );
        assert_eq!(answered.content, answer(name, *number));
        *number += 1;
    }
    assert_eq!(fixture.names(), ["crowded.jsonl"], "no other file is left");
}

#[test]
fn chat_13_a_second_writer_reports_that_it_waits_and_then_saves() {
    let fixture = Fixture::new();
    let id = fixture.create("busy");
    let first = fixture.holder("lock", &id);
    let (notify, notified) = mpsc::channel();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let on_wait = move || notify.send(()).expect("receiver exists");
            let mut writer = fixture.all.writer(&id, Wait::ForLock(Box::new(on_wait))).expect("opening needs no lock");
            writer.append(&mut exchange("asked", "answered")).expect("lock becomes free")
        });
        notified.recv_timeout(DEADLINE).expect("writer reports that it waits");
        assert_eq!(fixture.texts(&id), Vec::<String>::new(), "reading needs no lock");
        first.release();
        second.join().expect("no panic");
    });
    assert_eq!(fixture.texts(&id), ["asked", "answered"]);
}

#[test]
fn chat_13_a_writer_with_no_wait_fails_with_a_clear_message() {
    let fixture = Fixture::new();
    let id = fixture.create("busy");
    let before = fixture.bytes(&id);
    let first = fixture.holder("lock", &id);
    let error = fixture.append(&id, &mut exchange("asked", "answered")).expect_err("taken");
    assert_eq!(error.to_string(), "another process is writing to conversation busy; try again in a moment");
    assert_eq!(fixture.bytes(&id), before);
    // The kernel releases the lock of a killed process.
    first.kill();
    fixture.exchange(&id, "asked", "answered");
}

#[test]
fn chat_14_an_incomplete_line_in_a_locked_file_counts_as_being_written() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("growing", 1);
    let mut bytes = fixture.bytes(&id);
    bytes.extend(b"{\"type\":\"turn\",\"role\":\"us");
    fixture.put(&id, &bytes);
    let writing = fixture.holder("lock", &id);
    let loaded = fixture.load(&id);
    assert_eq!((loaded.transcript.turns.len(), loaded.notices), (2, vec![]));
    writing.kill();
    assert_eq!(fixture.load(&id).notices.len(), 1, "without a writer, the line counts as torn");
}

#[test]
fn alternating_writers_continue_the_turn_numbers() {
    let fixture = Fixture::new();
    let id = fixture.create("shared");
    let mut writers = [0, 1].map(|_| fixture.all.writer(&id, Wait::NoWait).expect("several writers may open it"));
    for round in 0..3 {
        for (who, writer) in writers.iter_mut().enumerate() {
            let mut lines = exchange(&format!("{who} {round}"), "yes");
            writer.append(&mut lines).expect("saved");
            let Line::Turn(last) = &lines[1] else { panic!("a turn") };
            assert_eq!(last.number, Some((round * 2 + who as u64) * 2 + 2), "the caller gets the numbers too");
        }
    }
    writers[0].append(&mut [Line::Status { status: ConversationState::Completed, timestamp: NOW }]).expect("saved");
    let summary = fixture.all.summary(&id).expect("sound");
    assert_eq!((summary.turn_count, summary.status), (12, ConversationState::Completed));
}
