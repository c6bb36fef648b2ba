//! Formats tasks for people.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use coven_api::list::PageQuery;
use coven_api::routes::{Endpoint, GetTask, ListTaskRuns, ReadTaskReadiness};
use coven_api::task::{TaskHistoryRecord, TaskReadiness, TaskRecord};
use coven_api::workflow::{TaskDiffResponse, WorkflowRecord};
use coven_client::{Client, ClientError};
use coven_domain::{TaskId, Timestamp};
use serde_json::Value;

use crate::format::{format_duration, readable, sanitize_line, short_id};
use crate::table::Table;
use crate::verb::workflow_text::wait_text;

/// Maximum indentation of a tree, so that titles stay visible.
const MAX_INDENT: usize = 20;

/// A task with everything that its page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    pub task: TaskRecord,
    pub readiness: TaskReadiness,
    /// The newest run of the task.
    pub run: Option<WorkflowRecord>,
}

impl TaskView {
    pub async fn read(client: &mut Client, id: &str) -> Result<Self, ClientError> {
        let task = client.call(GetTask::of(id)).await?;
        let readiness = client.call(ReadTaskReadiness::of(id)).await?;
        let newest = PageQuery { limit: Some(1), cursor: None };
        let mut runs = client.call(ListTaskRuns::of(id).query(&newest)).await?;
        Ok(Self { task, readiness, run: runs.items.pop() })
    }
}

pub fn line(task: &TaskRecord) -> String {
    format!("{} {}", task.id.short(), sanitize_line(&task.title))
}

/// Formats tasks as a table. `open` contains the dependencies that are not closed.
pub fn table(tasks: &[TaskRecord], open: &BTreeSet<TaskId>, is_tree: bool, now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "PRIO", "STATUS", "TYPE", "TITLE", "WAITS FOR", "TAGS", "AGE"], &[4, 6, 5]);
    let rows = match is_tree {
        true => nested(tasks),
        false => tasks.iter().map(|task| (0, task)).collect(),
    };
    for (depth, task) in rows {
        let waits: Vec<String> = task.depends_on.iter().filter(|id| open.contains(id)).map(TaskId::short).collect();
        let title = match depth {
            0 => Cow::from(&*task.title),
            _ => format!("{}{}", "  ".repeat(depth.min(MAX_INDENT)), task.title).into(),
        };
        table.row([
            task.id.short().into(),
            task.priority.get().to_string().into(),
            match task.changes {
                Some(changes) => format!("{}: {changes}", task.status).into(),
                None => task.status.as_str().into(),
            },
            task.kind.as_str().into(),
            title,
            waits.join(" ").into(),
            task.tags.join(" ").into(),
            format_duration(now.since(task.created_at)).into(),
        ]);
    }
    table
}

/// Orders tasks as a tree: each with its depth, after its parent. A task whose parent is not listed is at the top.
fn nested(tasks: &[TaskRecord]) -> Vec<(usize, &TaskRecord)> {
    let known: BTreeSet<TaskId> = tasks.iter().map(|task| task.id).collect();
    let mut below: BTreeMap<TaskId, Vec<&TaskRecord>> = BTreeMap::new();
    let mut open: Vec<(usize, &TaskRecord)> = Vec::new();
    for task in tasks {
        match task.parent_id.filter(|parent| known.contains(parent)) {
            Some(parent) => below.entry(parent).or_default().push(task),
            None => open.push((0, task)),
        }
    }
    open.reverse();
    let mut rows = Vec::with_capacity(tasks.len());
    while let Some((depth, task)) = open.pop() {
        rows.push((depth, task));
        let children = below.remove(&task.id).unwrap_or_default();
        open.extend(children.into_iter().rev().map(|child| (depth + 1, child)));
    }
    rows
}

pub fn page(TaskView { task, readiness, run }: &TaskView, now: Timestamp) -> String {
    let mut rows = vec![
        ("id", task.id.to_string()),
        ("title", sanitize_line(&task.title)),
        ("status", task.status.to_string()),
        ("type", task.kind.to_string()),
        ("priority", task.priority.get().to_string()),
    ];
    let mut optional = |name, value: Option<String>| rows.extend(value.map(|value| (name, sanitize_line(&value))));
    optional("reason", task.reason.clone());
    optional("changes", task.changes.map(|changes| changes.to_string()));
    optional("parent", task.parent_id.map(|id| id.to_string()));
    let depends_on: Vec<String> = task.depends_on.iter().map(ToString::to_string).collect();
    optional("depends on", Some(depends_on.join(", ")).filter(|list| !list.is_empty()));
    optional("tags", Some(task.tags.join(", ")).filter(|list| !list.is_empty()));
    optional("harness", task.harness.clone());
    optional("arguments", Some(task.args.join(" ")).filter(|args| !args.is_empty()));
    optional("workflow", task.workflow.clone());
    optional("base", task.base_branch.clone());
    optional("repository", task.repo.clone());
    optional("worktree", readiness.worktree.clone());
    optional("branch", readiness.worktree.as_ref().map(|_| format!("coven/{}", task.id)));
    optional("claimed by", task.claimed_by.clone());
    optional(
        "run",
        run.as_ref().map(|run| {
            let step = run.step_name.as_deref().map_or_else(String::new, |step| format!(" at {step}"));
            format!("{} {}: {}{step}", run.id.short(), run.name, run.status)
        }),
    );
    let wait = run.as_ref().and_then(|run| run.waiting.as_ref());
    optional("waits", wait.map(|wait| wait_text(wait, now)));
    let ago = |at: Timestamp| format!("{} ago ({at})", format_duration(now.since(at)));
    optional("created", Some(ago(task.created_at)));
    optional("changed", Some(ago(task.updated_at)));
    let ready = match readiness.ready {
        true => "yes".to_owned(),
        false => format!("no: {}", readiness.not_ready.join("; ")),
    };
    optional("ready", Some(ready));
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:<11} {value}\n")).collect();
    if !task.body.is_empty() {
        text.push_str(&format!("\n{}\n", readable(&task.body).trim_end()));
    }
    text
}

