//! What lies on disk, to the character, and who may read it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coven_domain::QuestionSetId;
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{Limits, NewQuestionSet, QuestionError};

use crate::stand::{LIMITS, NOW, Stand, choose, new_set, said_by};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

#[test]
fn ask_01_a_new_set_is_a_folder_named_by_a_random_id_with_its_two_files() {
    let stand = Stand::new();
    let id = stand.ask();
    assert_eq!(stand.names(None), [id.to_string()]);
    assert_eq!(id.to_string().as_bytes()[14], b'4', "version 4");
    assert_eq!(stand.names(Some(&id)), ["request.json", "status.json"]);
    assert_eq!(stand.read(&id).questions, new_set().questions);
    assert_ne!(stand.ask(), id);
}

#[test]
fn ask_02_files_and_folders_are_for_their_owner_only_whatever_the_umask() {
    for umask in ["0", "277"] {
        let stand = Stand::new();
        let child = stand.other_after(&format!("umask {umask}"), "create", None).spawn().expect("a shell");
        let id: QuestionSetId = said_by(child).parse().expect("an id");
        stand.folder.answer(&id, choose("SQLite"), NOW).expect("answered");
        assert_eq!(mode(stand.folder.path()), 0o700);
        assert_eq!(mode(&stand.path(&id, "")), 0o700);
        for file in ["request.json", "status.json", "answers.json"] {
            assert_eq!(mode(&stand.path(&id, file)), 0o600, "{file} under umask {umask}");
        }
    }
}

#[test]
fn ask_03_an_empty_list_is_refused_and_leaves_nothing() {
    let stand = Stand::new();
    let error = stand.folder.create(&NewQuestionSet::default(), &LIMITS, NOW).expect_err("nothing is asked");
    assert_eq!(error.to_string(), "At least one question is required to create a session");
    assert!(!stand.folder.path().exists());
}

#[test]
fn ask_04_a_new_set_is_pending() {
    let stand = Stand::new();
    let id = stand.ask();
    assert_eq!(stand.read(&id).state, QuestionSetState::Pending);
    assert_eq!(stand.json(&id, "status.json")["status"], "pending");
}

#[test]
fn ask_09_the_request_has_the_captured_keys_in_their_order() {
    let stand = Stand::new();
    let new = NewQuestionSet {
        call_id: None,
        working_directory: Some("/src".into()),
        session: Some("3d9fb909-9c3b-412e-beb8-8e47819deb3e".into()),
        ..new_set()
    };
    let id = stand.folder.create(&new, &LIMITS, NOW).expect("asked");
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
    assert_eq!(stand.text(&id, "request.json"), expected.replace("ID", &id.to_string()));
    let set = stand.read(&id);
    assert_eq!((set.working_directory, set.session), (new.working_directory, new.session));
}

#[test]
fn ask_09_the_call_is_in_the_request_from_the_start() {
    let stand = Stand::new();
    let id = stand.ask_for_call("2a99ed15-8052-46b9-8e07-93b583739ecb");
    assert_eq!(stand.json(&id, "request.json")["callId"], "2a99ed15-8052-46b9-8e07-93b583739ecb");
    assert_eq!(stand.json(&id, "request.json")["covenAsker"]["pid"], std::process::id());
    assert_eq!(stand.read(&id).call_id.as_deref(), Some("2a99ed15-8052-46b9-8e07-93b583739ecb"));
}

#[test]
fn ask_10_the_status_has_the_captured_keys_in_their_order() {
    let stand = Stand::new();
    let id = stand.ask_for_call("2a99ed15-8052-46b9-8e07-93b583739ecb");
    let expected = r#"{
  "createdAt": "2026-11-15T17:51:13.705Z",
  "lastModified": "2026-11-15T17:51:13.705Z",
  "sessionId": "ID",
  "status": "pending",
  "totalQuestions": 1,
  "callId": "2a99ed15-8052-46b9-8e07-93b583739ecb"
}"#;
    assert_eq!(stand.text(&id, "status.json"), expected.replace("ID", &id.to_string()));
}

#[test]
fn ask_11_the_answers_have_the_captured_keys_in_their_order() {
    let stand = Stand::new();
    let id = stand.ask_for_call("2a99ed15-8052-46b9-8e07-93b583739ecb");
    stand.folder.answer(&id, choose("SQLite"), NOW).expect("answered");
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
    assert_eq!(stand.text(&id, "answers.json"), expected.replace("ID", &id.to_string()));
    stand.folder.mark_read(&id, NOW).expect("answered");
    let marked = expected.replace("ecb\"\n", "ecb\",\n  \"lastReadAt\": \"2026-11-15T17:51:13.705Z\"\n");
    assert_eq!(stand.text(&id, "answers.json"), marked.replace("ID", &id.to_string()));
    assert_eq!(stand.read(&id).answers.expect("answered").last_read_at, Some(NOW));
}

