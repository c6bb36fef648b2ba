//! A task as it is kept, what may be written into it, and what of it changed.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{TaskFact, TaskState, WorkSize};
use crate::lifecycle::{Lifecycle, Refused};
use crate::text::{BadText, Title};
use crate::{TaskId, Timestamp, words};

const MAX_BODY_BYTES: usize = 1 << 20;
pub const MAX_TAGS: usize = 50;
const MAX_TAG_CHARS: usize = 64;
const MAX_DEPENDENCIES: usize = 1000;

words! {
    pub enum TaskKind { Task = "task", Bug = "bug", Feature = "feature", Epic = "epic" }
}

/// 0 is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u8")]
pub struct Priority(u8);

impl Priority {
    pub const LEAST: u8 = 4;

    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(2)
    }
}

impl TryFrom<i64> for Priority {
    type Error = BadTask;

    fn try_from(number: i64) -> Result<Self, BadTask> {
        let known = u8::try_from(number).ok().filter(|number| *number <= Self::LEAST);
        known.map(Self).ok_or(BadTask::Priority(number))
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

/// What a task cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTask {
    #[error("{0}")]
    Title(BadText),
    #[error("the title is empty; say in one line what is to be done")]
    TitleEmpty,
    #[error("the body is {bytes} bytes long; at most {MAX_BODY_BYTES} fit")]
    BodyTooLong { bytes: usize },
    #[error("the priority {0} is not between 0 (first) and 4 (last)")]
    Priority(i64),
    #[error(
        "the tag {0:?} is empty, longer than {MAX_TAG_CHARS} characters, or has blanks, commas or control characters"
    )]
    Tag(String),
    #[error("there are {0} tags; at most {MAX_TAGS} fit")]
    TooManyTags(usize),
    #[error("it depends on {0} tasks; at most {MAX_DEPENDENCIES} are possible")]
    TooManyDependencies(usize),
    #[error("the argument {0:?} has a NUL byte; remove it")]
    Argument(String),
    #[error("{field} {value:?} has blanks at its ends or control characters, or is empty")]
    Name { field: &'static str, value: String },
}

impl From<BadText> for BadTask {
    fn from(bad: BadText) -> Self {
        match bad {
            BadText::TitleEmpty => Self::TitleEmpty,
            other => Self::Title(other),
        }
    }
}

/// Who works on it, and until when that holds without a sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub by: String,
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    pub title: String,
    pub body: String,
    pub kind: TaskKind,
    pub priority: Priority,
    pub parent: Option<TaskId>,
    /// In order of their ids.
    pub depends_on: Vec<TaskId>,
    pub tags: Vec<String>,
    pub state: TaskState,
    /// Why it is blocked or was closed, for the human.
    pub reason: Option<String>,
    pub claim: Option<Claim>,
    pub base_branch: Option<String>,
    pub base_commit: Option<String>,
    /// How much its last attempt changed, once that is done.
    pub changes: Option<WorkSize>,
    /// What was merged of it, as a range of two commits.
    pub merged: Option<String>,
    pub harness: Option<String>,
    /// Arguments for the harness.
    pub args: Vec<String>,
    pub workflow: Option<String>,
    /// The top folder of the Git repository that it is about; left out: the home's.
    pub repo: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

/// What is to be different. `None` leaves a field as it is; an inner `None` empties it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskEdit {
    pub title: Option<String>,
    pub body: Option<String>,
    pub kind: Option<TaskKind>,
    pub priority: Option<i64>,
    pub parent: Option<Option<TaskId>>,
    pub depends_on: Option<Vec<TaskId>>,
    pub tags: Option<Vec<String>>,
    pub base_branch: Option<Option<String>>,
    pub harness: Option<Option<String>>,
    pub args: Option<Vec<String>>,
    pub workflow: Option<Option<String>>,
}

/// One field before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    pub field: String,
    pub old: Value,
    pub new: Value,
}

impl Task {
    pub fn new(id: TaskId, title: &str, now: Timestamp) -> Result<Self, BadTask> {
        Ok(Self {
            id,
            title: Title::parse(title)?.into_string(),
            body: String::new(),
            kind: TaskKind::Task,
            priority: Priority::default(),
            parent: None,
            depends_on: Vec::new(),
            tags: Vec::new(),
            state: TaskState::Open,
            reason: None,
            claim: None,
            base_branch: None,
            base_commit: None,
            changes: None,
            merged: None,
            harness: None,
            args: Vec::new(),
            workflow: None,
            repo: None,
            created_at: now,
            updated_at: now,
            closed_at: None,
            deleted_at: None,
        })
    }