/// Formats changes: files with their counts, the sum, and unless `is_short` the patch.
pub fn diff(diff: &TaskDiffResponse, is_short: bool, has_colours: bool) -> String {
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let mut table = Table::new(&["ADDED", "DELETED", "FILE"], &[]);
    for file in &diff.files {
        table.row([count(file.additions), count(file.deletions), file.path.clone()]);
    }
    let mut text = match diff.files.is_empty() {
        true => String::new(),
        false => table.text(None),
    };
    let base = diff.base_branch.as_deref().unwrap_or(&diff.base_commit);
    let files = diff.files.len();
    let place = match diff.merged {
        true => format!("merged into {base} by {}", short_id(&diff.branch)),
        false => format!("{base}...{}", diff.branch),
    };
    text.push_str(&match files {
        0 => format!("no changes: {place}\n"),
        _ => format!(
            "{files} file{} changed, {} added, {} deleted: {place}\n",
            if files == 1 { "" } else { "s" },
            diff.additions,
            diff.deletions,
        ),
    });
    if diff.uncommitted {
        text.push_str("the worktree also has uncommitted changes\n");
    }
    if !is_short && !diff.patch.is_empty() {
        text.push('\n');
        diff.patch.lines().for_each(|line| text.push_str(&patch_line(line, has_colours)));
    }
    if diff.truncated {
        text.push_str("the diff is truncated; see the rest with git\n");
    }
    text
}

fn patch_line(line: &str, has_colours: bool) -> String {
    let colour = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "1",
        [b'+', ..] => "32",
        [b'-', ..] => "31",
        [b'@', ..] => "36",
        [b'd', b'i', b'f', b'f', ..] => "1",
        _ => "",
    };
    // Control characters in a file must not act on the terminal.
    let line = readable(line);
    match has_colours && !colour.is_empty() {
        true => format!("\u{1b}[{colour}m{line}\u{1b}[m\n"),
        false => format!("{line}\n"),
    }
}

pub fn history(records: &[TaskHistoryRecord]) -> String {
    let mut table = Table::new(&["AT", "BY", "FIELD", "OLD", "NEW"], &[3, 4]);
    for it in records {
        table.row([it.at.to_string(), sanitize_line(&it.by), it.field.clone(), word(&it.old), word(&it.new)]);
    }
    table.text(crate::output::terminal_size().map(|(_, cols)| usize::from(cols)))
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => sanitize_line(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::task::Task;

    fn id(nth: u32) -> TaskId {
        format!("{nth:08x}-0000-4000-a000-{nth:012x}").parse().expect("an id")
    }

    fn task(nth: u32, parent: Option<u32>) -> TaskRecord {
        let mut task = Task::new(id(nth), &format!("task {nth}"), Timestamp::from_millis(0)).expect("a title");
        (task.parent, task.tags) = (parent.map(id), vec!["ui".into(), "core".into()]);
        task.depends_on = vec![id(7), id(8), id(9)];
        task.into()
    }

    #[test]
    fn a_tree_lists_each_task_once_below_its_parent() {
        let tasks = [task(1, None), task(2, Some(3)), task(3, Some(1)), task(4, Some(9)), task(5, Some(1))];
        let rows: Vec<(usize, &str)> = nested(&tasks).iter().map(|(depth, it)| (*depth, &*it.title)).collect();
        assert_eq!(rows, [(0, "task 1"), (1, "task 3"), (2, "task 2"), (1, "task 5"), (0, "task 4")]);
        let open = BTreeSet::from([id(7), id(8)]);
        let text = table(&tasks, &open, true, Timestamp::from_millis(5_000)).text(None);
        let expected = "00000003  2     open    task    task 3    00000007 00000008  ui core  5s";
        assert_eq!(text.lines().nth(2), Some(expected));
    }

    #[test]
    fn foreign_text_is_sanitized() {
        let mut task = Task::new(id(1), "task", Timestamp::from_millis(0)).expect("a title");
        task.body = "a\u{1b}[2Jb".to_owned();
        let readiness = TaskReadiness {
            task_id: task.id,
            ready: false,
            not_ready: vec!["it is closed".to_owned()],
            open_dependencies: Vec::new(),
            worktree: Some("/w".to_owned()),
        };
        let view = TaskView { task: TaskRecord::from(&task), readiness, run: None };
        let text = page(&view, Timestamp::from_millis(5_000));
        assert!(text.contains("ready       no: it is closed") && !text.contains('\u{1b}'), "{text}");
        let place = format!("worktree    /w\nbranch      coven/{}\n", task.id);
        assert!(text.contains(&place), "{text}");
    }
}
