//! Tests the server with the SDK's own client, in one process.

mod fixture;
mod forms;

use std::time::Duration;

use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use fixture::{Connected, Fixture, call, data, finish, next, one_question, soon, start_call, text};
use serde_json::json;

#[tokio::test]
async fn ask_20_the_answer_is_returned_as_text_and_data() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(false).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    next(&mut received.progress).await;
    let id = fixture.pending();
    fixture.answer(&id, "B");
    let result = finish(asked).await;
    let short = &id.to_string()[..8];
    let expected = format!("[Session: {short} | Questions: 1]\n\nHere are the user's answers:\n\n1. Which?\n→ B");
    assert_eq!(text(&result), expected);
    assert_eq!(result.is_error, Some(false));
    let answers = json!([{"questionIndex": 0, "selected": ["B"]}]);
    assert_eq!(*data(&result), json!({"sessionId": id.to_string(), "status": "completed", "answers": answers}));
}

#[tokio::test]
async fn ask_22_a_rejection_is_an_answer_not_an_error() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(false).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    next(&mut received.progress).await;
    fixture.options.folder.reject(&fixture.pending(), Some("too vague"), clock::now()).expect("pending");
    let result = finish(asked).await;
    assert!(text(&result).contains("User rejected this question set.\n\nRejection reason: \"too vague\""));
    assert_eq!((result.is_error, &data(&result)["rejectionReason"]), (Some(false), &json!("too vague")));
}

#[tokio::test]
async fn progress_is_sent_while_waiting_for_the_user() {
    let mut fixture = Fixture::new();
    fixture.options.progress_every = Duration::from_millis(20);
    let Connected { client, mut received, .. } = fixture.connect(false).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    let mut last = 0.0;
    for _ in 0..5 {
        let notification = next(&mut received.progress).await;
        assert_eq!(notification.progress_token, asked.progress_token);
        assert!(notification.progress > last, "progress increases");
        last = notification.progress;
    }
    fixture.answer(&fixture.pending(), "A");
    finish(asked).await;
}

#[tokio::test]
async fn ask_08_cancelling_a_call_abandons_its_set() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(false).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    next(&mut received.progress).await;
    let id = fixture.pending();
    asked.cancel(Some("never mind".to_owned())).await.expect("a server");
    let ended = fixture.options.folder.clone();
    let waited = tokio::task::spawn_blocking(move || ended.wait(&id, None, Some(Duration::from_secs(20))));
    waited.await.expect("no panic").expect("a valid set");
    assert_eq!(fixture.state(&id), QuestionSetState::Abandoned);
    // The server keeps running.
    assert!(
        text(&call(&client, "get_answered_questions", json!({"session_id": id.to_string()})).await)
            .contains("abandoned")
    );
}

#[tokio::test]
async fn a_set_abandoned_because_of_invalid_answers_returns_the_reason() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(false).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    next(&mut received.progress).await;
    let id = fixture.pending();
    let set = fixture.options.folder.path().join(id.to_string());
    // Atomically, as every tool does: an incomplete file would be a different error.
    std::fs::write(set.join("new"), r#"{"answers":[{"questionIndex":7,"selectedOption":"A"}]}"#).expect("the set");
    std::fs::rename(set.join("new"), set.join("answers.json")).expect("the set");
    let result = finish(asked).await;
    assert_eq!(result.is_error, Some(true));
    assert!(text(&result).contains("invalid question index: 7"), "{}", text(&result));
    let data = data(&result);
    assert_eq!(data["status"], "abandoned");
    assert!(data["abandonReason"].as_str().is_some_and(|why| why.contains("invalid question index: 7")), "{data}");
    let later = call(&client, "get_answered_questions", json!({"session_id": id.to_string()})).await;
    assert!(text(&later).contains("invalid question index: 7"), "{}", text(&later));
    assert_eq!(self::data(&later)["abandonReason"], data["abandonReason"]);
}

#[tokio::test]
async fn ask_08_a_client_that_disconnects_leaves_nothing_pending() {
    let fixture = Fixture::new();
    let Connected { mut client, mut received, server } = fixture.connect(false).await;
    let _calls = [
        start_call(&client, "ask_user_questions", one_question()).await,
        start_call(&client, "ask_user_questions", one_question()).await,
    ];
    next(&mut received.progress).await;
    next(&mut received.progress).await;
    client.close().await.expect("no panic");
    soon(server).await.expect("no panic").expect("a successful handshake");
    let states: Vec<_> = fixture.options.folder.list().expect("a folder");
    assert_eq!(states.len(), 2);
    for listed in states {
        let coven_interop::questions::Listed::Sound(set) = listed else { panic!("a broken set: {listed:?}") };
        assert_eq!(set.state, QuestionSetState::Abandoned);
    }
}

#[tokio::test]
async fn ask_07_the_configured_timeout_ends_the_wait() {
    let mut fixture = Fixture::new();
    fixture.options.questions.session_timeout = 1;
    let Connected { client, received: _received, .. } = fixture.connect(false).await;
    let result = call(&client, "ask_user_questions", one_question()).await;
    assert_eq!(result.is_error, Some(true));
    assert_eq!(data(&result)["status"], "timed_out");
}

