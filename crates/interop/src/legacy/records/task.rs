//! A task of the older coven as a task of this one.

use super::{LegacyTask, Source, task_id};
use coven_domain::task::{BadTask, MAX_TAGS, Task, TaskEdit, TaskKind, TaskState, is_tag};
use coven_domain::text::one_line;

const TITLE_CHARS: usize = 200;

/// What is known of the last attempt at a task.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Attempt {
    pub pid: Option<u32>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    /// Why its run stopped.
    pub error: Option<String>,
    /// How it left its task.
    pub state: Option<TaskState>,
}

impl Attempt {
    /// For whoever has to go on with it.
    fn trace(&self) -> String {
        let mut trace = String::new();
        match (&self.worktree, &self.branch) {
            (Some(worktree), Some(branch)) => {
                trace.push_str(&format!("; its work is on the branch {branch} in {worktree}"));
            }
            (Some(worktree), None) => trace.push_str(&format!("; its work is in {worktree}")),
            (None, Some(branch)) => trace.push_str(&format!("; its work is on the branch {branch}")),
            (None, None) => {}
        }
        if let Some(pid) = self.pid {
            trace.push_str(&format!("; see that the process {pid} does not go on before you unblock it"));
        }
        trace
    }
}

/// Links to other tasks are not set: whether these are there is another question.
pub(super) fn taken(legacy: &LegacyTask, attempt: &Attempt) -> Result<Task, BadTask> {
    let created_at = legacy.created_at.or(legacy.updated_at).unwrap_or(legacy.source.modified_at);
    let given = legacy.title.as_deref().unwrap_or(&legacy.id);
    let title = one_line(given, TITLE_CHARS);
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
    let strange_kind = kind.filter(|_| known_kind.is_none()).map(|kind| format!("type:{kind}"));
    let wanted = [format!("legacy:{}", legacy.id)].into_iter().chain(strange_kind).chain(legacy.labels.clone());
    let (mut tags, mut others) = (Vec::new(), Vec::new());
    for tag in wanted {
        let fits = is_tag(&tag) && tags.len() < MAX_TAGS;
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

/// How a task stands, by what the older daemon knew of it and by the tracker.
pub(super) fn agreed(known: TaskState, tracked: TaskState) -> TaskState {
    match (known, tracked) {
        // The tracker has no word for waiting to be merged, and may have been told of the last step instead.
        (TaskState::Blocked | TaskState::PendingMerge | TaskState::Closed, _) => known,
        // A step that failed gave its issue back while the run went on.
        (TaskState::InProgress, TaskState::Open) => known,
        (TaskState::Open | TaskState::InProgress, _) => tracked,
    }
}

/// The tracker's issue with what is only in the older daemon's copy. Links stay with the file that has them.
pub(super) fn with_copy(issue: LegacyTask, copy: LegacyTask) -> LegacyTask {
    let mut labels = issue.labels;
    for label in copy.labels {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    LegacyTask {
        // The older daemon's file is only put aside when its copy was taken.
        source: copy.source,
        state: agreed(copy.state, issue.state),
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

/// Nobody works on it any more, and the branch of its work is none that this coven would merge: both are for a human.
fn state(legacy: &LegacyTask, attempt: &Attempt) -> (TaskState, Option<String>) {
    match legacy.state {
        TaskState::Open => (TaskState::Open, None),
        TaskState::Closed => (TaskState::Closed, legacy.reason.clone()),
        TaskState::InProgress => {
            let reason = format!("it was being worked on when it was migrated{}", attempt.trace());
            (TaskState::Blocked, Some(reason))
        }
        TaskState::PendingMerge => {
            let what_to_do = "merge it by hand and close the task";
            let reason = format!("it waited to be merged when it was migrated; {what_to_do}{}", attempt.trace());
            (TaskState::Blocked, Some(reason))
        }
        TaskState::Blocked => {
            let why = legacy.reason.as_ref().or(attempt.error.as_ref()).cloned();
            (TaskState::Blocked, Some(why.unwrap_or_else(|| "it was blocked when it was migrated".to_owned())))
        }
    }
}

/// A task that was only found by what was done for it. It is never open: nobody could work by its name alone.
pub(super) fn stand_in(name: &str, is_done: bool, attempt: &Attempt, source: Source) -> Result<Task, BadTask> {
    let mut task = taken(&LegacyTask::new(source, name, TaskState::Closed), attempt)?;
    if !is_done {
        let why = "only what was done for it was migrated, and not what it is about";
        task.state = TaskState::Blocked;
        task.closed_at = None;
        task.reason = Some(format!("{why}{}", attempt.trace()));
    }
    Ok(task)
}
