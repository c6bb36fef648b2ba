//! `/api/v1/inbox`: everything that waits for a human.

use axum::Json;
use axum::extract::State;
use coven_api::inbox::{AnswerRequest, InboxItem, InboxOption, InboxQuery, InboxResponse};
use coven_api::task::TaskRecord;
use coven_domain::agent::Agent;
use coven_domain::agent_question::AgentQuestion;
use coven_domain::permission::{Decision, Permission};
use coven_domain::query::AgentQuery;
use coven_domain::question_set::{QuestionSetState, title_of};
use coven_domain::task::{Task, TaskState};
use coven_domain::{SessionId, Timestamp};
use coven_engine::question_set::{Listed, QuestionSet};
use serde_json::{Map, Value, json};

use super::App;
use super::reply::{Body, Calling, Id, Params};
use super::rest::{Answer, find, invalid};
use coven_engine::acp::Answer as Given;
use coven_engine::inbox::{Item, Reply, task_options};
use coven_engine::question_set::Ending;
use coven_engine::workflow::titled;

pub async fn list(State(app): State<App>, Params(query): Params<InboxQuery>) -> Answer<Json<InboxResponse>> {
    let session = match &query.session {
        Some(id) => Some(find(&app, id).await?),
        None => None,
    };
    let found = app.engine.inbox(session, query.all.unwrap_or(false)).await?;
    let mut items = Vec::with_capacity(found.len());
    for item in found {
        items.push(record(&app, item).await?);
    }
    Ok(Json(InboxResponse { items }))
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

fn reply(request: AnswerRequest) -> Answer<Reply> {
    match request {
        AnswerRequest { option: Some(option), decision: None, answers: None, reject: None, reason } => {
            Ok(Reply::Chosen { answer: Given::Option(option), reason })
        }
        AnswerRequest { option: None, decision: Some(word), answers: None, reject: None, reason } => {
            let decision: Decision = word.parse().map_err(|error| invalid(format!("decision: {error}")))?;
            Ok(Reply::Chosen { answer: Given::Decision(decision), reason })
        }
        AnswerRequest { option: None, decision: None, answers: Some(answers), reject: None, reason: None } => {
            Ok(Reply::ToQuestions(Ending::Answers(answers)))
        }
        AnswerRequest { option: None, decision: None, answers: None, reject: Some(rejection), reason: None } => {
            Ok(Reply::ToQuestions(Ending::Rejection(rejection.reason)))
        }
        AnswerRequest { reason: Some(_), .. } => {
            Err(invalid("reason stands beside one of option, decision; reject has a reason of its own"))
        }
        _ => Err(invalid("give one of option, decision, answers, reject")),
    }
}

async fn record(app: &App, item: Item) -> Answer<InboxItem> {
    match item {
        Item::Permission(permission) => of_permission(app, permission).await,
        Item::Task(task) => of_task(app, &task).await,
        Item::AgentQuestion(question, agent) => of_agent_question(app, *question, agent.as_deref()).await,
        Item::QuestionSet { set: Listed::Sound(set), .. } => of_question_set(app, set).await,
        Item::QuestionSet { set: Listed::Broken { id, why }, at } => {
            Ok(of_broken(id.to_string(), &why.to_string(), at))
        }
    }
}

async fn of_task(app: &App, task: &Task) -> Answer<InboxItem> {
    let run = app.engine.latest_workflow(task.id).await?;
    let approval = run.as_ref().and_then(|run| run.progress.approval.clone());
    let (is_merge, waits) = match task.state {
        // Its merge is running.
        TaskState::PendingMerge => (true, approval.is_none()),
        TaskState::Blocked => (false, true),
        TaskState::Open | TaskState::InProgress | TaskState::Closed => (false, false),
    };
    let title = match (is_merge, &task.reason) {
        (true, _) => match run.as_ref().and_then(|run| run.error.as_deref()) {
            Some(error) => format!("review {}: {error}", titled(task)),
            None => format!("review {}", titled(task)),
        },
        (false, Some(reason)) => format!("{}: {reason}", task.title),
        (false, None) => task.title.clone(),
    };
    let options = task_options(task, run.as_ref()).into_iter().map(|(word, kind)| InboxOption {
        id: word.to_owned(),
        name: word.to_owned(),
        kind: kind.to_owned(),
    });
    let step = run.as_ref().map(|run| coven_api::workflow::WorkflowRecord::from(run).step_name);
    Ok(InboxItem {
        id: task.id.to_string(),
        kind: if is_merge { "merge" } else { "blocked" }.to_owned(),
        status: if waits { "pending" } else { "answered" }.to_owned(),
        session_id: None,
        harness: task.harness.clone(),
        repo_id: None,
        task_id: Some(task.id.to_string()),
        step: step.flatten(),
        title: coven_domain::text::one_line(&title, 200),
        created_at: task.updated_at.to_string(),
        answered_at: (!waits).then(|| task.updated_at.to_string()),
        answered_by: approval.filter(|_| is_merge).map(|approval| approval.by),
        answer: (!waits).then(|| if is_merge { "approve".to_owned() } else { task.state.to_string() }),
        options: if waits { options.collect() } else { Vec::new() },
        detail: json!({ "task": TaskRecord::from(task), "error": run.and_then(|run| run.error) }),
    })
}

async fn of_agent_question(app: &App, question: AgentQuestion, agent: Option<&Agent>) -> Answer<InboxItem> {
    let session = agent.and_then(|agent| agent.session);
    let (harness, repo_id) = harness_and_repo(app, session).await?;
    let status = match question.state {
        QuestionSetState::Completed => "answered",
        other => other.as_str(),
    };
    let title = question.prompt.lines().last().unwrap_or_default();
    Ok(InboxItem {
        id: question.id.to_string(),
        kind: "terminal".to_owned(),
        status: status.to_owned(),
        session_id: session.map(|id| id.to_string()),
        harness,
        repo_id,
        task_id: agent.map(|agent| agent.task.to_string()),
        step: agent.and_then(|agent| agent.step.clone()),
        title: coven_domain::text::one_line(title, 200),
        created_at: question.created_at.to_string(),
        answered_at: question.answered_at.map(|at| at.to_string()),
        answered_by: question.answer.as_ref().map(|_| "human".to_owned()),
        answer: question.answer,
        options: Vec::new(),
        detail: json!({ "prompt": question.prompt, "delivered": question.is_delivered }),
    })
}

/// The task and the step that a session works on.
async fn task_and_step(app: &App, session: Option<SessionId>) -> Answer<(Option<String>, Option<String>)> {
    let Some(id) = session else { return Ok((None, None)) };
    let agent = app.engine.agents(AgentQuery::Session(id)).await?.pop();
    Ok(agent.map_or((None, None), |agent| (Some(agent.task.to_string()), agent.step)))
}

async fn of_permission(app: &App, permission: Permission) -> Answer<InboxItem> {
    let (harness, repo_id) = harness_and_repo(app, Some(permission.session)).await?;
    let (task_id, step) = task_and_step(app, Some(permission.session)).await?;
    let options = permission.options.iter().map(|option| InboxOption {
        id: option.id.clone(),
        name: option.name.clone(),
        kind: option.kind.clone(),
    });
    Ok(InboxItem {
        id: permission.id.to_string(),
        kind: "permission".to_owned(),
        status: permission.state.to_string(),
        session_id: Some(permission.session.to_string()),
        harness,
        repo_id,
        task_id,
        step,
        title: permission.title,
        created_at: permission.created_at.to_string(),
        answered_at: permission.answered_at.map(|at| at.to_string()),
        answered_by: permission.answered_by.map(|by| by.to_string()),
        answer: permission.answer,
        options: options.collect(),
        detail: permission.tool_call,
    })
}

async fn of_question_set(app: &App, set: QuestionSet) -> Answer<InboxItem> {
    let session = set.asking_session();
    let (harness, repo_id) = harness_and_repo(app, session).await?;
    let (task_id, step) = task_and_step(app, session).await?;
    let (status, answered_by) = match set.state {
        QuestionSetState::Pending => ("pending", None),
        QuestionSetState::Completed => ("answered", Some("human")),
        QuestionSetState::Rejected => ("rejected", Some("human")),
        QuestionSetState::TimedOut => ("timed_out", None),
        QuestionSetState::Abandoned => ("abandoned", None),
    };
    let ended_at = set.answers.as_ref().map_or(set.modified_at, |given| given.timestamp);
    Ok(InboxItem {
        id: set.id.to_string(),
        kind: "question_set".to_owned(),
        status: status.to_owned(),
        session_id: session.map(|id| id.to_string()),
        harness,
        repo_id,
        task_id,
        step,
        title: title_of(&set.questions),
        created_at: set.created_at.to_string(),
        answered_at: (set.state != QuestionSetState::Pending).then(|| ended_at.to_string()),
        answered_by: answered_by.map(|by| set.answered_by.clone().unwrap_or_else(|| by.to_owned())),
        answer: None,
        options: Vec::new(),
        detail: detail(&set),
    })
}

/// What the files have of it, in their names; what they do not have is left out.
fn detail(set: &QuestionSet) -> Value {
    let mut detail = Map::new();
    detail.insert("questions".to_owned(), json!(set.questions));
    let texts = [
        ("workingDirectory", &set.working_directory),
        ("rejectionReason", &set.rejection_reason),
        ("abandonReason", &set.abandon_reason),
    ];
    detail.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_ref()?)))));
    if let Some(given) = &set.answers {
        detail.insert("answers".to_owned(), json!(given.answers));
    }
    Value::Object(detail)
}

fn of_broken(id: String, why: &str, touched_at: Timestamp) -> InboxItem {
    InboxItem {
        id,
        kind: "question_set".to_owned(),
        status: "broken".to_owned(),
        session_id: None,
        harness: None,
        repo_id: None,
        task_id: None,
        step: None,
        title: coven_domain::text::one_line(why, 200),
        created_at: touched_at.to_string(),
        answered_at: None,
        answered_by: None,
        answer: None,
        options: Vec::new(),
        detail: json!({ "error": why }),
    }
}

/// Of the session that asks, where this home knows it.
async fn harness_and_repo(app: &App, session: Option<SessionId>) -> Answer<(Option<String>, Option<String>)> {
    let Some(id) = session else { return Ok((None, None)) };
    let session = app.engine.known_session(id).await?;
    Ok(session.map_or((None, None), |it| (Some(it.harness), it.repo_id.map(|id| id.to_string()))))
}
