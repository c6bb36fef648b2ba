//! Damage that no crash makes: told, put right or deleted, never a panic.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use coven_domain::conversation::{ConversationId, ConversationState};
use coven_interop::conversations::{ConversationError, Damage, Recovered, Wait};

use crate::stand::{NOW, Stand, exchange, id};

/// Four exchanges, and these lines in place of those of the same number.
fn with_lines(stand: &Stand, lines: &[(usize, &str)]) -> ConversationId {
    let id = stand.with_exchanges("s", 4);
    let text = String::from_utf8(stand.bytes(&id)).expect("text");
    let mut all: Vec<&str> = text.lines().collect();
    for (number, line) in lines {
        all[number - 1] = line;
    }
    stand.put(&id, format!("{}\n", all.join("\n")));
    id
}

fn damage(stand: &Stand, id: &ConversationId) -> (Vec<Damage>, String) {
    let error = stand.all.load(id).expect_err("it is damaged");
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
fn chat_12_damage_is_told_with_line_column_and_reason() {
    let stand = Stand::new();
    let id = with_lines(&stand, &[(3, "{\"type\":\"turn\",\"role\":"), (5, "rubbish"), (6, "{}"), (7, "[]")]);
    let (damage, text) = damage(&stand, &id);
    assert_eq!(damage.iter().map(|damage| damage.line).collect::<Vec<_>>(), [3, 5, 6, 7]);
    assert_eq!(damage[0].to_string(), "line 3, column 22: EOF while parsing a value");
    assert!(text.contains("s.jsonl is damaged: line 3, column 22: ") && text.ends_with("; and 1 more"), "{text}");
    let error = stand.all.load(&id).expect_err("damaged");
    assert!(matches!(error, ConversationError::Damaged { .. }));
}

#[test]
fn chat_12_recovering_keeps_the_good_lines_and_the_original() {
    let stand = Stand::new();
    let note = "{\"type\":\"note\", \"text\": \"of another tool\"}";
    let id = with_lines(&stand, &[(3, "rubbish"), (4, note), (6, "\u{0}\u{0}")]);
    let mut damaged = stand.bytes(&id);
    damaged.extend(b"\xff\xfe\n{\"type\":\"tur");
    stand.put(&id, &damaged);
    let recovered = stand.all.recover(&id, NOW).expect("put right");
    let original = stand.all.path().join("s.jsonl.damaged-20260114T100000123Z");
    assert_eq!(recovered, Recovered { kept_lines: 7, lost_lines: 4, original: original.clone() });
    assert_eq!(fs::read(&original).expect("kept"), damaged);
    let loaded = stand.load(&id);
    assert_eq!(loaded.notices, []);
    let turns: Vec<_> = loaded.transcript.turns.iter().map(|turn| (turn.content.as_str(), turn.number)).collect();
    let kept = ["question 0", "answer 1", "answer 2", "question 3", "answer 3"];
    assert_eq!(turns, (1..).map(Some).zip(kept).map(|(number, text)| (text, number)).collect::<Vec<_>>());
    let text = String::from_utf8(stand.bytes(&id)).expect("text");
    assert!(text.contains(note), "lines of others are kept as they are");
    assert_eq!(stand.all.summary(&id).expect("sound").turn_count, turns.len() as u64);
    stand.exchange(&id, "next", "yes");
}

#[test]
fn chat_12_a_lost_first_line_is_made_anew_by_recovering() {
    let stand = Stand::new();
    for first in ["rubbish", "{\"type\":\"note\"}", "", "{\"type\":\"metadata\"}"] {
        let id = with_lines(&stand, &[(1, first)]);
        let (damage, _) = damage(&stand, &id);
        assert_eq!(damage.iter().map(|damage| damage.line).collect::<Vec<_>>(), [1], "{first:?}: {damage:?}");
        let listing = stand.all.list(&Default::default()).expect("a folder");
        assert_eq!((listing.conversations.len(), listing.broken.len()), (0, 1), "{first:?}");
        stand.all.recover(&id, NOW).expect("put right");
        let loaded = stand.load(&id);
        assert_eq!((loaded.transcript.turns.len(), &loaded.notices[..]), (8, &[][..]), "{first:?}");
        assert_eq!(loaded.transcript.metadata.session_id, "s");
        assert_eq!(loaded.transcript.status, ConversationState::Active);
        stand.all.delete(&id).expect("nobody uses it");
        assert!(stand.names().is_empty(), "what was kept goes with it: {:?}", stand.names());
    }
}

#[test]
fn chat_12_a_damaged_file_can_be_deleted() {
    let stand = Stand::new();
    let id = id("rubbish");
    stand.put(&id, vec![b'\n'; 100_000]);
    stand.all.load(&id).expect_err("a file of empty lines has no metadata");
    stand.put(&id, "rubbish\n".repeat(100_000));
    let (damage, text) = damage(&stand, &id);
    assert!(damage.len() == 20 && text.ends_with("and 99997 more"), "{text}");
    stand.all.delete(&id).expect("nobody uses it");
    assert!(stand.names().is_empty());
}

#[test]
fn chat_12_a_recovery_killed_at_any_step_leaves_the_old_file_or_the_new_one() {
    for (step, is_done) in [("keep", false), ("rename", false), ("sync_folder", true)] {
        let stand = Stand::new();
        let id = with_lines(&stand, &[(3, "rubbish")]);
        let before = stand.bytes(&id);
        let output = stand.other("recover", &id).env("COVEN_FAULT", format!("recover {step}")).output().expect("own");
        assert_eq!(output.status.signal(), Some(9), "{step}: {output:?}");
        match is_done {
            true => assert_eq!(stand.load(&id).transcript.turns.len(), 7, "{step}"),
            false => assert_eq!(stand.bytes(&id), before, "{step}"),
        }
        stand.all.recover(&id, NOW).expect("at any time");
        assert_eq!(stand.load(&id).transcript.turns.len(), 7, "{step}");
    }
}

#[test]
fn chat_12_who_has_it_open_writes_on_to_the_recovered_file() {
    let stand = Stand::new();
    let id = with_lines(&stand, &[(3, "rubbish")]);
    let mut writer = stand.all.writer(&id, Wait::NoWait).expect("there");
    writer.append(&mut exchange("before", "yes")).expect("a damaged file can be appended to");
    stand.all.recover(&id, NOW).expect("put right");
    let mut lines = exchange("after", "yes");
    writer.append(&mut lines).expect("saved");
    let texts = stand.texts(&id);
    assert_eq!(texts[texts.len() - 4..], ["before", "yes", "after", "yes"]);
    assert_eq!(stand.load(&id).transcript.turns.last().and_then(|turn| turn.number), Some(11));
}
