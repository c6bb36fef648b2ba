//! `/api/v1/inbox`: items that need a human.

use axum::Json;
use axum::extract::State;
use coven_api::inbox::{
    AnswerRequest, InboxDetail, InboxItem, InboxKind, InboxOption, InboxQuery, InboxStatus, PermissionRecord,
};
use coven_api::list::{List, ListKey, TimeCursor};
use coven_api::question::QuestionSetRecord;
use coven_api::routes::{ListInbox, ListQuestions};
use coven_api::workflow::WorkflowRecord;
use coven_domain::query::{AgentQuery, ItemPlace, WaitingQuery};
use coven_domain::request::{Decision, Request, RequestKind, RequestState};
use coven_domain::task::{Task, TaskState};
use coven_domain::{RepoId, SessionId, TaskId};
use coven_engine::EngineError;
use coven_engine::acp::InboxAnswer;
use coven_engine::inbox::{InboxEntry, InboxReply, InboxScope, task_options};
use coven_engine::question_set::{HumanReply, Listed};
use coven_engine::workflow::titled;

use super::App;
use super::reply::{Body, Calling, Id, Params};
use super::rest::{Answer, find, invalid, page_size, place};

const DEFAULT_LIMIT: usize = 100;

pub async fn list(State(app): State<App>, Params(query): Params<InboxQuery>) -> Answer<Json<List<InboxItem>>> {
    let key = ListKey::of::<ListInbox>(&query);
    let (found, next) = page(&app, key, query, InboxScope::All).await?;
    let mut items = Vec::with_capacity(found.len());
    for item in found {
        items.push(record(&app, item).await?);
    }
    Ok(Json(List { items, next, total: None }))
}

pub async fn list_questions(
    State(app): State<App>,
    Params(query): Params<InboxQuery>,
) -> Answer<Json<List<QuestionSetRecord>>> {
    let key = ListKey::of::<ListQuestions>(&query);
    let (found, next) = page(&app, key, query, InboxScope::Questions).await?;
    Ok(Json(List { items: found.into_iter().filter_map(questions).collect(), next, total: None }))
}

pub async fn show_questions(State(app): State<App>, Id(id): Id) -> Answer<Json<QuestionSetRecord>> {
    let found = questions(app.engine.inbox_item(&id).await?);
    Ok(Json(found.ok_or(EngineError::QuestionNotFound(id))?))
}

