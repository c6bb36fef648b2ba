//! Converts tasks of the older coven to the current format.

use super::{LegacyTask, Source, task_id};
use coven_domain::task::{BadTask, MAX_TAGS, Task, TaskEdit, TaskKind, TaskState, is_valid_tag};
use coven_domain::text::one_line;

const MAX_TITLE_CHARS: usize = 200;

/// The last attempt at a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Attempt {
    pub pid: Option<u32>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    /// Why its run stopped.
    pub error: Option<String>,
    /// The state in which it left its task.
    pub state: Option<TaskState>,
}

impl Attempt {
    /// Describes where the work is, for the user who continues the task.
    fn trace(&self) -> String {
        let mut trace = String::new();
        match (&self.worktree, &self.branch) {
            (Some(worktree), Some(branch)) => {
                trace.push_str(&format!("; the work is on branch {branch} in {worktree}"));
            }
            (Some(worktree), None) => trace.push_str(&format!("; the work is in {worktree}")),
            (None, Some(branch)) => trace.push_str(&format!("; the work is on branch {branch}")),
            (None, None) => {}
        }
        if let Some(pid) = self.pid {
            trace.push_str(&format!("; make sure that process {pid} has ended before you unblock the task"));
        }
        trace
    }
}

/// Converts a task, without its links to other tasks.
pub(super) fn convert(legacy: &LegacyTask, attempt: &Attempt) -> Result<Task, BadTask> {
    let created_at = legacy.created_at.or(legacy.updated_at).unwrap_or(legacy.source.modified_at);
    let given = legacy.title.as_deref().unwrap_or(&legacy.id);
    let title = one_line(given, MAX_TITLE_CHARS);
    let mut notes = Vec::new();
    if title != given.trim() {
        notes.push(format!("Title: {given}"));
    }
    notes.extend(legacy.notes.as_ref().map(|text| format!("Notes: {text}")));
    notes.extend(legacy.author.as_ref().map(|name| format!("Created by: {name}")));
    if !legacy.mentions.is_empty() {
        notes.push(format!("Links: {}", legacy.mentions.join(", ")));
    }
    let mut task = Task::new(task_id(&legacy.id), &title, created_at)?;
    let kind = legacy.kind.as_deref().filter(|kind| !kind.is_empty());
    let known_kind = kind.and_then(|kind| kind.parse::<TaskKind>().ok());
    let unknown_kind = kind.filter(|_| known_kind.is_none()).map(|kind| format!("type:{kind}"));
    let wanted = [format!("legacy:{}", legacy.id)].into_iter().chain(unknown_kind).chain(legacy.labels.clone());
    let (mut tags, mut others) = (Vec::new(), Vec::new());
    for tag in wanted {
        let fits = is_valid_tag(&tag) && tags.len() < MAX_TAGS;
        if fits { tags.push(tag) } else { others.push(tag) }
    }
    if !others.is_empty() {
        notes.push(format!("Labels: {}", others.join(", ")));
    }
    let body = legacy.body.iter().cloned().chain(notes).collect::<Vec<_>>().join("\n\n");
    let edit = TaskEdit {
        body: Some(body),
        kind: known_kind,
        priority: legacy.priority,
        tags: Some(tags),
        ..TaskEdit::default()
    };
    task.edit(edit, created_at)?;
    task.updated_at = legacy.updated_at.unwrap_or(created_at).not_before(created_at);
    task.deleted_at = legacy.deleted_at;
    (task.state, task.reason) = state(legacy, attempt);
    task.closed_at = (task.state == TaskState::Closed).then(|| legacy.closed_at.unwrap_or(task.updated_at));
    Ok(task)
}

/// Merges the states of a task in the older daemon and in the tracker.
pub(super) fn merge_state(known: TaskState, tracked: TaskState) -> TaskState {
    match (known, tracked) {
        // The tracker has no state for pending merges and may have the state of the last step instead.
        (TaskState::Blocked | TaskState::PendingMerge | TaskState::Closed, _) => known,
        // A failed step reopened its issue while the run continued.
        (TaskState::InProgress, TaskState::Open) => known,
        (TaskState::Open | TaskState::InProgress, _) => tracked,
    }
}

/// Completes the tracker's issue with data from the older daemon's copy. Links are read from each file separately.
pub(super) fn merge_copy(issue: LegacyTask, copy: LegacyTask) -> LegacyTask {
    let mut labels = issue.labels;
    for label in copy.labels {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    LegacyTask {
        // The older daemon's file is only renamed if its copy was imported.
        source: copy.source,
        state: merge_state(copy.state, issue.state),
        title: issue.title.or(copy.title),
        body: issue.body.or(copy.body),
        kind: issue.kind.or(copy.kind),
        reason: copy.reason.or(issue.reason),
        priority: issue.priority.or(copy.priority),
        labels,
        created_at: issue.created_at.or(copy.created_at),
        updated_at: issue.updated_at.max(copy.updated_at),
        closed_at: issue.closed_at.or(copy.closed_at),
        deleted_at: issue.deleted_at.or(copy.deleted_at),
        ..issue
    }
}

/// Returns the state and reason. Unfinished tasks become blocked: no agent works on them, and this coven does not merge
/// the branches of the older one, so a human must decide.
fn state(legacy: &LegacyTask, attempt: &Attempt) -> (TaskState, Option<String>) {
    match legacy.state {
        TaskState::Open => (TaskState::Open, None),
        TaskState::Closed => (TaskState::Closed, legacy.reason.clone()),
        TaskState::InProgress => {
            let reason = format!("an agent was working on the task when it was imported{}", attempt.trace());
            (TaskState::Blocked, Some(reason))
        }
        TaskState::PendingMerge => {
            let advice = "merge its branch by hand and close the task";
            let reason = format!("the task was pending merge when it was imported; {advice}{}", attempt.trace());
            (TaskState::Blocked, Some(reason))
        }
        TaskState::Blocked => {
            let why = legacy.reason.as_ref().or(attempt.error.as_ref()).cloned();
            (TaskState::Blocked, Some(why.unwrap_or_else(|| "the task was blocked when it was imported".to_owned())))
        }
    }
}

/// Creates a task that is only known from its agents and runs. It is never open: an agent could not work from its name
/// alone.
pub(super) fn placeholder(name: &str, is_done: bool, attempt: &Attempt, source: Source) -> Result<Task, BadTask> {
    let mut task = convert(&LegacyTask::new(source, name, TaskState::Closed), attempt)?;
    if !is_done {
        let why = "the description of the task was not found; only its agents and runs were imported";
        task.state = TaskState::Blocked;
        task.closed_at = None;
        task.reason = Some(format!("{why}{}", attempt.trace()));
    }
    Ok(task)
}
