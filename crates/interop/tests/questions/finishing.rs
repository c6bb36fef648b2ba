//! How a set ends, and that it ends once.

use coven_domain::Timestamp;
use coven_domain::question::Answer;
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{QuestionError, QuestionFolder};

use crate::stand::{NOW, Stand, choose, said_by};

const LATER: Timestamp = Timestamp::from_millis(NOW.as_millis() + 828);

fn missing() -> coven_domain::QuestionSetId {
    "deadbeef-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id")
}

#[test]
fn ask_05_ask_16_valid_answers_are_written_and_complete_the_set() {
    let stand = Stand::new();
    let id = stand.ask();
    stand.folder.answer(&id, choose("SQLite"), LATER).expect("pending");
    let set = stand.read(&id);
    assert_eq!((set.state, set.modified_at, set.created_at), (QuestionSetState::Completed, LATER, NOW));
    let stamped = Answer { timestamp: LATER.to_string(), ..choose("SQLite").remove(0) };
    assert_eq!(set.answers.expect("answered").answers, [stamped]);
    assert_eq!(stand.json(&id, "status.json")["status"], "completed");
    assert_eq!(stand.json(&id, "request.json")["status"], "pending", "the request is never changed");
    assert_eq!(stand.names(Some(&id)), ["answers.json", "request.json", "status.json"], "no locks, no remains");
}

#[test]
fn ask_06_ask_18_a_rejection_keeps_its_reason() {
    let stand = Stand::new();
    let id = stand.ask();
    stand.folder.reject(&id, Some("Too \"vague\""), LATER).expect("pending");
    let expected = r#"{
  "createdAt": "2026-11-15T17:51:13.705Z",
  "lastModified": "2026-11-15T17:51:14.533Z",
  "sessionId": "ID",
  "status": "rejected",
  "totalQuestions": 1,
  "rejectionReason": "Too \"vague\""
}"#;
    assert_eq!(stand.text(&id, "status.json"), expected.replace("ID", &id.to_string()));
    let set = stand.read(&id);
    assert_eq!((set.state, set.rejection_reason), (QuestionSetState::Rejected, Some("Too \"vague\"".into())));
}

#[test]
fn ask_19_a_rejection_without_a_reason_says_null() {
    let stand = Stand::new();
    for reason in [None, Some("  ")] {
        let id = stand.ask();
        stand.folder.reject(&id, reason, LATER).expect("pending");
        let status = stand.json(&id, "status.json");
        assert!(status.get("rejectionReason").is_some_and(serde_json::Value::is_null), "{status}");
        assert_eq!(stand.read(&id).rejection_reason, None);
    }
}

#[test]
fn ask_07_ask_08_a_pending_set_times_out_or_is_abandoned_and_a_finished_one_is_not() {
    let stand = Stand::new();
    for state in [QuestionSetState::TimedOut, QuestionSetState::Abandoned] {
        let id = stand.ask();
        assert!(stand.folder.settle(&id, state, LATER).expect("pending"));
        assert_eq!((stand.read(&id).state, stand.read(&id).modified_at), (state, LATER));
        assert_eq!(stand.json(&id, "status.json")["status"], state.as_str());
        assert!(!stand.folder.settle(&id, QuestionSetState::Abandoned, LATER).expect("there"), "somebody was faster");
        assert_eq!(stand.read(&id).state, state);
    }
    let id = stand.ask();
    assert!(stand.folder.abandon(&id, "the client went away", LATER).expect("pending"));
    assert_eq!(stand.read(&id).abandon_reason.as_deref(), Some("the client went away"));
    for never in [QuestionSetState::Pending, QuestionSetState::Rejected, QuestionSetState::Completed] {
        let id = stand.ask();
        assert!(!stand.folder.settle(&id, never, LATER).expect("there"), "only a human does that");
        assert_eq!(stand.read(&id).state, QuestionSetState::Pending);
    }
}

#[test]
fn ask_17_a_set_that_is_not_there_is_named() {
    let stand = Stand::new();
    let expected = "Session not found: deadbeef-549b-4b6b-ae62-f1b0c3f21b86";
    let told = |done: Result<(), QuestionError>| assert_eq!(done.expect_err("not there").to_string(), expected);
    for _ in 0..2 {
        told(stand.folder.answer(&missing(), choose("SQLite"), NOW));
        told(stand.folder.reject(&missing(), None, NOW));
        told(stand.folder.mark_read(&missing(), NOW));
        told(stand.folder.dismiss(&missing()));
        told(stand.folder.settle(&missing(), QuestionSetState::TimedOut, NOW).map(drop));
        told(stand.folder.read(&missing()).map(drop));
        stand.ask();
    }
    assert_eq!(stand.names(None).len(), 2, "nothing was made");
}

