//! The client's own form in addition to the files: the first answer wins.

use std::time::Duration;

use coven_domain::question_set::QuestionSetState;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ProtocolVersion, RequestId};
use rmcp::service::ClientLifecycleMode;
use serde_json::json;

use crate::fixture::{Connected, Fixture, client, data, finish, next, one_question, soon, start_call, text};

fn accepted(content: serde_json::Value) -> ElicitResult {
    let mut result = ElicitResult::new(ElicitationAction::Accept);
    result.content = Some(content);
    result
}

#[tokio::test]
async fn an_answer_in_the_form_finishes_the_question_set() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(true).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    let (form, answer) = next(&mut received.forms).await;
    let ElicitRequestParams::FormElicitationParams { message, .. } = form else { panic!("a form: {form:?}") };
    assert_eq!(message, "Which?");
    let id = fixture.pending();
    answer.send(accepted(json!({"question_1": "B"}))).expect("the client waits");
    assert!(text(&finish(asked).await).ends_with("1. Which?\n→ B"));
    assert_eq!(fixture.state(&id), QuestionSetState::Completed);
}

#[tokio::test]
async fn an_answer_elsewhere_cancels_the_form() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(true).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    let (_form, mut answer) = next(&mut received.forms).await;
    fixture.answer(&fixture.pending(), "A");
    assert!(text(&finish(asked).await).ends_with("→ A"));
    let cancelled = next(&mut received.cancelled).await;
    assert_ne!(cancelled.request_id, Some(RequestId::Number(0)), "some clients treat id 0 as missing");
    soon(answer.closed()).await;
}

#[tokio::test]
async fn declining_the_form_rejects_and_closing_it_keeps_the_questions_open() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(true).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    let (_, answer) = next(&mut received.forms).await;
    answer.send(ElicitResult::new(ElicitationAction::Decline)).expect("the client waits");
    assert_eq!(data(&finish(asked).await)["status"], "rejected");

    for result in [ElicitResult::new(ElicitationAction::Cancel), accepted(json!({"question_1": "no such option"}))] {
        let asked = start_call(&client, "ask_user_questions", one_question()).await;
        let (_, answer) = next(&mut received.forms).await;
        let id = fixture.pending();
        answer.send(result).expect("the client waits");
        // Sent after the reply on the same connection, so the server has processed the reply.
        let status = start_call(&client, "get_answered_questions", json!({"session_id": id.to_string()})).await;
        assert_eq!(data(&finish(status).await)["status"], "pending");
        fixture.answer(&id, "A");
        assert!(text(&finish(asked).await).ends_with("→ A"));
    }
}

#[tokio::test]
async fn a_form_declined_too_fast_for_a_user_keeps_the_questions_open() {
    let mut fixture = Fixture::new();
    fixture.options.min_human_response = Duration::from_secs(3600);
    let Connected { client, mut received, .. } = fixture.connect(true).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    let (_, answer) = next(&mut received.forms).await;
    let id = fixture.pending();
    answer.send(ElicitResult::new(ElicitationAction::Decline)).expect("the client waits");
    // Sent after the reply on the same connection, so the server has processed the reply.
    let status = start_call(&client, "get_answered_questions", json!({"session_id": id.to_string()})).await;
    assert_eq!(data(&finish(status).await)["status"], "pending");
    fixture.answer(&id, "A");
    assert!(text(&finish(asked).await).ends_with("→ A"));
}

#[tokio::test]
async fn a_form_that_fails_keeps_the_questions_open() {
    let fixture = Fixture::new();
    let Connected { client, mut received, .. } = fixture.connect(true).await;
    let asked = start_call(&client, "ask_user_questions", one_question()).await;
    let (_, answer) = next(&mut received.forms).await;
    drop(answer);
    let id = fixture.pending();
    fixture.answer(&id, "B");
    assert!(text(&finish(asked).await).ends_with("→ B"));
}

#[tokio::test]
async fn without_server_requests_the_client_repeats_the_call_with_the_answer() {
    let fixture = Fixture::new();
    let (ours, _server) = fixture.serve();
    let (handler, mut received) = client(true);
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = rmcp::service::serve_client_with_lifecycle(handler, tokio::io::split(ours), lifecycle);
    let client = soon(client).await.expect("a server with this protocol version");
    let serde_json::Value::Object(arguments) = one_question() else { panic!("an object") };
    let params = rmcp::model::CallToolRequestParams::new("ask_user_questions").with_arguments(arguments);
    let answers = async {
        let (_, answer) = next(&mut received.forms).await;
        assert_eq!(fixture.state(&fixture.pending()), QuestionSetState::Pending);
        answer.send(accepted(json!({"question_1": "A"}))).expect("the client waits");
    };
    let (result, ()) = tokio::join!(soon(client.call_tool(params)), answers);
    assert!(text(&result.expect("an answer")).ends_with("1. Which?\n→ A"));
}

#[tokio::test]
async fn a_client_cannot_resume_the_call_of_another_client() {
    let fixture = Fixture::new();
    let first = fixture.connect(false).await;
    let mut arguments = one_question();
    arguments["nonBlocking"] = json!(true);
    finish(start_call(&first.client, "ask_user_questions", arguments).await).await;
    let id = fixture.pending();
    let second = fixture.connect(false).await;
    let params = rmcp::model::CallToolRequestParams::new("ask_user_questions").with_request_state(id.to_string());
    let refused = soon(second.client.call_tool(params)).await.expect_err("another client's question set");
    assert!(refused.to_string().contains("requestState"), "{refused}");
    assert_eq!(fixture.state(&id), QuestionSetState::Pending);
}
