//! The ways in which a set ends, and that it ends only once.

use coven_domain::Timestamp;
use coven_domain::question::QuestionAnswer;
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{QuestionError, QuestionFolder};

use crate::fixture::{Fixture, NOW, choose, report_of};

const LATER: Timestamp = Timestamp::from_millis(NOW.as_millis() + 828);

fn missing() -> coven_domain::QuestionSetId {
    "deadbeef-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("valid id")
}

#[test]
fn ask_05_ask_16_valid_answers_are_written_and_complete_the_set() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    fixture.folder.answer(&id, choose("SQLite"), LATER).expect("pending");
    let set = fixture.read(&id);
    assert_eq!((set.state, set.modified_at, set.created_at), (QuestionSetState::Completed, LATER, NOW));
    let stamped = QuestionAnswer { timestamp: LATER.to_string(), ..choose("SQLite").remove(0) };
    assert_eq!(set.answers.expect("answered").answers, [stamped]);
    assert_eq!(fixture.json(&id, "status.json")["status"], "completed");
    assert_eq!(fixture.json(&id, "request.json")["status"], "pending", "the request is never changed");
    assert_eq!(
        fixture.names(Some(&id)),
        ["answers.json", "request.json", "status.json"],
        "no locks and no temporary files"
    );
}

#[test]
fn ask_06_ask_18_a_rejection_keeps_its_reason() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    fixture.folder.reject(&id, Some("Too \"vague\""), LATER).expect("pending");
    let expected = r#"{
  "createdAt": "2026-11-15T17:51:13.705Z",
  "lastModified": "2026-11-15T17:51:14.533Z",
  "sessionId": "ID",
  "status": "rejected",
  "totalQuestions": 1,
  "rejectionReason": "Too \"vague\""
}"#;
    assert_eq!(fixture.text(&id, "status.json"), expected.replace("ID", &id.to_string()));
    let set = fixture.read(&id);
    assert_eq!((set.state, set.rejection_reason), (QuestionSetState::Rejected, Some("Too \"vague\"".into())));
}

#[test]
fn ask_19_a_rejection_without_a_reason_says_null() {
    let fixture = Fixture::new();
    for reason in [None, Some("  ")] {
        let id = fixture.ask();
        fixture.folder.reject(&id, reason, LATER).expect("pending");
        let status = fixture.json(&id, "status.json");
        assert!(status.get("rejectionReason").is_some_and(serde_json::Value::is_null), "{status}");
        assert_eq!(fixture.read(&id).rejection_reason, None);
    }
}

#[test]
fn ask_07_ask_08_only_a_pending_set_times_out_or_is_abandoned() {
    let fixture = Fixture::new();
    for state in [QuestionSetState::TimedOut, QuestionSetState::Abandoned] {
        let id = fixture.ask();
        assert!(fixture.folder.end_without_answer(&id, state, LATER).expect("pending"));
        assert_eq!((fixture.read(&id).state, fixture.read(&id).modified_at), (state, LATER));
        assert_eq!(fixture.json(&id, "status.json")["status"], state.as_str());
        assert!(
            !fixture.folder.end_without_answer(&id, QuestionSetState::Abandoned, LATER).expect("exists"),
            "already ended"
        );
        assert_eq!(fixture.read(&id).state, state);
    }
    let id = fixture.ask();
    assert!(fixture.folder.abandon(&id, "the client went away", LATER).expect("pending"));
    assert_eq!(fixture.read(&id).abandon_reason.as_deref(), Some("the client went away"));
    for never in [QuestionSetState::Pending, QuestionSetState::Rejected, QuestionSetState::Completed] {
        let id = fixture.ask();
        assert!(!fixture.folder.end_without_answer(&id, never, LATER).expect("exists"), "only a human can do that");
        assert_eq!(fixture.read(&id).state, QuestionSetState::Pending);
    }
}

#[test]
fn ask_17_the_error_names_a_missing_set() {
    let fixture = Fixture::new();
    let expected = "Session not found: deadbeef-549b-4b6b-ae62-f1b0c3f21b86";
    let assert_not_found =
        |done: Result<(), QuestionError>| assert_eq!(done.expect_err("missing").to_string(), expected);
    for _ in 0..2 {
        assert_not_found(fixture.folder.answer(&missing(), choose("SQLite"), NOW));
        assert_not_found(fixture.folder.reject(&missing(), None, NOW));
        assert_not_found(fixture.folder.mark_read(&missing(), NOW));
        assert_not_found(fixture.folder.dismiss(&missing()));
        assert_not_found(fixture.folder.end_without_answer(&missing(), QuestionSetState::TimedOut, NOW).map(drop));
        assert_not_found(fixture.folder.read(&missing()).map(drop));
        fixture.ask();
    }
    assert_eq!(fixture.names(None).len(), 2, "no set was created");
}

