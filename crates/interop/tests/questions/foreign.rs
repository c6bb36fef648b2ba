//! Sets and changes of other tools, as captured.

use std::fs;

use coven_domain::QuestionSetId;
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{QuestionError, Waited};

use crate::fixture::{Fixture, NOW, choose};

const ID: &str = "173b747a-549b-4b6b-ae62-f1b0c3f21b86";

const REQUEST: &str = r#"{
  "questions": [
    {
      "options": [
        { "description": "Small", "label": "SQLite" },
        { "label": "PostgreSQL", "colour": "blue" }
      ],
      "prompt": "Which database?",
      "title": "DB",
      "multiSelect": false,
      "hint": null
    }
  ],
  "sessionId": "173b747a-549b-4b6b-ae62-f1b0c3f21b86",
  "status": "pending",
  "timestamp": "2026-11-15T17:51:13.705Z",
  "callId": "2a99ed15-8052-46b9-8e07-93b583739ecb",
  "later": {"b": 1, "a": [1.50]}
}"#;

const STATUS: &str = r#"{
  "createdAt": "2026-11-15T17:51:13.705Z",
  "lastModified": "2026-11-15T17:51:14.533Z",
  "sessionId": "173b747a-549b-4b6b-ae62-f1b0c3f21b86",
  "status": "pending",
  "totalQuestions": 1,
  "callId": "2a99ed15-8052-46b9-8e07-93b583739ecb",
  "lastInteraction": {"by": "tui", "at": 1.50}
}"#;

/// Written by AUQ's command line: the session id first, no call id.
const ANSWERS: &str = r#"{
  "sessionId": "173b747a-549b-4b6b-ae62-f1b0c3f21b86",
  "timestamp": "2026-11-15T17:51:16.956Z",
  "answers": [
    {
      "questionIndex": 0,
      "selectedOption": "SQLite",
      "timestamp": "2026-11-15T17:51:16.956Z",
      "device": "phone"
    }
  ],
  "lastReadAt": "2026-11-15T17:51:17.555Z"
}"#;

/// Written by AUQ's TUI: the answers first.
const ANSWERS_OF_SCREEN: &str = r#"{
  "answers": [
    { "questionIndex": 0, "selectedOption": "SQLite", "timestamp": "2026-11-15T17:51:16.956Z" },
    { "questionIndex": 0, "customText": "[ELABORATE_REQUEST] why?", "timestamp": "2026-11-15T17:51:16.956Z" }
  ],
  "callId": "2a99ed15-8052-46b9-8e07-93b583739ecb",
  "sessionId": "173b747a-549b-4b6b-ae62-f1b0c3f21b86",
  "timestamp": "2026-11-15T17:51:16.956Z"
}"#;

fn with_status(status: &str) -> (Fixture, QuestionSetId) {
    let (fixture, id) = (Fixture::new(), ID.parse().expect("valid id"));
    fixture.put(&id, "request.json", REQUEST);
    fixture.put(&id, "status.json", &STATUS.replace("pending", status));
    (fixture, id)
}

#[test]
fn answering_a_set_of_another_tool_keeps_unknown_fields() {
    let (fixture, id) = with_status("pending");
    let set = fixture.read(&id);
    assert_eq!((set.state, set.created_at), (QuestionSetState::Pending, NOW));
    assert_eq!(set.call_id.as_deref(), Some("2a99ed15-8052-46b9-8e07-93b583739ecb"));
    fixture.folder.answer(&id, choose("SQLite"), NOW).expect("pending");
    let expected = STATUS.replace("pending", "completed").replace("14.533", "13.705");
    assert_eq!(fixture.text(&id, "status.json"), expected, "exact text");
    assert_eq!(fixture.json(&id, "answers.json")["callId"], "2a99ed15-8052-46b9-8e07-93b583739ecb");
    assert_eq!(fixture.text(&id, "request.json"), REQUEST);
}

#[test]
fn answers_of_another_tool_are_read_in_any_key_order() {
    for (answers, count) in [(ANSWERS, 1), (ANSWERS_OF_SCREEN, 2)] {
        let (fixture, id) = with_status("completed");
        fixture.put(&id, "answers.json", answers);
        let set = fixture.read(&id);
        assert_eq!(set.state, QuestionSetState::Completed);
        let given = set.answers.expect("answered");
        assert_eq!((given.answers.len(), given.timestamp.to_string()), (count, "2026-11-15T17:51:16.956Z".into()));
        assert_eq!(given.answers[0].selected_option.as_deref(), Some("SQLite"));
        fixture.folder.validate(&id).expect("sound");
        let waited = fixture.folder.wait(&id, Some("2a99ed15-8052-46b9-8e07-93b583739ecb"), None).expect("sound");
        assert_eq!(waited, Waited::Answered(given.answers));
    }
}

