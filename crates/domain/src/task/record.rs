//! The stored record of a task, its validation and its change history.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{TaskFact, TaskState, WorkSize};
use crate::lifecycle::{Lifecycle, Refused};
use crate::text::{BadText, Title};
use crate::{TaskId, Timestamp, string_enum};

const MAX_BODY_BYTES: usize = 1 << 20;
pub const MAX_TAGS: usize = 50;
const MAX_TAG_CHARS: usize = 64;
const MAX_DEPENDENCIES: usize = 1000;

string_enum! {
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

/// Why a task is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTask {
    #[error("{0}")]
    Title(BadText),
    #[error("the title is empty; describe the task in one line")]
    TitleEmpty,
    #[error("the body is {bytes} bytes long; the limit is {MAX_BODY_BYTES}")]
    BodyTooLong { bytes: usize },
    #[error("invalid priority {0}: use 0 (first) to 4 (last)")]
    Priority(i64),
    #[error("invalid tag {0:?}: use 1 to {MAX_TAG_CHARS} characters without spaces, commas or control characters")]
    Tag(String),
    #[error("a task can have at most {MAX_TAGS} tags, not {0}")]
    TooManyTags(usize),
    #[error("a task can depend on at most {MAX_DEPENDENCIES} tasks, not {0}")]
    TooManyDependencies(usize),
    #[error("the argument {0:?} contains a NUL byte; remove it")]
    Argument(String),
    #[error(
        "invalid {field} {value:?}: it must not be empty, start or end with a space, or contain control characters"
    )]
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

/// The claim of an agent on a task, and when it expires unless renewed.
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
    /// Sorted by id.
    pub depends_on: Vec<TaskId>,
    pub tags: Vec<String>,
    pub state: TaskState,
    /// Why the task is blocked or was closed, for the human.
    pub reason: Option<String>,
    pub claim: Option<Claim>,
    pub base_branch: Option<String>,
    pub base_commit: Option<String>,
    /// Size of the last attempt's changes, once it is done.
    pub changes: Option<WorkSize>,
    /// The merged commits, as a range of two commits.
    pub merged: Option<String>,
    pub harness: Option<String>,
    /// Arguments for the harness.
    pub args: Vec<String>,
    pub workflow: Option<String>,
    /// Top folder of the task's Git repository; `None` for the repository of the coven home.
    pub repo: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

/// Changes to a task. `None` leaves a field unchanged; an inner `None` clears it.
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

/// A changed field with its old and new value.
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

    /// Validates the whole edit before applying it. Returns the changed fields.
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

    /// Applies a lifecycle fact, and sets or clears the fields that depend on the state.
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

    /// Records an agent's claim and the base of its work.
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

    /// Extends the claim: the agent is alive.
    pub fn renewed(&mut self, until: Timestamp) {
        if let Some(claim) = &mut self.claim {
            claim.until = until.not_before(claim.until);
        }
    }

    /// Returns the fields that were set when the task was created.
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

/// Validates tags and removes duplicates, keeping their order.
fn checked_tags(tags: Vec<String>) -> Result<Vec<String>, BadTask> {
    let mut checked: Vec<String> = Vec::new();
    for tag in tags {
        if !is_valid_tag(&tag) {
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

pub fn is_valid_tag(text: &str) -> bool {
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
    fn an_edit_changes_only_its_fields_and_returns_the_differences() {
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
        assert_eq!(task, before, "nothing changed, not even updated_at");
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
    fn a_transition_sets_and_clears_the_fields_of_its_state() {
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
        let refused = task.apply(TaskFact::Closed, None, LATER).expect_err("closed is final");
        assert!(refused.to_string().contains("closed"), "{refused}");
        assert_eq!(task, before);
    }

    #[test]
    fn the_initial_fields_of_a_task_start_its_history() {
        let mut task = task();
        task.edit(TaskEdit { priority: Some(0), ..TaskEdit::default() }, NOW).expect("a good edit");
        assert_eq!(fields(&task.first_fields()), ["title", "priority"]);
    }
}
