//! Fixture: a client in the same process, with a user who answers when a test says so.

use std::time::Duration;

use coven_domain::QuestionSetId;
use coven_domain::question::QuestionAnswer;
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_host::config::QuestionsConfig;
use coven_interop::questions::{Listed, QuestionFolder};
use coven_mcp::Options;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientCapabilities, ClientConfig, ClientRequest,
    ElicitRequestParams, ElicitResult, ElicitationCapability, FormElicitationCapability, Implementation,
    ProgressNotificationParam, Request, ServerResult,
};
use rmcp::service::{NotificationContext, Peer, PeerRequestOptions, RequestContext, RequestHandle, RunningService};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

const DEADLINE: Duration = Duration::from_secs(20);

pub struct Fixture {
    pub options: Options,
    _root: TempDir,
}

pub type Form = (ElicitRequestParams, oneshot::Sender<ElicitResult>);

/// Messages that the client received, for the test to check.
pub struct Received {
    pub forms: mpsc::UnboundedReceiver<Form>,
    pub progress: mpsc::UnboundedReceiver<ProgressNotificationParam>,
    pub cancelled: mpsc::UnboundedReceiver<CancelledNotificationParam>,
}

pub struct Client {
    forms: mpsc::UnboundedSender<Form>,
    progress: mpsc::UnboundedSender<ProgressNotificationParam>,
    cancelled: mpsc::UnboundedSender<CancelledNotificationParam>,
    takes_forms: bool,
}

impl ClientHandler for Client {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (answer, answered) = oneshot::channel();
        self.forms.send((request, answer)).expect("the test listens");
        tokio::select! {
            result = answered => result.map_err(|_| ErrorData::internal_error("the form failed", None)),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.progress.send(params).expect("the test listens");
    }

    async fn on_cancelled(&self, params: CancelledNotificationParam, _context: NotificationContext<RoleClient>) {
        self.cancelled.send(params).expect("the test listens");
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.takes_forms {
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        }
        ClientConfig::new(capabilities, Implementation::new("a test", "0"))
    }
}

/// A client and its server.
pub struct Connected {
    pub client: RunningService<RoleClient, Client>,
    pub received: Received,
    pub server: JoinHandle<Result<(), coven_mcp::ServeError>>,
}

impl Fixture {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let options = Options {
            folder: QuestionFolder::at(root.path().join("sessions")),
            questions: QuestionsConfig::default(),
            home: None,
            may_control: false,
            session: None,
            progress_every: Duration::from_secs(60),
            min_human_response: Duration::ZERO,
            version: "0",
        };
        Self { options, _root: root }
    }

    /// Starts a server; returns the client's side of the connection and the server's task.
    pub fn serve(&self) -> (tokio::io::DuplexStream, JoinHandle<Result<(), coven_mcp::ServeError>>) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let options = self.options.clone();
        // Ends when the client disconnects.
        let server = tokio::spawn(coven_mcp::serve_on(options, tokio::io::split(theirs), std::future::pending()));
        (ours, server)
    }

    pub async fn connect(&self, takes_forms: bool) -> Connected {
        let (ours, server) = self.serve();
        let (client, received) = client(takes_forms);
        let client = client.serve(tokio::io::split(ours)).await.expect("a handshake");
        Connected { client, received, server }
    }

    /// Returns the only pending set.
    pub fn pending(&self) -> QuestionSetId {
        let listed = self.options.folder.list().expect("a folder");
        let mut waiting = listed.into_iter().filter_map(|listed| match listed {
            Listed::Sound(set) if set.state == QuestionSetState::Pending => Some(set.id),
            _ => None,
        });
        let id = waiting.next().expect("a pending set");
        assert_eq!(waiting.next(), None, "only one set is pending");
        id
    }

    pub fn state(&self, id: &QuestionSetId) -> QuestionSetState {
        self.options.folder.read(id).expect("a valid set").state
    }

    /// Answers as `coven answer` would.
    pub fn answer(&self, id: &QuestionSetId, option: &str) {
        let answer = QuestionAnswer { selected_option: Some(option.into()), ..QuestionAnswer::default() };
        self.options.folder.answer(id, vec![answer], clock::now()).expect("pending");
    }
}

pub fn client(takes_forms: bool) -> (Client, Received) {
    let (forms, received_forms) = mpsc::unbounded_channel();
    let (progress, received_progress) = mpsc::unbounded_channel();
    let (cancelled, received_cancelled) = mpsc::unbounded_channel();
    let received = Received { forms: received_forms, progress: received_progress, cancelled: received_cancelled };
    (Client { forms, progress, cancelled, takes_forms }, received)
}

pub fn one_question() -> Value {
    json!({"questions": [{"prompt": "Which?", "title": "T", "options": [{"label": "A"}, {"label": "B"}]}]})
}

/// Starts a call without waiting for its result.
pub async fn start_call(peer: &Peer<RoleClient>, tool: &str, arguments: Value) -> RequestHandle<RoleClient> {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(Request::new(params));
    peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await.expect("a server")
}

pub async fn finish(call: RequestHandle<RoleClient>) -> CallToolResult {
    match soon(call.await_response()).await.expect("an answer") {
        ServerResult::CallToolResult(result) => result,
        other => panic!("not a tool's result: {other:?}"),
    }
}

pub async fn call(peer: &Peer<RoleClient>, tool: &str, arguments: Value) -> CallToolResult {
    finish(start_call(peer, tool, arguments).await).await
}

pub fn text(result: &CallToolResult) -> &str {
    result.content[0].as_text().map(|text| text.text.as_str()).expect("text")
}

pub fn data(result: &CallToolResult) -> &Value {
    result.structured_content.as_ref().expect("data")
}

/// Waits for a future with a timeout.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("completed within the deadline")
}

pub async fn next<T>(received: &mut mpsc::UnboundedReceiver<T>) -> T {
    soon(received.recv()).await.expect("the client is running")
}
