//! Waiting for answers: the events that end a wait, and their results.

use std::time::{Duration, Instant};

use coven_domain::question::{QuestionAnswer, SESSION_REJECTED};
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{QuestionError, Waited};

use crate::fixture::{Fixture, NOW, choose, report_of};

/// Much longer than a waiter with inotify needs, and less than its poll interval.
const WAKE_TIMEOUT: Duration = Duration::from_secs(4);
const SHORT_WAIT: Duration = Duration::from_millis(60);

/// Waits in a separate thread while `act` runs, and returns the result of the wait.
fn wait_while(fixture: &Fixture, id: &coven_domain::QuestionSetId, act: impl FnOnce()) -> Waited {
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| fixture.folder.wait(id, None, Some(Duration::from_secs(60))));
        act();
        // Starting another process in `act` may take long.
        let started = Instant::now();
        let waited = waiter.join().expect("no panic").expect("sound set");
        assert!(started.elapsed() < WAKE_TIMEOUT, "{:?}", started.elapsed());
        waited
    })
}

fn chosen(waited: &Waited) -> Option<&str> {
    match waited {
        Waited::Answered(answers) => answers[0].selected_option.as_deref(),
        _ => None,
    }
}

#[test]
fn ask_20_a_waiter_gets_the_answers_of_another_process() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    let waited = wait_while(&fixture, &id, || {
        let child = fixture.other("answer SQLite", Some(&id)).spawn().expect("test binary starts");
        assert_eq!(report_of(child), "answered");
    });
    assert_eq!(chosen(&waited), Some("SQLite"));
    let waiter = fixture.other("wait", Some(&id)).spawn().expect("test binary starts");
    assert!(report_of(waiter).starts_with("Answered("), "a later waiter gets them too");
}

#[test]
fn ask_20_a_file_written_in_place_by_another_tool_wakes_the_waiter() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    let text = format!(
        r#"{{"sessionId":"{id}","timestamp":"2026-11-15T17:51:16.956Z",
        "answers":[{{"questionIndex":0,"selectedOption":"SQLite","timestamp":"2026-11-15T17:51:16.956Z"}}]}}"#
    );
    let waited =
        wait_while(&fixture, &id, || std::fs::write(fixture.path(&id, "answers.json"), text).expect("disk has space"));
    assert_eq!(chosen(&waited), Some("SQLite"));
    assert_eq!(fixture.json(&id, "status.json")["status"], "pending", "the writer of the answers updates the status");
}

#[test]
fn ask_20_a_wait_that_times_out_ends_the_set() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    assert_eq!(fixture.folder.waiter(&id, None).wait(Some(SHORT_WAIT)).expect("sound set"), None);
    assert_eq!(fixture.read(&id).state, QuestionSetState::Pending, "a waiter does not change the set");
    assert_eq!(fixture.folder.outcome(&id, None).expect("sound set"), None);
    assert_eq!(fixture.folder.wait(&id, None, Some(SHORT_WAIT)).expect("sound set"), Waited::TimedOut);
    assert_eq!(fixture.read(&id).state, QuestionSetState::TimedOut);
    let late = fixture.folder.answer(&id, choose("SQLite"), NOW).expect_err("too late");
    assert!(matches!(late, QuestionError::AlreadyFinished { state: QuestionSetState::TimedOut, .. }), "{late}");
}

#[test]
fn ask_21_answers_for_another_call_do_not_end_the_wait() {
    let fixture = Fixture::new();
    let id = fixture.ask_for_call("this");
    let theirs = |call: &str| {
        format!(
            r#"{{"sessionId":"{id}","answers":[{{"questionIndex":0,"selectedOption":"SQLite"}}],"callId":"{call}"}}"#
        )
    };
    fixture.put(&id, "answers.json", &theirs("that"));
    assert_eq!(fixture.folder.waiter(&id, Some("this")).wait(Some(SHORT_WAIT)).expect("sound set"), None);
    assert_eq!(chosen(&fixture.folder.wait(&id, Some("that"), None).expect("sound set")), Some("SQLite"));
    assert_eq!(chosen(&fixture.folder.wait(&id, None, None).expect("sound set")), Some("SQLite"), "no call id given");
    fixture.put(&id, "answers.json", &theirs("this"));
    assert_eq!(chosen(&fixture.folder.wait(&id, Some("this"), None).expect("sound set")), Some("SQLite"));
    let no_call = theirs("").replace(r#","callId":"""#, "");
    fixture.put(&id, "answers.json", &no_call);
    assert_eq!(
        chosen(&fixture.folder.wait(&id, Some("this"), None).expect("sound set")),
        Some("SQLite"),
        "answers without a call id"
    );
}

#[test]
fn ask_21_a_set_completed_for_another_call_is_an_error() {
    let fixture = Fixture::new();
    let id = fixture.ask_for_call("this");
    fixture.folder.answer(&id, choose("SQLite"), NOW).expect("pending");
    let error = fixture.folder.wait(&id, Some("that"), None).expect_err("answers are for another call");
    assert!(error.to_string().contains("no answers.json for this call"), "{error}");
}

#[test]
fn ask_22_a_rejection_ends_the_wait_with_its_reason() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    let waited = wait_while(&fixture, &id, || fixture.folder.reject(&id, Some("not now"), NOW).expect("pending"));
    assert_eq!(waited, Waited::Rejected(Some("not now".into())));
    assert_eq!(SESSION_REJECTED, "SESSION_REJECTED");
    let id = fixture.ask();
    fixture.folder.reject(&id, None, NOW).expect("pending");
    assert_eq!(fixture.folder.wait(&id, None, None).expect("sound set"), Waited::Rejected(None));
}

