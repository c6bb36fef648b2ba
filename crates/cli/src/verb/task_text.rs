//! Tasks as people read them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use coven_api::task::{TaskBrief, TaskDetail, TaskHistoryRecord, TaskRecord};
use coven_api::workflow::TaskDiffResponse;
use coven_domain::Timestamp;
use serde_json::Value;

use crate::table::Table;
use crate::wording::{age, plain, readable, short_id};

/// Nothing is moved in further than this: every line would be as wide.
const DEEPEST: usize = 20;

pub fn line(task: &TaskRecord) -> String {
    format!("{} {}", short_id(&task.id), plain(&task.title))
}

pub fn table(tasks: &[TaskBrief<'_>], is_tree: bool, now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "PRIO", "STATUS", "TYPE", "TITLE", "WAITS FOR", "TAGS", "AGE"], &[4, 6, 5]);
    let rows = match is_tree {
        true => nested(tasks),
        false => tasks.iter().map(|task| (0, task)).collect(),
    };
    for (depth, task) in rows {
        let waits: Vec<&str> = task.waits_for.iter().map(|id| short_id(id)).collect();
        let title = match depth {
            0 => Cow::from(&*task.title),
            _ => format!("{}{}", "  ".repeat(depth.min(DEEPEST)), task.title).into(),
        };
        table.row([
            short_id(&task.id).into(),
            task.priority.to_string().into(),
            match task.changes {
                Some(changes) => format!("{}: {changes}", task.status).into(),
                None => Cow::from(&*task.status),
            },
            Cow::from(&*task.kind),
            title,
            waits.join(" ").into(),
            task.tags.join(" ").into(),
            age(&task.created_at, now).into(),
        ]);
    }
    table
}

/// Each task after the one it is a part of, with how deep it stands. One whose parent is not shown stands at the top.
fn nested<'a>(tasks: &'a [TaskBrief<'a>]) -> Vec<(usize, &'a TaskBrief<'a>)> {
    let known: BTreeSet<&str> = tasks.iter().map(|task| &*task.id).collect();
    let mut below: BTreeMap<&str, Vec<&TaskBrief<'_>>> = BTreeMap::new();
    let mut open: Vec<(usize, &TaskBrief<'_>)> = Vec::new();
    for task in tasks {
        match task.parent_id.as_deref().filter(|parent| known.contains(parent)) {
            Some(parent) => below.entry(parent).or_default().push(task),
            None => open.push((0, task)),
        }
    }
    open.reverse();
    let mut rows = Vec::with_capacity(tasks.len());
    while let Some((depth, task)) = open.pop() {
        rows.push((depth, task));
        let children = below.remove(&*task.id).unwrap_or_default();
        open.extend(children.into_iter().rev().map(|child| (depth + 1, child)));
    }
    rows
}

pub fn page(detail: &TaskDetail, now: Timestamp) -> String {
    let task = &detail.task;
    let mut rows = vec![
        ("id", task.id.clone()),
        ("title", plain(&task.title)),
        ("status", task.status.clone()),
        ("type", task.kind.clone()),
        ("priority", task.priority.to_string()),
    ];
    let mut optional = |name, value: Option<String>| rows.extend(value.map(|value| (name, plain(&value))));
    optional("reason", task.reason.clone());
    optional("changes", task.changes.map(|changes| changes.to_string()));
    optional("parent", task.parent_id.clone());
    optional("depends on", Some(task.depends_on.join(", ")).filter(|list| !list.is_empty()));
    optional("tags", Some(task.tags.join(", ")).filter(|list| !list.is_empty()));
    optional("harness", task.harness.clone());
    optional("arguments", Some(task.args.join(" ")).filter(|args| !args.is_empty()));
    optional("workflow", task.workflow.clone());
    optional("base", task.base_branch.clone());
    optional("repository", task.repo.clone());
    optional("worktree", detail.worktree.clone());
    optional("branch", detail.worktree.as_ref().map(|_| format!("coven/{}", task.id)));
    optional("claimed by", task.claimed_by.clone());
    optional(
        "run",
        detail.run.as_ref().map(|run| {
            let step = run.step_name.as_deref().map_or_else(String::new, |step| format!(" at {step}"));
            format!("{} {}: {}{step}", short_id(&run.id), run.name, run.status)
        }),
    );
    optional("made", Some(format!("{} ago ({})", age(&task.created_at, now), task.created_at)));
    optional("changed", Some(format!("{} ago ({})", age(&task.updated_at, now), task.updated_at)));
    let ready = match detail.ready {
        true => "yes".to_owned(),
        false => format!("no: {}", detail.not_ready.join("; ")),
    };
    optional("ready", Some(ready));
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:<11} {value}\n")).collect();
    if !task.body.is_empty() {
        text.push_str(&format!("\n{}\n", readable(&task.body).trim_end()));
    }
    text
}

/// Files with their counts, a sum, and the patch unless only those are wanted.
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
        text.push_str("more lies in its worktree that is in no commit yet\n");
    }
    if !is_short && !diff.patch.is_empty() {
        text.push('\n');
        diff.patch.lines().for_each(|line| text.push_str(&patch_line(line, has_colours)));
    }
    if diff.truncated {
        text.push_str("the rest is left out; see it with git\n");
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
    // What a file holds must not act on the reader's terminal.
    let line = readable(line);
    match has_colours && !colour.is_empty() {
        true => format!("\u{1b}[{colour}m{line}\u{1b}[m\n"),
        false => format!("{line}\n"),
    }
}

