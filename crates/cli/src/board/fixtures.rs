//! Tasks for the board's tests.

use coven_api::inbox::{InboxItem, InboxOption};
use coven_api::task::{TaskDetail, TaskRecord};
use coven_api::workflow::{AgentRecord, WorkflowRecord};
use coven_domain::Timestamp;
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Size;

use super::BoardOptions;
use super::read::Snapshot;
use super::report::Report;
use super::state::{App, Effect, Message};

/// A task that was made `second` seconds after the epoch.
pub fn task(id: &str, status: &str, second: i64) -> TaskRecord {
    let at = Timestamp::from_millis(second * 1000).to_string();
    let is_begun = matches!(status, "in_progress" | "pending_merge" | "blocked");
    TaskRecord {
        id: id.to_owned(),
        title: format!("title of {id}"),
        body: String::new(),
        kind: "task".to_owned(),
        priority: 2,
        parent_id: None,
        depends_on: Vec::new(),
        tags: Vec::new(),
        status: status.to_owned(),
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
        created_at: at.clone(),
        updated_at: at.clone(),
        closed_at: (status == "closed").then_some(at),
        deleted_at: None,
    }
}

pub fn run(task: &str, status: &str) -> WorkflowRecord {
    WorkflowRecord {
        id: format!("run-of-{task}"),
        task_id: task.to_owned(),
        agent_id: None,
        name: "implement".to_owned(),
        status: status.to_owned(),
        step: 0,
        step_name: Some("work".to_owned()),
        error: None,
        approved_by: None,
        created_at: Timestamp::from_millis(0).to_string(),
        updated_at: Timestamp::from_millis(0).to_string(),
        ended_at: None,
    }
}

/// An agent at work on a task in a session.
pub fn agent(task: &str, session: &str) -> AgentRecord {
    AgentRecord {
        id: format!("agent-of-{task}"),
        task_id: task.to_owned(),
        workflow_id: Some(format!("run-of-{task}")),
        step: Some("work".to_owned()),
        session_id: Some(session.to_owned()),
        status: "running".to_owned(),
        pid: Some(4711),
        worktree: Some(format!("/home/worktrees/{task}")),
        branch: Some(format!("coven/{task}")),
        output_file: None,
        error: None,
        created_at: Timestamp::from_millis(0).to_string(),
        updated_at: Timestamp::from_millis(0).to_string(),
        ended_at: None,
    }
}

/// A permission that a session waits for.
pub fn permission(id: &str, session: &str) -> InboxItem {
    let option = |id: &str, name: &str| InboxOption { id: id.into(), name: name.into(), kind: "allow_once".into() };
    InboxItem {
        id: id.to_owned(),
        kind: "permission".to_owned(),
        status: "pending".to_owned(),
        session_id: Some(session.to_owned()),
        harness: Some("claude".to_owned()),
        repo_id: None,
        task_id: None,
        step: None,
        title: "Run\x1b[2J tests".to_owned(),
        created_at: Timestamp::from_millis(0).to_string(),
        answered_at: None,
        answered_by: None,
        answer: None,
        options: vec![option("yes", "Allow"), option("no", "Deny")],
        detail: serde_json::json!({}),
    }
}

/// A terminal at which the agent of a session waits.
pub fn terminal(id: &str, session: &str) -> InboxItem {
    InboxItem {
        kind: "terminal".to_owned(),
        title: "Really\x1b[2J go on?".to_owned(),
        options: Vec::new(),
        detail: serde_json::json!({"prompt": "Two ways:\nReally\x1b[2J go on?"}),
        ..permission(id, session)
    }
}

pub fn detail(task: TaskRecord, run: Option<WorkflowRecord>) -> TaskDetail {
    TaskDetail { ready: task.status == "open", task, not_ready: Vec::new(), run, worktree: None }
}

/// One task or two in every state.
pub fn snapshot() -> Snapshot {
    let mut parser = task("11111111-a", "open", 10);
    (parser.title, parser.priority, parser.kind) = ("Fix the parser".into(), 1, "bug".into());
    parser.tags = vec!["core".into()];
    let mut docs = task("22222222-b", "open", 5);
    (docs.title, docs.priority, docs.depends_on) = ("文書を書く\u{1b}[2J".into(), 0, vec!["11111111-a".into()]);
    let mut lexer = task("33333333-c", "in_progress", 20);
    lexer.title = "Make the lexer faster, and say in the docs how much faster it is now".into();
    let mut merge = task("44444444-d", "pending_merge", 30);
    merge.title = "Add a changelog".into();
    let mut failed = task("55555555-e", "pending_merge", 40);
    failed.title = "Rename all".into();
    let mut unmerged = run("55555555-e", "pending_merge");
    unmerged.error = Some("it conflicts with its base in a.rs".into());
    let mut blocked = task("66666666-f", "blocked", 50);
    (blocked.title, blocked.reason) = ("Upgrade".into(), Some("no tests".into()));
    let mut closed = task("77777777-0", "closed", 3_540);
    closed.title = "Set up".into();
    Snapshot {
        tasks: vec![parser, docs, lexer, merge, failed, blocked, closed],
        ready: ["11111111-a".to_owned()].into(),
        agents: vec![agent("33333333-c", "session-1")],
        runs: vec![
            run("33333333-c", "running"),
            run("44444444-d", "pending_merge"),
            unmerged,
            run("66666666-f", "blocked"),
        ],
        inbox: vec![permission("ask-1", "session-1")],
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
