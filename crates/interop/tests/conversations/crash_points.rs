//! Saves that are killed or fail at every step, full disks, and files truncated at every byte.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Turn, TurnRole};
use coven_interop::conversations::Notice;

use crate::fixture::{Fixture, NOW, exchange, id, parse_report};

const KILL: i32 = 9;
/// The steps of a save, in order. A fault occurs before its step.
const STEPS: [&str; 4] = ["look", "write", "sync", "unlock"];
/// Limits files to 512 bytes: as on a full disk, a write is cut short.
const FULL: &str = "trap '' XFSZ; ulimit -f 1";

fn with_fault(fixture: &Fixture, id: &ConversationId, fault: &str) -> Output {
    fixture.other("append", id).env("COVEN_FAULT", fault).output().expect("test binary starts")
}

#[test]
fn chat_02_a_writer_killed_at_any_step_saves_all_or_nothing() {
    for step in STEPS {
        let fixture = Fixture::new();
        let id = fixture.with_exchanges("s", 1);
        let output = with_fault(&fixture, &id, &format!("append {step}"));
        assert_eq!(output.status.signal(), Some(KILL), "{step}: {output:?}");
        let is_saved = matches!(step, "sync" | "unlock");
        let loaded = fixture.load(&id);
        assert_eq!(
            (loaded.transcript.turns.len(), &loaded.notices[..]),
            (if is_saved { 4 } else { 2 }, &[][..]),
            "{step}"
        );
        // Neither the lock nor the `.use` file of the killed process blocks others.
        assert!(!fixture.all.is_in_use(&id), "{step}");
        assert_eq!(fixture.exchange(&id, "next", "yes"), [], "{step}");
        fixture.all.delete(&id).expect("not in use");
        assert!(fixture.names().is_empty(), "{step}: {:?}", fixture.names());
    }
}

#[test]
fn chat_02_a_writer_killed_in_the_middle_of_a_line_loses_only_that_line() {
    let fixture = Fixture::new();
    let id = fixture.create("s");
    let before = fixture.bytes(&id);
    let mut other = fixture.other_after(FULL, "append 4000", &id);
    let output = other.env("COVEN_FAULT", "append rest").output().expect("shell starts");
    assert_eq!(output.status.signal(), Some(KILL), "{output:?}");
    let torn = fixture.bytes(&id);
    assert_eq!(torn.len(), 512, "only a part was written");
    // The user's turn is complete; the answer is not.
    let loaded = fixture.load(&id);
    assert_eq!(loaded.transcript.turns.len(), 1);
    let rest = torn.len()
        - before.len()
        - torn[before.len()..].iter().position(|byte| *byte == b'\n').expect("a line end")
        - 1;
    assert_eq!(loaded.notices, [Notice::Torn { bytes: rest as u64 }]);
    assert!(loaded.notices[0].to_string().contains("is incomplete"), "{}", loaded.notices[0]);

    let notices = fixture.exchange(&id, "next", "yes");
    let [Notice::CutOff { bytes, kept_in }] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(fs::read(kept_in).expect("backup exists"), torn[torn.len() - *bytes as usize..]);
    let loaded = fixture.load(&id);
    assert_eq!(loaded.notices, []);
    let numbers: Vec<_> = loaded.transcript.turns.iter().map(|turn| turn.number).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
}

#[test]
fn chat_02_a_writer_killed_while_it_removes_an_incomplete_line_loses_nothing() {
    for step in ["keep", "cut"] {
        let fixture = Fixture::new();
        let id = fixture.with_exchanges("s", 1);
        let mut bytes = fixture.bytes(&id);
        bytes.extend(b"{\"type\":\"tu");
        fixture.put(&id, &bytes);
        let output = with_fault(&fixture, &id, &format!("append {step}"));
        assert_eq!(output.status.signal(), Some(KILL), "{step}: {output:?}");
        assert_eq!(fixture.bytes(&id), bytes, "{step}");
        assert_eq!(fixture.exchange(&id, "next", "yes").len(), 1, "{step}: reported");
        assert_eq!(fixture.load(&id).transcript.turns.len(), 4, "{step}");
    }
}