#[test]
fn only_answers_can_be_marked_as_read() {
    let stand = Stand::new();
    let error = stand.folder.mark_read(&stand.ask(), NOW).expect_err("no answers yet");
    assert!(matches!(error, QuestionError::NoAnswers { .. }), "{error}");
}

#[test]
fn only_so_many_sets_wait_at_a_time() {
    let stand = Stand::new();
    let limits = Limits { max_sessions: 2 };
    let first = stand.folder.create(&new_set(), &limits, NOW).expect("room");
    stand.folder.create(&new_set(), &limits, NOW).expect("room");
    let error = stand.folder.create(&new_set(), &limits, NOW).expect_err("full");
    assert!(matches!(error, QuestionError::Full { max: 2 }), "{error}");
    assert_eq!(stand.names(None).len(), 2);
    stand.folder.reject(&first, None, NOW).expect("pending");
    stand.folder.create(&new_set(), &limits, NOW).expect("room again: finished ones do not count");
}

#[test]
fn ask_30_a_set_is_valid_when_its_files_are_there_and_agree() {
    let stand = Stand::new();
    let id = stand.ask();
    stand.folder.validate(&id).expect("fresh");
    stand.folder.answer(&id, choose("SQLite"), NOW).expect("pending");
    stand.folder.validate(&id).expect("answered");

    let broken = |file: &str, change: &dyn Fn(&str) -> Option<String>| {
        let id = stand.ask();
        match change(&stand.text(&id, file)) {
            Some(text) => stand.put(&id, file, &text),
            None => fs::remove_file(stand.path(&id, file)).expect("there"),
        }
        stand.folder.validate(&id).expect_err("broken").to_string().replace(&id.to_string(), "ID")
    };
    assert_eq!(broken("request.json", &|_| None), "the question set's request.json is missing: ID");
    assert_eq!(broken("status.json", &|_| None), "the question set's status.json is missing: ID");
    let other = "173b747a-549b-4b6b-ae62-f1b0c3f21b86";
    let renamed = |text: &str| {
        let at = text.find("sessionId\": \"").expect("a key") + 13;
        Some(format!("{}{other}{}", &text[..at], &text[at + other.len()..]))
    };
    let contradiction = "the question set's files contradict each other";
    for file in ["request.json", "status.json"] {
        assert_eq!(broken(file, &renamed), format!("{contradiction}: {file} is about \"{other}\": ID"));
    }
    let miscounted = |text: &str| Some(text.replace("\"totalQuestions\": 1", "\"totalQuestions\": 2"));
    let counts = format!("{contradiction}: request.json has 1 questions and status.json counts 2: ID");
    assert_eq!(broken("status.json", &miscounted), counts);
    let completed = |text: &str| Some(text.replace("pending", "completed"));
    assert_eq!(broken("status.json", &completed), format!("{contradiction}: completed, but no answers.json: ID"));
    let cut = |text: &str| Some(text[..text.len() / 2].to_owned());
    assert!(broken("status.json", &cut).starts_with("the question set's status.json is malformed: "));
    let unknown = |text: &str| Some(text.replace("pending", "wat"));
    assert!(broken("status.json", &unknown).contains("unknown value \"wat\""));

    let gone = "173b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id");
    let error = stand.folder.validate(&gone).expect_err("not there").to_string();
    assert_eq!(error, "Session not found: 173b747a-549b-4b6b-ae62-f1b0c3f21b86");
}

#[test]
fn ask_31_only_the_beginning_of_an_id_finds_a_set() {
    let stand = Stand::new();
    fs::create_dir_all(stand.folder.path().join("not-a-set")).expect("room");
    let id = stand.ask();
    let text = id.to_string();
    assert_eq!(stand.folder.find(&text).expect("whole"), id);
    assert_eq!(stand.folder.find(&text[..8].to_uppercase()).expect("any case"), id);
    for bad in ["", "..", "../sessions", "/", "not-a-set", "*", "ghijkl", " "] {
        let error = stand.folder.find(bad).expect_err("no id");
        assert_eq!(error.to_string(), format!("Session not found: {bad}"));
    }
    let others: Vec<QuestionSetId> = (0..16).map(|_| stand.ask()).collect();
    let twice = others.iter().map(ToString::to_string).find(|other| {
        let first = &other[..1];
        others.iter().filter(|another| another.to_string().starts_with(first)).count() > 1
    });
    let first = &twice.expect("seventeen ids and sixteen digits")[..1];
    let error = stand.folder.find(first).expect_err("several");
    assert!(matches!(error, QuestionError::Ambiguous { matches, .. } if matches.len() > 1));
}
