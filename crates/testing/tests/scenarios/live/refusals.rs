//! Messages that are refused: each with a code, and the connection stays open.

use coven_testing::TestHome;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::client::{Frame, Live};

pub const MISSING: &str = "00000000-0000-7000-8000-000000000000";

#[test]
fn every_bad_message_has_its_error_and_the_connection_stays_open() {
    let home = TestHome::started();
    let ended = home.run_to_end("say done").id.to_string();
    let running = home.launch("echo").id.to_string();
    let waiting = home.launch_with(json!({ "harness": "claude", "prompt": "hang", "detach": true })).id.to_string();
    let mut live = Live::connect(&home);
    live.send(json!({ "type": "subscribe", "id": 1, "topic": "events" }));
    live.message("subscribed");
    live.subscribe(2, &waiting, json!({ "from": 0 }));
    let subscribe = |more: Value| {
        let mut request = json!({ "type": "subscribe", "id": 9, "topic": "session", "session_id": ended });
        for (name, value) in more.as_object().expect("fields") {
            request[name] = value.clone();
        }
        request
    };
    let typed = |session: &str, more: Value| {
        let mut request = json!({ "type": "input", "session_id": session, "request": 3 });
        for (name, value) in more.as_object().expect("fields") {
            request[name] = value.clone();
        }
        request
    };
    let table = [
        (json!({ "type": "nosuch", "id": 4, "request": 5 }), "invalid_request", "nosuch", Some(4), Some(5)),
        (json!({ "id": 4 }), "invalid_request", "type", Some(4), None),
        (json!({ "type": "ack", "id": 1, "offset": 0, "colour": 1 }), "invalid_request", "colour", Some(1), None),
        (json!({ "type": "ack", "id": "x", "offset": 0 }), "invalid_request", "u32", None, None),
        (json!({ "type": "ack", "id": 1, "offset": 0 }), "invalid_request", "events", Some(1), None),
        (json!({ "type": "ack", "id": 2, "offset": 1 }), "invalid_request", "not sent", Some(2), None),
        (json!({ "type": "ack", "id": 7, "offset": 0 }), "not_subscribed", "7", Some(7), None),
        (json!({ "type": "jump", "id": 7, "request": 8 }), "not_subscribed", "7", Some(7), Some(8)),
        (json!({ "type": "unsubscribe", "id": 7 }), "not_subscribed", "7", Some(7), None),
        (json!({ "type": "subscribe", "id": 1, "topic": "events" }), "already_subscribed", "1", Some(1), None),
        (json!({ "type": "subscribe", "id": 9, "topic": "weather" }), "invalid_request", "weather", Some(9), None),
        (json!({ "type": "subscribe", "id": 9, "topic": "session" }), "invalid_request", "session_id", Some(9), None),
        (
            json!({ "type": "subscribe", "id": 9, "topic": "events", "from": 0 }),
            "invalid_request",
            "since",
            Some(9),
            None,
        ),
        (subscribe(json!({ "since": 1 })), "invalid_request", "from", Some(9), None),
        (subscribe(json!({ "mode": "pixels" })), "invalid_request", "pixels", Some(9), None),
        (subscribe(json!({ "on_lag": "cry" })), "invalid_request", "cry", Some(9), None),
        (subscribe(json!({ "window": 0 })), "invalid_request", "window", Some(9), None),
        (subscribe(json!({ "from": 1_000_000 })), "invalid_request", "beyond", Some(9), None),
        (subscribe(json!({ "from": u64::MAX })), "invalid_request", "beyond", Some(9), None),
        (subscribe(json!({ "from": 1_000_000, "mode": "rows" })), "invalid_request", "beyond", Some(9), None),
        (subscribe(json!({ "session_id": "12" })), "invalid_request", "id", Some(9), None),
        (subscribe(json!({ "session_id": MISSING })), "session_not_found", MISSING, Some(9), None),
        (typed(MISSING, json!({ "data": "x" })), "session_not_found", MISSING, None, Some(3)),
        (typed(&ended, json!({ "data": "x" })), "session_not_live", "completed", None, Some(3)),
        (typed(&running, json!({})), "invalid_request", "data", None, Some(3)),
        (typed(&running, json!({ "data": "x", "data_base64": "eA==" })), "invalid_request", "both", None, Some(3)),
        (typed(&running, json!({ "data_base64": "%" })), "invalid_request", "Base64", None, Some(3)),
        (
            json!({ "type": "resize", "session_id": running, "rows": 0, "cols": 9 }),
            "invalid_request",
            "1000",
            None,
            None,
        ),
        (
            json!({ "type": "resize", "session_id": running, "rows": 65535, "cols": 65535, "request": 2 }),
            "invalid_request",
            "1000",
            None,
            Some(2),
        ),
        (
            json!({ "type": "resize", "session_id": running, "rows": 24, "cols": 65536, "request": 2 }),
            "invalid_request",
            "65536",
            None,
            Some(2),
        ),
        (
            json!({ "type": "resize", "session_id": ended, "rows": 9, "cols": 9 }),
            "session_not_live",
            "completed",
            None,
            None,
        ),
        (json!({ "type": "signal", "session_id": running, "signal": "SEGV" }), "invalid_request", "SEGV", None, None),
        (
            json!({ "type": "signal", "session_id": ended, "signal": "INT", "request": 6 }),
            "session_not_live",
            "completed",
            None,
            Some(6),
        ),
    ];
    for (message, code, word, id, request) in table {
        live.send(message.clone());
        let answer = live.message("error");
        let text = answer["error"]["message"].as_str().expect("a message");
        assert_eq!(answer["error"]["code"], code, "{message}: {answer}");
        assert!(text.contains(word), "{message}: {answer}");
        let ids = (answer["id"].as_u64(), answer["request"].as_u64());
        assert_eq!(ids, (id, request), "{message}: {answer}");
    }
    for text in ["", "nonsense", "[]", "[\"ack\",1,0]", "1", "{\"type\":\"ack\",\"type\":\"ack\",\"id\":1}"] {
        live.send_text(text);
        assert_eq!(live.message("error")["error"]["code"], "invalid_request", "{text:?}");
    }
    live.send_binary(b"\x01typed");
    assert_eq!(live.message("error")["error"]["code"], "invalid_request");
    // Refused subscriptions left their id free.
    live.subscribe(9, &ended, json!({ "from": 0 }));
    let (output, _) = live.all_output(9, 0);
    assert_eq!(output, home.log(&ended));
}

