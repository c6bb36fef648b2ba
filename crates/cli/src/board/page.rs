//! Pages of text about one task: everything about it, what it changed, how its run goes.

use coven_api::task::TaskHistoryRecord;
use coven_api::workflow::{AgentRecord, TaskDiffResponse};
use coven_domain::Timestamp;

use super::report::Subject;
use crate::chat::wrap::{Breaking, expanded, rows};
use crate::format::readable;
use crate::verb::task_text::{self, TaskView};
use crate::verb::workflow_text::{self, RunView};

/// So much of the history is shown: the newest.
const HISTORY: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shade {
    Plain,
    Strong,
    Quiet,
    Added,
    Removed,
    Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLine {
    pub text: String,
    pub shade: Shade,
}

/// A page on the screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub id: String,
    pub subject: Subject,
    /// What was read before, to go back to.
    pub from: Option<Subject>,
    /// As it came; nothing before that.
    content: Option<Result<Vec<PageLine>, String>>,
    /// The same, broken to the width of the screen.
    pub shown: Vec<PageLine>,
    columns: usize,
    pub scroll: usize,
    /// It was asked for and has not come yet.
    pub is_asked: bool,
    /// It has changed since it was asked for.
    pub is_stale: bool,
}

impl Page {
    pub fn new(id: String, subject: Subject, columns: usize) -> Self {
        Self {
            id,
            subject,
            from: None,
            content: None,
            shown: Vec::new(),
            columns,
            scroll: 0,
            is_asked: true,
            is_stale: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.content.is_none()
    }

    /// What was seen is better than the news that it cannot be seen now.
    pub fn came(&mut self, content: Result<Vec<PageLine>, String>) {
        if content.is_err() && matches!(self.content, Some(Ok(_))) {
            return;
        }
        self.content = Some(content);
        self.lay_out(self.columns);
    }

    pub fn lay_out(&mut self, columns: usize) {
        self.columns = columns;
        self.shown = match &self.content {
            None => Vec::new(),
            Some(Ok(lines)) => lines.iter().flat_map(|line| broken(line, columns)).collect(),
            Some(Err(why)) => broken(&PageLine { text: why.clone(), shade: Shade::Strong }, columns),
        };
    }

    /// Scrolls, but not past the end.
    pub fn scroll_to(&mut self, line: usize, height: usize) {
        self.scroll = line.min(self.shown.len().saturating_sub(height.max(1)));
    }
}

fn broken(line: &PageLine, columns: usize) -> Vec<PageLine> {
    let text = expanded(&line.text, 0);
    let is_code = matches!(line.shade, Shade::Added | Shade::Removed | Shade::Place);
    let breaking = if is_code { Breaking::Anywhere } else { Breaking::Words };
    let piece = |range: std::ops::Range<usize>| PageLine { text: text[range].to_owned(), shade: line.shade };
    rows(&text, columns, breaking).into_iter().map(piece).collect()
}

fn lines(text: &str, shade: Shade) -> impl Iterator<Item = PageLine> {
    // What is from outside must not act on the terminal.
    let text = readable(text);
    text.lines().map(|line| PageLine { text: line.to_owned(), shade }).collect::<Vec<_>>().into_iter()
}

fn head(text: &str) -> [PageLine; 2] {
    [String::new(), text.to_owned()].map(|text| PageLine { text, shade: Shade::Strong })
}

/// All that there is to know of a task.
pub struct Known {
    pub task: TaskView,
    pub run: Option<RunView>,
    pub agents: Vec<AgentRecord>,
    pub history: Vec<TaskHistoryRecord>,
    /// For one whose work is looked at.
    pub diff: Option<TaskDiffResponse>,
}

pub fn detail(known: &Known, now: Timestamp) -> Vec<PageLine> {
    let mut page: Vec<PageLine> = lines(&task_text::page(&known.task, now), Shade::Plain).collect();
    if let Some(diff) = &known.diff {
        page.extend(head("changes (d shows them)"));
        page.extend(lines(&task_text::diff(diff, true, false), Shade::Plain));
    }
    if let Some(run) = &known.run {
        page.extend(head(&format!("run {} of {} (w shows more)", run.run.id.short(), run.run.name)));
        for step in &run.steps {
            let indent = "  ".repeat(step.depth);
            let error = step.error.as_deref().map_or_else(String::new, |error| format!(": {error}"));
            let text = format!("{indent}{:<12} {:<7} {}{error}", step.name, step.kind, step.status);
            page.extend(lines(&text, Shade::Plain));
        }
    }
    if let Some(agent) = known.agents.last() {
        page.extend(head("last worked on"));
        let session = agent.session_id.map_or_else(|| "-".to_owned(), |id| id.short());
        let step = agent.step.as_deref().unwrap_or("-");
        let text = format!("step        {step}: {}\nsession     {session}", agent.status);
        page.extend(lines(&text, Shade::Plain));
    }
    if !known.history.is_empty() {
        let newest = &known.history[known.history.len().saturating_sub(HISTORY)..];
        let is_cut = newest.len() < known.history.len();
        page.extend(head(if is_cut { "history (the newest)" } else { "history" }));
        page.extend(lines(&task_text::history(newest), Shade::Plain));
    }
    page
}

pub fn workflow(run: &RunView, definition: &str, now: Timestamp) -> Vec<PageLine> {
    let mut page: Vec<PageLine> = lines(&workflow_text::page(run, now), Shade::Plain).collect();
    page.extend(head("as its file was when the run began"));
    page.extend(lines(definition, Shade::Quiet));
    page
}

pub fn diff(diff: &TaskDiffResponse) -> Vec<PageLine> {
    let summary = TaskDiffResponse { patch: String::new(), ..diff.clone() };
    let mut page: Vec<PageLine> = lines(&task_text::diff(&summary, true, false), Shade::Plain).collect();
    page.extend(lines("\n", Shade::Plain));
    let patch = readable(&diff.patch);
    page.extend(patch.lines().map(|line| PageLine { text: line.to_owned(), shade: shade_of(line) }));
    page
}

fn shade_of(line: &str) -> Shade {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => Shade::Strong,
        [b'+', ..] => Shade::Added,
        [b'-', ..] => Shade::Removed,
        [b'@', ..] => Shade::Place,
        _ => Shade::Plain,
    }
}
