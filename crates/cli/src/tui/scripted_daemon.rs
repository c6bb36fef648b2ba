//! A daemon for the feed's tests: answers from a script, over a real Unix socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::item::Item;
use serde_json::{Value, json};

#[derive(Default)]
struct State {
    sessions: Vec<Item>,
    page: usize,
    /// Open event streams; dropping one ends it.
    streams: Vec<UnixStream>,
    /// Everything that was asked with a method other than GET.
    asked: Vec<(String, Value)>,
    is_gone: bool,
}

#[derive(Clone)]
pub struct ScriptedDaemon {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
}

impl ScriptedDaemon {
    pub fn start(socket: &Path, sessions: Vec<Item>, page: usize) -> Self {
        let listener = UnixListener::bind(socket).expect("the socket is free");
        let state = Arc::new(Mutex::new(State { sessions, page, ..State::default() }));
        let daemon = Self { socket: socket.to_owned(), state };
        let serving = daemon.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serving.lock().is_gone {
                    return;
                }
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        daemon
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no test thread panicked")
    }

    pub fn put(&self, record: Item) {
        self.lock().sessions.insert(0, record);
    }

    pub fn remove(&self, id: &str) {
        self.lock().sessions.retain(|record| record.id != id);
    }

    pub fn emit(&self, kind: &str, subject: &str) {
        let data =
            json!({"number": 1, "kind": kind, "subject": subject, "at": "2026-11-15T08:00:00.000Z", "payload": {}});
        let event = format!("id: 1\nevent: {kind}\ndata: {data}\n\n");
        for stream in &mut self.lock().streams {
            write!(stream, "{:x}\r\n{event}\r\n", event.len()).expect("the browser listens");
        }
    }

    pub fn asked(&self) -> Vec<(String, Value)> {
        self.lock().asked.clone()
    }

    /// As after `kill -9`: every stream ends and nobody answers any more.
    pub fn vanish(&self) {
        self.lock().is_gone = true;
        std::fs::remove_file(&self.socket).expect("the socket was there");
        for stream in self.lock().streams.drain(..) {
            stream.shutdown(std::net::Shutdown::Both).expect("the stream was open");
        }
    }

    fn serve(&self, mut stream: UnixStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("descriptors are left"));
        while let Some((method, target, body)) = read_request(&mut reader) {
            let mut state = self.lock();
            if state.is_gone {
                return;
            }
            if target.starts_with("/events") {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\n: hello\n\n\r\n";
                stream.write_all(head.as_bytes()).expect("the browser listens");
                state.streams.push(stream);
                return;
            }
            if method != "GET" {
                state.asked.push((format!("{method} {target}"), body));
            }
            let (status, answer) = state.answer(&target);
            let answer = answer.to_string();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", answer.len());
            // A browser that was left hangs up whenever it likes.
            let _ = stream.write_all((head + &answer).as_bytes());
        }
    }
}

impl State {
    fn answer(&self, target: &str) -> (u16, Value) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let id = path.trim_start_matches("/api/v1/sessions").trim_matches('/').split('/').next().unwrap_or_default();
        match path {
            "/api/v1/health" => (
                200,
                json!({"ok": true, "version": "", "api_version": 1, "pid": 1, "started_at": "2026-01-01T00:00:00.000Z", "home": "", "listen": null,
                    "sessions_live": 0, "sessions_total": 0, "last_event": 0, "problems": []}),
            ),
            "/api/v1/sessions" => (200, self.list(query)),
            "/api/v1/inbox/q1" => (200, json!(super::fixtures::waiting("q1"))),
            _ if path.starts_with("/api/v1/inbox/") => {
                (404, json!({"error": {"code": "inbox_item_not_found", "message": "no such question"}}))
            }
            _ if path.ends_with("/screen") => (
                200,
                json!({"offset": 1, "rows": 24, "cols": 80, "title": null, "text": "", "spans": [[{"text": id}]]}),
            ),
            _ if path.ends_with("/kill") => {
                let message = "the session is not live";
                (409, json!({"error": {"code": "session_not_live", "message": message}}))
            }
            _ => match self.sessions.iter().find(|record| record.id == id) {
                Some(record) => (200, json!(record)),
                None => (404, json!({"error": {"code": "session_not_found", "message": "no such session"}})),
            },
        }
    }

    fn list(&self, query: &str) -> Value {
        let start: usize = query.split("cursor=").nth(1).and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let end = (start + self.page).min(self.sessions.len());
        let next = (end < self.sessions.len()).then(|| end.to_string());
        json!({"items": self.sessions[start..end], "total": self.sessions.len(), "next": next})
    }
}

/// Method, target and JSON body of the next request.
pub fn read_request(reader: &mut impl BufRead) -> Option<(String, String, Value)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().to_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, target, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}