#[test]
fn marking_as_read_keeps_unknown_fields() {
    let (fixture, id) = with_status("completed");
    fixture.put(&id, "answers.json", ANSWERS);
    fixture.folder.mark_read(&id, NOW).expect("answered");
    assert_eq!(fixture.text(&id, "answers.json"), ANSWERS.replace("17.555", "13.705"), "exact text");
}

#[test]
fn other_statuses_of_auq_count_as_pending() {
    for status in ["in-progress", "elaborate_requested", "rephrase_requested"] {
        let (fixture, id) = with_status(status);
        assert_eq!(fixture.read(&id).state, QuestionSetState::Pending, "{status}");
        fixture.folder.reject(&id, Some("no"), NOW).expect("open");
        assert_eq!(fixture.read(&id).state, QuestionSetState::Rejected);
    }
}

#[test]
fn answers_count_before_another_tool_updates_the_status() {
    let (fixture, id) = with_status("pending");
    fixture.put(&id, "answers.json", ANSWERS);
    assert_eq!(fixture.read(&id).state, QuestionSetState::Completed);
    let error = fixture.folder.answer(&id, choose("PostgreSQL"), NOW).expect_err("answered");
    assert!(matches!(error, QuestionError::AlreadyFinished { state: QuestionSetState::Completed, .. }), "{error}");
    assert!(fixture.folder.reject(&id, None, NOW).is_err());
    assert!(!fixture.folder.end_without_answer(&id, QuestionSetState::TimedOut, NOW).expect("exists"));
    assert_eq!(fixture.text(&id, "answers.json"), ANSWERS);
    assert!(
        fixture.folder.end_without_answer(&id, QuestionSetState::Completed, NOW).expect("exists"),
        "the status is updated"
    );
    assert_eq!(fixture.json(&id, "status.json")["status"], "completed");
}

#[test]
fn answers_for_another_call_are_ignored() {
    let (fixture, id) = with_status("pending");
    fixture.put(&id, "answers.json", &ANSWERS_OF_SCREEN.replace("2a99ed15", "ffffffff"));
    let set = fixture.read(&id);
    assert_eq!((set.state, set.answers), (QuestionSetState::Pending, None));
    fixture.folder.answer(&id, choose("PostgreSQL"), NOW).expect("still open");
    assert_eq!(fixture.read(&id).answers.expect("writable").answers[0].selected_option.as_deref(), Some("PostgreSQL"));
}

#[test]
fn readers_ignore_locks_and_writers_take_over_stale_ones() {
    let (fixture, id) = with_status("pending");
    let mut child = std::process::Command::new("true").spawn().expect("program starts");
    child.wait().expect("child process");
    // As captured: the pid without a line end. Process 1 is alive.
    for file in ["request.json", "answers.json"] {
        fs::write(fixture.path(&id, &format!("{file}.lock")), "1").expect("disk has space");
    }
    fs::write(fixture.path(&id, "status.json.lock"), child.id().to_string()).expect("disk has space");
    assert_eq!(fixture.read(&id).state, QuestionSetState::Pending);
    assert_eq!(fixture.folder.list().expect("readable folder").len(), 1);
    fixture.folder.answer(&id, choose("SQLite"), NOW).expect("the owner is dead");
    assert!(!fixture.path(&id, "status.json.lock").exists());
}

#[test]
fn ask_15_reading_a_malformed_file_fails_after_three_attempts_with_increasing_delays() {
    let (fixture, id) = with_status("pending");
    fixture.put(&id, "status.json", "{");
    let started = std::time::Instant::now();
    let error = fixture.folder.read(&id).expect_err("malformed");
    assert!(matches!(error, QuestionError::Malformed { file: "status.json", .. }), "{error}");
    assert!(started.elapsed() >= std::time::Duration::from_millis(300), "100 ms, then 200 ms");
    let time_of_read = || {
        let started = std::time::Instant::now();
        fixture.folder.read(&"deadbeef-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("valid id")).expect_err("missing");
        started.elapsed()
    };
    // On a busy machine, some reads are slow.
    let fastest = (0..5).map(|_| time_of_read()).min().expect("five reads");
    assert!(fastest < std::time::Duration::from_millis(100), "no retry for a missing set: {fastest:?}");
}
