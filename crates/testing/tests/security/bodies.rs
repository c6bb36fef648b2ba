//! Bodies that are too large, too deep or not what they say.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use coven_testing::{DEADLINE, TestHome};
use hyper::Method;
use serde_json::{Value, json};

/// One connection to the home's socket, written to byte by byte.
struct Raw(BufReader<UnixStream>);

impl Raw {
    fn connect(home: &TestHome) -> Self {
        let stream = UnixStream::connect(home.socket()).expect("the daemon answers");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        Self(BufReader::new(stream))
    }

    fn write(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("the daemon reads");
    }

    /// The status and the body of the next answer, which has a length.
    fn answer(&mut self) -> (u16, Value) {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a status line");
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
        let mut length = 0;
        loop {
            let mut header = String::new();
            self.0.read_line(&mut header).expect("a header");
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}

#[test]
fn a_body_in_a_second_write_reaches_routes_that_take_none() {
    let home = TestHome::started();
    let id = home.launch("hang").id;
    let mut raw = Raw::connect(&home);
    let post = |raw: &mut Raw, action: &str| {
        raw.write(&format!("POST /api/v1/sessions/{id}/{action} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"));
        // Answered on another connection: the daemon had time to look at the header alone.
        assert!(home.health().ok);
        raw.write("{}");
        raw.answer().0
    };

    // One connection for all of them: it stays usable.
    assert_eq!(post(&mut raw, "cancel"), 409);
    assert_eq!(post(&mut raw, "finish"), 200);
    assert_eq!(post(&mut raw, "archive"), 200);
    assert_eq!(post(&mut raw, "nothing"), 404);
    raw.write("GET /api/v1/health HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(raw.answer().0, 200);
}

#[test]
fn a_declared_length_beyond_the_limit_is_refused_before_the_body_is_sent() {
    let home = TestHome::started();
    let mut raw = Raw::connect(&home);

    raw.write("POST /api/v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n");

    let (status, body) = raw.answer();
    assert_eq!((status, &body["error"]["code"]), (413, &json!("body_too_large")), "{body}");
    assert_eq!(home.sessions(), []);
}

#[test]
fn an_object_is_never_filled_from_an_array() {
    let home = TestHome::started();
    let id = home.launch("hang").id;
    let session = |rest: &str| format!("/api/v1/sessions/{id}{rest}");

    for (path, body) in [
        ("/api/v1/sessions".to_owned(), r#"[null,["true"]]"#),
        ("/api/v1/tasks".to_owned(), r#"["x"]"#),
        ("/api/v1/tasks/bulk".to_owned(), r#"[[{"title":"x"}]]"#),
        ("/api/v1/tasks/bulk".to_owned(), r#"{"tasks":[["x"]]}"#),
        ("/api/v1/retention".to_owned(), "[]"),
        ("/api/v1/migrate".to_owned(), "[]"),
        ("/api/v1/daemon/stop".to_owned(), "[true]"),
        ("/api/repos".to_owned(), r#"["/"]"#),
        (session("/input"), r#"["x"]"#),
        (session("/resize"), "[10,10]"),
        (session("/start"), "[]"),
    ] {
        let answer = home.request(Method::POST, &path, Some(body.as_bytes().to_vec()));
        let message = answer.refused(400, "invalid_request");
        assert!(message.contains("object"), "{path} {body}: {message}");
    }
    assert_eq!(home.sessions().len(), 1);
    assert_eq!(home.read::<Value>("/api/v1/tasks")["total"], 0);
    assert_eq!(home.session(&id).status, "running");
}

#[test]
fn every_route_refuses_a_query_parameter_that_it_does_not_know() {
    let home = TestHome::started();
    let id = home.launch("hang").id;
    let document: Value = home.read("/api/openapi.json");

    for (path, item) in document["paths"].as_object().expect("paths") {
        for method in item.as_object().expect("methods").keys() {
            let at = path.replace("{id}", &id);
            let method: Method = method.to_uppercase().parse().expect("a method");
            let answer = home.request(method.clone(), &format!("{at}?unknown=1"), None);
            let message = answer.refused(400, "invalid_request");
            assert!(message.contains("unknown"), "{method} {path}: {message}");
        }
    }
    home.get("/api/openapi.json?x=1").refused(400, "invalid_request");
    assert_eq!(home.session(&id).status, "running");
    assert_eq!(home.get("/api/v1/sessions?limit=1").status, 200);
}

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
