//! A daemon for the chat's tests: one session, answers from a script, over a real Unix socket.

use std::io::{BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use coven_api::acp_state::AcpStateRecord;
use coven_api::inbox::{InboxItem, InboxStatus};
use coven_api::message::MessageRecord;
use coven_domain::session::SessionState;
use serde_json::{Value, json};

use super::fixtures;
use crate::tui::read_request;

pub const SESSION: &str = "1a2b3c4d-0000-4000-8000-000000000001";

struct State {
    messages: Vec<MessageRecord>,
    agent: AcpStateRecord,
    inbox: Vec<InboxItem>,
    /// Open message streams; dropping one ends it.
    streams: Vec<UnixStream>,
    /// Open event streams.
    feeds: Vec<UnixStream>,
    /// Every event; a new stream begins with all of them.
    events: String,
    /// Everything that was asked with a method other than GET.
    asked: Vec<(String, Value)>,
    /// Prompts are written down and the connection breaks before the answer.
    breaks_after_prompt: bool,
    is_gone: bool,
}

#[derive(Clone)]
pub struct ScriptedDaemon {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
}

impl ScriptedDaemon {
    pub fn start(socket: &Path, messages: Vec<MessageRecord>) -> Self {
        let listener = UnixListener::bind(socket).expect("the socket is free");
        let state = State {
            messages,
            agent: fixtures::state("idle", 0),
            inbox: Vec::new(),
            streams: Vec::new(),
            feeds: Vec::new(),
            events: String::new(),
            asked: Vec::new(),
            breaks_after_prompt: false,
            is_gone: false,
        };
        let daemon = Self { socket: socket.to_owned(), state: Arc::new(Mutex::new(state)) };
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

    /// A message is said, and told to who listens.
    pub fn say(&self, message: MessageRecord) {
        let mut state = self.lock();
        let event = event("message", Some(message.number), &json!(message));
        state.messages.push(message);
        state.tell(&event);
    }

    /// A message is said while nobody is told.
    pub fn say_silently(&self, message: MessageRecord) {
        self.lock().messages.push(message);
    }

    pub fn set_state(&self, agent: AcpStateRecord) {
        let mut state = self.lock();
        let event = event("state", None, &json!(agent));
        state.agent = agent;
        state.tell(&event);
    }

    pub fn set_inbox(&self, items: Vec<InboxItem>) {
        self.lock().inbox = items;
    }

    pub fn break_after_prompt(&self) {
        self.lock().breaks_after_prompt = true;
    }

    /// An event of anything.
    pub fn emit(&self, kind: &str, subject: &str) {
        let mut state = self.lock();
        let data =
            json!({"number": 1, "kind": kind, "subject": subject, "at": "2026-11-15T08:00:00.000Z", "payload": {}});
        let event = event(kind, Some(1), &data);
        state.events.push_str(&event);
        for feed in &mut state.feeds {
            feed.write_all(chunk(&event).as_bytes()).expect("the chat listens");
        }
    }

    pub fn end(&self) {
        let mut record = fixtures::session(SESSION);
        record.status = SessionState::Completed;
        self.lock().tell(&event("end", None, &json!(record)));
    }

    pub fn asked(&self) -> Vec<(String, Value)> {
        self.lock().asked.clone()
    }

    /// As after `kill -9`: every stream ends and nobody answers any more.
    pub fn vanish(&self) -> Vec<MessageRecord> {
        let mut state = self.lock();
        state.is_gone = true;
        std::fs::remove_file(&self.socket).expect("the socket was there");
        let streams: Vec<UnixStream> = state.streams.drain(..).collect();
        for stream in streams.into_iter().chain(state.feeds.drain(..)) {
            stream.shutdown(std::net::Shutdown::Both).expect("the stream was open");
        }
        state.messages.clone()
    }

    fn serve(&self, mut stream: UnixStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("descriptors are left"));
        while let Some((method, target, body)) = read_request(&mut reader) {
            let mut state = self.lock();
            if state.is_gone {
                return;
            }
            let is_stream = target.contains("/messages?after=") && !target.contains("limit=");
            if is_stream {
                let mut first = event("state", None, &json!(state.agent));
                for message in state.after(&target) {
                    first.push_str(&event("message", Some(message.number), &json!(message)));
                }
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(format!("{head}{}", chunk(&first)).as_bytes()).expect("the chat listens");
                state.streams.push(stream);
                return;
            }
            if target.starts_with("/events") {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                let first = format!(": hello\n\n{}", state.events);
                stream.write_all(format!("{head}{}", chunk(&first)).as_bytes()).expect("the chat listens");
                state.feeds.push(stream);
                return;
            }
            if method != "GET" {
                state.asked.push((format!("{method} {target}"), body.clone()));
            }
            if target.ends_with("/prompt") {
                let number = state.messages.last().map_or(1, |message| message.number + 1);
                let message = fixtures::user(number, body["text"].as_str().expect("a text"));
                let event = event("message", Some(number), &json!(message));
                state.messages.push(message);
                state.tell(&event);
                if std::mem::take(&mut state.breaks_after_prompt) {
                    return;
                }
            }
            let (status, answer) = state.answer(&target, &body);
            let answer = answer.to_string();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", answer.len());
            // A chat that was left hangs up whenever it likes.
            let _ = stream.write_all((head + &answer).as_bytes());
        }
    }
}

impl State {
    fn tell(&mut self, event: &str) {
        for stream in &mut self.streams {
            stream.write_all(chunk(event).as_bytes()).expect("the chat listens");
        }
    }

    fn after(&self, target: &str) -> Vec<MessageRecord> {
        let after = target.split("after=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok()).unwrap_or(0);
        self.messages.iter().filter(|message| message.number > after).cloned().collect()
    }

    fn answer(&mut self, target: &str, body: &Value) -> (u16, Value) {
        let path = target.split('?').next().unwrap_or(target);
        let last = path.rsplit('/').next().unwrap_or_default();
        match path {
            "/api/v1/inbox" => {
                let pending: Vec<&InboxItem> =
                    self.inbox.iter().filter(|item| item.status == InboxStatus::Pending).collect();
                (200, json!({"items": pending, "next": null}))
            }
            _ if path.starts_with("/api/v1/inbox/") => self.question(path, body),
            _ if last == "messages" => {
                let messages = self.after(target);
                let next = messages.last().map_or(0, |message| message.number);
                (200, json!({"items": messages, "next": next}))
            }
            _ if last == "agent" => (200, json!(self.agent)),
            _ if last == "prompt" => {
                let id = self.messages.last().map(|message| message.message_id);
                (202, json!({"ok": true, "accepted": true, "message_id": id}))
            }
            _ if last == SESSION => (200, json!(fixtures::session(SESSION))),
            _ => (202, json!({"ok": true, "accepted": true})),
        }
    }

    fn question(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let id = path.trim_start_matches("/api/v1/inbox/").trim_end_matches("/answer");
        let Some(item) = self.inbox.iter_mut().find(|item| item.id == id) else {
            return (404, json!({"error": {"code": "inbox_item_not_found", "message": "no such question"}}));
        };
        if path.ends_with("/answer") {
            if item.status != InboxStatus::Pending {
                return (409, json!({"error": {"code": "already_answered", "message": "it was answered already"}}));
            }
            let answer = body["option"].as_str().unwrap_or(if body["decision"] == "allow" { "yes" } else { "no" });
            item.answer = Some(answer.to_owned());
            (item.status, item.answered_by) = (InboxStatus::Answered, Some("human".to_owned()));
        }
        (200, json!(item))
    }
}

fn event(kind: &str, id: Option<u64>, data: &Value) -> String {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("{id}event: {kind}\ndata: {data}\n\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
