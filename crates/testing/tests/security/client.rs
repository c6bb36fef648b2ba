//! Tests the client with a real daemon over every transport, and with servers that misbehave.

use std::sync::Arc;

use coven_api::ErrorCode;
use coven_api::event::EventsQuery;
use coven_api::routes::{Attach, CreateSession, Endpoint, GetSession, Health, ListEvents, ListSessions, ReadLog};
use coven_api::session::{CreateSessionRequest, LogQuery};
use coven_client::{Address, Client, ClientError, EventFollower, Followed, Frame, SseEvent, Token};
use coven_testing::http::runtime;
use coven_testing::program::{is_root, skip};
use coven_testing::{DEADLINE, TestHome};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;

use crate::tcp::Listening;

const CA: &[u8] = include_bytes!("tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/leaf.pem");
const KEY: &[u8] = include_bytes!("tls/leaf.key");

async fn in_time<T>(task: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, task).await.expect("response before the deadline")
}

/// Terminates TLS on a port and forwards the bytes to `target`.
async fn serve_tls(listener: TcpListener, target: String) {
    let chain = CertificateDer::pem_slice_iter(CERTIFICATE).collect::<Result<Vec<_>, _>>().expect("certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("private key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("known TLS versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("matching certificate and key");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let (stream, _) = listener.accept().await.expect("connection");
        let (acceptor, target) = (acceptor.clone(), target.clone());
        tokio::spawn(async move {
            let Ok(mut outside) = acceptor.accept(stream).await else { return };
            let mut inside = TcpStream::connect(target).await.expect("daemon is listening");
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        });
    }
}

/// Launches a session, reads it back, follows its log and its events, and types into it.
async fn use_everything(address: &Address, project: &str) {
    let mut follower = EventFollower::new(address, None);
    assert!(matches!(in_time(follower.next()).await.expect("not refused"), Followed::Connected));
    let mut client = Client::connect(address).await.expect("daemon answers");
    let request = CreateSessionRequest {
        harness: Some("claude".to_owned()),
        prompt: Some("say hello ;; echo ;; exit 0".to_owned()),
        cwd: Some(project.to_owned()),
        rows: Some(24),
        cols: Some(80),
        ..CreateSessionRequest::default()
    };
    let session = in_time(client.call(CreateSession::request().body(&request))).await.expect("session starts");
    let same = in_time(client.call(GetSession::of(&session.id.to_string()))).await.expect("session exists");
    assert_eq!(same.id, session.id);
    let id = session.id.to_string();
    let created = async {
        loop {
            if let Followed::Events(events) = follower.next().await.expect("not refused")
                && events.iter().any(|event| event.kind == "session.created" && event.data.contains(&id))
            {
                break;
            }
        }
    };
    in_time(created).await;

    let attached = Client::connect(address).await.expect("daemon answers").websocket(Attach::of(&id)).await;
    let mut attached = attached.expect("is running");
    // The agent answers a line with `got:` and stops at `quit`.
    let mut lines = [("ready", "typed\r"), ("got:typed", "quit\r")].into_iter().peekable();
    let mut seen = Vec::new();
    while let Some(frame) = in_time(attached.next()).await.expect("open connection") {
        match frame {
            Frame::Binary(bytes) => seen.extend_from_slice(&bytes),
            Frame::Text(text) if text.contains("\"exit\"") => break,
            Frame::Text(_) => {}
        }
        if let Some((_, line)) = lines.next_if(|(text, _)| String::from_utf8_lossy(&seen).contains(text)) {
            attached.send(Frame::Binary(line.into())).await.expect("open connection");
        }
    }
    assert!(String::from_utf8_lossy(&seen).contains("got:typed"), "{:?}", String::from_utf8_lossy(&seen));
    let query = LogQuery { from: Some(0), ..LogQuery::default() };
    let log = in_time(client.bytes(ReadLog::of(&id).query(&query))).await.expect("log");
    assert!(String::from_utf8_lossy(&log).contains("hello"));
}

fn parts(listening: &Listening) -> (String, u16) {
    let (host, port) = listening.address.rsplit_once(':').expect("host and port");
    (host.to_owned(), port.parse().expect("port"))
}

#[test]
fn every_transport_carries_calls_events_logs_and_websockets() {
    let listening = Listening::new();
    let project = listening.home.project().to_string_lossy().into_owned();
    let (host, port) = parts(&listening);
    let token = Token::new(&listening.token);
    runtime().block_on(async {
        use_everything(&Address::Unix(listening.home.socket()), &project).await;
        use_everything(&Address::Tcp { host, port, token }, &project).await;
    });
}

#[test]
fn tls_trusts_only_the_given_roots() {
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("port");
    let port = listener.local_addr().expect("bound socket").port();
    let home = TestHome::new();
    // The daemon receives the proxy's name as Host.
    home.configure(json!({ "http": { "allowedHosts": [format!("localhost:{port}")] } }));
    home.coven(&["daemon", "start", "--listen", "127.0.0.1:0"]).expect_success();
    let inside = home.health().listen.expect("is listening");
    let token = std::fs::read_to_string(home.path().join("token")).expect("token");
    let address = |host: &str, roots: &[u8]| Address::Tls {
        host: host.to_owned(),
        port,
        token: Token::new(&token),
        roots: roots.into(),
    };
    runtime.block_on(async {
        let proxy = tokio::spawn(serve_tls(listener, inside));
        use_everything(&address("localhost", CA), &home.project().to_string_lossy()).await;
        // The certificate is not valid for the IP address, and the client has no built-in roots.
        for (host, roots) in [("127.0.0.1", CA), ("localhost", b"".as_slice()), ("localhost", b"nonsense")] {
            let refused = in_time(Client::connect(&address(host, roots))).await.err();
            assert!(matches!(refused, Some(ClientError::Unreachable { .. })), "{host}: {refused:?}");
        }
        proxy.abort();
    });
}

#[test]
fn a_wrong_token_and_a_wrong_host_are_different_errors() {
    let listening = Listening::new();
    let (host, port) = parts(&listening);
    let ask = |host: &str, token: &str| {
        let address = Address::Tcp { host: host.to_owned(), port, token: Token::new(token) };
        runtime().block_on(async { in_time(Client::connect(&address).await?.call(Health::request())).await })
    };
    assert!(ask(&host, &listening.token).is_ok());
    assert!(ask("localhost", &listening.token).is_ok());
    let wrong = ask(&host, "not-the-token").expect_err("wrong token");
    assert!(wrong.is(ErrorCode::Unauthorized), "{wrong:?}");
    // Another name for the same address, as in a DNS rebinding attack.
    let wrong = ask("127.1", &listening.token).expect_err("the daemon does not accept this host");
    assert!(wrong.is(ErrorCode::ForbiddenHost), "{wrong:?}");
}

#[test]
fn an_event_follower_continues_after_the_daemon_was_killed() {
    let home = TestHome::started();
    let address = Address::Unix(home.socket());
    let runtime = runtime();
    let mut follower = EventFollower::new(&address, Some("0".to_owned()));
    let first = home.launch("exit 0").id;
    let mut seen: Vec<SseEvent> = Vec::new();
    let mut read_until = |seen: &mut Vec<SseEvent>, id: &str| {
        let mut connections = 0;
        let reading = async {
            while !seen.iter().any(|event| event.kind == "session.created" && event.data.contains(id)) {
                match follower.next().await.expect("not refused") {
                    Followed::Events(events) => seen.extend(events),
                    Followed::Connected => connections += 1,
                    Followed::Disconnected(error) => assert!(error.is_transient(), "{error:?}"),
                }
            }
        };
        runtime.block_on(in_time(reading));
        connections
    };
    assert_eq!(read_until(&mut seen, &first.to_string()), 1);
    home.kill_daemon();
    home.start();
    let second = home.launch("exit 0").id;
    assert_eq!(read_until(&mut seen, &second.to_string()), 1, "one reconnect");
    let numbers: Vec<u64> = seen.iter().filter_map(|event| event.id.as_ref()?.parse().ok()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "each event once, in order: {numbers:?}");
    assert!(!seen.iter().any(SseEvent::is_gap));
}

#[test]
fn a_call_after_a_daemon_restart_reaches_the_new_daemon() {
    let home = TestHome::started();
    let runtime = runtime();
    let mut client = runtime.block_on(Client::connect(&home.socket())).expect("daemon answers");
    let before = runtime.block_on(in_time(client.call(Health::request()))).expect("daemon answers").pid;
    home.restart();
    let after = runtime.block_on(in_time(client.call(Health::request()))).expect("daemon answers").pid;
    assert_ne!(before, after);
}

#[test]
fn dropped_streams_do_not_affect_the_daemon() {
    let home = TestHome::started();
    let id = home.launch("say hello ;; hang").id.to_string();
    runtime().block_on(async {
        for _ in 0..20 {
            let mut client = Client::connect(&home.socket()).await.expect("daemon answers");
            let query = LogQuery { from: Some(0), follow: Some("true".to_owned()), ..LogQuery::default() };
            let mut log = client.stream(ReadLog::of(&id).query(&query)).await.expect("log");
            assert!(in_time(log.next()).await.expect("open connection").is_some());
            let events = Client::connect(&home.socket()).await.expect("daemon answers");
            let since = EventsQuery { since: Some("0".to_owned()), ..EventsQuery::default() };
            let mut events = events.events(ListEvents::request().query(&since), None).await.expect("event feed");
            assert!(in_time(events.next()).await.expect("open connection").is_some());
        }
    });
    assert_eq!(home.health().sessions_live, 1);
    home.kill(&id);
}

/// Answers every connection with these bytes and then closes it, or keeps it open if `ends` is false.
async fn answer_with(listener: UnixListener, bytes: Vec<u8>, ends: bool) {
    loop {
        let (mut stream, _) = listener.accept().await.expect("connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        let _ = stream.write_all(&bytes).await;
        if !ends {
            // Wait until the client disconnects.
            let _ = stream.read_u8().await;
        }
    }
}

#[test]
fn invalid_responses_cause_errors_and_no_hangs_or_panics() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"x: y\r\n".repeat(200_000)].concat();
    let long_line = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'y'; 8 << 20]].concat();
    let answers: [(&str, Vec<u8>, bool); 9] = [
        ("endless headers", endless, false),
        ("an endless header", long_line, false),
        ("not HTTP", b"\x00\x01\x02 hello\r\n\r\n".to_vec(), true),
        ("a length that is not a number", b"HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n{}".to_vec(), true),
        ("a negative length", b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}".to_vec(), true),
        ("two lengths", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}".to_vec(), true),
        ("fewer bytes than promised", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}".to_vec(), true),
        ("a chunk that is not a number", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec(), true),
        ("not JSON", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_vec(), true),
    ];
    for (number, (name, bytes, ends)) in answers.into_iter().enumerate() {
        let socket = folder.path().join(number.to_string());
        let answer = runtime().block_on(async {
            let server = tokio::spawn(answer_with(UnixListener::bind(&socket).expect("socket"), bytes, ends));
            let answer = in_time(async { Client::connect(&socket).await?.call(Health::request()).await }).await;
            server.abort();
            answer
        });
        let error = answer.expect_err(name);
        assert!(matches!(error, ClientError::Broken(_) | ClientError::Decode(_)), "{name}: {error:?}");
    }
}

