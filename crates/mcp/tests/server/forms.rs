//! The client's own form beside the files: whichever is answered first wins.

use std::time::Duration;

use coven_domain::question_set::QuestionSetState;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ProtocolVersion, RequestId};
use rmcp::service::ClientLifecycleMode;
use serde_json::json;

use crate::stand::{Connected, Stand, begin, client, data, end, next, one_question, soon, text};

fn accepted(content: serde_json::Value) -> ElicitResult {
    let mut result = ElicitResult::new(ElicitationAction::Accept);
    result.content = Some(content);
    result
}

#[tokio::test]
async fn what_is_said_in_the_form_is_the_answer_everywhere() {
    let stand = Stand::new();
    let Connected { client, mut heard, .. } = stand.connect(true).await;
    let asked = begin(&client, "ask_user_questions", one_question()).await;
    let (form, answer) = next(&mut heard.forms).await;
    let ElicitRequestParams::FormElicitationParams { message, .. } = form else { panic!("a form: {form:?}") };
    assert_eq!(message, "Which?");
    let id = stand.pending();
    answer.send(accepted(json!({"question_1": "B"}))).expect("the client waits");
    assert!(text(&end(asked).await).ends_with("1. Which?\n→ B"));
    assert_eq!(stand.state(&id), QuestionSetState::Completed);
}

#[tokio::test]
async fn an_answer_elsewhere_takes_the_form_back() {
    let stand = Stand::new();
    let Connected { client, mut heard, .. } = stand.connect(true).await;
    let asked = begin(&client, "ask_user_questions", one_question()).await;
    let (_form, mut answer) = next(&mut heard.forms).await;
    stand.answer(&stand.pending(), "A");
    assert!(text(&end(asked).await).ends_with("→ A"));
    let taken_back = next(&mut heard.cancelled).await;
    assert_ne!(taken_back.request_id, Some(RequestId::Number(0)), "some clients take a 0 for no number");
    soon(answer.closed()).await;
}

#[tokio::test]
async fn declining_the_form_rejects_and_closing_it_leaves_the_files() {
    let stand = Stand::new();
    let Connected { client, mut heard, .. } = stand.connect(true).await;
    let asked = begin(&client, "ask_user_questions", one_question()).await;
    let (_, answer) = next(&mut heard.forms).await;
    answer.send(ElicitResult::new(ElicitationAction::Decline)).expect("the client waits");
    assert_eq!(data(&end(asked).await)["status"], "rejected");

    for said in [ElicitResult::new(ElicitationAction::Cancel), accepted(json!({"question_1": "no such option"}))] {
        let asked = begin(&client, "ask_user_questions", one_question()).await;
        let (_, answer) = next(&mut heard.forms).await;
        let id = stand.pending();
        answer.send(said).expect("the client waits");
        // Fetched behind it on the same connection, so what was said has been heard.
        let standing = begin(&client, "get_answered_questions", json!({"session_id": id.to_string()})).await;
        assert_eq!(data(&end(standing).await)["status"], "pending");
        stand.answer(&id, "A");
        assert!(text(&end(asked).await).ends_with("→ A"));
    }
}

#[tokio::test]
async fn a_form_that_no_human_can_have_declined_yet_leaves_the_files() {
    let mut stand = Stand::new();
    stand.options.human_needs = Duration::from_secs(3600);
    let Connected { client, mut heard, .. } = stand.connect(true).await;
    let asked = begin(&client, "ask_user_questions", one_question()).await;
    let (_, answer) = next(&mut heard.forms).await;
    let id = stand.pending();
    answer.send(ElicitResult::new(ElicitationAction::Decline)).expect("the client waits");
    // Fetched behind it on the same connection, so what was said has been heard.
    let standing = begin(&client, "get_answered_questions", json!({"session_id": id.to_string()})).await;
    assert_eq!(data(&end(standing).await)["status"], "pending");
    stand.answer(&id, "A");
    assert!(text(&end(asked).await).ends_with("→ A"));
}

#[tokio::test]
async fn a_form_that_breaks_leaves_the_files() {
    let stand = Stand::new();
    let Connected { client, mut heard, .. } = stand.connect(true).await;
    let asked = begin(&client, "ask_user_questions", one_question()).await;
    let (_, answer) = next(&mut heard.forms).await;
    drop(answer);
    let id = stand.pending();
    stand.answer(&id, "B");
    assert!(text(&end(asked).await).ends_with("→ B"));
}

#[tokio::test]
async fn without_requests_of_a_server_the_call_comes_again_with_the_answer() {
    let stand = Stand::new();
    let (ours, _server) = stand.serve();
    let (handler, mut heard) = client(true);
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let client = rmcp::service::serve_client_with_lifecycle(handler, tokio::io::split(ours), lifecycle);
    let client = soon(client).await.expect("a server of this revision");
    let serde_json::Value::Object(arguments) = one_question() else { panic!("an object") };
    let params = rmcp::model::CallToolRequestParams::new("ask_user_questions").with_arguments(arguments);
    let answers = async {
        let (_, answer) = next(&mut heard.forms).await;
        assert_eq!(stand.state(&stand.pending()), QuestionSetState::Pending);
        answer.send(accepted(json!({"question_1": "A"}))).expect("the client waits");
    };
    let (result, ()) = tokio::join!(soon(client.call_tool(params)), answers);
    assert!(text(&result.expect("an answer")).ends_with("1. Which?\n→ A"));
}

#[tokio::test]
async fn nobody_goes_on_with_what_another_asked() {
    let stand = Stand::new();
    let first = stand.connect(false).await;
    let mut arguments = one_question();
    arguments["nonBlocking"] = json!(true);
    end(begin(&first.client, "ask_user_questions", arguments).await).await;
    let id = stand.pending();
    let second = stand.connect(false).await;
    let params = rmcp::model::CallToolRequestParams::new("ask_user_questions").with_request_state(id.to_string());
    let refused = soon(second.client.call_tool(params)).await.expect_err("not theirs");
    assert!(refused.to_string().contains("requestState"), "{refused}");
    assert_eq!(stand.state(&id), QuestionSetState::Pending);
}
