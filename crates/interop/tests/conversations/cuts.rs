//! Saves that are cut or fail at every step, disks that are full, files cut at every byte.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Role, Turn};
use coven_interop::conversations::Notice;

use crate::stand::{NOW, Stand, exchange, id, said};

const KILL: i32 = 9;
/// The steps of a save, in order; a fault comes before its step.
const STEPS: [&str; 4] = ["look", "write", "sync", "unlock"];
/// No file may grow beyond half a kilobyte: as on a full disk, a write ends in its middle.
const FULL: &str = "trap '' XFSZ; ulimit -f 1";

fn with_fault(stand: &Stand, id: &ConversationId, fault: &str) -> Output {
    stand.other("append", id).env("COVEN_FAULT", fault).output().expect("own binary")
}

#[test]
fn chat_02_a_writer_killed_at_any_step_saves_all_or_nothing() {
    for step in STEPS {
        let stand = Stand::new();
        let id = stand.with_exchanges("s", 1);
        let output = with_fault(&stand, &id, &format!("append {step}"));
        assert_eq!(output.status.signal(), Some(KILL), "{step}: {output:?}");
        let is_saved = matches!(step, "sync" | "unlock");
        let loaded = stand.load(&id);
        assert_eq!(
            (loaded.transcript.turns.len(), &loaded.notices[..]),
            (if is_saved { 4 } else { 2 }, &[][..]),
            "{step}"
        );
        // Neither the dead one's lock nor its mark holds anybody up.
        assert!(!stand.all.is_in_use(&id), "{step}");
        assert_eq!(stand.exchange(&id, "next", "yes"), [], "{step}");
        stand.all.delete(&id).expect("nobody uses it");
        assert!(stand.names().is_empty(), "{step}: {:?}", stand.names());
    }
}

#[test]
fn chat_02_a_writer_killed_in_the_middle_of_a_line_loses_that_line_only() {
    let stand = Stand::new();
    let id = stand.create("s");
    let before = stand.bytes(&id);
    let mut other = stand.other_after(FULL, "append 4000", &id);
    let output = other.env("COVEN_FAULT", "append rest").output().expect("a shell");
    assert_eq!(output.status.signal(), Some(KILL), "{output:?}");
    let torn = stand.bytes(&id);
    assert_eq!(torn.len(), 512, "a part of it");
    // The user's turn is whole; the answer is not.
    let loaded = stand.load(&id);
    assert_eq!(loaded.transcript.turns.len(), 1);
    let rest =
        torn.len() - before.len() - torn[before.len()..].iter().position(|byte| *byte == b'\n').expect("one") - 1;
    assert_eq!(loaded.notices, [Notice::Torn { bytes: rest as u64 }]);
    assert!(loaded.notices[0].to_string().contains("not saved whole"), "{}", loaded.notices[0]);

    let notices = stand.exchange(&id, "next", "yes");
    let [Notice::CutOff { bytes, kept_in }] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(fs::read(kept_in).expect("kept"), torn[torn.len() - *bytes as usize..]);
    let loaded = stand.load(&id);
    assert_eq!(loaded.notices, []);
    let numbers: Vec<_> = loaded.transcript.turns.iter().map(|turn| turn.number).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
}

#[test]
fn chat_02_a_writer_killed_while_it_takes_half_a_line_off_loses_nothing() {
    for step in ["keep", "cut"] {
        let stand = Stand::new();
        let id = stand.with_exchanges("s", 1);
        let mut bytes = stand.bytes(&id);
        bytes.extend(b"{\"type\":\"tu");
        stand.put(&id, &bytes);
        let output = with_fault(&stand, &id, &format!("append {step}"));
        assert_eq!(output.status.signal(), Some(KILL), "{step}: {output:?}");
        assert_eq!(stand.bytes(&id), bytes, "{step}");
        assert_eq!(stand.exchange(&id, "next", "yes").len(), 1, "{step}: told");
        assert_eq!(stand.load(&id).transcript.turns.len(), 4, "{step}");
    }
}

