//! Every route of the daemon, once. The router, the OpenAPI document, the refusal of unknown parameters and the scopes come from
//! this table.

use std::marker::PhantomData;

use crate::acp_state::AcpStateRecord;
use crate::activity::{ActivityResponse, HookCallRequest, HookCallResponse, LookRequest};
use crate::compat::{
    CompatMessageRecord, CompatMessagesQuery, CompatPromptResponse, CompatSessionDetail, CompatSessionListResponse,
    CompatSessionRecord, CreateCompatSessionRequest, ListCompatSessionsQuery, PromptRequest,
};
use crate::conversation::{
    ConversationListResponse, ConversationRecord, ListConversationsQuery, TurnRecord, TurnsQuery,
};
use crate::entry::{EntriesQuery, EntriesResponse};
use crate::event::{EventsQuery, EventsResponse};
use crate::field_names::field_names;
use crate::harness::{HarnessQuery, HarnessRecord, ListHarnessesQuery};
use crate::health::{HealthResponse, StopRequest};
use crate::inbox::{AnswerRequest, InboxItem, InboxQuery};
use crate::list::{List, PageQuery};
use crate::live::LiveMessage;
use crate::message::{ConfigOptionRequest, MessagesQuery, MessagesResponse, ModeRequest, PromptResponse};
use crate::migrate::MigrateRequest;
use crate::operation::{GetOperationQuery, ListOperationsQuery, Operation};
use crate::question::QuestionSetRecord;
use crate::repo::{AddRepoRequest, CompatRepoListResponse, CompatRepoRecord, RepoRecord};
use crate::request::{self, Request};
use crate::retention::RetentionRequest;
use crate::screen::{ScreenQuery, ScreenResponse};
use crate::session::{
    AcceptedResponse, AttachQuery, CreateSessionRequest, InputRequest, ListSessionsQuery, LogCheckQuery,
    LogCheckResponse, LogQuery, RenameSessionRequest, ResizeRequest, SessionRecord, StartSessionRequest, WaitQuery,
};
use crate::state::{StateQuery, StateResponse};
use crate::task::{
    CreateTaskRequest, CreateTasksRequest, DeleteTaskQuery, DeleteTaskResponse, EditTaskRequest, ListTasksQuery,
    StartTaskRequest, TaskHistoryRecord, TaskReadiness, TaskRecord, TaskTransitionRequest,
};
use crate::workflow::{
    AgentRecord, DefinitionResponse, ListAgentsQuery, ListWorkflowsQuery, StartTaskResponse, StepRecord,
    TaskDiffResponse, WorkflowRecord,
};

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
    Patch,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What a caller must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Read everything.
    View,
    /// Answer requests, and review work.
    Answer,
    /// Control sessions that exist.
    Type,
    /// Start new work.
    Launch,
    /// Delete, import and stop.
    Admin,
}

#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub name: &'static str,
    pub about: &'static [&'static str],
    pub method: Method,
    /// With `{id}` where the id stands.
    pub path: &'static str,
    pub scope: Scope,
    pub has_body: bool,
    pub status: u16,
    /// Other statuses, with a reason if it has a special one.
    pub failures: &'static [(u16, Option<&'static str>)],
    /// The names of its query parameters.
    pub parameters: fn() -> &'static [&'static str],
    #[cfg(feature = "schema")]
    pub schemas: crate::openapi::Schemas,
}

/// A route as a type.
pub trait Endpoint: Sized {
    const ROUTE: Route;
    type Query: Serialize;
    type Request: Serialize;
    type Response;

    /// Makes a request to a route without an id.
    fn request() -> Request<Self> {
        const { assert!(!request::takes_id(Self::ROUTE.path), "this route takes an id: use `of`") };
        Request::with_path(Self::ROUTE.path.to_owned())
    }

    /// Makes a request about the thing with this id.
    fn of(id: &str) -> Request<Self> {
        const { assert!(request::takes_id(Self::ROUTE.path), "this route takes no id: use `request`") };
        Request::with_path(request::fill(Self::ROUTE.path, id))
    }
}

/// Neither parameters nor a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nothing {}

/// An answer of raw bytes.
#[derive(Debug)]
pub enum Binary {}

/// A connection that becomes a WebSocket, on which the daemon sends `M`.
#[derive(Debug)]
pub struct WebSocket<M>(PhantomData<M>);

