//! Output lines, and responses to the agent's requests.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: i64,
    pub message: String,
}

impl Failure {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }
}

pub struct Wire {
    out: Mutex<BufWriter<io::Stdout>>,
    waiting: Mutex<Waiting>,
    has_string_ids: bool,
}

#[derive(Default)]
struct Waiting {
    asked: u64,
    by_id: HashMap<String, Sender<Value>>,
}

impl Wire {
    pub fn new(has_string_ids: bool) -> Self {
        let out = Mutex::new(BufWriter::with_capacity(64 << 10, io::stdout()));
        Self { out, waiting: Mutex::default(), has_string_ids }
    }

    /// Writes bytes unchanged.
    pub fn raw(&self, bytes: &[u8]) {
        self.write(bytes, true);
    }

    fn write(&self, bytes: &[u8], is_flushed: bool) {
        let mut out = locked(&self.out);
        let written = out.write_all(bytes).and_then(|()| if is_flushed { out.flush() } else { Ok(()) });
        if written.is_err() {
            // The client has closed the pipe.
            drop(out);
            super::end(74, "fake-agent: the output is closed\n");
        }
    }

    pub fn send(&self, message: &Value) {
        self.write(format!("{message}\n").as_bytes(), true);
    }

    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub fn update(&self, session: &str, update: Value) {
        self.notify("session/update", json!({ "sessionId": session, "update": update }));
    }

    /// Writes an update to the buffer without flushing it.
    pub fn update_soon(&self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        let message = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        self.write(format!("{message}\n").as_bytes(), false);
    }

    pub fn flush(&self) {
        self.write(b"", true);
    }

    pub fn answer(&self, id: &Value, answer: Result<Value, Failure>) {
        match answer {
            Ok(result) => self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result })),
            Err(Failure { code, message }) => self.fail(id, &json!({ "code": code, "message": message })),
        }
    }

    /// Sends any JSON value as the error.
    pub fn fail(&self, id: &Value, error: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    /// Sends a request to the client and returns a receiver for the response.
    pub fn start_request(&self, method: &str, params: Value) -> Receiver<Value> {
        let (sender, receiver) = mpsc::channel();
        let id = {
            let mut waiting = locked(&self.waiting);
            let number = waiting.asked;
            waiting.asked += 1;
            let id = if self.has_string_ids { json!(format!("request-{number}")) } else { json!(number) };
            waiting.by_id.insert(id.to_string(), sender);
            id
        };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        receiver
    }

    /// Sends a request to the client and waits for the response without a timeout.
    pub fn ask(&self, method: &str, params: Value) -> Result<Value, Failure> {
        outcome(&self.start_request(method, params))
    }

    /// Passes on the client's response to a request.
    pub fn answered(&self, message: &Value) {
        let id = message.get("id").unwrap_or(&Value::Null).to_string();
        if let Some(sender) = locked(&self.waiting).by_id.remove(&id) {
            let _ = sender.send(message.clone());
        }
    }
}

/// Waits for the response to a request.
pub fn outcome(answer: &Receiver<Value>) -> Result<Value, Failure> {
    let answer = answer.recv().map_err(|_| Failure::new(-32603, "the request was not answered"))?;
    match answer.get("error") {
        Some(error) => {
            Err(Failure::new(error["code"].as_i64().unwrap_or_default(), error["message"].as_str().unwrap_or_default()))
        }
        None => Ok(answer.get("result").cloned().unwrap_or(Value::Null)),
    }
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