#[test]
fn abandoning_or_removing_a_set_ends_the_wait() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    let waited = wait_while(&fixture, &id, || assert!(fixture.folder.abandon(&id, "cancelled", NOW).expect("pending")));
    assert_eq!(waited, Waited::Abandoned(Some("cancelled".into())));
    let id = fixture.ask();
    let end = || assert!(fixture.folder.end_without_answer(&id, QuestionSetState::TimedOut, NOW).expect("pending"));
    assert_eq!(wait_while(&fixture, &id, end), Waited::TimedOut);
    let id = fixture.ask();
    let away = fixture.root().join("away");
    let waited = wait_while(&fixture, &id, || std::fs::rename(fixture.path(&id, ""), away).expect("exists"));
    assert_eq!(waited, Waited::Gone);
    let id = fixture.ask();
    let waited = wait_while(&fixture, &id, || std::fs::remove_dir_all(fixture.path(&id, "")).expect("exists"));
    assert_eq!(waited, Waited::Gone);
    assert_eq!(fixture.folder.wait(&id, None, None).expect("no error"), Waited::Gone);
}

#[test]
fn ask_08_invalid_answers_abandon_the_set_with_the_reason() {
    for (text, why) in [
        ("{\"answers\": [", "answers.json is malformed: EOF"),
        (r#"{"answers": []}"#, "No answers provided"),
        (r#"{"answers": [{"questionIndex": 7, "selectedOption": "SQLite"}]}"#, "invalid question index: 7"),
        (r#"{"answers": [{"questionIndex": 0, "selectedOption": "ZZZ"}]}"#, "non-existent option: ZZZ"),
        (r#"{"answers": [{"questionIndex": 0}]}"#, "has neither selectedOption, selectedOptions, nor customText"),
        (r#"{"sessionId": "other", "answers": []}"#, "its sessionId is \"other\""),
    ] {
        let fixture = Fixture::new();
        let id = fixture.ask();
        let waited = wait_while(&fixture, &id, || fixture.put(&id, "answers.json", text));
        let Waited::Abandoned(Some(reason)) = &waited else { panic!("{text}: {waited:?}") };
        assert!(reason.contains(why), "the asker gets the reason: {reason}");
        let set = fixture.read(&id);
        assert_eq!(set.state, QuestionSetState::Abandoned);
        assert!(set.abandon_reason.as_deref().is_some_and(|reason| reason.contains(why)), "{set:?}");
        assert_eq!(fixture.json(&id, "status.json")["status"], "abandoned");
        assert_eq!(fixture.folder.wait(&id, None, None).expect("no error"), waited, "a second wait returns the same");
    }
}

#[test]
fn ask_08_invalid_answers_abandon_a_set_that_is_marked_as_completed() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    fixture.put(&id, "answers.json", r#"{"answers": [{"questionIndex": 0, "selectedOption": "ZZZ"}]}"#);
    fixture.put(&id, "status.json", &fixture.text(&id, "status.json").replace("pending", "completed"));
    let waited = fixture.folder.wait(&id, None, None).expect("no error");
    assert!(matches!(&waited, Waited::Abandoned(Some(why)) if why.contains("ZZZ")), "{waited:?}");
    assert_eq!(fixture.read(&id).state, QuestionSetState::Abandoned);
}

#[test]
fn a_partial_answer_of_another_tool_is_accepted() {
    let fixture = Fixture::new();
    let mut new = crate::fixture::new_set();
    new.questions.push(crate::fixture::question());
    let id = fixture.folder.create(&new, &crate::fixture::LIMITS, NOW).expect("created");
    fixture.put(&id, "answers.json", r#"{"answers": [{"questionIndex": 1, "customText": "both"}]}"#);
    let both = QuestionAnswer { question_index: 1, custom_text: Some("both".into()), ..QuestionAnswer::default() };
    assert_eq!(fixture.folder.wait(&id, None, None).expect("sound"), Waited::Answered(vec![both]));
}
