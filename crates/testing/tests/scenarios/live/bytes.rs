//! A session's log as bytes: windows, acknowledgements, lag and jumps.

use coven_api::live::{LiveMessage, LiveMode, LiveRequest, LiveTopic};
use coven_client::{Client, ClientError, LiveFrame};
use coven_screen::Screen;
use coven_testing::http::runtime;
use coven_testing::pattern::difference;
use coven_testing::{DEADLINE, TestHome, wait_until};
use serde_json::{Value, json};

use super::client::{Frame, Live};

fn flooded(home: &TestHome, length: usize) -> (String, Vec<u8>) {
    let id = home.run_to_end(&format!("flood {length}")).id.to_string();
    let log = home.log(&id);
    assert!(log.len() >= length);
    (id, log)
}

#[test]
fn the_screen_comes_first_and_the_bytes_after_it_follow() {
    let home = TestHome::started();
    let id = home.launch("say before ;; echo ;; exit 3").id.to_string();
    home.wait_for_output(&id, "ready\r\n");
    home.wait_for_screen(&id);
    let mut live = Live::connect(&home);
    assert_eq!((&live.welcome["version"], live.welcome["event_number"].is_u64()), (&json!(1), true));
    let start = live.subscribe(2, &id, json!({ "mode": "bytes" }));
    let screen = live.message("screen");
    assert_eq!((&screen["id"], &screen["offset"], &screen["rows"]), (&json!(2), &json!(start), &json!(24)));
    assert_eq!((&screen["title"], &screen["cursor"]), (&Value::Null, &json!({ "row": 2, "col": 0, "visible": true })));
    assert_eq!(screen.get("lines"), None);
    assert!(screen["data"].as_str().expect("ANSI").contains("before"));

    let typed = json!({ "type": "input", "session_id": id, "data": "hello\r", "request": 7 });
    live.send(typed);
    let mut terminal = Screen::restore(24, 80, screen["data"].as_str().expect("ANSI").as_bytes());
    let (mut at, mut is_accepted) = (start, false);
    while !(terminal.text().contains("got:hello") && is_accepted) {
        match live.next() {
            Frame::Output { offset, data, .. } => {
                assert_eq!(offset, at);
                at += data.len() as u64;
                terminal.feed(&data);
            }
            Frame::Text(answer) => {
                assert_eq!(answer, json!({ "type": "accepted", "request": 7 }));
                is_accepted = true;
            }
            Frame::Closed(code) => panic!("closed with {code:?}"),
        }
    }
    live.send(json!({ "type": "input", "session_id": id, "data_base64": "cXVpdA0=" }));
    let (_, exit) = live.all_output(2, at);
    assert_eq!((&exit["id"], &exit["exit_code"]), (&json!(2), &json!(3)));
    assert_eq!(exit["offset"], home.log(&id).len());
    // Late acknowledgements are not errors, and the id can be used again.
    live.ack(2, at);
    live.expect_silence();
    live.subscribe(2, &id, json!({ "from": 0 }));
    let (again, exit) = live.all_output(2, 0);
    assert_eq!((again, exit["exit_code"].as_i64()), (home.log(&id), Some(3)));
}

#[test]
fn a_waiting_subscriber_gets_every_byte_one_window_at_a_time() {
    let home = TestHome::started();
    let (id, log) = flooded(&home, 300_000);
    let mut live = Live::connect(&home);
    let wanted = json!({ "from": 100, "window": 100_000, "on_lag": "wait" });
    assert_eq!(live.subscribe(5, &id, wanted), 100);
    let mut seen = live.output(5, 100, 100_100);
    let lagging = json!({ "type": "lagging", "id": 5, "offset": 100_100, "end": log.len() });
    assert_eq!(live.message("lagging"), lagging);
    live.expect_silence();
    // A repeated acknowledgement has no effect. Acknowledging half a window allows half a window more.
    live.ack(5, 100);
    live.expect_silence();
    live.ack(5, 50_100);
    seen.extend(live.output(5, 100_100, 150_100));
    assert_eq!(live.message("lagging")["offset"], 150_100);
    live.ack(5, 150_100);
    let (rest, exit) = live.all_output(5, 150_100);
    seen.extend(rest);
    assert_eq!(difference(&seen, &log[100..]), None);
    assert_eq!(exit, json!({ "type": "exit", "id": 5, "exit_code": 0, "offset": log.len() }));
    live.expect_silence();
}

