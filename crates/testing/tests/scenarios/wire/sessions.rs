//! Sessions on a terminal: `/api/v1/sessions` and the verbs that show them.

use std::fs;

use coven_testing::http::runtime;
use coven_testing::sessions::path;
use coven_testing::{DEADLINE, TestHome};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::json::Json;
use super::names::MISSING;
use super::snapshot::{Snapshot, id};

#[test]
fn terminal_sessions() {
    let home = TestHome::started();
    home.write_agent("broken", "#!/nosuch/interpreter\n");
    let mut wire = Snapshot::of("sessions", &home).hide(&["event_number"]);
    wire.note("none yet").get("/api/v1/sessions");

    // Ends when the file exists: every answer before that shows a running session.
    let gate = home.folder().join("gate");
    let prompt = format!("say hello ;; until {} ;; exit 3", gate.display());
    let request = json!({ "harness": "claude", "prompt": prompt, "title": "ended", "rows": 10, "cols": 40 });
    let ended = id(&wire.post("/api/v1/sessions", &request));
    home.wait_for_output(&ended, "hello\r\n");
    wire.note("running").get(&path(&ended, ""));
    wire.note("running").get(&path(&ended, "/activity"));
    wire.post(&path(&ended, "/look"), &json!({ "seconds": 1 }));
    wire.note("too long").post(&path(&ended, "/look"), &json!({ "seconds": 61 }));
    let call = json!({ "id": MISSING, "event": "Stop" });
    wire.note("from outside of the session").post(&path(&ended, "/hook"), &call);
    wire.note("not an id").post(&path("nosuch", "/hook"), &call);
    wire.post(&path(MISSING, "/look"), &json!({}));
    wire.get(&path(MISSING, "/activity"));
    fs::write(&gate, "").expect("disk has space");
    wire.get(&path(&ended, "/wait"));
    wire.note("ended with exit code 3").get(&path(&ended, ""));
    wire.get(&path(&ended, "/entries"));
    wire.get(&path(&ended, "/entries?after=1&limit=1"));
    wire.get(&path(&ended, "/log"));
    wire.get(&path(&ended, "/log?from=1&to=4"));
    wire.get(&path(&ended, "/log/check"));
    wire.get(&path(&ended, "/screen"));
    wire.get(&path(&ended, "/screen?format=text"));
    refusals_of_an_ended_session(&mut wire, &ended);

    let request = json!({ "argv": ["claude", "--", "say started ;; echo"], "title": "running" });
    let running = id(&wire.note("by its command line").post("/api/v1/sessions", &request));
    home.wait_for_output(&running, "ready\r\n");
    wire.post(&path(&running, "/input"), &json!({ "data": "typed\r" }));
    home.wait_for_output(&running, "got:typed\r\n");
    wire.post(&path(&running, "/resize"), &json!({ "rows": 30, "cols": 100 }));
    wire.note("neither kind of data").post(&path(&running, "/input"), &json!({}));
    wire.note("too small").post(&path(&running, "/resize"), &json!({ "rows": 0, "cols": 100 }));
    wire.note("running").post(&path(&running, "/archive"), &json!({}));
    wire.note("running").delete(&path(&running, ""));
    wire.note("running").post(&path(&running, "/start"), &json!({}));
    wire.note("not an ACP session").post(&path(&running, "/prompt"), &json!({ "text": "hello" }));
    wire.note("not an ACP session").get(&path(&running, "/messages"));
    wire.note("not an ACP session").get(&path(&running, "/agent"));
    wire.note("not a WebSocket").get(&path(&running, "/attach"));

    wire.get("/api/v1/sessions");
    wire.get("/api/v1/sessions?limit=1");
    wire.get("/api/v1/sessions?status=failed&harness=claude");
    wire.coven(&["sessions", "--json"]);
    wire.coven(&["show", &ended, "--json"]);
    wire.note("several").coven(&["show", &ended, &running, "--json"]);
    wire.coven(&["screen", &ended, "--json"]);
    wire.coven(&["wait", &ended, "--json"]);
    wire.coven(&["export", &ended, "--format", "jsonl"]);
    wire.coven(&["show", MISSING, "--json"]);

    wire.coven(&["finish", &running, "--json"]);
    attach(&mut wire, &home);
    launch_later_and_kill(&mut wire, &home);
    rename_hide_and_delete(&mut wire, &ended);
    wire.get("/state");
    wire.events();
    wire.finish();
}

