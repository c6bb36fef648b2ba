//! Waiting for answers: who wakes the waiter, and with what.

use std::time::{Duration, Instant};

use coven_domain::question::{Answer, SESSION_REJECTED};
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{QuestionError, Waited};

use crate::stand::{NOW, Stand, choose, said_by};

/// Far beyond what a waiter needs, and far below what it may sleep without the kernel's help.
const AT_ONCE: Duration = Duration::from_secs(4);
const A_LITTLE: Duration = Duration::from_millis(60);

/// Waits in a thread of its own while `act` does something, and gives what the waiter got.
fn wait_while(stand: &Stand, id: &coven_domain::QuestionSetId, act: impl FnOnce()) -> Waited {
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| stand.folder.wait(id, None, Some(Duration::from_secs(60))));
        let began = Instant::now();
        act();
        let waited = waiter.join().expect("no panic").expect("a sound set");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
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
    let stand = Stand::new();
    let id = stand.ask();
    let waited = wait_while(&stand, &id, || {
        let child = stand.other("answer SQLite", Some(&id)).spawn().expect("own binary");
        assert_eq!(said_by(child), "answered");
    });
    assert_eq!(chosen(&waited), Some("SQLite"));
    let waiter = stand.other("wait", Some(&id)).spawn().expect("own binary");
    assert!(said_by(waiter).starts_with("Answered("), "one that comes later gets them too");
}

#[test]
fn ask_20_a_file_written_in_place_by_another_tool_wakes_the_waiter() {
    let stand = Stand::new();
    let id = stand.ask();
    let text = format!(
        r#"{{"sessionId":"{id}","timestamp":"2026-11-15T17:51:16.956Z",
        "answers":[{{"questionIndex":0,"selectedOption":"SQLite","timestamp":"2026-11-15T17:51:16.956Z"}}]}}"#
    );
    let waited = wait_while(&stand, &id, || std::fs::write(stand.path(&id, "answers.json"), text).expect("room"));
    assert_eq!(chosen(&waited), Some("SQLite"));
    assert_eq!(stand.json(&id, "status.json")["status"], "pending", "its writer will see to that");
}

#[test]
fn ask_20_a_wait_that_takes_too_long_ends_and_the_set_with_it() {
    let stand = Stand::new();
    let id = stand.ask();
    assert_eq!(stand.folder.waiter(&id, None).wait(Some(A_LITTLE)).expect("a sound set"), None);
    assert_eq!(stand.read(&id).state, QuestionSetState::Pending, "looking on changes nothing");
    assert_eq!(stand.folder.outcome(&id, None).expect("a sound set"), None);
    assert_eq!(stand.folder.wait(&id, None, Some(A_LITTLE)).expect("a sound set"), Waited::TimedOut);
    assert_eq!(stand.read(&id).state, QuestionSetState::TimedOut);
    let late = stand.folder.answer(&id, choose("SQLite"), NOW).expect_err("too late");
    assert!(matches!(late, QuestionError::AlreadyFinished { state: QuestionSetState::TimedOut, .. }), "{late}");
}

