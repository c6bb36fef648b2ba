//! The feed against a scripted daemon on a real socket.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use coven_api::message_content::{MessageContent, MessageText};
use serde_json::{Value, json};

use super::feed::Feed;
use super::fixtures::{agent, detail, permission, run, task, terminal};
use super::report::{Done, Report, Request, What};
use crate::daemon_connector::DaemonConnector;
use crate::tui::read_request;

#[derive(Default)]
struct Script {
    /// What is answered, by the beginning of what is asked; the longest counts.
    answers: BTreeMap<String, (u16, Value)>,
    /// Open event streams; dropping one ends it.
    streams: Vec<UnixStream>,
    asked: Vec<(String, Value)>,
}

#[derive(Clone)]
struct ScriptedDaemon {
    script: Arc<Mutex<Script>>,
}

impl ScriptedDaemon {
    fn start(socket: &Path) -> Self {
        let daemon = Self { script: Arc::default() };
        let health = json!({"ok": true, "version": "", "api_version": 1, "pid": 1, "started_at": "2026-11-15T08:00:00.000Z", "home": "",
            "listen": null, "sessions_live": 0, "sessions_total": 0, "last_event": 0, "problems": []});
        daemon.answers("GET /api/v1/health", 200, health);
        daemon.answers("GET /api/v1/tasks?", 200, json!({"items": [], "next": null, "total": 0}));
        daemon.answers("GET /api/v1/agents", 200, json!({"items": [], "next": null}));
        daemon.answers("GET /api/v1/workflows", 200, json!({"items": [], "next": null}));
        daemon.answers("GET /api/v1/inbox", 200, json!({"items": [], "next": null}));
        let listener = UnixListener::bind(socket).expect("the socket is free");
        let serving = daemon.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        daemon
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("no test thread panicked")
    }

    fn answers(&self, asked: &str, status: u16, answer: Value) {
        self.lock().answers.insert(asked.to_owned(), (status, answer));
    }

    fn emit(&self, kind: &str, subject: &str, payload: &Value) {
        let data = json!({"number": 1, "kind": kind, "subject": subject, "at": "2026-11-15T08:00:00.000Z", "payload": payload});
        let event = format!("id: 1\nevent: {kind}\ndata: {data}\n\n");
        for stream in &mut self.lock().streams {
            write!(stream, "{:x}\r\n{event}\r\n", event.len()).expect("the board listens");
        }
    }

    fn hang_up(&self) {
        for stream in self.lock().streams.drain(..) {
            stream.shutdown(std::net::Shutdown::Both).expect("the stream was open");
        }
    }

    fn serve(&self, mut stream: UnixStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("descriptors are left"));
        while let Some((method, target, body)) = read_request(&mut reader) {
            let mut script = self.lock();
            if target.starts_with("/events") {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n: hello\n\n\r\n";
                stream.write_all(head.as_bytes()).expect("the board listens");
                script.streams.push(stream);
                return;
            }
            let asked = format!("{method} {target}");
            let found = script.answers.iter().rev().find(|(beginning, _)| asked.starts_with(beginning.as_str()));
            let not_found = (404, json!({"error": {"code": "task_not_found", "message": "no such task"}}));
            let (status, answer) = found.map_or(not_found, |(_, answer)| answer.clone());
            script.asked.push((asked, body));
            let answer = answer.to_string();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", answer.len());
            // A board that was left hangs up whenever it likes.
            let _ = stream.write_all((head + &answer).as_bytes());
        }
    }
}

struct Rig {
    daemon: ScriptedDaemon,
    feed: Feed,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the socket");
        let socket = folder.path().join("coven.sock");
        let daemon = ScriptedDaemon::start(&socket);
        let feed =
            Feed::start(DaemonConnector::to_socket(&socket), Some("session:7".to_owned())).expect("threads are left");
        Self { daemon, feed, _folder: folder }
    }

    fn wait_for(&mut self, wanted: impl Fn(&Report) -> bool) -> Report {
        loop {
            let report = self.feed.next();
            if wanted(&report) {
                return report;
            }
        }
    }

    fn read(&mut self) {
        self.wait_for(|report| matches!(report, Report::Read(_)));
    }
}

