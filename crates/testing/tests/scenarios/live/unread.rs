//! Clients that send and never read: they cost little memory and delay no other client.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use coven_testing::{DEADLINE, TestHome};
use serde_json::json;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use super::client::Live;
use super::refusals::MISSING;
use super::viewers::memory;

/// What all of these clients together may cost the daemon.
const MAX_COST: u64 = 24 << 20;
/// A daemon that takes nothing for this long has stopped reading.
const STALLED: Duration = Duration::from_secs(2);

/// A client that only sends.
struct Mute(WebSocket<UnixStream>);

impl Mute {
    fn connect(home: &TestHome) -> Self {
        let stream = UnixStream::connect(home.socket()).expect("the daemon answers");
        let (socket, _) = tungstenite::client("ws://localhost/api/v1/live", stream).expect("an upgrade");
        Self(socket)
    }

    /// Sends the message up to `times` times. Returns early once the daemon stops reading.
    fn flood(&mut self, message: &Message, times: usize) {
        self.0.get_ref().set_write_timeout(Some(STALLED)).expect("a timeout");
        for _ in 0..times {
            match self.0.send(message.clone()) {
                Ok(()) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("the daemon closed the connection: {error}"),
            }
        }
    }
}

#[test]
fn requests_whose_answers_are_not_read_cost_little_and_delay_no_other_client() {
    let home = TestHome::started();
    let id = home.launch("echo").id.to_string();
    home.wait_for_output(&id, "ready");
    let daemon = home.health().pid;
    let mut other = Live::connect(&home);
    other.expect_silence();
    let before = memory(daemon);
    let quoted = json!({ "type": "x".repeat(128 << 10) });
    let subscribe = json!({ "type": "subscribe", "id": 1, "topic": "session", "session_id": MISSING });
    let signal = json!({ "type": "signal", "session_id": MISSING, "signal": "WINCH", "request": 1 });
    let floods = [
        (Message::text(quoted.to_string()), 1_000),
        (Message::text(subscribe.to_string()), 20_000),
        (Message::text(signal.to_string()), 20_000),
        (Message::Ping(vec![b'p'; 125].into()), 300_000),
    ];
    let mut clients: Vec<Mute> = floods.iter().map(|_| Mute::connect(&home)).collect();
    std::thread::scope(|scope| {
        for (client, (message, times)) in clients.iter_mut().zip(&floods) {
            scope.spawn(move || client.flood(message, *times));
        }
    });
    let cost = memory(daemon).saturating_sub(before);
    assert!(cost < MAX_COST, "{} KiB for {} clients", cost >> 10, clients.len());
    other.send(json!({ "type": "input", "session_id": id, "data": "hello\r", "request": 5 }));
    assert_eq!(other.message("accepted")["request"], 5);
    home.wait_for_output(&id, "got:hello");
}

#[test]
fn many_subscriptions_whose_output_is_not_read_cost_little() {
    let home = TestHome::started();
    let flooded = home.run_to_end("flood 300000").id.to_string();
    let echo = home.launch("echo").id.to_string();
    home.wait_for_output(&echo, "ready");
    let daemon = home.health().pid;
    Live::connect(&home).subscribe(1, &flooded, json!({ "from": 0, "on_lag": "wait" }));
    let before = memory(daemon);
    let mut clients = Vec::new();
    for number in 0..3 {
        let mut client = Mute::connect(&home);
        for id in 0..256 {
            let request = json!({
                "type": "subscribe", "id": id, "topic": "session", "session_id": flooded, "from": 0, "window": 1 << 30,
            });
            client.flood(&Message::text(request.to_string()), 1);
        }
        // The messages of a client are handled in order.
        let typed = json!({ "type": "input", "session_id": echo, "data": format!("client{number}\r") });
        client.flood(&Message::text(typed.to_string()), 1);
        home.wait_for_output(&echo, &format!("got:client{number}"));
        clients.push(client);
    }
    // Another client reads all of it meanwhile.
    let mut other = Live::connect(&home);
    other.subscribe(1, &flooded, json!({ "from": 0, "on_lag": "wait" }));
    assert_eq!(other.all_output(1, 0).0.len(), home.log(&flooded).len());
    let cost = memory(daemon).saturating_sub(before);
    assert!(cost < MAX_COST, "{} KiB for {} clients", cost >> 10, clients.len());
}

#[test]
fn a_client_that_reads_again_gets_every_answer() {
    const REQUESTS: u64 = 2_000;
    let home = TestHome::started();
    let mut live = Live::connect(&home);
    std::thread::scope(|scope| {
        let (mut sender, sent) = (Mute::connect(&home), json!({ "type": "jump", "id": 7, "request": 1 }));
        // Far more than the queue and the socket hold: the sender waits for the reader below.
        let mut reading = Mute(WebSocket::from_raw_socket(
            sender.0.get_ref().try_clone().expect("a second handle"),
            tungstenite::protocol::Role::Client,
            None,
        ));
        scope.spawn(move || {
            for _ in 0..REQUESTS {
                sender.0.send(Message::text(sent.to_string())).expect("the daemon reads on");
            }
            sender
        });
        reading.0.get_ref().set_read_timeout(Some(DEADLINE)).expect("a timeout");
        let mut answers = 0;
        while answers < REQUESTS {
            let message = reading.0.read().expect("an answer").into_text().expect("text");
            answers += u64::from(message.contains("not_subscribed"));
        }
    });
    live.expect_silence();
}

#[test]
fn a_daemon_stops_though_clients_do_not_read() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id.to_string();
    let mut unread = Live::connect(&home);
    unread.subscribe(1, &id, json!({ "from": 0, "window": u32::MAX, "on_lag": "wait" }));
    let mut unanswered = Mute::connect(&home);
    unanswered.flood(&Message::text("nonsense"), 20_000);
    let asked = Instant::now();
    home.stop();
    assert!(asked.elapsed() < DEADLINE / 2, "{:?}", asked.elapsed());
}
