//! Requests to the daemon, each on its own connection, so that a slow one delays no other.

use coven_api::acp_state::AcpStateRecord;
use coven_api::activity::LookRequest;
use coven_api::compat::PromptRequest;
use coven_api::entry::{EntriesQuery, EntriesResponse};
use coven_api::harness::{HarnessRecord, ListHarnessesQuery};
use coven_api::inbox::AnswerRequest;
use coven_api::list::{List, MAX_LIMIT};
use coven_api::message::{ConfigOptionRequest, MessagesQuery, MessagesResponse, ModeRequest};
use coven_api::routes::{
    AnswerInboxItem, ApproveTask, ArchiveSession, BlockTask, CancelTurn, ChangeMode, ChangeOption, CloseTask,
    CreateSession, CreateTask, DeleteTask, Endpoint, KillSession, ListEntries, ListHarnesses, ListMessages,
    ListSessions, LookAtSession, PromptSession, ReadAcpState, ReadTaskDiff, RejectTask, RenameSession,
    SacrificeSession, StartSession, StartTask, SummonSession, UnblockTask,
};
use coven_api::session::{
    CreateSessionRequest, ListSessionsQuery, RenameSessionRequest, SessionRecord, StartSessionRequest,
};
use coven_api::task::{CreateTaskRequest, StartTaskRequest, TaskRecord, TaskTransitionRequest};
use coven_api::workflow::TaskDiffResponse;
use coven_client::{Client, ClientError};
use coven_domain::{SessionId, TaskId};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::Report;
use crate::setup::{Connect, LaunchContext};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionAction {
    Start(Box<LaunchContext>),
    Kill,
    Archive,
    Summon,
    Sacrifice,
    Rename(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskAction {
    Start(Box<LaunchContext>),
    Approve,
    Reject(String),
    Block(Option<String>),
    Unblock,
    Close(Option<String>),
    Delete,
}

/// A request of the app.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    Session {
        id: SessionId,
        action: SessionAction,
    },
    Task {
        id: TaskId,
        action: TaskAction,
    },
    Answer {
        item: String,
        answer: AnswerRequest,
    },
    Launch(Box<CreateSessionRequest>),
    NewTask(Box<CreateTaskRequest>),
    Harnesses {
        path: Option<String>,
    },
    /// A page of sessions, for the History view.
    Sessions(ListSessionsQuery),
    Diff(TaskId),
    Messages {
        session: SessionId,
        query: MessagesQuery,
    },
    AcpState(SessionId),
    /// The user sees this session for that many seconds.
    Look {
        session: SessionId,
        seconds: u64,
    },
    Prompt {
        session: SessionId,
        text: String,
    },
    CancelTurn(SessionId),
    Mode {
        session: SessionId,
        mode: String,
    },
    Option {
        session: SessionId,
        option: String,
        value: String,
    },
    /// The page of a session's ledger after an entry: its output with times and terminal sizes.
    Entries {
        session: SessionId,
        after: u64,
    },
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Done,
    Session(Box<SessionRecord>),
    Task(Box<TaskRecord>),
    Harnesses(Vec<HarnessRecord>),
    Sessions(List<SessionRecord>),
    Diff(Box<TaskDiffResponse>),
    Messages(MessagesResponse),
    AcpState(Box<AcpStateRecord>),
    Entries(EntriesResponse),
}

