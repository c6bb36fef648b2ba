//! `coven task`: manages the tasks that agents work on.

use std::collections::BTreeSet;
use std::process::ExitCode;

use coven_api::List;
use coven_api::routes::{
    ApproveTask, BlockTask, CloseTask, CreateTask, CreateTasks, DeleteTask, EditTask, Endpoint, GetTask,
    ListTaskHistory, ListTasks, ReadTaskDiff, ReadTaskReadiness, RejectTask, ReleaseTask, StartTask, UnblockTask,
};
use coven_api::task::{
    CreateTaskRequest, CreateTasksRequest, DeleteTaskQuery, EditTaskRequest, ListTasksQuery, StartTaskRequest,
    TaskRecord, TaskTransitionRequest,
};
use coven_client::ClientError;
use coven_domain::TaskId;
use coven_domain::task::TaskState;
use coven_holder::clock;
use coven_host::home::Home;
use serde::Serialize;

pub use super::task_args::Args;
use super::task_args::{AnyVerb, Verb};
use super::task_text::{self, TaskView};
use super::{each, environment, folder, task_rescue};
use crate::changes::Changes;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::listing::{self, Paging};
use crate::{operation, output, piped};

/// Ids per request.
const IDS_PER_REQUEST: usize = 200;

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let verb = match args.verb {
        AnyVerb::Daemon(verb) => verb,
        AnyVerb::Rescue(args) => return task_rescue::run(args, place),
    };
    let home = place.home()?;
    let by = by_session();
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        match *verb {
            Verb::Add { stdin: true, no_wait, json, .. } => add_many(&mut link, &home, by, no_wait, json).await?,
            Verb::Add { title, fields, parent, depends_on, tags, repo, json, agent_args, .. } => {
                let request = CreateTaskRequest {
                    title: title.unwrap_or_default(),
                    body: fields.body,
                    kind: fields.kind,
                    priority: fields.priority,
                    parent,
                    depends_on,
                    tags,
                    harness: fields.harness,
                    args: agent_args,
                    workflow: fields.workflow,
                    base_branch: fields.base,
                    repo: repo.or_else(|| repo_here(&home)),
                    reference: None,
                    by,
                };
                let made = link.call(CreateTask::request().body(&request)).await?;
                print_task(&made, "added", json)?;
            }
            Verb::List { tree, paging, json, status, all, kind, priority, tag, parent, ready } => {
                let status = status.or_else(|| (!all).then(|| "open,in_progress,pending_merge,blocked".to_owned()));
                let query = ListTasksQuery {
                    status,
                    kind,
                    priority,
                    tag,
                    parent,
                    ready: ready.then_some(true),
                    ..ListTasksQuery::default()
                };
                let request = ListTasks::request().query(&query);
                if json {
                    listing::print_json(&mut link, request, paging).await?;
                    return Ok(ExitCode::SUCCESS);
                }
                let tasks = listing::items(&mut link, request, paging).await?;
                let open = open_dependencies(&mut link, &tasks).await?;
                let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
                output::text(&task_text::table(&tasks, &open, tree, clock::now()).text(width))?;
            }
            Verb::Show { id, json: true } => link.print_json(GetTask::of(&id)).await?,
            Verb::Show { id, json: false } => {
                let task = TaskView::read(&mut link, &id).await?;
                output::text(&task_text::page(&task, clock::now()))?;
            }
            Verb::Edit {
                id,
                title,
                fields,
                parent,
                no_parent,
                depends_on,
                no_depends_on,
                tags,
                no_tags,
                repo,
                no_args,
                json,
                agent_args,
            } => {
                let request = EditTaskRequest {
                    title,
                    body: fields.body,
                    kind: fields.kind,
                    priority: fields.priority,
                    parent: if no_parent { Some(None) } else { parent.map(Some) },
                    depends_on: (no_depends_on || !depends_on.is_empty()).then_some(depends_on),
                    tags: (no_tags || !tags.is_empty()).then_some(tags),
                    harness: fields.harness.map(none_if_empty),
                    args: (no_args || !agent_args.is_empty()).then_some(agent_args),
                    workflow: fields.workflow.map(none_if_empty),
                    base_branch: fields.base.map(none_if_empty),
                    repo: repo.map(|dir| folder(Some(dir))).transpose()?.map(Some),
                    by: None,
                };
                if request == EditTaskRequest::default() {
                    return Err(Failure::usage("no changes given", "Use at least one of the flags in --help"));
                }
                let record = edit(&mut link, &id, &EditTaskRequest { by, ..request }).await?;
                print_task(&record, "changed", json)?;
            }
            Verb::Start { ids, harness, base, repo, json, agent_args } => {
                let changes = EditTaskRequest {
                    harness: harness.map(Some),
                    args: Some(agent_args).filter(|args| !args.is_empty()),
                    base_branch: base.map(Some),
                    repo: repo.map(|dir| folder(Some(dir))).transpose()?.map(Some),
                    ..EditTaskRequest::default()
                };
                return each(&ids, async |id| start(&mut link, id, &changes, by.clone(), json).await).await;
            }
            Verb::Release { id, json } => transition::<ReleaseTask>(&mut link, &id, None, by, "released", json).await?,
            Verb::Block { id, reason, json } => {
                transition::<BlockTask>(&mut link, &id, reason, by, "blocked", json).await?
            }
            Verb::Unblock { id, json } => {
                transition::<UnblockTask>(&mut link, &id, None, by, "unblocked", json).await?
            }
            Verb::Reject { id, reason, json } => {
                transition::<RejectTask>(&mut link, &id, Some(reason), by, "rejected", json).await?;
            }
            Verb::Approve { ids, wait, json } => {
                let approve = async |id: &str| {
                    let request = TaskTransitionRequest { reason: None, by: by.clone() };
                    let started = link.call(ApproveTask::of(id).body(&request)).await?;
                    if wait.no_wait {
                        return operation::print_started(&started, json);
                    }
                    let task: TaskRecord = operation::result(&home, &mut link, started).await?;
                    let is_merged = task.changes.is_none_or(|changes| changes.files > 0);
                    print_task(&task, if is_merged { "merged" } else { "closed without a merge, no changes" }, json)
                };
                return each(&ids, approve).await;
            }
            Verb::Diff { id, json: true, .. } => link.print_json(ReadTaskDiff::of(&id)).await?,
            Verb::Diff { id, stat, json: false } => {
                let diff = link.call(ReadTaskDiff::of(&id)).await?;
                output::bytes(task_text::diff(&diff, stat, output::is_terminal()).as_bytes())?;
            }
            Verb::Close { ids, reason, json } => {
                let close = async |id: &str| {
                    let request = TaskTransitionRequest { reason: reason.clone(), by: by.clone() };
                    let closed = link.call(CloseTask::of(id).body(&request)).await?;
                    let closed = wait_until_stopped(&mut link, closed).await?;
                    print_task(&closed, "closed", json)?;
                    if closed.base_commit.is_some() && !json {
                        output::note(format_args!("Unmerged work of this task is listed by `coven task rescue list`."));
                    }
                    Ok(())
                };
                return each(&ids, close).await;
            }
            Verb::Delete { id, recursive, json } => {
                let query = DeleteTaskQuery { recursive: recursive.then_some(true), by };
                let answer = link.call(DeleteTask::of(&id).query(&query)).await?;
                match json {
                    true => print(&answer)?,
                    false => answer.deleted.iter().try_for_each(|id| output::line(format_args!("deleted: {id}")))?,
                }
            }
            Verb::History { id, paging, json } => {
                let request = ListTaskHistory::of(&id);
                match json {
                    true => listing::print_json(&mut link, request, paging).await?,
                    false => {
                        output::text(&task_text::history(&listing::items(&mut link, request, paging).await?))?;
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn edit(link: &mut DaemonClient, id: &str, request: &EditTaskRequest) -> Result<TaskRecord, Failure> {
    Ok(link.call(EditTask::of(id).body(request)).await?)
}

/// Applies `changes` to a task and starts it.
async fn start(
    link: &mut DaemonClient,
    id: &str,
    changes: &EditTaskRequest,
    by: Option<String>,
    as_json: bool,
) -> Result<(), Failure> {
    if *changes != EditTaskRequest::default() {
        let readiness = link.call(ReadTaskReadiness::of(id)).await?;
        // A task that cannot start is not changed; starting it below reports why.
        if readiness.ready {
            edit(link, id, &EditTaskRequest { by: by.clone(), ..changes.clone() }).await?;
        }
    }
    let request = StartTaskRequest { by, env: Some(environment()), ..StartTaskRequest::default() };
    let started = link.call(StartTask::of(id).body(&request)).await?;
    match as_json {
        true => print(&started),
        false => output::line(format_args!(
            "started: {} in {}; see `coven workflow show {}`",
            task_text::line(&started.task),
            started.agent.worktree.as_deref().unwrap_or("its worktree"),
            started.workflow.id.short(),
        )),
    }
}

async fn transition<E: Endpoint<Request = TaskTransitionRequest, Response = TaskRecord>>(
    link: &mut DaemonClient,
    id: &str,
    reason: Option<String>,
    by: Option<String>,
    what_happened: &str,
    as_json: bool,
) -> Result<(), Failure> {
    let request = TaskTransitionRequest { reason, by };
    let task = link.call(E::of(id).body(&request)).await?;
    print_task(&wait_until_stopped(link, task).await?, what_happened, as_json)
}

/// Waits until the agent of a task has ended.
async fn wait_until_stopped(link: &mut DaemonClient, mut task: TaskRecord) -> Result<TaskRecord, Failure> {
    if task.status != TaskState::InProgress {
        return Ok(task);
    }
    let mut changes = Changes::open(link, &["task.", "workflow."]).await?;
    loop {
        task = link.call(GetTask::of(&task.id.to_string())).await?;
        if task.status != TaskState::InProgress {
            return Ok(task);
        }
        changes.next().await?;
    }
}

/// Returns the actor to record: the session that this command runs in, if any.
pub fn by_session() -> Option<String> {
    crate::own_session::id().map(|id| format!("session:{id}"))
}

/// Returns the repository of this folder if the home does not belong to a project.
pub fn repo_here(home: &Home) -> Option<String> {
    if home.project_root().is_some() {
        return None;
    }
    let top = coven_host::git::top_of(&std::env::current_dir().ok()?).ok()?;
    Some(top.to_string_lossy().into_owned())
}

/// Returns `None` for an empty value, which clears the field.
fn none_if_empty(word: String) -> Option<String> {
    Some(word).filter(|word| !word.is_empty())
}

async fn add_many(
    link: &mut DaemonClient,
    home: &Home,
    by: Option<String>,
    no_wait: bool,
    as_json: bool,
) -> Result<(), Failure> {
    let text = piped::text()?;
    // Some editors write a byte order mark.
    let mut tasks = drafts(text.trim_start_matches('\u{feff}'), by.as_deref())?;
    let here = repo_here(home);
    tasks.iter_mut().filter(|task| task.repo.is_none()).for_each(|task| task.repo.clone_from(&here));
    if tasks.is_empty() {
        return Err(Failure::usage("standard input contains no tasks", "Write one JSON object per line"));
    }
    let started = link.call(CreateTasks::request().body(&CreateTasksRequest { tasks })).await?;
    if no_wait {
        return operation::print_started(&started, as_json);
    }
    let query = ListTasksQuery { operation: Some(started.id.to_string()), ..ListTasksQuery::default() };
    // The result has the first of them only.
    let _: List<TaskRecord> = operation::result(home, link, started).await?;
    let added = ListTasks::request().query(&query);
    if as_json {
        return listing::print_json(link, added, Paging::default()).await;
    }
    let tasks = listing::items(link, added, Paging::default()).await?;
    tasks.iter().try_for_each(|task| print_task(task, "added", false))
}

/// Parses tasks, one per line. Skips empty lines.
fn drafts(text: &str, by: Option<&str>) -> Result<Vec<CreateTaskRequest>, Failure> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| match serde_json::from_str::<CreateTaskRequest>(line) {
            Ok(task) => Ok(CreateTaskRequest { by: task.by.or_else(|| by.map(str::to_owned)), ..task }),
            Err(error) => Err(Failure::usage(
                format!("line {} is not a valid task: {error}", index + 1),
                "No tasks were added; fix the line and retry",
            )),
        })
        .collect()
}

/// Returns the dependencies of these tasks that are not closed.
async fn open_dependencies(link: &mut DaemonClient, tasks: &[TaskRecord]) -> Result<BTreeSet<TaskId>, Failure> {
    let is_open = |task: &&TaskRecord| task.status != TaskState::Closed;
    let mut open: BTreeSet<TaskId> = tasks.iter().filter(is_open).map(|task| task.id).collect();
    let listed: BTreeSet<TaskId> = tasks.iter().map(|task| task.id).collect();
    let others: BTreeSet<TaskId> = tasks.iter().flat_map(|task| &task.depends_on).copied().collect();
    let others: Vec<String> = others.difference(&listed).map(ToString::to_string).collect();
    for ids in others.chunks(IDS_PER_REQUEST) {
        let query = ListTasksQuery {
            id: Some(ids.join(",")),
            status: Some("open,in_progress,pending_merge,blocked".to_owned()),
            include_deleted: Some(true),
            ..ListTasksQuery::default()
        };
        let found = listing::items(link, ListTasks::request().query(&query), Paging::default()).await?;
        open.extend(found.iter().map(|task| task.id));
    }
    Ok(open)
}

fn print_task(task: &TaskRecord, what_happened: &str, as_json: bool) -> Result<(), Failure> {
    match as_json {
        true => print(task),
        false => output::line(format_args!("{what_happened}: {}", task_text::line(task))),
    }
}

fn print(value: &impl Serialize) -> Result<(), Failure> {
    super::print_json(&to_json(value)?)
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    Ok(serde_json::to_vec(value).map_err(ClientError::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let text = "{\"title\":\"a\",\"ref\":\"x\"}\n\n{\"title\":\"b\",\"depends_on\":[\"x\"],\"by\":\"me\"}\n";
        let tasks = drafts(text, Some("session:1")).expect("two tasks");
        assert_eq!(tasks.iter().map(|task| task.by.as_deref()).collect::<Vec<_>>(), [Some("session:1"), Some("me")]);
        let failure = drafts("{\"title\":\"a\"}\n{\"titel\":\"b\"}\n", None).expect_err("a typo");
        assert!(failure.sentence().contains("line 2 is not a valid task") && failure.sentence().contains("titel"));
    }
}
