//! Tasks for the board's tests.

use std::fmt::Debug;
use std::str::FromStr;

use coven_api::inbox::{InboxDetail, InboxItem, InboxKind, InboxOption, InboxStatus};
use coven_api::task::{TaskReadiness, TaskRecord};
use coven_api::workflow::{AgentRecord, WorkflowRecord};
use coven_domain::Timestamp;
use coven_domain::agent::AgentState;
use coven_domain::request::Request;
use coven_domain::task::{Priority, TaskKind, TaskState};
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Size;
use serde_json::Value;

use super::BoardOptions;
use super::read::Snapshot;
use super::report::Report;
use super::state::{App, Effect, Message};
use crate::chat::fixtures::permission_detail;
use crate::verb::task_text::TaskView;

pub fn priority(number: i64) -> Priority {
    Priority::try_from(number).expect("a priority")
}

/// The id of a run or an agent of a task.
fn id_of<T: FromStr<Err: Debug>>(task: &str, digit: &str) -> T {
    task.replacen("-4000-", &format!("-400{digit}-"), 1).parse().expect("an id")
}

/// A task that was made `second` seconds after the epoch.
pub fn task(id: &str, status: &str, second: i64) -> TaskRecord {
    let at = Timestamp::from_millis(second * 1000);
    let is_begun = matches!(status, "in_progress" | "pending_merge" | "blocked");
    TaskRecord {
        id: id.parse().expect("an id"),
        title: format!("title of {id}"),
        body: String::new(),
        kind: TaskKind::Task,
        priority: priority(2),
        parent_id: None,
        depends_on: Vec::new(),
        tags: Vec::new(),
        status: status.parse().expect("a status"),
        reason: None,
        claimed_by: None,
        claimed_until: None,
        base_branch: is_begun.then(|| "main".to_owned()),
        base_commit: is_begun.then(|| "c0ffee".to_owned()),
        changes: None,
        harness: None,
        args: Vec::new(),
        workflow: None,
        repo: None,
        created_at: at,
        updated_at: at,
        closed_at: (status == "closed").then_some(at),
        deleted_at: None,
    }
}

pub fn run(task: &str, status: &str) -> WorkflowRecord {
    WorkflowRecord {
        id: id_of(task, "1"),
        task_id: task.parse().expect("an id"),
        agent_id: None,
        name: "implement".to_owned(),
        status: status.parse().expect("a status"),
        step: 0,
        step_name: Some("work".to_owned()),
        error: None,
        waiting: None,
        approved_by: None,
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(0),
        ended_at: None,
    }
}

/// An agent at work on a task in a session.
pub fn agent(task: &str, session: &str) -> AgentRecord {
    AgentRecord {
        id: id_of(task, "2"),
        task_id: task.parse().expect("an id"),
        workflow_id: Some(id_of(task, "1")),
        step: Some("work".to_owned()),
        session_id: Some(session.parse().expect("an id")),
        status: AgentState::Running,
        pid: Some(4711),
        worktree: Some(format!("/home/worktrees/{task}")),
        branch: Some(format!("coven/{task}")),
        output_file: None,
        error: None,
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(0),
        ended_at: None,
    }
}

/// A permission that a session waits for.
pub fn permission(id: &str, session: &str) -> InboxItem {
    let option = |id: &str, name: &str| InboxOption { id: id.into(), name: name.into(), kind: "allow_once".into() };
    InboxItem {
        id: id.to_owned(),
        kind: InboxKind::Permission,
        status: InboxStatus::Pending,
        session_id: Some(session.parse().expect("an id")),
        harness: Some("claude".to_owned()),
        repo_id: None,
        task_id: None,
        step: None,
        title: "Run\x1b[2J tests".to_owned(),
        created_at: Timestamp::from_millis(0),
        answered_at: None,
        answered_by: None,
        answer: None,
        options: vec![option("yes", "Allow"), option("no", "Deny")],
        detail: permission_detail(Value::Null),
    }
}