pub fn history(records: &[TaskHistoryRecord]) -> String {
    let mut table = Table::new(&["AT", "BY", "FIELD", "OLD", "NEW"], &[3, 4]);
    for it in records {
        table.row([it.at.clone(), plain(&it.by), it.field.clone(), word(&it.old), word(&it.new)]);
    }
    table.text(crate::output::terminal_size().map(|(_, cols)| usize::from(cols)))
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::task::Task;

    fn brief(nth: u32, parent: Option<u32>) -> TaskBrief<'static> {
        TaskBrief {
            id: nth.to_string().into(),
            title: format!("task {nth}").into(),
            kind: "task".into(),
            priority: 2,
            parent_id: parent.map(|nth| nth.to_string()),
            waits_for: vec!["7".into(), "8".into()],
            tags: vec!["ui".into(), "core".into()],
            status: "open".into(),
            changes: None,
            created_at: Timestamp::from_millis(0).to_string().into(),
        }
    }

    #[test]
    fn a_tree_has_each_task_once_below_its_parent() {
        let tasks = [brief(1, None), brief(2, Some(3)), brief(3, Some(1)), brief(4, Some(9)), brief(5, Some(1))];
        let rows: Vec<(usize, &str)> = nested(&tasks).iter().map(|(depth, it)| (*depth, &*it.title)).collect();
        assert_eq!(rows, [(0, "task 1"), (1, "task 3"), (2, "task 2"), (1, "task 5"), (0, "task 4")]);
        let text = table(&tasks, true, Timestamp::from_millis(5_000)).text(None);
        assert_eq!(text.lines().nth(2), Some("3   2     open    task    task 3    7 8        ui core  5s"));
    }

    #[test]
    fn text_from_outside_does_not_act_on_the_terminal() {
        let id = "00000001-0000-4000-a000-000000000001".parse().expect("an id");
        let mut task = Task::new(id, "task", Timestamp::from_millis(0)).expect("a title");
        task.body = "a\u{1b}[2Jb".to_owned();
        let detail = TaskDetail {
            task: TaskRecord::from(&task),
            ready: false,
            not_ready: vec!["it is closed".to_owned()],
            run: None,
            worktree: Some("/w".to_owned()),
        };
        let text = page(&detail, Timestamp::from_millis(5_000));
        assert!(text.contains("ready       no: it is closed") && !text.contains('\u{1b}'), "{text}");
        let place = format!("worktree    /w\nbranch      coven/{}\n", task.id);
        assert!(text.contains(&place), "{text}");
    }
}
