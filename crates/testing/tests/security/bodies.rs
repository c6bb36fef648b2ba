//! Request bodies that are too large, too deep or invalid.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use coven_api::routes::{ALL, Route};
use coven_testing::{DEADLINE, TestHome};
use hyper::Method;
use serde_json::{Value, json};

/// A raw connection to the home's socket.
struct Raw(BufReader<UnixStream>);

impl Raw {
    fn connect(home: &TestHome) -> Self {
        let stream = UnixStream::connect(home.socket()).expect("daemon answers");
        stream.set_read_timeout(Some(DEADLINE)).expect("socket");
        Self(BufReader::new(stream))
    }

    fn write(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("daemon reads");
    }

    /// The status and the body of the next answer.
    fn read_response(&mut self) -> (u16, Value) {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a status line");
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
        let mut length = Some(0);
        loop {
            let mut header = String::new();
            self.0.read_line(&mut header).expect("header");
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = Some(value.trim().parse().expect("a number"));
            }
            if header.to_ascii_lowercase().starts_with("transfer-encoding:") {
                length = None;
            }
        }
        let body = match length {
            Some(length) => self.piece(length),
            None => self.chunks(),
        };
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    fn piece(&mut self, length: usize) -> Vec<u8> {
        let mut piece = vec![0; length];
        self.0.read_exact(&mut piece).expect("a body");
        piece
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("the length of a chunk");
            let length = usize::from_str_radix(line.trim(), 16).expect("a length");
            body.extend(self.piece(length));
            self.piece("\r\n".len());
            if length == 0 {
                return body;
            }
        }
    }
}

#[test]
fn routes_without_a_body_accept_one_that_arrives_later() {
    let home = TestHome::started();
    let id = home.launch("hang").id;
    let mut raw = Raw::connect(&home);
    let post = |raw: &mut Raw, action: &str| {
        raw.write(&format!("POST /api/v1/sessions/{id}/{action} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"));
        // A request on another connection gives the daemon time to process the header first.
        assert!(home.health().ok);
        raw.write("{}");
        raw.read_response().0
    };

    // All requests use one connection, which must stay usable.
    assert_eq!(post(&mut raw, "cancel"), 409);
    assert_eq!(post(&mut raw, "finish"), 200);
    // The answer may come before the end.
    home.wait_for_end(&id);
    assert_eq!(post(&mut raw, "archive"), 200);
    assert_eq!(post(&mut raw, "nothing"), 404);
    raw.write("GET /api/v1/health HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(raw.read_response().0, 200);
}

#[test]
fn a_declared_length_beyond_the_limit_is_refused_before_the_body_is_sent() {
    let home = TestHome::started();
    let mut raw = Raw::connect(&home);

    raw.write("POST /api/v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n");

    let (status, body) = raw.read_response();
    assert_eq!((status, &body["error"]["code"]), (413, &json!("body_too_large")), "{body}");
    assert_eq!(home.sessions(), []);
}

#[test]
fn arrays_are_not_accepted_in_place_of_objects() {
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
        let message = answer.expect_error(400, "invalid_request");
        assert!(message.contains("object"), "{path} {body}: {message}");
    }
    assert_eq!(home.sessions().len(), 1);
    assert_eq!(home.read::<Value>("/api/v1/tasks")["total"], 0);
    assert_eq!(home.session(&id).status, "running");
}

/// The path of a route, with an id that no record has.
fn path_of(route: &Route) -> String {
    route.path.replace("{id}", "00000000-0000-4000-8000-00000000dead")
}

fn method_of(route: &Route) -> Method {
    route.method.as_str().parse().expect("a method")
}

#[test]
fn every_route_refuses_unknown_query_parameters() {
    let home = TestHome::started();

    for route in ALL {
        let answer = home.request(method_of(route), &format!("{}?unknown=1", path_of(route)), None);
        let message = answer.expect_error(400, "invalid_request");
        assert!(message.contains("\"unknown\""), "{}: {message}", route.name);
    }
    assert_eq!(home.get("/api/v1/sessions?limit=1").status, 200);
}

#[test]
fn every_route_refuses_a_body_with_an_unknown_field_or_that_is_not_an_object() {
    let home = TestHome::started();

    for route in ALL.iter().filter(|route| route.has_body) {
        let refusal = |body: &str| {
            let answer = home.request(method_of(route), &path_of(route), Some(body.as_bytes().to_vec()));
            answer.expect_error(400, "invalid_request")
        };
        let message = refusal(r#"{"colour":"red"}"#);
        assert!(message.contains("`colour`"), "{}: {message}", route.name);
        for body in ["[]", r#"["red"]"#, r#"[{"colour":"red"}]"#, r#""red""#, "7", "true", "null", "{"] {
            refusal(body);
        }
    }
    // No body had an effect.
    assert!(home.health().ok);
    assert_eq!((home.sessions(), home.read::<Value>("/api/v1/tasks")["total"].as_u64()), (vec![], Some(0)));
}

#[test]
fn every_route_without_a_body_reads_and_drops_one() {
    let home = TestHome::started();
    let mut raw = Raw::connect(&home);

    for route in ALL.iter().filter(|route| !route.has_body) {
        let head =
            format!("{} {} HTTP/1.1\r\nhost: x\r\naccept: application/json", route.method.as_str(), path_of(route));
        raw.write(&format!("{head}\r\n\r\n"));
        let (expected, _) = raw.read_response();
        raw.write(&format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n"));
        raw.write("9\r\n{\"colour\"\r\n");
        raw.write("7\r\n:\"red\"}\r\n0\r\n\r\n");
        // The same connection answers the next request too: nothing of the body is left on it.
        assert_eq!(raw.read_response().0, expected, "{}", route.name);
    }
}

#[test]
fn an_oversized_body_is_refused_and_the_daemon_keeps_running() {
    let home = TestHome::started_with(json!({ "http": { "maxBodyBytes": 65536 } }));
    let body = json!({ "harness": "claude", "prompt": "x".repeat(70_000) }).to_string();

    let answer = home.try_request(Method::POST, "/api/v1/sessions", Some(body.into_bytes()));

    // The daemon may close the connection before the end of the body, but only after it has answered.
    answer.expect("response").expect_error(413, "body_too_large");
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
fn an_invalid_body_is_refused_with_a_message() {
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
        let message = answer.expect_error(400, "invalid_request");
        assert!(!message.is_empty(), "{path} {body}");
    }
    home.get("/api/v1/nothing").expect_error(404, "not_found");
    home.request(Method::PUT, "/api/v1/sessions", None).expect_error(405, "method_not_allowed");
    home.get(&format!("/api/v1/sessions/{id}/attach")).expect_error(400, "invalid_request");
    for query in ["limit=0", "limit=x", "status=tired", "cursor=nonsense", "what=this"] {
        home.get(&format!("/api/v1/sessions?{query}")).expect_error(400, "invalid_request");
    }
    assert_eq!(home.session(&id).status, "running");
}

#[test]
fn an_id_cannot_escape_the_sessions_folder() {
    let home = TestHome::started();

    for id in ["..", "..%2f..%2fconfig.json", "%2e%2e", "a%00b", "g", "-", "%ff"] {
        for rest in ["", "/log", "/entries", "/screen", "/attach"] {
            let answer = home.get(&format!("/api/v1/sessions/{id}{rest}"));
            assert!(matches!(answer.status, 400 | 404), "{id}{rest}: {}", answer.status);
            // All layers return the same error format.
            let error: coven_api::ErrorBody = answer.json();
            assert!(!error.error.message.is_empty());
        }
    }
}