/// A terminal at which the agent of a session waits.
pub fn terminal(id: &str, session: &str) -> InboxItem {
    let (id_of_question, agent) = (session.parse().expect("an id"), Some(session.parse().expect("an id")));
    let prompt = "Two ways:\nReally\x1b[2J go on?".to_owned();
    let question = Request { agent, ..Request::input(id_of_question, None, prompt, 0, Timestamp::from_millis(0)) };
    InboxItem {
        kind: InboxKind::Terminal,
        title: "Really\x1b[2J go on?".to_owned(),
        options: Vec::new(),
        detail: InboxDetail::Terminal { question_set: question.into() },
        ..permission(id, session)
    }
}

pub fn detail(task: TaskRecord, run: Option<WorkflowRecord>) -> TaskView {
    let readiness = TaskReadiness {
        task_id: task.id,
        ready: task.status == TaskState::Open,
        not_ready: Vec::new(),
        open_dependencies: Vec::new(),
        worktree: None,
    };
    TaskView { task, readiness, run }
}

/// One task or two in every state.
pub fn snapshot() -> Snapshot {
    let mut parser = task("11111111-0000-4000-8000-000000000061", "open", 10);
    (parser.title, parser.priority, parser.kind) = ("Fix the parser".into(), priority(1), TaskKind::Bug);
    parser.tags = vec!["core".into()];
    let mut docs = task("22222222-0000-4000-8000-000000000062", "open", 5);
    (docs.title, docs.priority, docs.depends_on) = (
        "文書を書く\u{1b}[2J".into(),
        priority(0),
        vec!["11111111-0000-4000-8000-000000000061".parse().expect("an id")],
    );
    let mut lexer = task("33333333-0000-4000-8000-000000000063", "in_progress", 20);
    lexer.title = "Make the lexer faster, and say in the docs how much faster it is now".into();
    let mut merge = task("44444444-0000-4000-8000-000000000064", "pending_merge", 30);
    merge.title = "Add a changelog".into();
    let mut failed = task("55555555-0000-4000-8000-000000000065", "pending_merge", 40);
    failed.title = "Rename all".into();
    let mut unmerged = run("55555555-0000-4000-8000-000000000065", "pending_merge");
    unmerged.error = Some("it conflicts with its base in a.rs".into());
    let mut blocked = task("66666666-0000-4000-8000-000000000066", "blocked", 50);
    (blocked.title, blocked.reason) = ("Upgrade".into(), Some("no tests".into()));
    let mut closed = task("77777777-0000-4000-8000-000000000030", "closed", 3_540);
    closed.title = "Set up".into();
    Snapshot {
        tasks: vec![parser, docs, lexer, merge, failed, blocked, closed],
        ready: ["11111111-0000-4000-8000-000000000061".to_owned()].into(),
        agents: vec![agent("33333333-0000-4000-8000-000000000063", "5e550000-0000-4000-8000-000000000001")],
        runs: vec![
            run("33333333-0000-4000-8000-000000000063", "running"),
            run("44444444-0000-4000-8000-000000000064", "pending_merge"),
            unmerged,
            run("66666666-0000-4000-8000-000000000066", "blocked"),
        ],
        inbox: vec![permission("ask-1", "5e550000-0000-4000-8000-000000000001")],
    }
}

/// A board of 80×24 that has read these.
pub fn app_with(snapshot: Snapshot) -> App {
    let now = Timestamp::from_millis(3_600_000);
    let mut app = App::new(&BoardOptions::default(), Size { width: 80, height: 24 }, now);
    app.update(Message::Reports(vec![Report::Connected, Report::Read(Box::new(snapshot))]));
    app
}

pub fn press(app: &mut App, key: KeyCode) -> Vec<Effect> {
    app.update(Message::Key(KeyEvent::from(key)))
}

/// Presses the keys of a text; the end of a line is Enter.
pub fn type_text(app: &mut App, text: &str) -> Vec<Effect> {
    let key = |c| if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
    text.chars().flat_map(|c| press(app, key(c))).collect()
}
