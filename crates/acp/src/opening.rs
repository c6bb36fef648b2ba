//! The ACP handshake: initialize, authenticate if required, then create, load or resume a session.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AuthMethod, AuthenticateRequest, ClientCapabilities, FileSystemCapabilities, Implementation, InitializeRequest,
    InitializeResponse, LoadSessionRequest, NewSessionRequest, ResumeSessionRequest,
};
use coven_domain::message::{Role, error_content};
use serde_json::{Map, Value};

use crate::effects::Effects;
use crate::machine::Machine;
use crate::state::{PendingRequest, Phase};
use crate::wire::RpcError;

impl Machine {
    /// Sends `initialize`.
    pub fn open(&mut self, effects: &mut Effects) {
        let files = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
        let capabilities = ClientCapabilities::new().fs(files).terminal(true);
        let client = Implementation::new("coven", self.state.opening.client_version.clone()).title("coven".to_owned());
        let request = InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities).client_info(client);
        self.request(PendingRequest::Initialize, &request, effects);
    }

    pub(crate) fn initialized(&mut self, result: &Value, effects: &mut Effects) {
        let parsed: InitializeResponse = match serde_json::from_value(result.clone()) {
            Ok(parsed) => parsed,
            Err(error) => {
                return self.fail(&format!("the agent's response to initialize is not valid: {error}"), effects);
            }
        };
        if parsed.protocol_version != ProtocolVersion::V1 {
            let version = &result["protocolVersion"];
            return self
                .fail(&format!("the agent uses ACP version {version}, but coven supports only version 1"), effects);
        }
        // Stored unchanged: clients may use fields that this version does not know.
        self.state.agent = result["agentInfo"].clone();
        self.state.capabilities = result["agentCapabilities"].clone();
        self.state.auth_methods = result["authMethods"].clone();
        self.open_session(effects);
    }

    fn open_session(&mut self, effects: &mut Effects) {
        let cwd = self.state.opening.cwd.clone();
        let Some(id) = self.state.opening.resume.clone() else {
            return self.request(PendingRequest::NewSession, &NewSessionRequest::new(cwd), effects);
        };
        let capabilities = &self.state.capabilities;
        if capabilities["loadSession"] == true {
            self.request(PendingRequest::LoadSession, &LoadSessionRequest::new(id, cwd), effects);
        } else if capabilities["sessionCapabilities"].get("resume").is_some_and(|resume| !resume.is_null()) {
            self.request(PendingRequest::ResumeSession, &ResumeSessionRequest::new(id, cwd), effects);
        } else {
            self.fail("the agent can neither load nor resume a session; start a new one", effects);
        }
    }

    /// Handles the opened session and sends the first queued prompt.
    pub(crate) fn session_opened(&mut self, result: &Value, effects: &mut Effects) {
        let id = result["sessionId"].as_str().map(str::to_owned);
        let Some(id) = id.or_else(|| self.state.opening.resume.clone()) else {
            return self.fail("the agent returned no session id", effects);
        };
        self.state.agent_session_id = Some(id);
        for (field, name) in [(&mut self.state.modes, "modes"), (&mut self.state.config_options, "configOptions")] {
            if let Some(value) = result.get(name).filter(|value| !value.is_null()) {
                *field = value.clone();
            }
        }
        self.state.phase = Phase::Ready;
        self.next_turn(effects);
    }

    pub(crate) fn opening_refused(&mut self, what: &PendingRequest, error: &RpcError, effects: &mut Effects) {
        let is_auth = error.code == RpcError::AUTH_REQUIRED;
        if is_auth && !self.state.has_authenticated && *what != PendingRequest::Authenticate {
            self.state.has_authenticated = true;
            if let Some(method) = self.auth_method() {
                return self.request(PendingRequest::Authenticate, &AuthenticateRequest::new(method), effects);
            }
        }
        let action = match what {
            PendingRequest::Initialize => "initialize",
            PendingRequest::Authenticate => "authenticate",
            PendingRequest::LoadSession => "load the session",
            PendingRequest::ResumeSession => "resume the session",
            PendingRequest::NewSession
            | PendingRequest::Prompt
            | PendingRequest::SetMode(_)
            | PendingRequest::SetConfigOption => "open a session",
        };
        let mut reason = format!("the agent refused to {action}: {}", error.sentence());
        if is_auth || *what == PendingRequest::Authenticate {
            reason.push_str("; log in with the agent's own program first");
        }
        self.fail(&reason, effects);
    }

    /// Opens the session again after authentication.
    pub(crate) fn authenticated(&mut self, effects: &mut Effects) {
        self.open_session(effects);
    }

    fn auth_method(&self) -> Option<String> {
        if let Some(method) = &self.state.opening.auth_method {
            return Some(method.clone());
        }
        let methods: Vec<AuthMethod> = serde_json::from_value(self.state.auth_methods.clone()).unwrap_or_default();
        methods.iter().find_map(|method| match method {
            AuthMethod::Agent(_) => Some(method.id().to_string()),
            // The method requires a separate terminal to log in.
            _ => None,
        })
    }

    /// Marks the session as failed and drops queued prompts.
    pub fn fail(&mut self, reason: &str, effects: &mut Effects) {
        self.state.phase = Phase::Failed;
        self.state.queue.clear();
        self.state.failure = Some(reason.to_owned());
        effects.has_new_state = true;
        effects.add_message(Role::System, &error_content(reason, Map::new()));
        effects.failed = Some(reason.to_owned());
    }
}