fn refusals_of_an_ended_session(wire: &mut Snapshot<'_>, ended: &str) {
    for verb in ["kill", "finish", "summon", "start"] {
        wire.note("ended").post(&path(ended, &format!("/{verb}")), &json!({}));
    }
    wire.note("ended").post(&path(ended, "/input"), &json!({ "data": "typed" }));
    wire.note("ended").post(&path(ended, "/resize"), &json!({ "rows": 10, "cols": 10 }));
    wire.note("ended").get(&path(ended, "/attach"));
    for rest in ["", "/wait", "/entries", "/log", "/log/check", "/screen", "/attach"] {
        wire.get(&path(MISSING, rest));
    }
    wire.post(&path(MISSING, "/kill"), &json!({}));
    wire.post(&path(MISSING, "/input"), &json!({ "data": "typed" }));
    wire.post(&path(MISSING, "/prompt"), &json!({ "text": "hello" }));
    wire.post(&path(MISSING, "/rename"), &json!({ "title": "another" }));
    wire.get(&path(ended, "/screen?format=png"));
    wire.get("/api/v1/sessions?status=asleep");
    wire.get("/api/v1/sessions?limit=0");
    wire.get("/api/v1/sessions?cursor=x");
    wire.note("nothing to launch").post("/api/v1/sessions", &json!({}));
    wire.note("unknown harness").post("/api/v1/sessions", &json!({ "harness": "nosuch", "prompt": "x" }));
    wire.note("unknown field").post("/api/v1/sessions", &json!({ "harness": "claude", "colour": "red" }));
    wire.note("not installed").post("/api/v1/sessions", &json!({ "argv": ["/nosuch"] }));
    wire.note("cannot be launched").post("/api/v1/sessions", &json!({ "argv": ["broken"], "title": "broken" }));
    wire.note("outside the root").post("/api/v1/sessions", &json!({ "harness": "claude", "cwd": "/" }));
}

fn launch_later_and_kill(wire: &mut Snapshot<'_>, home: &TestHome) {
    let request = json!({ "harness": "claude", "prompt": "say up ;; hang", "title": "twin", "detach": true });
    let later = id(&wire.note("detached").post("/api/v1/sessions", &request));
    wire.post(&path(&later, "/start"), &json!({ "rows": 20, "cols": 60 }));
    home.wait_for_output(&later, "up\r\n");
    let twin = json!({ "harness": "claude", "prompt": "hang", "title": "twin", "detach": true });
    wire.note("the same title").post("/api/v1/sessions", &twin);
    wire.note("ambiguous title").get(&path("twin", ""));
    wire.post(&path(&later, "/kill"), &json!({}));
    wire.note("killed").get(&path(&later, "/wait"));
}

fn rename_hide_and_delete(wire: &mut Snapshot<'_>, ended: &str) {
    wire.post(&path(ended, "/rename"), &json!({ "title": "another title" }));
    wire.note("empty title").post(&path(ended, "/rename"), &json!({ "title": " " }));
    wire.post(&path(ended, "/archive"), &json!({}));
    wire.note("archived").post(&path(ended, "/archive"), &json!({}));
    wire.get("/api/v1/sessions?all=true");
    wire.post(&path(ended, "/summon"), &json!({}));
    wire.delete(&path(ended, ""));
    wire.note("deleted").get(&path(ended, ""));
}

/// Returns the next control message of an attached client, and skips terminal output.
async fn next_control(socket: &mut WebSocketStream<UnixStream>) -> Json {
    loop {
        let message = tokio::time::timeout(DEADLINE, socket.next()).await.expect("a message in time");
        if let Message::Text(text) = message.expect("open connection").expect("a message") {
            return serde_json::from_str(&text).expect("JSON");
        }
    }
}

/// Records the control messages of an attached client: screen, resize, error and exit.
fn attach(wire: &mut Snapshot<'_>, home: &TestHome) {
    let id = home.launch("echo ;; exit 4").id;
    home.wait_for_output(&id, "ready\r\n");
    home.wait_for_screen(&id);
    let frames = runtime().block_on(async {
        let stream = UnixStream::connect(home.socket()).await.expect("the daemon answers");
        let url = format!("ws://localhost{}", path(&id, "/attach"));
        let (mut socket, _) = client_async(url, stream).await.expect("an upgrade");
        let mut frames = vec![next_control(&mut socket).await];
        for sent in [r#"{"type":"resize","rows":33,"cols":99}"#, "nonsense"] {
            socket.send(Message::Text(sent.into())).await.expect("open connection");
            frames.push(next_control(&mut socket).await);
        }
        socket.send(Message::Text(r#"{"type":"input","data":"quit\r"}"#.into())).await.expect("open connection");
        frames.push(next_control(&mut socket).await);
        frames
    });
    home.wait_for_end(&id);
    let answer = [("status", Json::Number(101.into())), ("frames", Json::List(frames))];
    wire.note("text frames of a WebSocket").record(&format!("GET {}", path(&id, "/attach")), Json::object(answer));
}