#[test]
fn chat_02_a_failed_save_reports_an_error_and_leaves_the_file_unchanged() {
    for step in STEPS {
        let fixture = Fixture::new();
        let id = fixture.with_exchanges("s", 1);
        let before = fixture.bytes(&id);
        let output = with_fault(&fixture, &id, &format!("append {step} fails"));
        let report = parse_report(&output).unwrap_or_else(|| panic!("{step}: {output:?}"));
        assert!(report.starts_with("nothing was saved: "), "{step}: {report}");
        assert_eq!(fixture.bytes(&id), before, "{step}");
        assert_eq!(fixture.names(), ["s.jsonl"], "{step}");
    }
}

#[test]
fn chat_02_a_full_disk_leaves_no_partial_line() {
    let fixture = Fixture::new();
    let id = fixture.create("s");
    let before = fixture.bytes(&id);
    let output = fixture.other_after(FULL, "append 4000", &id).output().expect("shell starts");
    let report = parse_report(&output).unwrap_or_else(|| panic!("{output:?}"));
    assert!(report.starts_with("nothing was saved: ") && report.contains("File too large"), "{report}");
    assert_eq!(fixture.bytes(&id), before);
    assert_eq!(
        parse_report(&fixture.other_after(FULL, "append 1", &id).output().expect("shell starts")).as_deref(),
        Some("saved")
    );
}

/// Returns a file with every kind of line, and the offsets at which its turns are complete.
fn every_kind_of_line(fixture: &Fixture) -> (Vec<u8>, Vec<usize>) {
    let id = fixture.create("whole");
    let lines =
        [exchange("What is \"it\"?\n\\ tab\t", "It is é, 日本, 🦀 and \u{1}."), exchange("", "{\"type\":\"turn\"}\n")];
    for mut lines in lines {
        fixture.append(&id, &mut lines).expect("saved");
    }
    fixture.append(&id, &mut [Line::Clear { timestamp: NOW }]).expect("saved");
    fixture.append(&id, &mut [Line::Status { status: ConversationState::Completed, timestamp: NOW }]).expect("saved");
    let mut bytes = fixture.bytes(&id);
    bytes.extend(b"{\"type\":\"note\",\"text\":\"of another tool\"}\n");
    fixture.put(&id, &bytes);
    let interrupted = Turn { interrupted: true, ..Turn::new(TurnRole::Assistant, "so far", NOW) };
    fixture.append(&id, &mut [Line::Turn(interrupted)]).expect("saved");
    let bytes = fixture.bytes(&id);
    let (mut at, mut complete) = (0, Vec::new());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        if line.starts_with(b"{\"type\":\"turn\"") {
            // The line end itself may be missing.
            complete.push(at - 1);
        }
    }
    (bytes, complete)
}

#[test]
fn chat_11_a_file_truncated_at_any_byte_keeps_its_complete_turns_and_accepts_appends() {
    let fixture = Fixture::new();
    let (bytes, complete) = every_kind_of_line(&fixture);
    let whole = fixture.load(&id("whole")).transcript.turns;
    assert_eq!(whole.len(), complete.len());
    let cut = id("cut");
    for at in 0..=bytes.len() {
        fixture.put(&cut, &bytes[..at]);
        let turns = complete.iter().filter(|end| **end <= at).count();
        let loaded = fixture.load(&cut);
        assert_eq!(loaded.transcript.turns, whole[..turns], "truncated at {at}");
        let summary = fixture.all.summary(&cut).expect("listed");
        assert_eq!(summary.turn_count, turns as u64, "truncated at {at}");
        assert_eq!(fixture.all.load_last(&cut, 9).expect("sound").turns, whole[..turns], "truncated at {at}");
        let is_torn = loaded.notices.iter().any(|notice| matches!(notice, Notice::Torn { .. }));

        let notices = fixture.exchange(&cut, "next", "yes");
        let kept: Vec<u8> = notices
            .iter()
            .flat_map(|notice| match notice {
                Notice::CutOff { kept_in, .. } => fs::read(kept_in).expect("backup exists"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kept.is_empty(), !is_torn, "truncated at {at}");
        assert!(bytes[..at].ends_with(&kept), "truncated at {at}");
        let again = fixture.load(&cut);
        assert_eq!((again.transcript.turns.len(), &again.notices[..]), (turns + 2, &[][..]), "truncated at {at}");
        assert_eq!(again.transcript.turns[turns].number, Some(turns as u64 + 1), "truncated at {at}");
        fixture.all.delete(&cut).expect("deleted with its backups");
    }
    assert_eq!(fixture.names(), ["whole.jsonl"]);
}