#[test]
fn ask_21_answers_for_another_call_do_not_end_the_wait() {
    let stand = Stand::new();
    let id = stand.ask_for_call("this");
    let theirs = |call: &str| {
        format!(
            r#"{{"sessionId":"{id}","answers":[{{"questionIndex":0,"selectedOption":"SQLite"}}],"callId":"{call}"}}"#
        )
    };
    stand.put(&id, "answers.json", &theirs("that"));
    assert_eq!(stand.folder.waiter(&id, Some("this")).wait(Some(A_LITTLE)).expect("a sound set"), None);
    assert_eq!(chosen(&stand.folder.wait(&id, Some("that"), None).expect("a sound set")), Some("SQLite"));
    assert_eq!(chosen(&stand.folder.wait(&id, None, None).expect("a sound set")), Some("SQLite"), "not asked for");
    stand.put(&id, "answers.json", &theirs("this"));
    assert_eq!(chosen(&stand.folder.wait(&id, Some("this"), None).expect("a sound set")), Some("SQLite"));
    let no_call = theirs("").replace(r#","callId":"""#, "");
    stand.put(&id, "answers.json", &no_call);
    assert_eq!(chosen(&stand.folder.wait(&id, Some("this"), None).expect("a sound set")), Some("SQLite"), "none named");
}

#[test]
fn ask_21_a_set_completed_for_another_call_is_an_error_and_no_endless_wait() {
    let stand = Stand::new();
    let id = stand.ask_for_call("this");
    stand.folder.answer(&id, choose("SQLite"), NOW).expect("pending");
    let error = stand.folder.wait(&id, Some("that"), None).expect_err("never");
    assert!(error.to_string().contains("no answers.json for this call"), "{error}");
}

#[test]
fn ask_22_a_rejection_ends_the_wait_with_its_reason() {
    let stand = Stand::new();
    let id = stand.ask();
    let waited = wait_while(&stand, &id, || stand.folder.reject(&id, Some("not now"), NOW).expect("pending"));
    assert_eq!(waited, Waited::Rejected(Some("not now".into())));
    assert_eq!(SESSION_REJECTED, "SESSION_REJECTED");
    let id = stand.ask();
    stand.folder.reject(&id, None, NOW).expect("pending");
    assert_eq!(stand.folder.wait(&id, None, None).expect("a sound set"), Waited::Rejected(None));
}

#[test]
fn a_set_that_is_given_up_or_taken_away_ends_the_wait() {
    let stand = Stand::new();
    let id = stand.ask();
    let waited = wait_while(&stand, &id, || assert!(stand.folder.abandon(&id, "cancelled", NOW).expect("pending")));
    assert_eq!(waited, Waited::Abandoned(Some("cancelled".into())));
    let id = stand.ask();
    let settle = || assert!(stand.folder.settle(&id, QuestionSetState::TimedOut, NOW).expect("pending"));
    assert_eq!(wait_while(&stand, &id, settle), Waited::TimedOut);
    let id = stand.ask();
    let away = stand.root().join("away");
    let waited = wait_while(&stand, &id, || std::fs::rename(stand.path(&id, ""), away).expect("there"));
    assert_eq!(waited, Waited::Gone);
    let id = stand.ask();
    let waited = wait_while(&stand, &id, || std::fs::remove_dir_all(stand.path(&id, "")).expect("there"));
    assert_eq!(waited, Waited::Gone);
    assert_eq!(stand.folder.wait(&id, None, None).expect("no error"), Waited::Gone);
}

#[test]
fn ask_08_answers_that_make_no_sense_abandon_the_set_with_the_reason() {
    for (text, why) in [
        ("{\"answers\": [", "answers.json is malformed: EOF"),
        (r#"{"answers": []}"#, "No answers provided"),
        (r#"{"answers": [{"questionIndex": 7, "selectedOption": "SQLite"}]}"#, "invalid question index: 7"),
        (r#"{"answers": [{"questionIndex": 0, "selectedOption": "ZZZ"}]}"#, "non-existent option: ZZZ"),
        (r#"{"answers": [{"questionIndex": 0}]}"#, "has neither selectedOption, selectedOptions, nor customText"),
        (r#"{"sessionId": "other", "answers": []}"#, "it is about \"other\""),
    ] {
        let stand = Stand::new();
        let id = stand.ask();
        let waited = wait_while(&stand, &id, || stand.put(&id, "answers.json", text));
        let Waited::Abandoned(Some(told)) = &waited else { panic!("{text}: {waited:?}") };
        assert!(told.contains(why), "the asker gets the reason: {told}");
        let set = stand.read(&id);
        assert_eq!(set.state, QuestionSetState::Abandoned);
        assert!(set.abandon_reason.as_deref().is_some_and(|reason| reason.contains(why)), "{set:?}");
        assert_eq!(stand.json(&id, "status.json")["status"], "abandoned");
        assert_eq!(stand.folder.wait(&id, None, None).expect("no error"), waited, "also the second time");
    }
}

#[test]
fn ask_08_a_tool_that_calls_such_a_set_completed_does_not_make_it_so() {
    let stand = Stand::new();
    let id = stand.ask();
    stand.put(&id, "answers.json", r#"{"answers": [{"questionIndex": 0, "selectedOption": "ZZZ"}]}"#);
    stand.put(&id, "status.json", &stand.text(&id, "status.json").replace("pending", "completed"));
    let waited = stand.folder.wait(&id, None, None).expect("no error");
    assert!(matches!(&waited, Waited::Abandoned(Some(why)) if why.contains("ZZZ")), "{waited:?}");
    assert_eq!(stand.read(&id).state, QuestionSetState::Abandoned);
}

#[test]
fn a_partial_answer_of_another_tool_is_handed_on() {
    let stand = Stand::new();
    let mut new = crate::stand::new_set();
    new.questions.push(crate::stand::question());
    let id = stand.folder.create(&new, &crate::stand::LIMITS, NOW).expect("asked");
    stand.put(&id, "answers.json", r#"{"answers": [{"questionIndex": 1, "customText": "both"}]}"#);
    let both = Answer { question_index: 1, custom_text: Some("both".into()), ..Answer::default() };
    assert_eq!(stand.folder.wait(&id, None, None).expect("sound"), Waited::Answered(vec![both]));
}