#[tokio::test]
async fn answers_to_a_nonblocking_call_are_fetched_later() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(false).await;
    let mut arguments = one_question();
    arguments["nonBlocking"] = json!(true);
    let result = call(&client, "ask_user_questions", arguments).await;
    let id = data(&result)["sessionId"].as_str().expect("an id").to_owned();
    let short = &id[..8];
    assert_eq!(
        text(&result),
        format!(
            "[Session: {short} | Questions: 1 | Status: pending]\n\nQuestions submitted successfully.\n\
             Use get_answered_questions(session_id=\"{short}\") or `coven questions answers {short}` to retrieve answers."
        )
    );
    let none_yet = call(&client, "get_answered_questions", json!({"session_id": short})).await;
    assert_eq!(text(&none_yet), format!("[Session: {short} | Status: pending]\n\nNo answers yet."));
    let waits = start_call(&client, "get_answered_questions", json!({"session_id": short, "blocking": true})).await;
    next(&mut received.progress).await;
    fixture.answer(&fixture.pending(), "A");
    assert!(text(&finish(waits).await).ends_with("1. Which?\n→ A"));
    let set = fixture.options.folder.read(&id.parse().expect("an id")).expect("a valid set");
    assert!(set.answers.expect("answers").last_read_at.is_some(), "the fetch is recorded");
    let missing = call(&client, "get_answered_questions", json!({"session_id": "deadbeef"})).await;
    assert_eq!((missing.is_error, text(&missing)), (Some(true), "Session not found: deadbeef"));
}

#[tokio::test]
async fn cancelling_a_fetch_keeps_the_questions_open() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(false).await;
    let mut arguments = one_question();
    arguments["nonBlocking"] = json!(true);
    call(&client, "ask_user_questions", arguments).await;
    let id = fixture.pending();
    let waits =
        start_call(&client, "get_answered_questions", json!({"session_id": id.to_string(), "blocking": true})).await;
    next(&mut received.progress).await;
    waits.cancel(None).await.expect("a server");
    call(&client, "get_answered_questions", json!({"session_id": id.to_string()})).await;
    assert_eq!(fixture.state(&id), QuestionSetState::Pending);
}

#[tokio::test]
async fn ask_03_invalid_questions_are_reported_as_errors() {
    let fixture = Fixture::new();
    let Connected { client, received: _received, .. } = fixture.connect(false).await;
    let none = call(&client, "ask_user_questions", json!({"questions": []})).await;
    assert_eq!((none.is_error, text(&none)), (Some(true), "At least one question is required to create a session"));
    let Err(error) =
        soon(start_call(&client, "ask_user_questions", json!({"questions": 7})).await.await_response()).await
    else {
        panic!("7 is not a list of questions")
    };
    assert!(error.to_string().contains("questions: invalid type"), "{error}");
    assert!(!fixture.options.folder.path().exists(), "no question set was created");
}

#[tokio::test]
async fn a_hundred_concurrent_calls_each_get_their_own_answer() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(false).await;
    let mut calls = Vec::new();
    for number in 0..100 {
        let mut arguments = one_question();
        arguments["questions"][0]["prompt"] = json!(format!("Number {number}?"));
        calls.push(start_call(&client, "ask_user_questions", arguments).await);
        next(&mut received.progress).await;
    }
    for listed in fixture.options.folder.list().expect("a folder").into_iter().rev() {
        let coven_interop::questions::Listed::Sound(set) = listed else { panic!("a broken set: {listed:?}") };
        let is_even = set.questions[0].prompt.bytes().rev().nth(1).is_some_and(|digit| digit % 2 == 0);
        fixture.answer(&set.id, if is_even { "A" } else { "B" });
    }
    for (number, call) in calls.into_iter().enumerate() {
        let result = finish(call).await;
        let letter = if number % 2 == 0 { "A" } else { "B" };
        assert!(text(&result).ends_with(&format!("1. Number {number}?\n→ {letter}")), "{}", text(&result));
    }
}

#[tokio::test]
async fn session_tools_are_read_only_unless_control_is_allowed() {
    let mut fixture = Fixture::new();
    let names =
        |tools: Vec<rmcp::model::Tool>| tools.into_iter().map(|tool| tool.name.into_owned()).collect::<Vec<_>>();
    let connected = fixture.connect(false).await;
    let read_only = ["ask_user_questions", "get_answered_questions", "list_sessions", "read_session"];
    assert_eq!(names(connected.client.list_all_tools().await.expect("tools")), read_only);
    let refused = call(&connected.client, "start_session", json!({"harness": "demo"})).await;
    assert!(refused.is_error == Some(true) && text(&refused).contains("mcp.allowControl"));
    fixture.options.may_control = true;
    let connected = fixture.connect(false).await;
    let tools = names(connected.client.list_all_tools().await.expect("tools"));
    assert_eq!(tools[4..], ["start_session", "send_input"]);
    let no_home = call(&connected.client, "list_sessions", json!({})).await;
    assert!(no_home.is_error == Some(true) && text(&no_home).contains("COVEN_HOME"), "{no_home:?}");
}