    /// Checks everything before anything is changed; gives the fields that are different now.
    pub fn edit(&mut self, edit: TaskEdit, now: Timestamp) -> Result<Vec<FieldChange>, BadTask> {
        let mut next = self.clone();
        if let Some(title) = edit.title {
            next.title = Title::parse(&title)?.into_string();
        }
        if let Some(body) = edit.body {
            if body.len() > MAX_BODY_BYTES {
                return Err(BadTask::BodyTooLong { bytes: body.len() });
            }
            next.body = body;
        }
        if let Some(kind) = edit.kind {
            next.kind = kind;
        }
        if let Some(number) = edit.priority {
            next.priority = number.try_into()?;
        }
        if let Some(parent) = edit.parent {
            next.parent = parent;
        }
        if let Some(mut depends_on) = edit.depends_on {
            depends_on.sort_unstable();
            depends_on.dedup();
            if depends_on.len() > MAX_DEPENDENCIES {
                return Err(BadTask::TooManyDependencies(depends_on.len()));
            }
            next.depends_on = depends_on;
        }
        if let Some(tags) = edit.tags {
            next.tags = checked_tags(tags)?;
        }
        if let Some(args) = edit.args {
            if let Some(bad) = args.iter().find(|arg| arg.contains('\0')) {
                return Err(BadTask::Argument(bad.clone()));
            }
            next.args = args;
        }
        for (field, given, place) in [
            ("base_branch", edit.base_branch, &mut next.base_branch),
            ("harness", edit.harness, &mut next.harness),
            ("workflow", edit.workflow, &mut next.workflow),
        ] {
            if let Some(name) = given {
                *place = name.map(|value| checked_name(field, value)).transpose()?;
            }
        }
        let changes = self.differences(&next);
        if !changes.is_empty() {
            next.updated_at = now.not_before(self.updated_at);
            *self = next;
        }
        Ok(changes)
    }

    /// Moves it along its lifecycle; what a state needs beside its word is set and taken away here.
    pub fn apply(
        &mut self,
        fact: TaskFact,
        reason: Option<&str>,
        now: Timestamp,
    ) -> Result<Vec<FieldChange>, Refused<TaskState>> {
        let mut next = self.clone();
        next.state = self.state.after(fact)?;
        next.reason = reason.map(str::to_owned);
        next.closed_at = (next.state == TaskState::Closed).then_some(now);
        if next.state != TaskState::InProgress {
            next.claim = None;
        }
        let changes = self.differences(&next);
        next.updated_at = now.not_before(self.updated_at);
        *self = next;
        Ok(changes)
    }

    /// Somebody begins to work on it, from a base that is known from now on.
    pub fn claimed(
        &mut self,
        claim: Claim,
        base: (String, String),
        now: Timestamp,
    ) -> Result<Vec<FieldChange>, Refused<TaskState>> {
        let before = self.clone();
        self.apply(TaskFact::Claimed, None, now)?;
        self.claim = Some(claim);
        (self.base_branch, self.base_commit) = (Some(base.0), Some(base.1));
        (self.changes, self.merged) = (None, None);
        Ok(before.differences(self))
    }

    /// Whoever works on it has shown that they live.
    pub fn renewed(&mut self, until: Timestamp) {
        if let Some(claim) = &mut self.claim {
            claim.until = until.not_before(claim.until);
        }
    }

    /// Everything that was set when it was made.
    pub fn first_fields(&self) -> Vec<FieldChange> {
        let empty = Self {
            title: String::new(),
            body: String::new(),
            kind: TaskKind::Task,
            priority: Priority::default(),
            parent: None,
            depends_on: Vec::new(),
            tags: Vec::new(),
            base_branch: None,
            harness: None,
            args: Vec::new(),
            workflow: None,
            repo: None,
            ..self.clone()
        };
        empty.differences(self)
    }

    pub fn differences(&self, next: &Self) -> Vec<FieldChange> {
        let fields = self.fields().into_iter().zip(next.fields());
        fields
            .filter(|((_, old), (_, new))| old != new)
            .map(|((field, old), (_, new))| FieldChange { field: field.to_owned(), old, new })
            .collect()
    }

