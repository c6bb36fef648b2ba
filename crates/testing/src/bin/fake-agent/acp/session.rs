//! The agent's sessions, and the turn that runs in one.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

use super::behaviour::{Behaviour, Trait};
use super::memory::Memory;
use super::wire::{Failure, Wire, locked};

pub struct Agent {
    pub behaviour: Behaviour,
    pub wire: Wire,
    pub memory: Memory,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Value,
    auth: Option<String>,
    sessions: HashMap<String, Session>,
}

#[derive(Default, Clone)]
struct Session {
    cwd: String,
    mode: String,
    model: String,
    turn: Option<Arc<Cancel>>,
}

/// Whether the client cancelled a turn.
#[derive(Default)]
pub struct Cancel {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Cancel {
    pub fn is_set(&self) -> bool {
        *locked(&self.is_set)
    }

    fn set(&self) {
        *locked(&self.is_set) = true;
        self.changed.notify_all();
    }

    pub fn wait(&self) {
        let guard = locked(&self.is_set);
        drop(self.changed.wait_while(guard, |is_set| !*is_set));
    }
}

/// One prompt while the agent works on it.
pub struct Turn {
    pub agent: Arc<Agent>,
    pub session: String,
    pub text: String,
    pub cancel: Arc<Cancel>,
}

impl Agent {
    pub fn new(behaviour: Behaviour, wire: Wire, memory: Memory) -> Self {
        Self { behaviour, wire, memory, state: Mutex::default() }
    }

    /// Stores the client's parameters of `initialize`.
    pub fn introduced(&self, params: &Value) {
        locked(&self.state).client = params.clone();
    }

    pub fn client(&self) -> Value {
        locked(&self.state).client.clone()
    }

    pub fn auth(&self) -> Option<String> {
        locked(&self.state).auth.clone()
    }

    pub fn authenticate(&self, params: &Value) -> Result<Value, Failure> {
        let method = params["methodId"].as_str().unwrap_or_default();
        if !["token", "browser"].contains(&method) {
            return Err(Failure::invalid_params(format!("no such method: {method}")));
        }
        if self.behaviour.has(Trait::AuthNever) {
            return Err(Failure::new(-32000, "Authentication required: the key was refused"));
        }
        locked(&self.state).auth = Some(method.to_owned());
        Ok(json!({}))
    }

    fn open(&self) -> Result<(), Failure> {
        match self.behaviour.asks_for_auth() && self.auth().is_none() {
            true => Err(Failure::new(-32000, "Authentication required")),
            false => Ok(()),
        }
    }

    pub fn new_session(&self, params: &Value) -> Result<Value, Failure> {
        if self.behaviour.refuses_sessions() {
            return Err(Failure::new(-32603, "no session today: the quota is used up"));
        }
        self.open()?;
        let id = format!("fake-{}", uuid::Uuid::new_v4());
        self.memory.create(&id);
        Ok(self.entered(&id, params))
    }

    /// Opens a session that this or an earlier process created.
    pub fn known_session(&self, params: &Value) -> Result<Value, Failure> {
        self.open()?;
        let id = params["sessionId"].as_str().unwrap_or_default();
        match self.memory.knows(id) {
            true => {
                let mut result = self.entered(id, params);
                result.as_object_mut().map(|it| it.remove("sessionId"));
                Ok(result)
            }
            false => Err(Failure::new(-32002, format!("Resource not found: session {id}"))),
        }
    }

    fn entered(&self, id: &str, params: &Value) -> Value {
        let cwd = params["cwd"].as_str().unwrap_or_default().to_owned();
        let session = Session { cwd, mode: "ask".to_owned(), model: "small".to_owned(), turn: None };
        let modes = match self.behaviour.has(Trait::ModesList) {
            true => json!([]),
            false => json!({
                "currentModeId": session.mode,
                "availableModes": [{ "id": "ask", "name": "Ask first" }, { "id": "code", "name": "Write code" }],
            }),
        };
        let result = json!({ "sessionId": id, "modes": modes, "configOptions": config_options(&session) });
        locked(&self.state).sessions.insert(id.to_owned(), session);
        result
    }

    fn change<T>(&self, params: &Value, change: impl FnOnce(&mut Session) -> Result<T, Failure>) -> Result<T, Failure> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let mut state = locked(&self.state);
        match state.sessions.get_mut(id) {
            Some(session) => change(session),
            None => Err(Failure::invalid_params(format!("no such session: {id}"))),
        }
    }

    pub fn set_mode(&self, params: &Value) -> Result<Value, Failure> {
        let mode = params["modeId"].as_str().unwrap_or_default();
        self.change(params, |session| match mode {
            "ask" | "code" => {
                session.mode = mode.to_owned();
                Ok(json!({}))
            }
            _ => Err(Failure::invalid_params(format!("no such mode: {mode}"))),
        })
    }

    pub fn set_config_option(&self, params: &Value) -> Result<Value, Failure> {
        let (option, value) = (params["configId"].as_str(), params["value"].as_str());
        self.change(params, |session| match (option, value) {
            (Some("model"), Some(value @ ("small" | "large"))) => {
                session.model = value.to_owned();
                Ok(json!({ "configOptions": config_options(session) }))
            }
            _ => Err(Failure::invalid_params(format!("no such option: {option:?} {value:?}"))),
        })
    }

    /// Returns the session's folder, mode and model.
    pub fn settings(&self, session: &str) -> (String, String, String) {
        let found = locked(&self.state).sessions.get(session).cloned().unwrap_or_default();
        (found.cwd, found.mode, found.model)
    }

    pub fn mode_changed(&self, session: &str, mode: &str) {
        let _ = self.change(&json!({ "sessionId": session }), |it| {
            it.mode = mode.to_owned();
            Ok(())
        });
    }

    /// Starts a turn; a session has one at a time.
    pub fn open_turn(self: &Arc<Self>, params: &Value) -> Result<Turn, Failure> {
        let cancel = Arc::new(Cancel::default());
        self.change(params, |session| match session.turn.is_some() {
            true => Err(Failure::new(-32600, "a turn is open already")),
            false => {
                session.turn = Some(cancel.clone());
                Ok(())
            }
        })?;
        let blocks = params["prompt"].as_array().cloned().unwrap_or_default();
        let text: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        Ok(Turn { agent: self.clone(), session, text: text.join("\n"), cancel })
    }

    pub fn close_turn(&self, session: &str) {
        let _ = self.change(&json!({ "sessionId": session }), |it| {
            it.turn = None;
            Ok(())
        });
    }

    pub fn cancel(&self, params: &Value) {
        let _ = self.change(params, |session| {
            session.turn.iter().for_each(|cancel| cancel.set());
            Ok(())
        });
    }
}

fn config_options(session: &Session) -> Value {
    json!([{
        "id": "model",
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": session.model,
        "options": [{ "value": "small", "name": "Small" }, { "value": "large", "name": "Large" }],
    }])
}