#[test]
fn everything_is_read_and_then_only_what_changed() {
    let mut rig = Rig::new();
    assert_eq!(rig.feed.next(), Report::Connected);
    rig.read();
    let changed = detail(
        task("00000001-0000-4000-8000-000000000001", "in_progress", 1),
        Some(run("00000001-0000-4000-8000-000000000001", "running")),
    );
    rig.daemon.answers("GET /api/v1/tasks/00000001-0000-4000-8000-000000000001", 200, json!(changed.task));
    rig.daemon.answers(
        "GET /api/v1/tasks/00000001-0000-4000-8000-000000000001/readiness",
        200,
        json!(changed.readiness),
    );
    let runs = json!({"items": [changed.run], "next": null});
    rig.daemon.answers("GET /api/v1/tasks/00000001-0000-4000-8000-000000000001/runs?limit=1", 200, runs);
    rig.daemon.emit("task.claimed", "00000001-0000-4000-8000-000000000001", &json!({}));
    assert_eq!(rig.feed.next(), Report::Changed(Box::new(changed)));
    assert_eq!(rig.feed.next(), Report::Ready([].into()));
    // an agent comes with its event, and nothing is asked for it
    let count = rig.daemon.lock().asked.len();
    rig.daemon.emit(
        "agent.started",
        "a",
        &json!({"agent": agent("00000001-0000-4000-8000-000000000001", "5e550000-0000-4000-8000-000000000001")}),
    );
    assert_eq!(
        rig.feed.next(),
        Report::Agent(Box::new(agent("00000001-0000-4000-8000-000000000001", "5e550000-0000-4000-8000-000000000001")))
    );
    assert_eq!(rig.daemon.lock().asked.len(), count);
    // a question is read with all that wait
    rig.daemon.answers(
        "GET /api/v1/inbox",
        200,
        json!({"items": [permission("p", "5e550000-0000-4000-8000-000000000001")], "next": null}),
    );
    rig.daemon.emit("permission.requested", "p", &json!({}));
    assert_eq!(rig.feed.next(), Report::Inbox(vec![permission("p", "5e550000-0000-4000-8000-000000000001")]));
    rig.daemon.answers(
        "GET /api/v1/inbox",
        200,
        json!({"items": [terminal("q", "5e550000-0000-4000-8000-000000000001")], "next": null}),
    );
    rig.daemon.emit("terminal_prompt.asked", "q", &json!({}));
    assert_eq!(rig.feed.next(), Report::Inbox(vec![terminal("q", "5e550000-0000-4000-8000-000000000001")]));
    rig.daemon.emit("task.deleted", "t9", &json!({}));
    assert_eq!(rig.feed.next(), Report::Gone("t9".into()));
}

#[test]
fn after_a_gap_or_a_lost_stream_everything_is_read_again() {
    let mut rig = Rig::new();
    rig.read();
    rig.daemon.emit("gap", "", &json!({}));
    rig.read();
    rig.daemon.hang_up();
    rig.wait_for(|report| matches!(report, Report::Lost(_)));
    rig.wait_for(|report| *report == Report::Connected);
    rig.read();
}