    fn fields(&self) -> [(&'static str, Value); 17] {
        let claimed_by = self.claim.as_ref().map(|claim| &claim.by);
        [
            ("title", json!(self.title)),
            ("body", json!(self.body)),
            ("type", json!(self.kind)),
            ("priority", json!(self.priority)),
            ("parent", json!(self.parent)),
            ("depends_on", json!(self.depends_on)),
            ("tags", json!(self.tags)),
            ("status", json!(self.state)),
            ("reason", json!(self.reason)),
            ("claimed_by", json!(claimed_by)),
            ("base_branch", json!(self.base_branch)),
            ("base_commit", json!(self.base_commit)),
            ("harness", json!(self.harness)),
            ("args", json!(self.args)),
            ("workflow", json!(self.workflow)),
            ("repo", json!(self.repo)),
            ("deleted", json!(self.deleted_at.is_some())),
        ]
    }
}

/// Without repetitions, in the order they were given.
fn checked_tags(tags: Vec<String>) -> Result<Vec<String>, BadTask> {
    let mut checked: Vec<String> = Vec::new();
    for tag in tags {
        if !is_tag(&tag) {
            return Err(BadTask::Tag(tag));
        }
        if !checked.contains(&tag) {
            checked.push(tag);
        }
    }
    match checked.len() {
        count if count > MAX_TAGS => Err(BadTask::TooManyTags(count)),
        _ => Ok(checked),
    }
}

pub fn is_tag(text: &str) -> bool {
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    !text.is_empty() && text.chars().count() <= MAX_TAG_CHARS && !text.contains(is_bad)
}

fn checked_name(field: &'static str, value: String) -> Result<String, BadTask> {
    match value.is_empty() || value.trim() != value || value.contains(char::is_control) {
        true => Err(BadTask::Name { field, value }),
        false => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const NOW: Timestamp = Timestamp::from_millis(1_000);
    const LATER: Timestamp = Timestamp::from_millis(2_000);

    fn id(nth: u128) -> TaskId {
        TaskId::from_uuid(Uuid::from_u128(nth))
    }

    fn task() -> Task {
        Task::new(id(1), "Fix the parser", NOW).expect("a good title")
    }

    fn fields(changes: &[FieldChange]) -> Vec<&str> {
        changes.iter().map(|change| change.field.as_str()).collect()
    }

    #[test]
    fn an_edit_changes_what_it_names_and_tells_what_was_different() {
        let mut task = task();
        let edit = TaskEdit {
            title: Some(" Fix it ".into()),
            priority: Some(2),
            depends_on: Some(vec![id(3), id(2), id(3)]),
            tags: Some(vec!["a".into(), "a".into(), "b".into()]),
            harness: Some(Some("claude".into())),
            ..TaskEdit::default()
        };
        let changes = task.edit(edit, LATER).expect("a good edit");
        assert_eq!(fields(&changes), ["title", "depends_on", "tags", "harness"]);
        assert_eq!((changes[0].old.clone(), changes[0].new.clone()), (json!("Fix the parser"), json!("Fix it")));
        assert_eq!((task.depends_on.clone(), task.tags.clone()), (vec![id(2), id(3)], vec!["a".into(), "b".into()]));
        assert_eq!(task.updated_at, LATER);
        let before = task.clone();
        let same = TaskEdit { title: Some("Fix it".into()), ..TaskEdit::default() };
        assert_eq!(task.edit(same, Timestamp::from_millis(9_000)), Ok(vec![]));
        assert_eq!(task, before, "nothing changed, not even its time");
    }

    #[test]
    fn a_bad_edit_changes_nothing() {
        let edits = [
            TaskEdit { title: Some("\n".into()), ..TaskEdit::default() },
            TaskEdit { priority: Some(5), ..TaskEdit::default() },
            TaskEdit { priority: Some(-1), ..TaskEdit::default() },
            TaskEdit { tags: Some(vec!["a b".into()]), ..TaskEdit::default() },
            TaskEdit { tags: Some(vec![String::new()]), ..TaskEdit::default() },
            TaskEdit { tags: Some((0..51).map(|nth| format!("t{nth}")).collect()), ..TaskEdit::default() },
            TaskEdit { body: Some("x".repeat(MAX_BODY_BYTES + 1)), ..TaskEdit::default() },
            TaskEdit { workflow: Some(Some(" x".into())), ..TaskEdit::default() },
            TaskEdit { depends_on: Some((0..1001).map(id).collect()), ..TaskEdit::default() },
        ];
        for edit in edits {
            let mut task = task();
            let with_good = TaskEdit { kind: Some(TaskKind::Bug), ..edit.clone() };
            assert!(task.edit(with_good, LATER).is_err(), "{edit:?}");
            assert_eq!(task, self::task());
        }
    }

    #[test]
    fn a_move_sets_and_takes_away_what_its_state_needs() {
        let mut task = task();
        task.claim = Some(Claim { by: "agent".into(), until: LATER });
        task.state = TaskState::InProgress;
        let changes = task.apply(TaskFact::Blocked, Some("no key"), LATER).expect("allowed");
        assert_eq!(fields(&changes), ["status", "reason", "claimed_by"]);
        assert_eq!((task.reason.as_deref(), &task.claim, task.closed_at), (Some("no key"), &None, None));
        task.apply(TaskFact::Unblocked, None, LATER).expect("allowed");
        assert_eq!((task.state, task.reason.clone()), (TaskState::Open, None));
        task.apply(TaskFact::Closed, Some("done by hand"), LATER).expect("allowed");
        assert_eq!(task.closed_at, Some(LATER));
        let before = task.clone();
        let refused = task.apply(TaskFact::Closed, None, LATER).expect_err("closed is the end");
        assert!(refused.to_string().contains("closed"), "{refused}");
        assert_eq!(task, before);
    }

    #[test]
    fn what_a_task_was_made_with_is_its_first_history() {
        let mut task = task();
        task.edit(TaskEdit { priority: Some(0), ..TaskEdit::default() }, NOW).expect("a good edit");
        assert_eq!(fields(&task.first_fields()), ["title", "priority"]);
    }
}
