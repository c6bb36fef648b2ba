//! Damage that a crash cannot cause: it is reported, repaired or deleted, and never causes a panic.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use coven_domain::conversation::{ConversationId, ConversationState};
use coven_interop::conversations::{ConversationError, Damage, Recovered, Wait};

use crate::fixture::{Fixture, NOW, exchange, id};

/// Creates four exchanges and replaces the lines with these numbers.
fn with_lines(fixture: &Fixture, lines: &[(usize, &str)]) -> ConversationId {
    let id = fixture.with_exchanges("s", 4);
    let text = String::from_utf8(fixture.bytes(&id)).expect("valid UTF-8");
    let mut all: Vec<&str> = text.lines().collect();
    for (number, line) in lines {
        all[number - 1] = line;
    }
    fixture.put(&id, format!("{}\n", all.join("\n")));
    id
}

fn damage(fixture: &Fixture, id: &ConversationId) -> (Vec<Damage>, String) {
    let error = fixture.all.load(id).expect_err("damaged");
    let text = error.to_string();
    match error {
        ConversationError::Damaged { damage, count, .. } => {
            assert!(damage.len() == count.min(20), "{text}");
            (damage, text)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn chat_12_damage_is_reported_with_line_column_and_reason() {
    let fixture = Fixture::new();
    let id = with_lines(&fixture, &[(3, "{\"type\":\"turn\",\"role\":"), (5, "rubbish"), (6, "{}"), (7, "[]")]);
    let (damage, text) = damage(&fixture, &id);
    assert_eq!(damage.iter().map(|damage| damage.line).collect::<Vec<_>>(), [3, 5, 6, 7]);
    assert_eq!(damage[0].to_string(), "line 3, column 22: EOF while parsing a value");
    assert!(text.contains("s.jsonl is damaged: line 3, column 22: ") && text.ends_with("; and 1 more"), "{text}");
    let error = fixture.all.load(&id).expect_err("damaged");
    assert!(matches!(error, ConversationError::Damaged { .. }));
}

#[test]
fn chat_12_recovery_keeps_the_good_lines_and_the_original() {
    let fixture = Fixture::new();
    let note = "{\"type\":\"note\", \"text\": \"of another tool\"}";
    let id = with_lines(&fixture, &[(3, "rubbish"), (4, note), (6, "\u{0}\u{0}")]);
    let mut damaged = fixture.bytes(&id);
    damaged.extend(b"\xff\xfe\n{\"type\":\"tur");
    fixture.put(&id, &damaged);
    let recovered = fixture.all.recover(&id, NOW).expect("recovered");
    let original = fixture.all.path().join("s.jsonl.damaged-20260114T100000123Z");
    assert_eq!(recovered, Recovered { kept_lines: 7, lost_lines: 4, original: original.clone() });
    assert_eq!(fs::read(&original).expect("backup exists"), damaged);
    let loaded = fixture.load(&id);
    assert_eq!(loaded.notices, []);
    let turns: Vec<_> = loaded.transcript.turns.iter().map(|turn| (turn.content.as_str(), turn.number)).collect();
    let kept = ["question 0", "answer 1", "answer 2", "question 3", "answer 3"];
    assert_eq!(turns, (1..).map(Some).zip(kept).map(|(number, text)| (text, number)).collect::<Vec<_>>());
    let text = String::from_utf8(fixture.bytes(&id)).expect("valid UTF-8");
    assert!(text.contains(note), "lines of other tools are unchanged");
    assert_eq!(fixture.all.summary(&id).expect("sound").turn_count, turns.len() as u64);
    fixture.exchange(&id, "next", "yes");
}

#[test]
fn chat_12_recovery_recreates_a_lost_metadata_line() {
    let fixture = Fixture::new();
    for first in ["rubbish", "{\"type\":\"note\"}", "", "{\"type\":\"metadata\"}"] {
        let id = with_lines(&fixture, &[(1, first)]);
        let (damage, _) = damage(&fixture, &id);
        assert_eq!(damage.iter().map(|damage| damage.line).collect::<Vec<_>>(), [1], "{first:?}: {damage:?}");
        let listing = fixture.all.list(&Default::default()).expect("readable folder");
        assert_eq!((listing.conversations.len(), listing.broken.len()), (0, 1), "{first:?}");
        fixture.all.recover(&id, NOW).expect("recovered");
        let loaded = fixture.load(&id);
        assert_eq!((loaded.transcript.turns.len(), &loaded.notices[..]), (8, &[][..]), "{first:?}");
        assert_eq!(loaded.transcript.metadata.session_id, "s");
        assert_eq!(loaded.transcript.status, ConversationState::Active);
        fixture.all.delete(&id).expect("not in use");
        assert!(fixture.names().is_empty(), "the backups are deleted too: {:?}", fixture.names());
    }
}

#[test]
fn chat_12_a_damaged_file_can_be_deleted() {
    let fixture = Fixture::new();
    let id = id("rubbish");
    fixture.put(&id, vec![b'\n'; 100_000]);
    fixture.all.load(&id).expect_err("a file of empty lines has no metadata");
    fixture.put(&id, "rubbish\n".repeat(100_000));
    let (damage, text) = damage(&fixture, &id);
    assert!(damage.len() == 20 && text.ends_with("and 99997 more"), "{text}");
    fixture.all.delete(&id).expect("not in use");
    assert!(fixture.names().is_empty());
}

#[test]
fn chat_12_a_recovery_killed_at_any_step_leaves_the_old_file_or_the_new_one() {
    for (step, is_done) in [("keep", false), ("rename", false), ("sync_folder", true)] {
        let fixture = Fixture::new();
        let id = with_lines(&fixture, &[(3, "rubbish")]);
        let before = fixture.bytes(&id);
        let output = fixture
            .other("recover", &id)
            .env("COVEN_FAULT", format!("recover {step}"))
            .output()
            .expect("test binary starts");
        assert_eq!(output.status.signal(), Some(9), "{step}: {output:?}");
        match is_done {
            true => assert_eq!(fixture.load(&id).transcript.turns.len(), 7, "{step}"),
            false => assert_eq!(fixture.bytes(&id), before, "{step}"),
        }
        fixture.all.recover(&id, NOW).expect("recovered");
        assert_eq!(fixture.load(&id).transcript.turns.len(), 7, "{step}");
    }
}

#[test]
fn chat_12_an_open_writer_continues_in_the_recovered_file() {
    let fixture = Fixture::new();
    let id = with_lines(&fixture, &[(3, "rubbish")]);
    let mut writer = fixture.all.writer(&id, Wait::NoWait).expect("exists");
    writer.append(&mut exchange("before", "yes")).expect("a damaged file can be appended to");
    fixture.all.recover(&id, NOW).expect("recovered");
    let mut lines = exchange("after", "yes");
    writer.append(&mut lines).expect("saved");
    let texts = fixture.texts(&id);
    assert_eq!(texts[texts.len() - 4..], ["before", "yes", "after", "yes"]);
    assert_eq!(fixture.load(&id).transcript.turns.last().and_then(|turn| turn.number), Some(11));
}