#[test]
fn chat_02_a_save_that_fails_says_so_and_leaves_the_file_as_it_was() {
    for step in STEPS {
        let stand = Stand::new();
        let id = stand.with_exchanges("s", 1);
        let before = stand.bytes(&id);
        let output = with_fault(&stand, &id, &format!("append {step} fails"));
        let told = said(&output).unwrap_or_else(|| panic!("{step}: {output:?}"));
        assert!(told.starts_with("nothing was saved: "), "{step}: {told}");
        assert_eq!(stand.bytes(&id), before, "{step}");
        assert_eq!(stand.names(), ["s.jsonl"], "{step}");
    }
}

#[test]
fn chat_02_on_a_full_disk_nothing_partial_stays() {
    let stand = Stand::new();
    let id = stand.create("s");
    let before = stand.bytes(&id);
    let output = stand.other_after(FULL, "append 4000", &id).output().expect("a shell");
    let told = said(&output).unwrap_or_else(|| panic!("{output:?}"));
    assert!(told.starts_with("nothing was saved: ") && told.contains("File too large"), "{told}");
    assert_eq!(stand.bytes(&id), before);
    assert_eq!(said(&stand.other_after(FULL, "append 1", &id).output().expect("a shell")).as_deref(), Some("saved"));
}

/// A file with something of everything, and where each of its turns is complete.
fn something_of_everything(stand: &Stand) -> (Vec<u8>, Vec<usize>) {
    let id = stand.create("whole");
    let lines =
        [exchange("What is \"it\"?\n\\ tab\t", "It is é, 日本, 🦀 and \u{1}."), exchange("", "{\"type\":\"turn\"}\n")];
    for mut lines in lines {
        stand.append(&id, &mut lines).expect("saved");
    }
    stand.append(&id, &mut [Line::Clear { timestamp: NOW }]).expect("saved");
    stand.append(&id, &mut [Line::Status { status: ConversationState::Completed, timestamp: NOW }]).expect("saved");
    let mut bytes = stand.bytes(&id);
    bytes.extend(b"{\"type\":\"note\",\"text\":\"of another tool\"}\n");
    stand.put(&id, &bytes);
    let interrupted = Turn { interrupted: true, ..Turn::new(Role::Assistant, "so far", NOW) };
    stand.append(&id, &mut [Line::Turn(interrupted)]).expect("saved");
    let bytes = stand.bytes(&id);
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
fn chat_11_a_file_cut_at_any_byte_loads_with_every_complete_turn_and_goes_on() {
    let stand = Stand::new();
    let (bytes, complete) = something_of_everything(&stand);
    let whole = stand.load(&id("whole")).transcript.turns;
    assert_eq!(whole.len(), complete.len());
    let cut = id("cut");
    for at in 0..=bytes.len() {
        stand.put(&cut, &bytes[..at]);
        let turns = complete.iter().filter(|end| **end <= at).count();
        let loaded = stand.load(&cut);
        assert_eq!(loaded.transcript.turns, whole[..turns], "cut at {at}");
        let summary = stand.all.summary(&cut).expect("listed");
        assert_eq!(summary.turn_count, turns as u64, "cut at {at}");
        assert_eq!(stand.all.load_last(&cut, 9).expect("sound").turns, whole[..turns], "cut at {at}");
        let is_torn = loaded.notices.iter().any(|notice| matches!(notice, Notice::Torn { .. }));

        let notices = stand.exchange(&cut, "next", "yes");
        let kept: Vec<u8> = notices
            .iter()
            .flat_map(|notice| match notice {
                Notice::CutOff { kept_in, .. } => fs::read(kept_in).expect("kept"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kept.is_empty(), !is_torn, "cut at {at}");
        assert!(bytes[..at].ends_with(&kept), "cut at {at}");
        let again = stand.load(&cut);
        assert_eq!((again.transcript.turns.len(), &again.notices[..]), (turns + 2, &[][..]), "cut at {at}");
        assert_eq!(again.transcript.turns[turns].number, Some(turns as u64 + 1), "cut at {at}");
        stand.all.delete(&cut).expect("with what was kept of it");
    }
    assert_eq!(stand.names(), ["whole.jsonl"]);
}