/// The OpenAPI document.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct Document(pub serde_json::Map<String, serde_json::Value>);

macro_rules! routes {
    ($(
        $(#[doc = $about:literal])+
        $name:ident: $method:ident $path:literal, $scope:ident $(, query $query:ty)? $(, body $body:ty)?
            => $status:literal $response:ty $(, $failure:literal $($reason:literal)?)*;
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug)]
            pub enum $name {}

            impl Endpoint for $name {
                const ROUTE: Route = Route {
                    name: stringify!($name),
                    about: &[$($about),+],
                    method: Method::$method,
                    path: $path,
                    scope: Scope::$scope,
                    has_body: routes!(@is_given $($body)?),
                    status: $status,
                    failures: &[$(($failure, routes!(@reason $($reason)?))),*],
                    parameters: field_names::<Self::Query>,
                    #[cfg(feature = "schema")]
                    schemas: crate::openapi::Schemas::of::<Self>(),
                };
                type Query = routes!(@or_nothing $($query)?);
                type Request = routes!(@or_nothing $($body)?);
                type Response = $response;
            }
        )+

        pub const ALL: &[Route] = &[$($name::ROUTE),+];
    };
    (@or_nothing) => { Nothing };
    (@or_nothing $given:ty) => { $given };
    (@is_given) => { false };
    (@is_given $given:ty) => { true };
    (@reason) => { None };
    (@reason $given:literal) => { Some($given) };
}