#[test]
fn a_lagging_subscriber_jumps_to_the_current_screen() {
    let home = TestHome::started();
    let (id, log) = flooded(&home, 300_000);
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0, "window": 10_000 }));
    live.output(1, 0, 10_000);
    live.message("lagging");
    live.ack(1, 10_000);
    let jump = json!({ "type": "jump", "id": 1, "from": 10_000, "to": log.len() });
    assert_eq!(live.message("jump"), jump);
    let screen = live.message("screen");
    assert_eq!(screen["offset"], log.len());
    let shown = Screen::restore(24, 80, screen["data"].as_str().expect("ANSI").as_bytes()).text();
    let mut expected = Screen::new(24, 80);
    expected.feed(&log);
    assert_eq!(shown, expected.text());
    assert_eq!(live.message("exit")["offset"], log.len());
}

#[test]
fn a_subscriber_less_than_a_window_behind_continues_and_can_request_a_jump() {
    let home = TestHome::started();
    let (id, log) = flooded(&home, 15_000);
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0, "window": 10_000 }));
    live.output(1, 0, 10_000);
    live.message("lagging");
    live.ack(1, 10_000);
    live.output(1, 10_000, log.len() as u64);
    live.message("exit");

    live.subscribe(1, &id, json!({ "from": 0, "window": 100, "on_lag": "wait" }));
    live.output(1, 0, 100);
    live.message("lagging");
    live.send(json!({ "type": "jump", "id": 1 }));
    assert_eq!(live.message("jump"), json!({ "type": "jump", "id": 1, "from": 100, "to": log.len() }));
    assert_eq!(live.message("screen")["offset"], log.len());
    live.message("exit");
}

#[test]
fn a_jump_never_goes_back_behind_the_start_of_a_character() {
    let home = TestHome::started();
    // The log ends with two of a character's three bytes.
    let argv = ["sh", "-c", "printf 'ab\\344\\275'; read line; printf '\\240'; exec sleep 1000"];
    let id = home.launch_with(json!({ "argv": argv })).id.to_string();
    wait_until("all four bytes are there", || home.log(&id).len() == 4);
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0 }));
    live.output(1, 0, 4);
    live.send(json!({ "type": "jump", "id": 1 }));
    assert_eq!(live.message("jump"), json!({ "type": "jump", "id": 1, "from": 4, "to": 4 }));
    assert_eq!(live.message("screen")["offset"], 4);
    // A subscription that starts here gets the whole character.
    assert_eq!(live.subscribe(2, &id, json!({})), 2);
    assert_eq!(live.message("screen")["offset"], 2);
    assert_eq!(live.output(2, 2, 4), b"\xe4\xbd");
}

#[test]
fn in_a_flood_a_subscriber_that_may_jump_gets_screens_instead_of_outdated_bytes() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id.to_string();
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "window": 4096 }));
    let mut before = Value::Null;
    // Without pacing, a window of bytes comes between any two screens.
    for _ in 0..10_000 {
        match live.next() {
            Frame::Output { offset, data, .. } => {
                live.ack(1, offset + data.len() as u64);
                before = Value::Null;
            }
            Frame::Text(message) if message["type"] == "screen" => {
                live.ack(1, message["offset"].as_u64().expect("a number"));
                before = message;
            }
            Frame::Text(jump) if jump["type"] == "jump" && before["type"] == "screen" => {
                assert_eq!(jump["from"], before["offset"]);
                assert!(jump["to"].as_u64() > jump["from"].as_u64(), "{jump}");
                home.kill(&id);
                return;
            }
            Frame::Text(message) => {
                assert!(["lagging", "jump"].map(Value::from).contains(&message["type"]), "{message}");
            }
            Frame::Closed(code) => panic!("closed with {code:?}"),
        }
    }
    panic!("every screen was followed by output");
}

#[test]
fn a_subscription_to_truncated_output_jumps_to_the_first_byte_that_is_kept() {
    let home = TestHome::started_with(json!({ "sessions": { "maxOutputBytes": 1 << 20 } }));
    let id = home.run_to_end("flood 3000000").id.to_string();
    let answer = home.get(&format!("/api/v1/sessions/{id}/log"));
    let first: u64 = answer.header("x-coven-offset").parse().expect("an offset");
    assert!(first > 0);
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0, "on_lag": "wait" }));
    assert_eq!(live.message("jump"), json!({ "type": "jump", "id": 1, "from": 0, "to": first }));
    assert_eq!(live.message("screen")["offset"], first);
    let (rest, _) = live.all_output(1, first);
    assert_eq!(difference(&rest, &answer.body), None);
}

