//! The exact content of the files on disk, and their permissions.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coven_domain::QuestionSetId;
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{Limits, NewQuestionSet, QuestionError};

use crate::fixture::{Fixture, LIMITS, NOW, choose, new_set, report_of};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("exists").mode() & 0o7777
}

#[test]
fn ask_01_a_new_set_is_a_folder_with_a_random_id_and_two_files() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    assert_eq!(fixture.names(None), [id.to_string()]);
    assert_eq!(id.to_string().as_bytes()[14], b'4', "version 4");
    assert_eq!(fixture.names(Some(&id)), ["request.json", "status.json"]);
    assert_eq!(fixture.read(&id).questions, new_set().questions);
    assert_ne!(fixture.ask(), id);
}

#[test]
fn ask_02_only_the_owner_can_access_files_regardless_of_the_umask() {
    for umask in ["0", "277"] {
        let fixture = Fixture::new();
        let child = fixture.other_after(&format!("umask {umask}"), "create", None).spawn().expect("shell starts");
        let id: QuestionSetId = report_of(child).parse().expect("valid id");
        fixture.folder.answer(&id, choose("SQLite"), NOW).expect("answered");
        assert_eq!(mode(fixture.folder.path()), 0o700);
        assert_eq!(mode(&fixture.path(&id, "")), 0o700);
        for file in ["request.json", "status.json", "answers.json"] {
            assert_eq!(mode(&fixture.path(&id, file)), 0o600, "{file} under umask {umask}");
        }
    }
}

#[test]
fn ask_03_an_empty_list_is_refused_and_leaves_no_files() {
    let fixture = Fixture::new();
    let error = fixture.folder.create(&NewQuestionSet::default(), &LIMITS, NOW).expect_err("no questions");
    assert_eq!(error.to_string(), "At least one question is required to create a session");
    assert!(!fixture.folder.path().exists());
}

#[test]
fn ask_04_a_new_set_is_pending() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    assert_eq!(fixture.read(&id).state, QuestionSetState::Pending);
    assert_eq!(fixture.json(&id, "status.json")["status"], "pending");
}

#[test]
fn ask_09_the_request_has_the_captured_keys_in_their_order() {
    let fixture = Fixture::new();
    let new = NewQuestionSet {
        call_id: None,
        working_directory: Some("/src".into()),
        session: Some("3d9fb909-9c3b-412e-beb8-8e47819deb3e".into()),
        ..new_set()
    };
    let id = fixture.folder.create(&new, &LIMITS, NOW).expect("created");
    let expected = r#"{
  "questions": [
    {
      "options": [
        {
          "description": "Relational, mature",
          "label": "PostgreSQL"
        },
        {
          "label": "SQLite"
        }
      ],
      "prompt": "Which database?",
      "title": "Database",
      "multiSelect": false
    }
  ],
  "sessionId": "ID",
  "status": "pending",
  "timestamp": "2026-11-15T17:51:13.705Z",
  "workingDirectory": "/src",
  "covenSessionId": "3d9fb909-9c3b-412e-beb8-8e47819deb3e"
}"#;
    assert_eq!(fixture.text(&id, "request.json"), expected.replace("ID", &id.to_string()));
    let set = fixture.read(&id);
    assert_eq!((set.working_directory, set.session), (new.working_directory, new.session));
}

#[test]
fn ask_09_a_new_request_contains_the_call_id() {
    let fixture = Fixture::new();
    let id = fixture.ask_for_call("2a99ed15-8052-46b9-8e07-93b583739ecb");
    assert_eq!(fixture.json(&id, "request.json")["callId"], "2a99ed15-8052-46b9-8e07-93b583739ecb");
    assert_eq!(fixture.json(&id, "request.json")["covenAsker"]["pid"], std::process::id());
    assert_eq!(fixture.read(&id).call_id.as_deref(), Some("2a99ed15-8052-46b9-8e07-93b583739ecb"));
}

#[test]
fn ask_10_the_status_has_the_captured_keys_in_their_order() {
    let fixture = Fixture::new();
    let id = fixture.ask_for_call("2a99ed15-8052-46b9-8e07-93b583739ecb");
    let expected = r#"{
  "createdAt": "2026-11-15T17:51:13.705Z",
  "lastModified": "2026-11-15T17:51:13.705Z",
  "sessionId": "ID",
  "status": "pending",
  "totalQuestions": 1,
  "callId": "2a99ed15-8052-46b9-8e07-93b583739ecb"
}"#;
    assert_eq!(fixture.text(&id, "status.json"), expected.replace("ID", &id.to_string()));
}

#[test]
fn ask_11_the_answers_have_the_captured_keys_in_their_order() {
    let fixture = Fixture::new();
    let id = fixture.ask_for_call("2a99ed15-8052-46b9-8e07-93b583739ecb");
    fixture.folder.answer(&id, choose("SQLite"), NOW).expect("answered");
    let expected = r#"{
  "sessionId": "ID",
  "timestamp": "2026-11-15T17:51:13.705Z",
  "answers": [
    {
      "questionIndex": 0,
      "selectedOption": "SQLite",
      "timestamp": "2026-11-15T17:51:13.705Z"
    }
  ],
  "callId": "2a99ed15-8052-46b9-8e07-93b583739ecb"
}"#;
    assert_eq!(fixture.text(&id, "answers.json"), expected.replace("ID", &id.to_string()));
    fixture.folder.mark_read(&id, NOW).expect("answered");
    let marked = expected.replace("ecb\"\n", "ecb\",\n  \"lastReadAt\": \"2026-11-15T17:51:13.705Z\"\n");
    assert_eq!(fixture.text(&id, "answers.json"), marked.replace("ID", &id.to_string()));
    assert_eq!(fixture.read(&id).answers.expect("answered").last_read_at, Some(NOW));
}

