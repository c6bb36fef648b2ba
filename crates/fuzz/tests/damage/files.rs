//! Damage to conversations and question sets.

use std::collections::HashMap;
use std::fs;

use coven_domain::conversation::{ConversationId, Line, Turn, TurnRole};
use coven_domain::question::{Choice, Question, QuestionAnswer};
use coven_domain::{QuestionSetId, Timestamp};
use coven_fuzz::Dice;
use coven_fuzz::damage::{ROUNDS, damaged};
use coven_interop::conversations::{ConversationError, Conversations, Filter, NewConversation, Wait};
use coven_interop::questions::{Limits, NewQuestionSet, QuestionError, QuestionFolder};

use super::folder;

const NOW: Timestamp = Timestamp::from_millis(1_794_765_073_705);

#[test]
fn a_damaged_conversation_is_reported_and_recovery_keeps_every_intact_turn() {
    let folder = folder();
    let all = Conversations::at(folder.path());
    let new = NewConversation { agent: None, harness: Some("claude".into()), ..NewConversation::default() };
    let id = all.create(&new, NOW).expect("a conversation");
    let mut lines: Vec<Line> = (0..24)
        .map(|nth| {
            let role = if nth % 2 == 0 { TurnRole::User } else { TurnRole::Assistant };
            Line::Turn(Turn::new(role, format!("turn {nth} says \u{fc} \"{}\"", "x".repeat(nth * 7)), NOW))
        })
        .collect();
    all.writer(&id, Wait::NoWait).expect("the file can be used").append(&mut lines).expect("enough disk space");
    let bytes = fs::read(all.file(&id)).expect("a file");

    let (mut dice, mut reported) = (Dice::new(21), 0);
    for round in 0..ROUNDS {
        let copy = damaged(&bytes, &mut dice);
        fs::write(all.file(&id), &copy).expect("enough disk space");
        let listed = all.list(&Filter::default()).expect("a folder");
        assert_eq!(listed.conversations.len() + listed.broken.len(), 1, "round {round}");
        match all.load(&id) {
            Ok(loaded) => assert!(loaded.transcript.turns.len() <= 48, "round {round}"),
            Err(ConversationError::Damaged { damage, .. }) => {
                reported += 1;
                assert!(!damage.is_empty(), "round {round}");
                all.recover(&id, NOW).expect("the conversation can be recovered");
                let loaded = all.load(&id).expect("a recovered conversation can be loaded");
                assert_whole_turns_are_kept(&copy, &loaded.transcript.turns, round);
                remove_originals(&all, &id);
            }
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    assert!(reported > ROUNDS as usize / 4, "{reported} reported");
}

/// Checks that recovery keeps every readable turn of the damaged file.
fn assert_whole_turns_are_kept(copy: &[u8], turns: &[Turn], round: u64) {
    let mut kept: HashMap<&str, usize> = HashMap::new();
    for turn in turns {
        *kept.entry(turn.content.as_str()).or_default() += 1;
    }
    for line in copy.split(|byte| *byte == b'\n') {
        let Ok(Ok(Some(Line::Turn(turn)))) = std::str::from_utf8(line).map(Line::parse) else { continue };
        let left = kept.get_mut(turn.content.as_str());
        let left = left.unwrap_or_else(|| panic!("round {round}: lost {:?}", turn.content));
        *left = left.checked_sub(1).unwrap_or_else(|| panic!("round {round}: lost one of {:?}", turn.content));
    }
}

/// Deletes the damaged files, which recovery keeps beside the new one.
fn remove_originals(all: &Conversations, id: &ConversationId) {
    for entry in fs::read_dir(all.path()).expect("a folder").flatten() {
        if entry.path() != all.file(id) {
            fs::remove_file(entry.path()).expect("the file can be used");
        }
    }
}

#[test]
fn a_damaged_question_set_is_named_and_does_not_affect_others() {
    let folder = folder();
    let sets = QuestionFolder::at(folder.path().join("sets"));
    let ask = || {
        let option = |label: &str| Choice { label: label.into(), description: Some("what it means".into()) };
        let question = Question {
            prompt: "Which database should the tests use?".into(),
            title: "Database".into(),
            options: vec![option("SQLite"), option("PostgreSQL")],
            multi_select: false,
        };
        let new = NewQuestionSet { questions: vec![question], ..NewQuestionSet::default() };
        sets.create(&new, &Limits { max_sessions: 100 }, NOW).expect("asked")
    };
    let (damaged_set, other) = (ask(), ask());
    let answer =
        QuestionAnswer { question_index: 0, selected_option: Some("SQLite".into()), ..QuestionAnswer::default() };
    sets.answer(&damaged_set, vec![answer], NOW).expect("answered");
    let path = |id: &QuestionSetId, name: &str| sets.path().join(id.to_string()).join(name);
    let names = ["request.json", "status.json", "answers.json"];
    let originals = names.map(|name| fs::read(path(&damaged_set, name)).expect("a file"));
    let sound = sets.read_once(&damaged_set).expect("the set is valid");

    let (mut dice, mut reported) = (Dice::new(22), 0);
    for round in 0..ROUNDS {
        let which = dice.roll(names.len());
        fs::write(path(&damaged_set, names[which]), damaged(&originals[which], &mut dice)).expect("enough disk space");
        match sets.read_once(&damaged_set) {
            // Damage inside a text cannot be detected.
            Ok(set) => assert_eq!((set.id, set.questions.len()), (sound.id, 1), "round {round}"),
            Err(
                error @ (QuestionError::Malformed { .. }
                | QuestionError::Contradiction { .. }
                | QuestionError::Missing { .. }
                | QuestionError::Unreadable { .. }),
            ) => {
                reported += 1;
                assert!(error.to_string().contains(&damaged_set.to_string()[..8]), "round {round}: {error}");
            }
            Err(other) => panic!("round {round}: {other}"),
        }
        sets.read_once(&other).expect("the other set is undamaged");
        fs::write(path(&damaged_set, names[which]), &originals[which]).expect("enough disk space");
    }
    assert!(reported > ROUNDS as usize / 2, "{reported} reported");
    assert_eq!(sets.read_once(&damaged_set).expect("the restored set is valid").state, sound.state);
}
