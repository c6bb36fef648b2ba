//! Bodies that are too large, too deep or not what they say.

use coven_testing::TestHome;
use hyper::Method;
use serde_json::json;

#[test]
fn an_oversized_body_is_refused_and_the_daemon_goes_on() {
    let home = TestHome::started_with(json!({ "http": { "maxBodyBytes": 65536 } }));
    let body = json!({ "harness": "claude", "prompt": "x".repeat(70_000) }).to_string();

    let answer = home.try_request(Method::POST, "/api/v1/sessions", Some(body.into_bytes()));

    // It may hang up on the rest of the body, but never before it answered or without being there afterwards.
    answer.expect("an answer").refused(413, "body_too_large");
    assert_eq!(home.sessions(), []);
    assert!(home.health().ok);
}

#[test]
fn deep_json_is_refused() {
    let home = TestHome::started();
    let deep = format!("{{\"env\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));

    let answer = home.request(Method::POST, "/api/v1/sessions", Some(deep.into_bytes()));
    assert_eq!(answer.status, 400);
    let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let answer = home.request(Method::POST, "/api/v1/sessions", Some(deep.into_bytes()));
    assert_eq!(answer.status, 400);
    let deep = format!("{{\"metadata\":{}1{}}}", "[".repeat(300), "]".repeat(300));
    let answer = home.request(Method::POST, "/api/v1/daemon/stop", Some(deep.into_bytes()));
    assert_eq!(answer.status, 400);

    assert!(home.health().ok);
    assert_eq!(home.sessions(), []);
}

#[test]
fn a_body_that_is_not_what_the_route_takes_is_told_so() {
    let home = TestHome::started();
    let id = home.launch("hang").id;

    for (path, body) in [
        ("/api/v1/sessions".to_owned(), "{".to_owned()),
        ("/api/v1/sessions".to_owned(), r#"{"harnes":"claude"}"#.to_owned()),
        ("/api/v1/sessions".to_owned(), r#"{"harness":7}"#.to_owned()),
        ("/api/v1/sessions".to_owned(), "{}".to_owned()),
        (format!("/api/v1/sessions/{id}/input"), r#"{"data":"a","data_base64":"YQ=="}"#.to_owned()),
        (format!("/api/v1/sessions/{id}/input"), r#"{"data_base64":"%%%"}"#.to_owned()),
        (format!("/api/v1/sessions/{id}/resize"), r#"{"rows":0,"cols":80}"#.to_owned()),
    ] {
        let answer = home.request(Method::POST, &path, Some(body.clone().into_bytes()));
        let message = answer.refused(400, "invalid_request");
        assert!(!message.is_empty(), "{path} {body}");
    }
    home.get("/api/v1/nothing").refused(404, "not_found");
    home.request(Method::PUT, "/api/v1/sessions", None).refused(405, "method_not_allowed");
    home.get(&format!("/api/v1/sessions/{id}/attach")).refused(400, "invalid_request");
    for query in ["limit=0", "limit=x", "status=tired", "cursor=nonsense", "what=this"] {
        home.get(&format!("/api/v1/sessions?{query}")).refused(400, "invalid_request");
    }
    assert_eq!(home.session(&id).status, "running");
}

#[test]
fn an_id_never_leads_out_of_the_sessions_folder() {
    let home = TestHome::started();

    for id in ["..", "..%2f..%2fconfig.json", "%2e%2e", "a%00b", "g", "-", "%ff"] {
        for rest in ["", "/log", "/entries", "/screen", "/attach"] {
            let answer = home.get(&format!("/api/v1/sessions/{id}{rest}"));
            assert!(matches!(answer.status, 400 | 404), "{id}{rest}: {}", answer.status);
            // One error shape, whoever refuses.
            let error: coven_api::ErrorBody = answer.json();
            assert!(!error.error.message.is_empty());
        }
    }
}