#[test]
fn a_set_without_answers_cannot_be_marked_as_read() {
    let fixture = Fixture::new();
    let error = fixture.folder.mark_read(&fixture.ask(), NOW).expect_err("no answers yet");
    assert!(matches!(error, QuestionError::NoAnswers { .. }), "{error}");
}

#[test]
fn the_number_of_pending_sets_is_limited() {
    let fixture = Fixture::new();
    let limits = Limits { max_sessions: 2 };
    let first = fixture.folder.create(&new_set(), &limits, NOW).expect("disk has space");
    fixture.folder.create(&new_set(), &limits, NOW).expect("disk has space");
    let error = fixture.folder.create(&new_set(), &limits, NOW).expect_err("full");
    assert!(matches!(error, QuestionError::Full { max: 2 }), "{error}");
    assert_eq!(fixture.names(None).len(), 2);
    fixture.folder.reject(&first, None, NOW).expect("pending");
    fixture.folder.create(&new_set(), &limits, NOW).expect("finished sets do not count");
}

#[test]
fn ask_30_a_set_is_valid_if_its_files_exist_and_agree() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    fixture.folder.validate(&id).expect("new set is valid");
    fixture.folder.answer(&id, choose("SQLite"), NOW).expect("pending");
    fixture.folder.validate(&id).expect("answered");

    let broken = |file: &str, change: &dyn Fn(&str) -> Option<String>| {
        let id = fixture.ask();
        match change(&fixture.text(&id, file)) {
            Some(text) => fixture.put(&id, file, &text),
            None => fs::remove_file(fixture.path(&id, file)).expect("exists"),
        }
        fixture.folder.validate(&id).expect_err("broken").to_string().replace(&id.to_string(), "ID")
    };
    assert_eq!(broken("request.json", &|_| None), "question set ID: request.json is missing");
    assert_eq!(broken("status.json", &|_| None), "question set ID: status.json is missing");
    let other = "173b747a-549b-4b6b-ae62-f1b0c3f21b86";
    let with_other_id = |text: &str| {
        let at = text.find("sessionId\": \"").expect("key") + 13;
        Some(format!("{}{other}{}", &text[..at], &text[at + other.len()..]))
    };
    let inconsistent = "question set ID: inconsistent files";
    for file in ["request.json", "status.json"] {
        assert_eq!(broken(file, &with_other_id), format!("{inconsistent}: the sessionId in {file} is \"{other}\""));
    }
    let miscounted = |text: &str| Some(text.replace("\"totalQuestions\": 1", "\"totalQuestions\": 2"));
    let counts = format!("{inconsistent}: request.json has 1 questions, but status.json says 2");
    assert_eq!(broken("status.json", &miscounted), counts);
    let completed = |text: &str| Some(text.replace("pending", "completed"));
    assert_eq!(
        broken("status.json", &completed),
        format!("{inconsistent}: status.json says completed, but there is no answers.json")
    );
    let cut = |text: &str| Some(text[..text.len() / 2].to_owned());
    assert!(broken("status.json", &cut).starts_with("question set ID: status.json is malformed: "));
    let unknown = |text: &str| Some(text.replace("pending", "wat"));
    assert!(broken("status.json", &unknown).contains("unknown value \"wat\""));

    let gone = "173b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("valid id");
    let error = fixture.folder.validate(&gone).expect_err("missing").to_string();
    assert_eq!(error, "Session not found: 173b747a-549b-4b6b-ae62-f1b0c3f21b86");
}

#[test]
fn ask_31_only_an_id_prefix_finds_a_set() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.folder.path().join("not-a-set")).expect("disk has space");
    let id = fixture.ask();
    let text = id.to_string();
    assert_eq!(fixture.folder.find(&text).expect("full id"), id);
    assert_eq!(fixture.folder.find(&text[..8].to_uppercase()).expect("prefix in any case"), id);
    for bad in ["", "..", "../sessions", "/", "not-a-set", "*", "ghijkl", " "] {
        let error = fixture.folder.find(bad).expect_err("not an id");
        assert_eq!(error.to_string(), format!("Session not found: {bad}"));
    }
    let others: Vec<QuestionSetId> = (0..16).map(|_| fixture.ask()).collect();
    let twice = others.iter().map(ToString::to_string).find(|other| {
        let first = &other[..1];
        others.iter().filter(|another| another.to_string().starts_with(first)).count() > 1
    });
    let first = &twice.expect("17 ids share 16 first digits")[..1];
    let error = fixture.folder.find(first).expect_err("ambiguous");
    assert!(matches!(error, QuestionError::Ambiguous { matches, .. } if matches.len() > 1));
}
