//! TCP: every route requires the token, an allowed Host and, if sent, an allowed Origin.

use std::io::{Read, Write};
use std::net::TcpStream;

use coven_testing::{DEADLINE, TestHome};
use serde_json::json;

/// A home that listens on a port chosen by the kernel.
pub struct Listening {
    pub home: TestHome,
    pub address: String,
    pub token: String,
}

impl Listening {
    pub fn new() -> Self {
        let home = TestHome::new();
        home.coven(&["daemon", "start", "--listen", "127.0.0.1:0"]).expect_success();
        let address = home.health().listen.expect("is listening");
        let token = std::fs::read_to_string(home.path().join("token")).expect("token").trim().to_owned();
        Self { home, address, token }
    }

    /// Sends a request without a body and returns the raw response.
    pub fn ask(&self, line: &str, headers: &[(&str, &str)]) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("is listening");
        stream.set_read_timeout(Some(DEADLINE)).expect("socket");
        let mut request = format!("{line} HTTP/1.1\r\n");
        headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        request.push_str("connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("peer reads");
        let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
        // An event stream does not end, so only its head is read.
        while !answer.windows(4).any(|it| it == b"\r\n\r\n") || !is_stream(&answer) {
            match stream.read(&mut buffer).expect("response") {
                0 => break,
                count => answer.extend_from_slice(&buffer[..count]),
            }
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }
}

fn is_stream(answer: &[u8]) -> bool {
    answer.windows(17).any(|it| it == b"text/event-stream")
}

const ROUTES: [&str; 6] = [
    "GET /api/v1/health",
    "GET /api/v1/sessions",
    "GET /state",
    "GET /events",
    "GET /api/v1/sessions/00000000-0000-4000-8000-000000000000/attach",
    "GET /api/openapi.json",
];

/// Headers of an upgrade request. Other routes ignore them.
const UPGRADE: [(&str, &str); 3] =
    [("upgrade", "websocket"), ("sec-websocket-version", "13"), ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")];

fn assert_refused_everywhere(listening: &Listening, headers: &[(&str, &str)], status: u16, code: &str) {
    for route in ROUTES {
        let all = [headers, &UPGRADE].concat();
        let answer = listening.ask(route, &all);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{route} with {headers:?}: {answer}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{route}: {answer}");
    }
}

#[test]
fn requests_without_the_token_are_refused() {
    let listening = Listening::new();

    assert_refused_everywhere(&listening, &[("host", &listening.address)], 401, "unauthorized");
}

#[test]
fn requests_with_a_wrong_token_are_refused() {
    let listening = Listening::new();
    let almost = format!("Bearer {}", &listening.token[..listening.token.len() - 1]);
    let longer = format!("Bearer {}x", listening.token);

    for wrong in [almost.as_str(), &longer, "Bearer ", "Basic abc", &listening.token] {
        let headers = [("host", listening.address.as_str()), ("authorization", wrong)];
        assert_refused_everywhere(&listening, &headers, 401, "unauthorized");
    }
    // The token is only accepted in its header.
    let route = format!("GET /api/v1/health?token={}", listening.token);
    assert!(listening.ask(&route, &[("host", &listening.address)]).starts_with("HTTP/1.1 401 "));
}

#[test]
fn a_foreign_host_is_refused_even_with_the_token() {
    let listening = Listening::new();
    let (bearer, port) = (listening.bearer(), listening.address.rsplit(':').next().expect("port").to_owned());

    for host in ["evil.example", "127.0.0.1", "evil.example:80", &format!("127.0.0.1.evil.example:{port}")] {
        let headers = [("host", host), ("authorization", bearer.as_str())];
        assert_refused_everywhere(&listening, &headers, 403, "forbidden_host");
    }
    let ours = format!("localhost:{port}");
    for host in [listening.address.as_str(), &ours] {
        let answer = listening.ask("GET /api/v1/health", &[("host", host), ("authorization", &bearer)]);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
}

#[test]
fn a_foreign_origin_is_refused_even_with_the_token() {
    let listening = Listening::new();
    let bearer = listening.bearer();

    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://localhost:1"] {
        let headers = [("host", listening.address.as_str()), ("authorization", bearer.as_str()), ("origin", origin)];
        assert_refused_everywhere(&listening, &headers, 403, "forbidden_origin");
    }
}

#[test]
fn a_configured_origin_is_accepted() {
    let home = TestHome::new();
    home.configure(json!({ "http": { "listen": "127.0.0.1:0", "allowedOrigins": ["http://page.example"] } }));
    home.start();
    let address = home.health().listen.expect("is listening");
    let token = std::fs::read_to_string(home.path().join("token")).expect("token").trim().to_owned();
    let listening = Listening { home, address, token };
    let bearer = listening.bearer();

    let headers =
        [("host", listening.address.as_str()), ("authorization", bearer.as_str()), ("origin", "http://page.example")];
    assert!(listening.ask("GET /state", &headers).starts_with("HTTP/1.1 200 "));
    assert!(listening.ask("GET /events", &headers).contains("text/event-stream"));
}

#[test]
fn listening_beyond_loopback_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let home = TestHome::new();

        let message = home.coven(&["daemon", "start", "--listen", address]).expect_failure(2);
        assert!(message.contains("loopback") && message.contains("http.allowRemote"), "{message}");
        home.configure(json!({ "http": { "listen": address } }));
        let message = home.coven(&["daemon", "start"]).expect_failure(2);
        assert!(message.contains("http.listen") && message.contains("http.allowRemote"), "{message}");

        assert!(home.daemons().is_empty());
    }
}

#[test]
fn the_daemon_does_not_listen_on_tcp_by_default() {
    let home = TestHome::started();

    assert_eq!(home.health().listen, None);
    let message = home.coven(&["daemon", "start", "--listen", "127.0.0.1:0"]).expect_failure(4);
    assert!(message.contains("restart"), "{message}");
}