async fn page(
    app: &App,
    list: ListKey,
    query: InboxQuery,
    scope: InboxScope,
) -> Answer<(Vec<InboxEntry>, Option<String>)> {
    let session = match &query.session {
        Some(id) => Some(find(app, id).await?),
        None => None,
    };
    let after: Option<TimeCursor> = place(list, query.cursor.as_deref())?;
    let after = after.map(|TimeCursor { at, id }| ItemPlace { at, id });
    let limit = page_size(query.limit, DEFAULT_LIMIT)?;
    let query = WaitingQuery { kinds: Vec::new(), include_settled: query.all.unwrap_or(false), session, after, limit };
    let (items, has_more) = app.engine.inbox(&query, scope).await?;
    let last = items.last().filter(|_| has_more).map(InboxEntry::place);
    Ok((items, last.map(|ItemPlace { at, id }| list.cursor(TimeCursor { at, id }))))
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<InboxItem>> {
    let item = app.engine.inbox_item(&id).await?;
    Ok(Json(record(&app, item).await?))
}

pub async fn answer(
    State(app): State<App>,
    Id(id): Id,
    Calling(caller): Calling,
    Body(request): Body<AnswerRequest>,
) -> Answer<Json<InboxItem>> {
    let item = app.engine.answer_in_inbox(&id, reply(request)?, &caller).await?;
    Ok(Json(record(&app, item).await?))
}

fn reply(request: AnswerRequest) -> Answer<InboxReply> {
    match request {
        AnswerRequest { option: Some(option), decision: None, answers: None, reject: None, reason } => {
            Ok(InboxReply::Chosen { answer: InboxAnswer::Option(option), reason })
        }
        AnswerRequest { option: None, decision: Some(word), answers: None, reject: None, reason } => {
            let decision: Decision = word.parse().map_err(|error| invalid(format!("decision: {error}")))?;
            Ok(InboxReply::Chosen { answer: InboxAnswer::Decision(decision), reason })
        }
        AnswerRequest { option: None, decision: None, answers: Some(answers), reject: None, reason: None } => {
            Ok(InboxReply::ToQuestions(HumanReply::Answers(answers.into_iter().map(Into::into).collect())))
        }
        AnswerRequest { option: None, decision: None, answers: None, reject: Some(rejection), reason: None } => {
            Ok(InboxReply::ToQuestions(HumanReply::Rejection(rejection.reason)))
        }
        AnswerRequest { reason: Some(_), .. } => {
            Err(invalid("reason: only allowed with option or decision; set the reason of reject in reject"))
        }
        _ => Err(invalid("set exactly one of option, decision, answers, reject")),
    }
}

/// Returns the record of a question set, a question or a terminal prompt; `None` for other items.
fn questions(item: InboxEntry) -> Option<QuestionSetRecord> {
    match item {
        InboxEntry::Request(request, _) if request.kind() != RequestKind::Permission => Some(request.into()),
        InboxEntry::QuestionSet { set: Listed::Sound(set), .. } => Some(set.into()),
        InboxEntry::QuestionSet { set: Listed::Broken { id, why }, at } => {
            Some(QuestionSetRecord::broken(id.into(), why.to_string(), at))
        }
        InboxEntry::Request(..) | InboxEntry::Task(_) => None,
    }
}

async fn record(app: &App, item: InboxEntry) -> Answer<InboxItem> {
    match item {
        InboxEntry::Task(task) => of_task(app, *task).await,
        InboxEntry::Request(request, agent) => {
            let session = request.session.or(agent.as_ref().and_then(|agent| agent.session));
            let about = match agent {
                Some(agent) => (Some(agent.task), agent.step),
                None => task_and_step(app, session).await?,
            };
            match request.kind() {
                RequestKind::Permission => of_permission(app, request, about).await,
                RequestKind::Question => {
                    let detail = InboxDetail::Question { question_set: request.into() };
                    of_questions(app, InboxKind::Question, session, about, detail).await
                }
                RequestKind::Input => {
                    let typed = request.answer_text();
                    let detail = InboxDetail::Terminal { question_set: request.into() };
                    Ok(InboxItem {
                        answer: typed,
                        ..of_questions(app, InboxKind::Terminal, session, about, detail).await?
                    })
                }
            }
        }
        InboxEntry::QuestionSet { set: Listed::Sound(set), .. } => {
            let session = set.asking_session();
            let about = task_and_step(app, session).await?;
            let detail = InboxDetail::QuestionSet { question_set: set.into() };
            of_questions(app, InboxKind::QuestionSet, session, about, detail).await
        }
        InboxEntry::QuestionSet { set: Listed::Broken { id, why }, at } => {
            let question_set = QuestionSetRecord::broken(id.into(), why.to_string(), at);
            let detail = InboxDetail::QuestionSet { question_set };
            of_questions(app, InboxKind::QuestionSet, None, (None, None), detail).await
        }
    }
}

async fn of_task(app: &App, task: Task) -> Answer<InboxItem> {
    let run = app.engine.latest_workflow(task.id).await?;
    let approval = run.as_ref().and_then(|run| run.progress.approval.clone());
    let (kind, waits) = match task.state {
        // The merge is running.
        TaskState::PendingMerge => (InboxKind::Merge, approval.is_none()),
        TaskState::Blocked => (InboxKind::Blocked, true),
        TaskState::Open | TaskState::InProgress | TaskState::Closed => (InboxKind::Blocked, false),
    };
    let error = run.as_ref().and_then(|run| run.error.clone());
    let title = match (kind, &task.reason, &error) {
        (InboxKind::Merge, _, Some(error)) => format!("review {}: {error}", titled(&task)),
        (InboxKind::Merge, _, None) => format!("review {}", titled(&task)),
        (_, Some(reason), _) => format!("{}: {reason}", task.title),
        (_, None, _) => task.title.clone(),
    };
    let options = task_options(&task, run.as_ref()).into_iter().map(|(word, kind)| InboxOption {
        id: word.to_owned(),
        name: word.to_owned(),
        kind: kind.to_owned(),
    });
    Ok(InboxItem {
        id: task.id.to_string(),
        kind,
        status: if waits { InboxStatus::Pending } else { InboxStatus::Answered },
        session_id: None,
        harness: task.harness.clone(),
        repo_id: None,
        task_id: Some(task.id),
        step: run.as_ref().and_then(|run| WorkflowRecord::from(run).step_name),
        title: coven_domain::text::one_line(&title, 200),
        created_at: task.updated_at,
        answered_at: (!waits).then_some(task.updated_at),
        answered_by: approval.filter(|_| kind == InboxKind::Merge).map(|approval| approval.by),
        answer: (!waits).then(|| match kind {
            InboxKind::Merge => "approve".to_owned(),
            _ => task.state.to_string(),
        }),
        options: if waits { options.collect() } else { Vec::new() },
        detail: InboxDetail::Task { task: Box::new(task.into()), error },
    })
}

/// Returns the task and the step of a session.
async fn task_and_step(app: &App, session: Option<SessionId>) -> Answer<(Option<TaskId>, Option<String>)> {
    let Some(id) = session else { return Ok((None, None)) };
    let agent = app.engine.agents(AgentQuery::Session(id), None, usize::MAX).await?.items.pop();
    Ok(agent.map_or((None, None), |agent| (Some(agent.task), agent.step)))
}

async fn of_permission(
    app: &App,
    permission: Request,
    (task_id, step): (Option<TaskId>, Option<String>),
) -> Answer<InboxItem> {
    let (harness, repo_id) = harness_and_repo(app, permission.session).await?;
    let record = PermissionRecord::from(&permission);
    Ok(InboxItem {
        id: permission.id.to_string(),
        kind: InboxKind::Permission,
        status: match permission.state {
            RequestState::Pending => InboxStatus::Pending,
            RequestState::Answered => InboxStatus::Answered,
            RequestState::Rejected => InboxStatus::Rejected,
            RequestState::Cancelled => InboxStatus::Cancelled,
        },
        session_id: permission.session,
        harness,
        repo_id,
        task_id,
        step,
        title: permission.title,
        created_at: permission.created_at,
        answered_at: permission.answered_at,
        answered_by: record.answered_by.clone(),
        answer: record.answer.clone(),
        options: record.options.clone(),
        detail: InboxDetail::Permission { permission: record },
    })
}

async fn of_questions(
    app: &App,
    kind: InboxKind,
    session_id: Option<SessionId>,
    (task_id, step): (Option<TaskId>, Option<String>),
    detail: InboxDetail,
) -> Answer<InboxItem> {
    let (harness, repo_id) = harness_and_repo(app, session_id).await?;
    let (InboxDetail::QuestionSet { question_set }
    | InboxDetail::Question { question_set }
    | InboxDetail::Terminal { question_set }) = &detail
    else {
        unreachable!("the callers give questions")
    };
    Ok(InboxItem {
        id: question_set.id.to_string(),
        kind,
        status: question_set.status.into(),
        session_id,
        harness,
        repo_id,
        task_id,
        step,
        title: question_set.title.clone(),
        created_at: question_set.created_at,
        answered_at: question_set.answered_at,
        answered_by: question_set.answered_by.clone(),
        answer: None,
        options: Vec::new(),
        detail,
    })
}

/// Returns harness and repository of the session that asks, if this home has it.
async fn harness_and_repo(app: &App, session: Option<SessionId>) -> Answer<(Option<String>, Option<RepoId>)> {
    let Some(id) = session else { return Ok((None, None)) };
    let session = app.engine.known_session(id).await?;
    Ok(session.map_or((None, None), |it| (Some(it.harness), it.repo_id)))
}
