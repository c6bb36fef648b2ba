//! Sets and changes by other tools, as captured.

use std::fs;

use coven_domain::QuestionSetId;
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{QuestionError, Waited};

use crate::stand::{NOW, Stand, choose};

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

/// By its command line: the session first, no call.
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

/// By its screen: the answers first.
const ANSWERS_OF_SCREEN: &str = r#"{
  "answers": [
    { "questionIndex": 0, "selectedOption": "SQLite", "timestamp": "2026-11-15T17:51:16.956Z" },
    { "questionIndex": 0, "customText": "[ELABORATE_REQUEST] why?", "timestamp": "2026-11-15T17:51:16.956Z" }
  ],
  "callId": "2a99ed15-8052-46b9-8e07-93b583739ecb",
  "sessionId": "173b747a-549b-4b6b-ae62-f1b0c3f21b86",
  "timestamp": "2026-11-15T17:51:16.956Z"
}"#;

fn given(status: &str) -> (Stand, QuestionSetId) {
    let (stand, id) = (Stand::new(), ID.parse().expect("an id"));
    stand.put(&id, "request.json", REQUEST);
    stand.put(&id, "status.json", &STATUS.replace("pending", status));
    (stand, id)
}

#[test]
fn a_set_of_another_tool_is_read_and_answered_and_what_we_do_not_know_survives() {
    let (stand, id) = given("pending");
    let set = stand.read(&id);
    assert_eq!((set.state, set.created_at), (QuestionSetState::Pending, NOW));
    assert_eq!(set.call_id.as_deref(), Some("2a99ed15-8052-46b9-8e07-93b583739ecb"));
    stand.folder.answer(&id, choose("SQLite"), NOW).expect("pending");
    let expected = STATUS.replace("pending", "completed").replace("14.533", "13.705");
    assert_eq!(stand.text(&id, "status.json"), expected, "to the character");
    assert_eq!(stand.json(&id, "answers.json")["callId"], "2a99ed15-8052-46b9-8e07-93b583739ecb");
    assert_eq!(stand.text(&id, "request.json"), REQUEST);
}

#[test]
fn answers_of_another_tool_are_read_in_either_order_of_keys() {
    for (answers, count) in [(ANSWERS, 1), (ANSWERS_OF_SCREEN, 2)] {
        let (stand, id) = given("completed");
        stand.put(&id, "answers.json", answers);
        let set = stand.read(&id);
        assert_eq!(set.state, QuestionSetState::Completed);
        let given = set.answers.expect("answered");
        assert_eq!((given.answers.len(), given.timestamp.to_string()), (count, "2026-11-15T17:51:16.956Z".into()));
        assert_eq!(given.answers[0].selected_option.as_deref(), Some("SQLite"));
        stand.folder.validate(&id).expect("sound");
        let waited = stand.folder.wait(&id, Some("2a99ed15-8052-46b9-8e07-93b583739ecb"), None).expect("sound");
        assert_eq!(waited, Waited::Answered(given.answers));
    }
}

#[test]
fn marking_as_read_keeps_what_we_do_not_know() {
    let (stand, id) = given("completed");
    stand.put(&id, "answers.json", ANSWERS);
    stand.folder.mark_read(&id, NOW).expect("answered");
    assert_eq!(stand.text(&id, "answers.json"), ANSWERS.replace("17.555", "13.705"), "to the character");
}

#[test]
fn statuses_that_end_nothing_leave_the_set_open() {
    for status in ["in-progress", "elaborate_requested", "rephrase_requested"] {
        let (stand, id) = given(status);
        assert_eq!(stand.read(&id).state, QuestionSetState::Pending, "{status}");
        stand.folder.reject(&id, Some("no"), NOW).expect("open");
        assert_eq!(stand.read(&id).state, QuestionSetState::Rejected);
    }
}

#[test]
fn answers_that_another_tool_wrote_before_its_status_count_already() {
    let (stand, id) = given("pending");
    stand.put(&id, "answers.json", ANSWERS);
    assert_eq!(stand.read(&id).state, QuestionSetState::Completed);
    let error = stand.folder.answer(&id, choose("PostgreSQL"), NOW).expect_err("answered");
    assert!(matches!(error, QuestionError::AlreadyFinished { state: QuestionSetState::Completed, .. }), "{error}");
    assert!(stand.folder.reject(&id, None, NOW).is_err());
    assert!(!stand.folder.settle(&id, QuestionSetState::TimedOut, NOW).expect("there"));
    assert_eq!(stand.text(&id, "answers.json"), ANSWERS);
    assert!(stand.folder.settle(&id, QuestionSetState::Completed, NOW).expect("there"), "the status follows");
    assert_eq!(stand.json(&id, "status.json")["status"], "completed");
}

#[test]
fn answers_for_another_call_are_not_ours() {
    let (stand, id) = given("pending");
    stand.put(&id, "answers.json", &ANSWERS_OF_SCREEN.replace("2a99ed15", "ffffffff"));
    let set = stand.read(&id);
    assert_eq!((set.state, set.answers), (QuestionSetState::Pending, None));
    stand.folder.answer(&id, choose("PostgreSQL"), NOW).expect("still open");
    assert_eq!(stand.read(&id).answers.expect("ours").answers[0].selected_option.as_deref(), Some("PostgreSQL"));
}

#[test]
fn readers_do_not_care_about_locks_and_writers_take_over_dead_ones() {
    let (stand, id) = given("pending");
    let mut child = std::process::Command::new("true").spawn().expect("a program");
    child.wait().expect("own child");
    // As captured: the number, no line end. Process 1 lives.
    for file in ["request.json", "answers.json"] {
        fs::write(stand.path(&id, &format!("{file}.lock")), "1").expect("room");
    }
    fs::write(stand.path(&id, "status.json.lock"), child.id().to_string()).expect("room");
    assert_eq!(stand.read(&id).state, QuestionSetState::Pending);
    assert_eq!(stand.folder.list().expect("a folder").len(), 1);
    stand.folder.answer(&id, choose("SQLite"), NOW).expect("the owner is dead");
    assert!(!stand.path(&id, "status.json.lock").exists());
}

#[test]
fn ask_15_a_file_that_stays_malformed_is_given_up_after_three_attempts_with_growing_pauses() {
    let (stand, id) = given("pending");
    stand.put(&id, "status.json", "{");
    let began = std::time::Instant::now();
    let error = stand.folder.read(&id).expect_err("malformed");
    assert!(matches!(error, QuestionError::Malformed { file: "status.json", .. }), "{error}");
    assert!(began.elapsed() >= std::time::Duration::from_millis(300), "100 ms, then 200 ms");
    let began = std::time::Instant::now();
    stand.folder.read(&"deadbeef-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id")).expect_err("not there");
    assert!(began.elapsed() < std::time::Duration::from_millis(100), "nothing to wait for");
}
