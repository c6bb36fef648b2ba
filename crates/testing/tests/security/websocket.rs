//! WebSocket attach, on the socket and on TCP.

use coven_testing::http::runtime;
use coven_testing::sessions::path;
use coven_testing::{DEADLINE, TestHome, wait_until};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::tcp::Listening;

/// Reads terminal bytes until they contain `text`, and collects control messages.
async fn read_until<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    text: &str,
    controls: &mut Vec<Value>,
) -> String {
    let mut seen = Vec::new();
    loop {
        if String::from_utf8_lossy(&seen).contains(text) {
            return String::from_utf8_lossy(&seen).into_owned();
        }
        let message = tokio::time::timeout(DEADLINE, socket.next()).await.expect("message before the deadline");
        match message.expect("open connection").expect("message") {
            Message::Binary(bytes) => seen.extend_from_slice(&bytes),
            Message::Text(control) => controls.push(serde_json::from_str(&control).expect("valid JSON")),
            Message::Close(_) => panic!("closed before {text:?}: {:?}", String::from_utf8_lossy(&seen)),
            _ => {}
        }
    }
}

/// Reads until the exit message and returns it.
async fn read_exit<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocketStream<S>) -> Value {
    loop {
        let message = tokio::time::timeout(DEADLINE, socket.next()).await.expect("message before the deadline");
        if let Message::Text(control) = message.expect("open connection").expect("message") {
            let control: Value = serde_json::from_str(&control).expect("valid JSON");
            if control["type"] == "exit" {
                return control;
            }
        }
    }
}

#[test]
fn attach_over_the_socket_supports_screen_output_input_resize_and_exit() {
    let home = TestHome::started();
    let id = home.launch("say before ;; size ;; echo ;; exit 3").id;
    home.wait_for_output(&id, "ready\r\n");

    runtime().block_on(async {
        let stream = tokio::net::UnixStream::connect(home.socket()).await.expect("daemon answers");
        let url = format!("ws://localhost{}", path(&id, "/attach"));
        let (mut socket, _) = client_async(url, stream).await.expect("upgrade");
        let mut controls = Vec::new();
        let painted = read_until(&mut socket, "ready", &mut controls).await;
        assert!(painted.contains("before"), "{painted:?}");
        assert_eq!((&controls[0]["type"], &controls[0]["rows"]), (&json!("screen"), &json!(24)));

        socket.send(Message::Binary("hello\r".into())).await.expect("open connection");
        read_until(&mut socket, "got:hello", &mut controls).await;
        let size = json!({ "type": "resize", "rows": 33, "cols": 99 }).to_string();
        socket.send(Message::Text(size.into())).await.expect("open connection");
        read_until(&mut socket, "size:33x99", &mut controls).await;
        socket.send(Message::Text("nonsense".into())).await.expect("open connection");
        socket.send(Message::Binary("quit\r".into())).await.expect("open connection");

        assert_eq!(read_exit(&mut socket).await["exit_code"], 3);
    });
    assert_eq!(home.wait_for_end(&id).exit_code, Some(3));
}

#[test]
fn a_stream_can_start_at_any_byte_and_a_read_only_client_cannot_type() {
    let home = TestHome::started();
    let id = home.launch("say before ;; echo").id;
    home.wait_for_output(&id, "ready\r\n");

    runtime().block_on(async {
        let stream = tokio::net::UnixStream::connect(home.socket()).await.expect("daemon answers");
        let url = format!("ws://localhost{}", path(&id, "/attach?from=3&read_only=true"));
        let (mut socket, _) = client_async(url, stream).await.expect("upgrade");
        let mut controls = Vec::new();
        let seen = read_until(&mut socket, "ready\r\n", &mut controls).await;
        assert_eq!(seen, "ore\r\nready\r\n");
        socket.send(Message::Binary("never\r".into())).await.expect("open connection");
        home.coven(&["input", &id, "typed", "--enter"]).expect_success();
        let seen = read_until(&mut socket, "got:typed", &mut controls).await;
        assert!(!seen.contains("never"), "{seen:?}");
    });
}

#[test]
fn unread_output_does_not_delay_an_interrupt() {
    const ABOVE_SOCKET_BUFFERS: u64 = 4 << 20;
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id;

    let runtime = runtime();
    let (mut socket, _) = runtime.block_on(async {
        let stream = tokio::net::UnixStream::connect(home.socket()).await.expect("daemon answers");
        let url = format!("ws://localhost{}", path(&id, "/attach?from=0"));
        client_async(url, stream).await.expect("upgrade")
    });
    wait_until("the output exceeds the socket buffers", || {
        coven_testing::journal::log_end(&home.session_dir(&id)) > ABOVE_SOCKET_BUFFERS
    });
    runtime.block_on(socket.send(Message::Binary("\x03".into()))).expect("open connection");

    // The client stays connected without reading until the session has ended.
    assert_eq!(home.wait_for_end(&id).status, "failed");
}

#[test]
fn attach_to_an_ended_or_unknown_session_is_refused_before_the_upgrade() {
    let home = TestHome::started();
    let ended = home.run_to_end("exit 0").id;

    runtime().block_on(async {
        for (id, status) in [(ended.as_str(), 409), ("00000000-0000-4000-8000-000000000000", 404)] {
            let stream = tokio::net::UnixStream::connect(home.socket()).await.expect("daemon answers");
            let url = format!("ws://localhost{}", path(id, "/attach"));
            match client_async(url, stream).await {
                Err(Error::Http(answer)) => assert_eq!(answer.status().as_u16(), status),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn attach_over_tcp_requires_the_token() {
    let listening = Listening::new();
    let id = listening.home.launch("echo").id;
    listening.home.wait_for_output(&id, "ready\r\n");
    let url = format!("ws://{}{}", listening.address, path(&id, "/attach"));
    let connect = async |headers: &[(&'static str, &str)]| {
        let mut request = url.as_str().into_client_request().expect("request");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("valid header value"));
        }
        let stream = tokio::net::TcpStream::connect(&listening.address).await.expect("is listening");
        client_async(request, stream).await
    };

    runtime().block_on(async {
        let bearer = listening.bearer();
        for (headers, status) in [
            (vec![], 401),
            (vec![("authorization", "Bearer wrong")], 401),
            (vec![("authorization", bearer.as_str()), ("origin", "http://evil.example")], 403),
            (vec![("authorization", bearer.as_str()), ("host", "evil.example")], 403),
        ] {
            match connect(&headers).await {
                Err(Error::Http(answer)) => assert_eq!(answer.status().as_u16(), status, "{headers:?}"),
                other => panic!("{headers:?}: {other:?}"),
            }
        }
        let (mut socket, _) = connect(&[("authorization", bearer.as_str())]).await.expect("upgrade");
        socket.send(Message::Binary("hello\r".into())).await.expect("open connection");
        read_until(&mut socket, "got:hello", &mut Vec::new()).await;
    });
}