/// Performs a request; its report follows.
pub fn start(calls: &mut JoinSet<()>, connect: &Connect, call: Box<Call>, reports: &Sender<Report>) {
    let (connect, reports) = (connect.clone(), reports.clone());
    calls.spawn(async move {
        let result = match connect().await {
            Ok(mut client) => perform(&mut client, &call).await.map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        // The app may have ended.
        let _ = reports.send(Report::Answered { call, result }).await;
    });
}

/// Tells the daemon that these sessions are no longer on a screen.
pub async fn stop_looking(connect: Connect, sessions: Vec<SessionId>) {
    if sessions.is_empty() {
        return;
    }
    let Ok(mut client) = connect().await else { return };
    for session in sessions {
        // Without an answer the look ends by itself.
        let _ = perform(&mut client, &Call::Look { session, seconds: 0 }).await;
    }
}

async fn perform(client: &mut Client, call: &Call) -> Result<Answer, ClientError> {
    Ok(match call {
        Call::Session { id, action } => return session(client, *id, action).await,
        Call::Task { id, action } => return task(client, *id, action).await,
        Call::Answer { item, answer } => {
            client.call(AnswerInboxItem::of(item).body(answer)).await?;
            Answer::Done
        }
        Call::Launch(request) => Answer::Session(Box::new(client.call(CreateSession::request().body(request)).await?)),
        Call::NewTask(request) => Answer::Task(Box::new(client.call(CreateTask::request().body(request)).await?)),
        Call::Harnesses { path } => {
            let query = ListHarnessesQuery { path: path.clone(), limit: Some(1000), ..ListHarnessesQuery::default() };
            Answer::Harnesses(client.call(ListHarnesses::request().query(&query)).await?.items)
        }
        Call::Sessions(query) => Answer::Sessions(client.call(ListSessions::request().query(query)).await?),
        Call::Diff(id) => Answer::Diff(Box::new(client.call(ReadTaskDiff::of(&id.to_string())).await?)),
        Call::Messages { session, query } => {
            Answer::Messages(client.call(ListMessages::of(&session.to_string()).query(query)).await?)
        }
        Call::Look { session, seconds } => {
            let request = LookRequest { seconds: Some(*seconds) };
            client.call(LookAtSession::of(&session.to_string()).body(&request)).await?;
            Answer::Done
        }
        Call::AcpState(id) => Answer::AcpState(Box::new(client.call(ReadAcpState::of(&id.to_string())).await?)),
        Call::Prompt { session, text } => {
            let request = PromptRequest { text: text.clone() };
            client.call(PromptSession::of(&session.to_string()).body(&request)).await?;
            Answer::Done
        }
        Call::CancelTurn(id) => {
            client.call(CancelTurn::of(&id.to_string())).await?;
            Answer::Done
        }
        Call::Mode { session, mode } => {
            let request = ModeRequest { mode_id: mode.clone() };
            client.call(ChangeMode::of(&session.to_string()).body(&request)).await?;
            Answer::Done
        }
        Call::Option { session, option, value } => {
            let request = ConfigOptionRequest { config_id: option.clone(), value: value.clone() };
            client.call(ChangeOption::of(&session.to_string()).body(&request)).await?;
            Answer::Done
        }
        Call::Entries { session, after } => {
            let query = EntriesQuery { after: Some(*after), limit: Some(MAX_LIMIT), cursor: None };
            Answer::Entries(client.call(ListEntries::of(&session.to_string()).query(&query)).await?)
        }
    })
}

async fn session(client: &mut Client, id: SessionId, action: &SessionAction) -> Result<Answer, ClientError> {
    let id = id.to_string();
    let record = match action {
        SessionAction::Kill => {
            client.call(KillSession::of(&id)).await?;
            return Ok(Answer::Done);
        }
        SessionAction::Start(launch) => {
            let request = StartSessionRequest { env: Some(launch.env.clone()), ..StartSessionRequest::default() };
            client.call(StartSession::of(&id).body(&request)).await?
        }
        SessionAction::Archive => client.call(ArchiveSession::of(&id)).await?,
        SessionAction::Summon => client.call(SummonSession::of(&id)).await?,
        SessionAction::Sacrifice => client.call(SacrificeSession::of(&id)).await?,
        SessionAction::Rename(title) => {
            client.call(RenameSession::of(&id).body(&RenameSessionRequest { title: title.clone() })).await?
        }
    };
    Ok(Answer::Session(Box::new(record)))
}

async fn task(client: &mut Client, id: TaskId, action: &TaskAction) -> Result<Answer, ClientError> {
    let id = id.to_string();
    let with = |reason: Option<&String>| TaskTransitionRequest { reason: reason.cloned(), by: None };
    let record = match action {
        TaskAction::Start(launch) => {
            let request = StartTaskRequest { env: Some(launch.env.clone()), ..StartTaskRequest::default() };
            client.call(StartTask::of(&id).body(&request)).await?.task
        }
        TaskAction::Approve => {
            client.call(ApproveTask::of(&id).body(&with(None))).await?;
            return Ok(Answer::Done);
        }
        TaskAction::Reject(reason) => client.call(RejectTask::of(&id).body(&with(Some(reason)))).await?,
        TaskAction::Block(reason) => client.call(BlockTask::of(&id).body(&with(reason.as_ref()))).await?,
        TaskAction::Unblock => client.call(UnblockTask::of(&id).body(&with(None))).await?,
        TaskAction::Close(reason) => client.call(CloseTask::of(&id).body(&with(reason.as_ref()))).await?,
        TaskAction::Delete => {
            client.call(DeleteTask::of(&id)).await?;
            return Ok(Answer::Done);
        }
    };
    Ok(Answer::Task(Box::new(record)))
}
