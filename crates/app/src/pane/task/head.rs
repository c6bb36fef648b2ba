//! The head of a task: its state, its run with the checks, its description, and the sum of its changes.

use coven_api::inbox::InboxDetail;
use coven_api::operation::Operation;
use coven_api::workflow::WorkflowRecord;
use coven_domain::task::TaskState;
use ratatui::style::Style;

use super::{TaskPane, counted, state};
use crate::frame::canvas::{Piece, Row};
use crate::frame::theme::Theme;
use crate::frame::{markdown, text};
use crate::world::World;

const MAX_DESCRIPTION_ROWS: usize = 300;
const MAX_DESCRIPTION_BYTES: usize = 32 << 10;
const MAX_STEPS: usize = 30;
const MAX_REASON_ROWS: usize = 12;

/// The task's run, from the events since the pane was opened.
#[derive(Debug, Default)]
pub struct Progress {
    run: Option<WorkflowRecord>,
    /// The steps before the current one.
    done: Vec<String>,
    /// The merge, with its checks.
    pub operation: Option<Operation>,
}

impl Progress {
    pub fn run_changed(&mut self, run: WorkflowRecord) {
        match self.run.take() {
            Some(known) if known.id == run.id => {
                let passed = known.step_name.filter(|step| Some(step) != run.step_name.as_ref());
                self.done.extend(passed);
                self.done.retain(|step| Some(step) != run.step_name.as_ref());
                self.done.drain(..self.done.len().saturating_sub(MAX_STEPS));
            }
            _ => (self.done, self.operation) = (Vec::new(), None),
        }
        self.run = Some(run);
    }
}

/// The head that is being written.
struct Writer {
    rows: Vec<Row>,
    columns: usize,
    theme: Theme,
}

impl Writer {
    fn wrapped(&mut self, text: &str, style: Style) {
        let rows = text::wrap(text, self.columns).into_iter().take(MAX_REASON_ROWS);
        self.rows.extend(rows.map(|row| vec![Piece::new(row, style)]));
    }

    fn field(&mut self, name: &str, value: &str, style: Style) {
        self.wrapped(&format!("{name}: {value}"), style);
    }
}

impl TaskPane {
    /// Returns the rows above the changes.
    pub(super) fn head(&self, world: &World, columns: u16, theme: Theme) -> Vec<Row> {
        let columns = usize::from(columns.saturating_sub(1)).max(1);
        let mut head = Writer { rows: Vec::new(), columns, theme };
        let Some(task) = world.task(self.id) else {
            let why = if world.is_complete { "this task is no longer here" } else { "reading the task" };
            head.wrapped(why, theme.dim());
            return head.rows;
        };
        head.wrapped(&task.title, theme.bold());
        let needs = matches!(task.status, TaskState::Blocked | TaskState::PendingMerge);
        let state = Piece::new(state(task), if needs { theme.need() } else { theme.accent() });
        let mut facts = format!(" · {} · {} · P{}", task.id.short(), task.kind, task.priority.get());
        for fact in task.harness.iter().chain(&task.tags) {
            facts.push_str(&format!(" · {fact}"));
        }
        head.rows.push(vec![state, Piece::new(facts, theme.dim())]);
        if let Some(reason) = &task.reason {
            let style = if task.status == TaskState::Blocked { theme.need() } else { theme.plain() };
            head.field("reason", reason, style);
        }
        self.run_rows(&mut head, world);
        if !task.body.trim().is_empty() {
            head.rows.push(Row::new());
            let end = task.body.floor_char_boundary(MAX_DESCRIPTION_BYTES);
            let mut rows = markdown::rows(&task.body[..end], columns, theme);
            let is_cut = end < task.body.len() || rows.len() > MAX_DESCRIPTION_ROWS;
            rows.truncate(MAX_DESCRIPTION_ROWS);
            head.rows.append(&mut rows);
            if is_cut {
                let id = task.id.short();
                head.wrapped(&format!("… coven task show {id} prints the whole description"), theme.dim());
            }
        }
        head.rows.push(Row::new());
        self.changes_rows(&mut head, task.base_commit.is_some(), task.status);
        head.rows
    }

    /// The run with its steps, why it waits or failed, and the merge.
    fn run_rows(&self, head: &mut Writer, world: &World) {
        let theme = head.theme;
        let Progress { run, done, operation } = &self.progress;
        // The worktree has the name of the task.
        let id = self.id.to_string();
        if let Some(session) = world.sessions().find(|session| session.cwd.rsplit('/').next() == Some(&id)) {
            head.field("worktree", &session.cwd, theme.dim());
        }
        for step in done {
            head.field("step", &format!("{step} ✓"), theme.good());
        }
        let item = world.inbox().iter().find(|item| item.task_id == Some(self.id));
        let mut error = item.and_then(|item| match &item.detail {
            InboxDetail::Task { error, .. } => error.as_deref(),
            _ => Some(item.title.as_str()),
        });
        let mut step = item.and_then(|item| item.step.clone());
        if let Some(run) = run {
            step = run.step_name.as_ref().map(|step| format!("{step} {}", run.status.as_str().replace('_', " ")));
            error = run.error.as_deref().or(error);
            head.field("workflow", &run.name, theme.plain());
            if let Some(by) = &run.approved_by {
                head.field("approved", &format!("by {by}"), theme.good());
            }
        }
        step.iter().for_each(|step| head.field("step", step, theme.accent()));
        if let Some(wait) = run.as_ref().and_then(|run| run.waiting.as_ref()) {
            let until = wait.until.map(|until| format!(" until {until}")).unwrap_or_default();
            let detail = wait.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
            head.field("waits", &format!("for {}{until}{detail}", wait.cause), theme.need());
        }
        let reason = world.task(self.id).and_then(|task| task.reason.as_deref());
        if let Some(error) = error.filter(|error| Some(*error) != reason) {
            head.field("problem", error, theme.bad());
        }
        if let Some(it) = operation {
            match &it.error {
                Some(error) => head.field("merge", &error.message, theme.bad()),
                None => head.field("merge", &format!("{}: {}", it.status, it.progress.message), theme.accent()),
            }
        }
    }

    /// What changed in sum, or why that is not known.
    fn changes_rows(&self, head: &mut Writer, was_started: bool, status: TaskState) {
        let theme = head.theme;
        if let Some(diff) = &self.diff {
            let record = &diff.record;
            let base = record.base_branch.as_deref().unwrap_or(&record.base_commit);
            let place = match record.merged {
                true => format!("merged into {base} as {}", record.branch.get(..8).unwrap_or(&record.branch)),
                false => format!("{} from {base}", record.branch),
            };
            let sum = match diff.files.len() {
                0 => "no changes".to_owned(),
                files => format!("{} +{} -{}", counted(files, "file"), record.additions, record.deletions),
            };
            head.rows.push(vec![
                Piece::new("changes ", theme.bold()),
                Piece::new(format!("{sum} · {place}"), theme.plain()),
            ]);
            if record.uncommitted {
                head.wrapped("the worktree also has uncommitted changes, which are not shown", theme.need());
            }
            if diff.is_cut {
                head.wrapped("the changes are too long: only their start is shown; git diff shows all", theme.need());
            }
        }
        match &self.problem {
            _ if !was_started && self.diff.is_none() => {
                let how = if status == TaskState::Open { "; s starts the task" } else { "" };
                head.wrapped(&format!("no changes yet{how}"), theme.dim());
            }
            Some(why) => head.wrapped(&format!("cannot read the changes: {why}"), theme.bad()),
            None if self.diff.is_none() => head.wrapped("reading the changes", theme.dim()),
            None => {}
        }
    }
}