#[test]
fn an_error_response_without_a_json_body_is_an_error() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let socket = folder.path().join("s");
    let bytes = b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy".to_vec();
    let error = runtime().block_on(async {
        let server = tokio::spawn(answer_with(UnixListener::bind(&socket).expect("socket"), bytes, true));
        let answer = in_time(async { Client::connect(&socket).await?.call(ListSessions::request()).await }).await;
        server.abort();
        answer.expect_err("error response")
    });
    assert!(matches!(&error, ClientError::Api { status: 503, .. }), "{error:?}");
}

#[test]
fn nothing_is_sent_to_a_socket_of_another_user() {
    if !is_root() {
        return skip("nothing_is_sent_to_a_socket_of_another_user", "changing the user requires root");
    }
    let folder = tempfile::tempdir().expect("temporary folder");
    let socket = folder.path().join("s");
    let runtime = runtime();
    let listener = runtime.block_on(async { UnixListener::bind(&socket) }).expect("socket");
    // The kernel records the credentials at the call of `listen`, so another user makes that call.
    let listener = listen_as_another_user(listener);
    let refused = runtime.block_on(in_time(Client::connect(&socket))).err();
    assert!(matches!(refused, Some(ClientError::NotOurs { .. })), "{refused:?}");
    let request = Health::request();
    assert_eq!(coven_client::blocking::try_get(&socket, &request, DEADLINE), None);
    runtime.block_on(async {
        let listener = UnixListener::from_std(listener).expect("is listening");
        for _ in 0..2 {
            let (mut stream, _) = in_time(listener.accept()).await.expect("connection");
            assert_eq!(in_time(stream.read_to_end(&mut Vec::new())).await.expect("closed"), 0);
        }
    });
}

/// Calls `listen` again on a thread with another effective uid. Clients see the credentials of this call.
fn listen_as_another_user(listener: UnixListener) -> std::os::unix::net::UnixListener {
    let listener = listener.into_std().expect("is listening");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let other = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(other, other, other).expect("permitted for root");
            rustix::net::listen(&listener, 8).expect("is listening");
        });
        thread.join().expect("no panic");
    });
    listener
}