#[test]
fn the_last_line_of_a_terminal_and_of_a_conversation_is_told_once() {
    const MESSAGE: &str = "00000000-0000-4000-8000-000000000003";
    let mut rig = Rig::new();
    rig.read();
    let screen = json!({"offset": 9, "rows": 24, "cols": 80, "title": null, "text": "one\ntwo\n\n", "spans": []});
    rig.daemon.answers("GET /api/v1/sessions/s1/screen", 200, screen);
    let refused = json!({"error": {"code": "session_conflict", "message": "it has no terminal"}});
    rig.daemon.answers("GET /api/v1/sessions/s2/screen", 409, refused);
    let said = json!({"number": 3, "id": MESSAGE, "message_id": MESSAGE, "role": "agent", "at": "2026-11-15T08:00:00.000Z",
        "content": MessageContent::Text(MessageText::whole("I am done"))});
    rig.daemon.answers("GET /api/v1/sessions/s2/messages", 200, json!({"items": [said], "next": 3}));
    rig.feed.watch(["s1".to_owned(), "s2".to_owned()].into());
    assert_eq!(rig.feed.next(), Report::Wrote { session: "s1".into(), line: "two".into() });
    assert_eq!(rig.feed.next(), Report::Wrote { session: "s2".into(), line: "I am done".into() });
}

#[test]
fn a_request_is_sent_with_who_asks_and_refused_with_a_sentence() {
    let mut rig = Rig::new();
    rig.read();
    let refused = json!({"error": {"code": "task_conflict", "message": "it conflicts in a.rs"}});
    rig.daemon.answers("POST /api/v1/tasks/00000001-0000-4000-8000-000000000001/approve", 409, refused);
    rig.daemon.answers(
        "POST /api/v1/tasks/00000001-0000-4000-8000-000000000001/reject",
        200,
        json!(task("00000001-0000-4000-8000-000000000001", "blocked", 1)),
    );
    let approve = Request { id: "00000001-0000-4000-8000-000000000001".into(), what: What::Approve };
    rig.feed.ask(approve.clone()).expect("nothing is under way");
    let answer = Err("it conflicts in a.rs.".to_owned());
    assert_eq!(rig.feed.next(), Report::Answered { request: Box::new(approve), answer });
    let reject = Request { id: "00000001-0000-4000-8000-000000000001".into(), what: What::Reject("no tests".into()) };
    rig.feed.ask(reject.clone()).expect("nothing is under way");
    let answer = Ok(Done::Did("00000001 title of 00000001-0000-4000-8000-000000000001".into()));
    assert_eq!(rig.feed.next(), Report::Answered { request: Box::new(reject), answer });
    let asked = rig.daemon.lock().asked.last().cloned();
    let body = json!({"reason": "no tests", "by": "session:7"});
    assert_eq!(asked, Some(("POST /api/v1/tasks/00000001-0000-4000-8000-000000000001/reject".to_owned(), body)));
}

#[test]
fn a_terminal_gets_its_line_and_a_close_its_reason_if_there_is_one() {
    let mut rig = Rig::new();
    rig.read();
    rig.daemon.answers(
        "POST /api/v1/inbox/q/answer",
        200,
        json!(terminal("q", "5e550000-0000-4000-8000-000000000001")),
    );
    rig.daemon.answers(
        "POST /api/v1/tasks/00000001-0000-4000-8000-000000000001/close",
        200,
        json!(task("00000001-0000-4000-8000-000000000001", "closed", 1)),
    );
    for (id, what, path, body) in [
        ("q", What::Reply(" 2".into()), "POST /api/v1/inbox/q/answer", json!({"option": " 2"})),
        (
            "00000001-0000-4000-8000-000000000001",
            What::Close(String::new()),
            "POST /api/v1/tasks/00000001-0000-4000-8000-000000000001/close",
            json!({"by": "session:7"}),
        ),
        (
            "00000001-0000-4000-8000-000000000001",
            What::Close("late".into()),
            "POST /api/v1/tasks/00000001-0000-4000-8000-000000000001/close",
            json!({"reason": "late", "by": "session:7"}),
        ),
    ] {
        rig.feed.ask(Request { id: id.into(), what }).expect("nothing is under way");
        rig.wait_for(|report| matches!(report, Report::Answered { .. }));
        assert_eq!(rig.daemon.lock().asked.last(), Some(&(path.to_owned(), body)));
    }
}