#[test]
fn a_new_size_comes_between_the_bytes_before_and_after_it() {
    let home = TestHome::started();
    let id = home.launch("size ;; echo").id.to_string();
    home.wait_for_output(&id, "ready\r\n");
    let before = home.log(&id).len() as u64;
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0 }));
    live.output(1, 0, before);
    live.send(json!({ "type": "resize", "session_id": id, "rows": 33, "cols": 99, "request": 1 }));
    let (mut is_accepted, mut size) = (false, Value::Null);
    while !is_accepted || size.is_null() {
        match live.next() {
            Frame::Text(message) if message["type"] == "accepted" => is_accepted = true,
            Frame::Text(message) => size = message,
            Frame::Output { .. } => {}
            Frame::Closed(code) => panic!("closed with {code:?}"),
        }
    }
    assert_eq!(size, json!({ "type": "resize", "id": 1, "rows": 33, "cols": 99 }));
    home.wait_for_output(&id, "size:33x99");
    home.type_in(&id, "quit\r");
    home.wait_for_end(&id);
    // After the end of the session, the order is that of the journal.
    let mut live = Live::connect(&home);
    live.subscribe(2, &id, json!({ "from": 0 }));
    live.output(2, 0, before);
    assert_eq!(live.message("resize")["rows"], 33);
}

#[test]
fn a_running_flood_is_followed_to_its_end() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id.to_string();
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0, "on_lag": "wait" }));
    let mut seen = Vec::new();
    while seen.len() < 2 << 20 {
        match live.next() {
            Frame::Output { offset, data, .. } => {
                assert_eq!(offset, seen.len() as u64);
                seen.extend(data);
                live.ack(1, seen.len() as u64);
            }
            other => assert!(matches!(&other, Frame::Text(it) if it["type"] == "lagging"), "{other:?}"),
        }
    }
    live.send(json!({ "type": "input", "session_id": id, "data": "stop\r" }));
    let (rest, exit) = live.all_output(1, seen.len() as u64);
    seen.extend(rest);
    assert_eq!(exit["exit_code"], 0);
    assert_eq!(difference(&seen, &home.log(&id)), None);
}

#[test]
fn a_session_that_has_not_started_is_followed_once_it_runs() {
    let home = TestHome::started();
    let request = json!({ "harness": "claude", "prompt": "say up ;; echo", "detach": true });
    let id = home.launch_with(request).id.to_string();
    let mut live = Live::connect(&home);
    assert_eq!(live.subscribe(1, &id, json!({ "from": 0 })), 0);
    live.expect_silence();
    assert_eq!(home.act(&id, "start").status, 200);
    live.output_until(1, "ready");
}

#[test]
fn no_output_follows_the_answer_to_unsubscribe() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id.to_string();
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0, "window": 100_000_000 }));
    live.output_until(1, "000000001000 ");
    live.send(json!({ "type": "unsubscribe", "id": 1 }));
    loop {
        match live.next() {
            Frame::Output { .. } => {}
            other => break assert_eq!(other, Frame::Text(json!({ "type": "unsubscribed", "id": 1 }))),
        }
    }
    let end = home.log(&id).len();
    wait_until("much more was written", || home.log(&id).len() > end + (1 << 20));
    live.expect_silence();
    live.send(json!({ "type": "ack", "id": 1, "offset": 1 }));
    assert_eq!(live.message("error")["error"]["code"], "not_subscribed");
    home.kill(&id);
}

#[test]
fn the_typed_client_sees_the_bytes_of_a_session_and_types_into_it() {
    let home = TestHome::started();
    let id = home.launch("echo ;; exit 3").id;
    home.wait_for_output(&id, "ready\r\n");
    let session_id = id.parse().expect("an id");
    let (output, exit_code) = runtime().block_on(in_time(async {
        let mut live = Client::connect(&home.socket()).await?.live().await?;
        live.send(&LiveRequest::Subscribe {
            id: 2,
            request: None,
            topic: LiveTopic::Session,
            since: None,
            session_id: Some(session_id),
            mode: Some(LiveMode::Bytes),
            from: Some(0),
            window: None,
            on_lag: None,
        })
        .await?;
        live.send(&LiveRequest::input(session_id, b"typed\rquit\r", None)).await?;
        let mut output = Vec::new();
        while let Some(frame) = live.next().await? {
            match frame {
                LiveFrame::Output { id: 2, offset, data } => {
                    assert_eq!(offset, output.len() as u64);
                    output.extend(data);
                    live.send(&LiveRequest::Ack { id: 2, request: None, offset: output.len() as u64 }).await?;
                }
                LiveFrame::Message(message) => match *message {
                    LiveMessage::Exit { exit_code, .. } => return Ok((output, exit_code)),
                    LiveMessage::Error { error, .. } => panic!("{error:?}"),
                    _ => {}
                },
                LiveFrame::Output { .. } => panic!("{frame:?}"),
            }
        }
        panic!("the daemon closed the connection")
    }));
    assert_eq!((output, exit_code), (home.log(&id), Some(3)));
}

async fn in_time<T>(work: impl Future<Output = Result<T, ClientError>>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("in time").expect("the daemon answers")
}