routes! {
    // The daemon
    /// Whether the daemon works, and what needs attention.
    Health: Get "/api/v1/health", View => 200 HealthResponse;
    /// Harnesses, and whether they are installed.
    ListHarnesses: Get "/api/v1/harnesses", View, query ListHarnessesQuery => 200 List<HarnessRecord>;
    /// One harness.
    GetHarness: Get "/api/v1/harnesses/{id}", View, query HarnessQuery => 200 HarnessRecord, 404;

    // Repositories
    /// Repositories, oldest first.
    ListRepos: Get "/api/v1/repos", View, query PageQuery => 200 List<RepoRecord>;
    /// Registers a Git repository inside the workspace.
    AddRepo: Post "/api/v1/repos", Admin, body AddRepoRequest => 201 RepoRecord, 200 "it was registered already";
    /// One repository.
    GetRepo: Get "/api/v1/repos/{id}", View => 200 RepoRecord, 404;
    /// Removes a repository from the list; its sessions and files stay.
    RemoveRepo: Delete "/api/v1/repos/{id}", Admin => 200 RepoRecord, 404, 409;

    // Sessions
    /// Sessions, newest first.
    ListSessions: Get "/api/v1/sessions", View, query ListSessionsQuery => 200 List<SessionRecord>;
    /// Launches a session; with `detach` it only makes the record.
    CreateSession: Post "/api/v1/sessions", Launch, body CreateSessionRequest => 201 SessionRecord, 500;
    /// One session, by its id, a unique prefix of it, or its title.
    GetSession: Get "/api/v1/sessions/{id}", View => 200 SessionRecord, 404;
    /// Deletes a session that does not run, with its ledger and log.
    SacrificeSession: Delete "/api/v1/sessions/{id}", Admin => 200 SessionRecord, 409;
    /// Launches a record that was made with `detach`.
    StartSession: Post "/api/v1/sessions/{id}/start", Launch, body StartSessionRequest => 200 SessionRecord, 409;
    /// Types into a running session.
    SendInput: Post "/api/v1/sessions/{id}/input", Type, body InputRequest => 202 AcceptedResponse, 404, 409;
    /// Changes the size of a running session's terminal.
    ResizeSession: Post "/api/v1/sessions/{id}/resize", Type, body ResizeRequest => 202 AcceptedResponse, 409;
    /// Kills a running session: its whole process group, SIGTERM, then SIGKILL.
    KillSession: Post "/api/v1/sessions/{id}/kill", Type => 202 AcceptedResponse, 404, 409;
    /// Asks a running session to end, which makes it `completed`. Answers when it has ended, or within a second.
    FinishSession: Post "/api/v1/sessions/{id}/finish", Type => 200 SessionRecord, 409;
    /// Gives a session another title.
    RenameSession: Post "/api/v1/sessions/{id}/rename", Type, body RenameSessionRequest => 200 SessionRecord, 404;
    /// Hides a session that does not run.
    ArchiveSession: Post "/api/v1/sessions/{id}/archive", Type => 200 SessionRecord, 409;
    /// Brings an archived session back as it was, without running anything.
    SummonSession: Post "/api/v1/sessions/{id}/summon", Type => 200 SessionRecord, 409;
    /// What the session's agent is doing, and the evidence for it.
    ReadActivity: Get "/api/v1/sessions/{id}/activity", View => 200 ActivityResponse, 404;
    /// Records that a client shows the session.
    LookAtSession: Post "/api/v1/sessions/{id}/look", View, body LookRequest => 202 AcceptedResponse, 404;
    /// A call of a hook of the session's agent; a permission hook gets its answer when the request is settled.
    CallHook: Post "/api/v1/sessions/{id}/hook", Type, body HookCallRequest => 200 HookCallResponse, 403 "from outside the session", 404, 409;
    /// Waits until the session has ended, or its agent does what `for` lists.
    WaitSession: Get "/api/v1/sessions/{id}/wait", View, query WaitQuery => 200 SessionRecord, 404;
    /// The ledger, page by page, oldest first.
    ListEntries: Get "/api/v1/sessions/{id}/entries", View, query EntriesQuery => 200 EntriesResponse, 404;
    /// The log's raw bytes from any byte on.
    ReadLog: Get "/api/v1/sessions/{id}/log", View, query LogQuery => 200 Binary, 404;
    /// Compares the log with the ledger: names the bytes that are missing or were changed.
    CheckLog: Get "/api/v1/sessions/{id}/log/check", View, query LogCheckQuery => 200 LogCheckResponse, 404;
    /// What the session's terminal shows.
    ReadScreen: Get "/api/v1/sessions/{id}/screen", View, query ScreenQuery => 200 ScreenResponse, 404;
    /// Attaches to a running session.
    Attach: Get "/api/v1/sessions/{id}/attach", Type, query AttachQuery => 101 WebSocket<Binary>, 404, 409;

    /// Events, terminals and input of any number of sessions on one connection: messages are `LiveRequest` and `LiveMessage`.
    Live: Get "/api/v1/live", View => 101 WebSocket<LiveMessage>;

    // Conversations with an agent over ACP
    /// Messages after a number; with `Accept: text/event-stream` new ones follow, with what the agent is doing.
    ListMessages: Get "/api/v1/sessions/{id}/messages", View, query MessagesQuery => 200 MessagesResponse, 404, 409;
    /// Sends a prompt; the answer comes as messages.
    PromptSession: Post "/api/v1/sessions/{id}/prompt", Type, body PromptRequest => 202 PromptResponse, 404, 409;
    /// Cancels the running turn; the session continues.
    CancelTurn: Post "/api/v1/sessions/{id}/cancel", Type => 202 AcceptedResponse, 409;
    /// Asks the agent to change its mode.
    ChangeMode: Post "/api/v1/sessions/{id}/mode", Type, body ModeRequest => 202 AcceptedResponse, 409;
    /// Asks the agent to change one of its options.
    ChangeOption: Post "/api/v1/sessions/{id}/config", Type, body ConfigOptionRequest => 202 AcceptedResponse, 409;
    /// The agent's name, version, modes and options, and the state of its turn.
    ReadAcpState: Get "/api/v1/sessions/{id}/agent", View => 200 AcpStateRecord, 409;

    // Conversations in files
    /// Conversations, the most recent first.
    ListConversations: Get "/api/v1/conversations", View, query ListConversationsQuery => 200 ConversationListResponse;
    /// One conversation, by its id or a unique prefix of it.
    GetConversation: Get "/api/v1/conversations/{id}", View => 200 ConversationRecord, 404;
    /// The last turns of a conversation, oldest first.
    ListTurns: Get "/api/v1/conversations/{id}/turns", View, query TurnsQuery => 200 List<TurnRecord>, 404;

    // Inbox
    /// The items that need a human, oldest first.
    ListInbox: Get "/api/v1/inbox", View, query InboxQuery => 200 List<InboxItem>;
    /// One item, by its id or a unique prefix of it.
    GetInboxItem: Get "/api/v1/inbox/{id}", View => 200 InboxItem, 404;
    /// Answers; the first answer wins.
    AnswerInboxItem: Post "/api/v1/inbox/{id}/answer", Answer, body AnswerRequest => 200 InboxItem, 403 "from inside the session that asks", 404, 409 "already answered, or broken";

    /// Question sets, and agents that wait at their terminals, oldest first.
    ListQuestions: Get "/api/v1/questions", View, query InboxQuery => 200 List<QuestionSetRecord>;
    /// One of them, by its id or a unique prefix of it.
    GetQuestions: Get "/api/v1/questions/{id}", View => 200 QuestionSetRecord, 404;

    // Tasks and the runs of their workflows
    /// Tasks by priority, then age.
    ListTasks: Get "/api/v1/tasks", View, query ListTasksQuery => 200 List<TaskRecord>;
    /// Makes a task.
    CreateTask: Post "/api/v1/tasks", Launch, body CreateTaskRequest => 201 TaskRecord, 404;
    /// Starts the operation that adds many tasks, all or none; they may refer to each other by `ref`.
    CreateTasks: Post "/api/v1/tasks/bulk", Launch, body CreateTasksRequest => 202 Operation, 404;
    /// One task.
    GetTask: Get "/api/v1/tasks/{id}", View => 200 TaskRecord, 404;
    /// Whether a task can be started, and why not.
    ReadTaskReadiness: Get "/api/v1/tasks/{id}/readiness", View => 200 TaskReadiness, 404;
    /// The runs of a task, newest first.
    ListTaskRuns: Get "/api/v1/tasks/{id}/runs", View, query PageQuery => 200 List<WorkflowRecord>, 404;
    /// Changes the given fields and leaves the others.
    EditTask: Patch "/api/v1/tasks/{id}", Launch, body EditTaskRequest => 200 TaskRecord, 404;
    /// Hides a task until retention deletes it.
    DeleteTask: Delete "/api/v1/tasks/{id}", Launch, query DeleteTaskQuery => 200 DeleteTaskResponse, 404, 409;
    /// Closes a task. An agent that works on it is ended first; the answer may come before that.
    CloseTask: Post "/api/v1/tasks/{id}/close", Launch, body TaskTransitionRequest => 200 TaskRecord, 404, 409;
    /// Every change of a task, oldest first.
    ListTaskHistory: Get "/api/v1/tasks/{id}/history", View, query PageQuery => 200 List<TaskHistoryRecord>, 404;
    /// Claims a task and starts its workflow.
    StartTask: Post "/api/v1/tasks/{id}/start", Launch, body StartTaskRequest => 200 StartTaskResponse, 404, 409;
    /// Ends the work on a task, which can be started again. The answer may come before its agent is gone.
    ReleaseTask: Post "/api/v1/tasks/{id}/release", Launch, body TaskTransitionRequest => 200 TaskRecord, 404, 409;
    /// Ends the work on a task, which then waits for a human. The answer may come before its agent is gone.
    BlockTask: Post "/api/v1/tasks/{id}/block", Launch, body TaskTransitionRequest => 200 TaskRecord, 404, 409;
    /// Lets a blocked task be started again.
    UnblockTask: Post "/api/v1/tasks/{id}/unblock", Launch, body TaskTransitionRequest => 200 TaskRecord, 404, 409;
    /// Starts the operation that merges a task's work into its base, after its checks, in turn with others. A second approval
    /// gets the operation that is running.
    ApproveTask: Post "/api/v1/tasks/{id}/approve", Answer, body TaskTransitionRequest => 202 Operation, 404, 409;
    /// Blocks a task whose work is not good enough; its worktree stays.
    RejectTask: Post "/api/v1/tasks/{id}/reject", Answer, body TaskTransitionRequest => 200 TaskRecord, 404, 409;
    /// What a task's branch changed since it left its base; of a merged task, what was merged.
    ReadTaskDiff: Get "/api/v1/tasks/{id}/diff", View => 200 TaskDiffResponse, 404;
    /// Runs of workflows, newest first.
    ListWorkflows: Get "/api/v1/workflows", View, query ListWorkflowsQuery => 200 List<WorkflowRecord>;
    /// A run, by its id or by the id of its task, which gives the newest run.
    GetWorkflow: Get "/api/v1/workflows/{id}", View => 200 WorkflowRecord, 404;
    /// The steps of a run, in the order of its file.
    ListSteps: Get "/api/v1/workflows/{id}/steps", View, query PageQuery => 200 List<StepRecord>, 404;
    /// The workflow's file as it was when the run started.
    ReadDefinition: Get "/api/v1/workflows/{id}/definition", View => 200 DefinitionResponse, 404;
    /// Ends a run and its process; the task can be started again by hand. The answer may come before the process is gone.
    CancelWorkflow: Post "/api/v1/workflows/{id}/cancel", Launch, body TaskTransitionRequest => 200 WorkflowRecord, 404, 409;
    /// Repeats the step that failed.
    RetryWorkflow: Post "/api/v1/workflows/{id}/retry", Launch, body StartTaskRequest => 200 StartTaskResponse, 404, 409;
    /// Agents at work on tasks.
    ListAgents: Get "/api/v1/agents", View, query ListAgentsQuery => 200 List<AgentRecord>, 404;
    /// One agent of a task.
    GetAgent: Get "/api/v1/agents/{id}", View => 200 AgentRecord, 404;

    // The compatibility API
    /// Repositories, oldest first.
    ListCompatRepos: Get "/api/repos", View => 200 CompatRepoListResponse;
    /// Registers a Git repository inside the workspace.
    AddCompatRepo: Post "/api/repos", Admin, body AddRepoRequest => 201 CompatRepoRecord, 200 "it was registered already";
    /// One repository.
    GetCompatRepo: Get "/api/repos/{id}", View => 200 CompatRepoRecord, 404;
    /// Removes a repository from the list; its folder and its sessions stay.
    RemoveCompatRepo: Delete "/api/repos/{id}", Admin => 200 CompatRepoRecord, 404, 409;
    /// Sessions, newest first, without their messages.
    ListCompatSessions: Get "/api/sessions", View, query ListCompatSessionsQuery => 200 CompatSessionListResponse;
    /// Launches an agent in a repository.
    CreateCompatSession: Post "/api/sessions", Launch, body CreateCompatSessionRequest => 201 CompatSessionRecord, 404, 429 "too many are active; see Retry-After";
    /// A session with its repository and everything that was said, oldest first.
    GetCompatSession: Get "/api/sessions/{id}", View => 200 CompatSessionDetail, 404;
    /// Tells the agent to stop, then ends its session.
    CancelCompatSession: Delete "/api/sessions/{id}", Type => 200 CompatSessionRecord, 404, 409;
    /// Sends a prompt; the answer comes as messages.
    PromptCompatSession: Post "/api/sessions/{id}/prompt", Type, body PromptRequest => 202 CompatPromptResponse, 404, 409;
    /// Messages, oldest first, as a bare array.
    ListCompatMessages: Get "/api/sessions/{id}/messages", View, query CompatMessagesQuery => 200 Vec<CompatMessageRecord>, 404;

    // Upkeep, state and events
    /// Starts the operation that imports the state of the older coven, or says what it would import.
    Migrate: Post "/api/v1/migrate", Admin, body MigrateRequest => 202 Operation;
    /// Starts the operation that deletes expired records, or lists them.
    RunRetention: Post "/api/v1/retention", Admin, body RetentionRequest => 202 Operation;
    /// Operations, newest first.
    ListOperations: Get "/api/v1/operations", View, query ListOperationsQuery => 200 List<Operation>;
    /// One operation, by its id or a unique prefix of it.
    GetOperation: Get "/api/v1/operations/{id}", View, query GetOperationQuery => 200 Operation, 404;
    /// This document.
    ReadDocument: Get "/api/openapi.json", View => 200 Document;
    /// Stops the daemon.
    StopDaemon: Post "/api/v1/daemon/stop", Admin, body StopRequest => 202 AcceptedResponse;
    /// Everything, read in one transaction.
    ReadState: Get "/state", View, query StateQuery => 200 StateResponse;
    /// Events after a cursor: `Last-Event-ID`, or `since` as a number or an ISO 8601 time; without one, from now on.
    ListEvents: Get "/events", View, query EventsQuery => 200 EventsResponse;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_routes_have_the_same_name_or_place() {
        let names: BTreeSet<&str> = ALL.iter().map(|it| it.name).collect();
        let places: BTreeSet<String> = ALL.iter().map(|it| format!("{:?} {}", it.method, it.path)).collect();
        assert_eq!((names.len(), places.len()), (ALL.len(), ALL.len()));
    }

    #[test]
    fn a_route_knows_its_parameters() {
        assert_eq!((Attach::ROUTE.parameters)(), ["from", "read_only"]);
        assert_eq!((Health::ROUTE.parameters)(), [""; 0]);
    }
}