#[test]
fn answers_that_do_not_fit_are_refused_and_change_nothing() {
    let stand = Stand::new();
    let id = stand.ask();
    let before = stand.text(&id, "status.json");
    for (answers, why) in [
        (vec![], "No answers provided"),
        (choose("MySQL"), "Answer for question 0 references non-existent option: MySQL"),
        (
            vec![Answer { question_index: 7, ..choose("SQLite").remove(0) }],
            "Answer references invalid question index: 7",
        ),
        (
            vec![Answer { selected_options: Some(vec!["PostgreSQL".into(), "SQLite".into()]), ..Answer::default() }],
            "Answer for question 0 selects several options of a single choice: PostgreSQL, SQLite",
        ),
        (
            vec![Answer { selected_options: Some(vec![]), ..Answer::default() }],
            "Answer for question 0 has nothing chosen",
        ),
    ] {
        let error = stand.folder.answer(&id, answers, LATER).expect_err("refused");
        assert!(matches!(error, QuestionError::BadAnswers(_)));
        assert_eq!(error.to_string(), why);
    }
    assert_eq!(stand.text(&id, "status.json"), before);
    assert_eq!(stand.names(Some(&id)), ["request.json", "status.json"]);
}

#[test]
fn a_finished_set_cannot_be_finished_again() {
    type End = fn(&QuestionFolder, &coven_domain::QuestionSetId) -> Result<(), QuestionError>;
    let ends: [(QuestionSetState, End); 4] = [
        (QuestionSetState::Completed, |folder, id| folder.answer(id, choose("SQLite"), NOW)),
        (QuestionSetState::Rejected, |folder, id| folder.reject(id, Some("no"), NOW)),
        (QuestionSetState::TimedOut, |folder, id| folder.settle(id, QuestionSetState::TimedOut, NOW).map(drop)),
        (QuestionSetState::Abandoned, |folder, id| folder.abandon(id, "gone", NOW).map(drop)),
    ];
    let stand = Stand::new();
    for (state, end) in ends {
        let id = stand.ask();
        end(&stand.folder, &id).expect("pending");
        let before = stand.text(&id, "status.json");
        let again = stand.folder.answer(&id, choose("PostgreSQL"), LATER).expect_err("finished");
        assert!(matches!(again, QuestionError::AlreadyFinished { state: was, .. } if was == state), "{again}");
        let again = stand.folder.reject(&id, None, LATER).expect_err("finished");
        assert!(matches!(again, QuestionError::AlreadyFinished { state: was, .. } if was == state), "{again}");
        assert!(!stand.folder.abandon(&id, "late", LATER).expect("there"));
        assert_eq!(stand.text(&id, "status.json"), before);
    }
}

#[test]
fn of_processes_that_answer_and_reject_at_once_exactly_one_wins() {
    for _ in 0..4 {
        let stand = Stand::new();
        let id = stand.ask();
        let roles = ["answer SQLite", "answer PostgreSQL", "reject no", "answer SQLite", "reject never"];
        let children: Vec<_> =
            roles.iter().map(|role| stand.other(role, Some(&id)).spawn().expect("own binary")).collect();
        let said: Vec<String> = children.into_iter().map(said_by).collect();
        let winners: Vec<usize> =
            (0..roles.len()).filter(|at| ["answered", "rejected"].contains(&&*said[*at])).collect();
        let [winner] = winners[..] else { panic!("{said:?}") };
        let losers = said.iter().enumerate().filter(|(at, _)| *at != winner);
        losers.for_each(|(_, text)| assert!(text.contains("already; nothing can happen to it any more"), "{text}"));
        let set = stand.read(&id);
        match roles[winner].split_once(' ') {
            Some(("answer", label)) => {
                let given = set.answers.expect("answered").answers;
                assert_eq!(given[0].selected_option.as_deref(), Some(label), "the winner's own");
            }
            Some((_, reason)) => assert_eq!(set.rejection_reason.as_deref(), Some(reason)),
            None => unreachable!("every role has a word"),
        }
    }
}