#[test]
fn the_number_of_subscriptions_is_limited_and_ended_ones_do_not_count() {
    let home = TestHome::started();
    let mut live = Live::connect(&home);
    for id in 0..256 {
        live.send(json!({ "type": "subscribe", "id": id, "topic": "events" }));
        live.message("subscribed");
    }
    let one_more = json!({ "type": "subscribe", "id": 256, "topic": "events" });
    live.send(one_more.clone());
    assert_eq!(live.message("error")["error"]["code"], "too_many_subscriptions");
    live.send(json!({ "type": "unsubscribe", "id": 0 }));
    live.message("unsubscribed");
    live.send(one_more);
    live.message("subscribed");
}

#[test]
fn a_message_that_is_too_long_ends_the_connection_with_its_code() {
    type Send<'a> = &'a dyn Fn(&mut Live);
    let home = TestHome::started();
    let long = "x".repeat((1 << 20) + 1);
    let half = || long[..600_000].to_owned();
    // A frame whose header announces a terabyte, and nothing of it.
    let header = [&[0x82, 0xff][..], &(1u64 << 40).to_be_bytes(), &[0; 4]].concat();
    let ways: [(&str, Send<'_>); 4] = [
        ("text", &|live| live.send_refused(Message::text(long.clone()))),
        ("binary", &|live| live.send_refused(Message::binary(long.clone().into_bytes()))),
        ("fragments", &|live| live.send_fragments(vec![half(), half()])),
        ("a header", &|live| live.send_raw(&header)),
    ];
    for (name, send) in ways {
        let mut live = Live::connect(&home);
        send(&mut live);
        let error = live.message("error")["error"].clone();
        assert_eq!(error["code"], "invalid_request", "{name}: {error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("too long")), "{name}: {error}");
        assert_eq!(live.next(), Frame::Closed(Some(1009)), "{name}");
    }
    // The longest message that is allowed, in fragments.
    let mut live = Live::connect(&home);
    live.send_fragments(vec![long[..1 << 19].to_owned(), long[..1 << 19].to_owned()]);
    assert_eq!(live.message("error")["error"]["code"], "invalid_request");
    live.expect_silence();
}

#[test]
fn an_error_quotes_only_the_start_of_a_long_message() {
    let home = TestHome::started();
    let mut live = Live::connect(&home);
    live.send(json!({ "type": "é".repeat(100_000), "request": 3 }));
    let error = live.message("error");
    let text = error["error"]["message"].as_str().expect("a message");
    assert_eq!(error["request"], 3);
    assert!(text.len() < 500 && text.contains("éé") && text.ends_with('…'), "{text}");
}

#[test]
fn an_archived_session_is_shown_like_any_other() {
    let home = TestHome::started();
    let id = home.run_to_end("say done").id.to_string();
    assert_eq!(home.act(&id, "archive").status, 200);
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0 }));
    assert_eq!(live.all_output(1, 0).0, home.log(&id));
}

#[test]
fn a_request_that_is_not_a_websocket_is_refused() {
    let home = TestHome::started();
    let answer = home.get("/api/v1/live");
    assert!(answer.expect_error(400, "invalid_request").contains("WebSocket"));
}