#[test]
fn invalid_answers_are_refused_and_change_nothing() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    let before = fixture.text(&id, "status.json");
    for (answers, why) in [
        (vec![], "No answers provided"),
        (choose("MySQL"), "Answer for question 0 references non-existent option: MySQL"),
        (
            vec![QuestionAnswer { question_index: 7, ..choose("SQLite").remove(0) }],
            "Answer references invalid question index: 7",
        ),
        (
            vec![QuestionAnswer {
                selected_options: Some(vec!["PostgreSQL".into(), "SQLite".into()]),
                ..QuestionAnswer::default()
            }],
            "Answer for question 0 selects several options, but only one is allowed: PostgreSQL, SQLite",
        ),
        (
            vec![QuestionAnswer { selected_options: Some(vec![]), ..QuestionAnswer::default() }],
            "Answer for question 0 selects no option and has no text",
        ),
    ] {
        let error = fixture.folder.answer(&id, answers, LATER).expect_err("refused");
        assert!(matches!(error, QuestionError::BadAnswers(_)));
        assert_eq!(error.to_string(), why);
    }
    assert_eq!(fixture.text(&id, "status.json"), before);
    assert_eq!(fixture.names(Some(&id)), ["request.json", "status.json"]);
}

#[test]
fn a_finished_set_cannot_be_finished_again() {
    type End = fn(&QuestionFolder, &coven_domain::QuestionSetId) -> Result<(), QuestionError>;
    let ends: [(QuestionSetState, End); 4] = [
        (QuestionSetState::Completed, |folder, id| folder.answer(id, choose("SQLite"), NOW)),
        (QuestionSetState::Rejected, |folder, id| folder.reject(id, Some("no"), NOW)),
        (QuestionSetState::TimedOut, |folder, id| {
            folder.end_without_answer(id, QuestionSetState::TimedOut, NOW).map(drop)
        }),
        (QuestionSetState::Abandoned, |folder, id| folder.abandon(id, "gone", NOW).map(drop)),
    ];
    let fixture = Fixture::new();
    for (state, end) in ends {
        let id = fixture.ask();
        end(&fixture.folder, &id).expect("pending");
        let before = fixture.text(&id, "status.json");
        let again = fixture.folder.answer(&id, choose("PostgreSQL"), LATER).expect_err("finished");
        assert!(matches!(again, QuestionError::AlreadyFinished { state: was, .. } if was == state), "{again}");
        let again = fixture.folder.reject(&id, None, LATER).expect_err("finished");
        assert!(matches!(again, QuestionError::AlreadyFinished { state: was, .. } if was == state), "{again}");
        assert!(!fixture.folder.abandon(&id, "late", LATER).expect("exists"));
        assert_eq!(fixture.text(&id, "status.json"), before);
    }
}

#[test]
fn exactly_one_of_several_concurrent_processes_ends_the_set() {
    for _ in 0..4 {
        let fixture = Fixture::new();
        let id = fixture.ask();
        let roles = ["answer SQLite", "answer PostgreSQL", "reject no", "answer SQLite", "reject never"];
        let children: Vec<_> =
            roles.iter().map(|role| fixture.other(role, Some(&id)).spawn().expect("test binary starts")).collect();
        let reports: Vec<String> = children.into_iter().map(report_of).collect();
        let winners: Vec<usize> =
            (0..roles.len()).filter(|at| ["answered", "rejected"].contains(&&*reports[*at])).collect();
        let [winner] = winners[..] else { panic!("{reports:?}") };
        let losers = reports.iter().enumerate().filter(|(at, _)| *at != winner);
        losers
            .for_each(|(_, text)| assert!(text.contains("is already") && text.contains("cannot be changed"), "{text}"));
        let set = fixture.read(&id);
        match roles[winner].split_once(' ') {
            Some(("answer", label)) => {
                let given = set.answers.expect("answered").answers;
                assert_eq!(given[0].selected_option.as_deref(), Some(label), "the answer of the winner");
            }
            Some((_, reason)) => assert_eq!(set.rejection_reason.as_deref(), Some(reason)),
            None => unreachable!("every role has an argument"),
        }
    }
}
