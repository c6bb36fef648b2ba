//! A task with its changes: the review.

mod diff;
mod head;
mod review;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use coven_api::event::{AgentPayload, EventRecord, OperationPayload, WorkflowPayload};
use coven_api::task::TaskRecord;
use coven_domain::TaskId;
use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::task::TaskFact;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_segmentation::UnicodeSegmentation as _;

use self::diff::{Diff, LineKind};
use self::head::Progress;
pub use self::review::TaskDraft;
use self::review::{Comment, Input, Purpose, prompt};
use crate::app::{Effect, PaneResult};
use crate::feed::{Answer, Call, TaskAction};
use crate::frame::canvas::{self, CursorPlace, Piece, Row};
use crate::frame::editor::{Edited, Editor};
use crate::frame::keymap::Key;
use crate::frame::text;
use crate::frame::theme::Theme;
use crate::setup::LaunchContext;
use crate::world::World;

/// The part of a longer line that can be seen by scrolling to the right.
const MAX_LINE_BYTES: usize = 4_000;
/// Columns by which ← and → scroll.
const SHIFT: isize = 8;
const SENDING: &str = "the comments are being sent";
const MAX_EDITOR_ROWS: u16 = 5;
/// On fewer rows there is no bar with the file and the state.
const MIN_ROWS_WITH_BAR: u16 = 5;

/// The actions of the pane: key, word, and the fact that the state must allow.
const ACTIONS: [(char, &str, TaskFact); 5] = [
    ('s', "start", TaskFact::Claimed),
    ('p', "approve", TaskFact::Approved),
    ('R', "reject", TaskFact::Rejected),
    ('b', "block", TaskFact::Blocked),
    ('u', "unblock", TaskFact::Unblocked),
];

/// A row below the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowKind {
    /// A file in the list of files.
    Listed(usize),
    File(usize),
    /// A line, and its file.
    Line(usize, usize),
    Comment(usize),
}

pub struct TaskPane {
    id: TaskId,
    diff: Option<Diff>,
    /// Why the changes cannot be read.
    problem: Option<String>,
    is_reading: bool,
    /// The changes changed while they were read.
    is_stale: bool,
    progress: Progress,
    draft: TaskDraft,
    /// The rejection that is being sent.
    sent: Option<String>,
    launch: Option<LaunchContext>,
    /// The rows below the head, made anew when the changes, the folding or the comments change.
    rows: Vec<RowKind>,
    number_width: usize,
    /// Rows above the changes when they were last drawn.
    head_rows: Cell<usize>,
    /// Cursor and first visible row, counted from the first row below the head: rows of the head are negative.
    cursor: isize,
    top: isize,
    /// Columns of the changes that are scrolled out on the left.
    shift: usize,
}

impl TaskPane {
    pub fn new(id: TaskId) -> (Self, Vec<Effect>) {
        let mut pane = Self {
            id,
            diff: None,
            problem: None,
            is_reading: false,
            is_stale: false,
            progress: Progress::default(),
            draft: TaskDraft::default(),
            sent: None,
            launch: None,
            rows: Vec::new(),
            number_width: 0,
            head_rows: Cell::new(0),
            cursor: isize::MIN / 2,
            top: isize::MIN / 2,
            shift: 0,
        };
        let effects = pane.read();
        (pane, effects)
    }

    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Sets the environment that a start from this pane passes on.
    pub fn set_launch(&mut self, launch: LaunchContext) {
        self.launch = Some(launch);
    }

    /// Returns the review so far and leaves the pane without it.
    pub fn take_draft(&mut self) -> TaskDraft {
        let draft = std::mem::take(&mut self.draft);
        self.index();
        draft
    }

    pub fn set_draft(&mut self, draft: TaskDraft) {
        self.draft = draft;
        self.draft.comments.iter_mut().for_each(|comment| comment.line = None);
        self.index();
    }

    fn read(&mut self) -> Vec<Effect> {
        if self.is_reading {
            self.is_stale = true;
            return Vec::new();
        }
        (self.is_reading, self.is_stale) = (true, false);
        vec![Effect::call(Call::Diff(self.id))]
    }

    pub fn connected(&mut self) -> Vec<Effect> {
        self.is_reading = false;
        self.read()
    }

    pub fn event(&mut self, event: &EventRecord) -> Vec<Effect> {
        let (noun, fact) = event.kind.split_once('.').unwrap_or_default();
        let is_changed = match noun {
            "task" => event.subject == self.id.to_string() && !matches!(fact, "lease_renewed" | "deleted"),
            "workflow" => {
                let run = event.payload().map(|WorkflowPayload { workflow }| workflow);
                let run = run.filter(|run| run.task_id == self.id);
                run.map(|run| self.progress.run_changed(run)).is_some()
            }
            "agent" => {
                let agent = event.payload().map(|AgentPayload { agent }| agent);
                agent.is_some_and(|agent| agent.task_id == self.id) && matches!(fact, "completed" | "failed" | "killed")
            }
            "operation" => {
                let operation = event.payload().map(|OperationPayload { operation }| operation);
                let id = self.id.to_string();
                if let Some(operation) = operation.filter(|operation| operation.subject.as_ref() == Some(&id)) {
                    self.progress.operation = Some(operation);
                }
                false
            }
            _ => false,
        };
        if is_changed { self.read() } else { Vec::new() }
    }

    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) -> Vec<Effect> {
        match (call, result) {
            (Call::Diff(id), result) if *id == self.id => {
                self.is_reading = false;
                match result {
                    Ok(Answer::Diff(record)) => self.show(Diff::new((**record).clone())),
                    Ok(_) => {}
                    Err(why) => self.problem = Some(why.clone()),
                }
                if self.is_stale {
                    return self.read();
                }
            }
            (Call::Task { id, action: TaskAction::Reject(prompt) }, result)
                if *id == self.id && self.sent.as_ref() == Some(prompt) =>
            {
                self.sent = None;
                if result.is_ok() {
                    self.draft.comments.clear();
                    self.index();
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Shows new changes: the cursor, folded files and comments stay where they were.
    fn show(&mut self, mut diff: Diff) {
        let mut at = None;
        if let Some(old) = &self.diff {
            if let Some(RowKind::Line(file, line)) = self.row() {
                at = Comment::on(old, file, line);
            }
            for file in &mut diff.files {
                let known = old.files.iter().find(|known| known.path == file.path);
                file.is_folded = known.map_or(file.is_folded, |known| known.is_folded);
            }
        }
        self.draft.comments.iter_mut().chain(&mut at).for_each(|comment| comment.locate(&diff));
        self.number_width = diff.number_width();
        (self.diff, self.problem) = (Some(diff), None);
        self.index();
        let line = at.and_then(|at| at.line);
        if let Some(row) = self.rows.iter().position(|row| matches!(row, RowKind::Line(_, it) if Some(*it) == line)) {
            self.cursor = row as isize;
        }
    }

    /// Lists the rows below the head.
    fn index(&mut self) {
        let Self { rows, draft: TaskDraft { comments, .. }, diff, .. } = self;
        rows.clear();
        let Some(diff) = diff else {
            rows.extend((0..comments.len()).map(RowKind::Comment));
            return;
        };
        // A comment of a draft does not know these changes yet.
        comments.iter_mut().filter(|comment| comment.line.is_none()).for_each(|comment| comment.locate(diff));
        let mut on_lines: HashMap<usize, Vec<RowKind>> = HashMap::new();
        let mut lost: BTreeMap<&str, Vec<RowKind>> = BTreeMap::new();
        for (nth, comment) in comments.iter().enumerate() {
            match comment.line {
                Some(line) => on_lines.entry(line).or_default().push(RowKind::Comment(nth)),
                None => lost.entry(&comment.path).or_default().push(RowKind::Comment(nth)),
            }
        }
        if diff.files.len() > 1 {
            rows.extend((0..diff.files.len()).map(RowKind::Listed));
        }
        for (file, it) in diff.files.iter().enumerate() {
            rows.push(RowKind::File(file));
            for line in it.lines.clone().filter(|_| !it.is_folded) {
                rows.push(RowKind::Line(file, line));
                rows.extend(on_lines.get(&line).into_iter().flatten());
            }
            rows.extend(lost.remove(it.path.as_str()).into_iter().flatten());
        }
        rows.extend(lost.into_values().flatten());
    }

    fn row(&self) -> Option<RowKind> {
        usize::try_from(self.cursor).ok().and_then(|at| self.rows.get(at).copied())
    }

    fn go_to(&mut self, row: RowKind) {
        if let Some(at) = self.rows.iter().position(|it| *it == row) {
            self.cursor = at as isize;
        }
    }

    /// Returns the cursor and the first visible row in the rows that there are; the cursor is visible.
    fn placed(&self, height: isize) -> (isize, isize) {
        let (first, last) = (-(self.head_rows.get() as isize), (self.rows.len() as isize - 1).max(-1));
        let cursor = self.cursor.clamp(first.min(last), last);
        let top = self.top.clamp(cursor - height + 1, cursor).min(last + 1 - height).max(first);
        (cursor, top)
    }

    fn move_to(&mut self, cursor: isize, height: isize) {
        self.cursor = cursor;
        (self.cursor, self.top) = self.placed(height);
    }

    /// The wheel was turned: negative is up.
    pub fn scroll(&mut self, rows: isize, area: Rect) {
        let height = self.height(area);
        let first = -(self.head_rows.get() as isize);
        self.top = (self.top.max(first) + rows).min(self.rows.len() as isize - height).max(first);
        self.cursor = self.cursor.clamp(self.top, self.top + height - 1);
    }

    /// Returns the areas of the bar, the rows, and the input with its label.
    fn parts(&self, area: Rect) -> [Rect; 3] {
        let input_rows = match &self.draft.input {
            None => 0,
            Some(Input { purpose: Purpose::Approve, .. }) => 1,
            Some(input) => 1 + input.editor.height(area.width).clamp(1, MAX_EDITOR_ROWS),
        };
        let input_rows = input_rows.min(area.height);
        let bar_rows = u16::from(area.height - input_rows >= MIN_ROWS_WITH_BAR);
        let body = Rect { y: area.y + bar_rows, height: area.height - input_rows - bar_rows, ..area };
        [Rect { height: bar_rows, ..area }, body, Rect { y: body.bottom(), height: input_rows, ..area }]
    }

    /// Number of visible rows.
    fn height(&self, area: Rect) -> isize {
        self.parts(area)[1].height.max(1) as isize
    }

    pub fn paste(&mut self, pasted: &str) {
        if let Some(input) = self.draft.input.as_mut().filter(|input| !matches!(input.purpose, Purpose::Approve)) {
            input.editor.insert(pasted);
        }
    }

    pub fn key(&mut self, key: KeyEvent, area: Rect, world: &World) -> PaneResult {
        let Some(key) = Key::of(key).map(Key::event) else { return PaneResult::Ignored };
        let task = world.task(self.id);
        if let Some(input) = self.draft.input.take() {
            return self.input_key(input, key, task);
        }
        if key.code != KeyCode::Esc && key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return PaneResult::Ignored;
        }
        let height = self.height(area);
        let page = (height - 1).max(1);
        // Rows may have gone since the last key.
        self.move_to(self.cursor, height);
        let cursor = self.cursor;
        let to = match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return PaneResult::Left,
            KeyCode::Up | KeyCode::Char('k') => cursor - 1,
            KeyCode::Down | KeyCode::Char('j') => cursor + 1,
            KeyCode::PageUp => cursor - page,
            KeyCode::PageDown | KeyCode::Char(' ') => cursor + page,
            KeyCode::Home | KeyCode::Char('g') => isize::MIN / 2,
            KeyCode::End | KeyCode::Char('G') => isize::MAX / 2,
            KeyCode::Char('[' | 'K') => self.file_row(cursor, -1),
            KeyCode::Char(']' | 'J') => self.file_row(cursor, 1),
            KeyCode::Left | KeyCode::Right => {
                let by = if key.code == KeyCode::Left { -SHIFT } else { SHIFT };
                self.shift = self.shift.saturating_add_signed(by).min(MAX_LINE_BYTES);
                cursor
            }
            KeyCode::Enter => return self.enter(height),
            KeyCode::Char('c') => return self.comment(),
            KeyCode::Char('r') => return PaneResult::Done(self.read()),
            KeyCode::Char(letter) => {
                let Some((_, word, fact)) = ACTIONS.iter().find(|(key, ..)| *key == letter) else {
                    return PaneResult::Ignored;
                };
                return match task {
                    Some(task) => self.act(word, *fact, task),
                    None => PaneResult::Notice(format!("cannot {word}: the task is no longer here")),
                };
            }
            _ => return PaneResult::Ignored,
        };
        self.move_to(to, height);
        PaneResult::Done(Vec::new())
    }

    /// Returns the row of the previous or next file, or the cursor if there is none.
    fn file_row(&self, cursor: isize, step: isize) -> isize {
        let is_file = |at: &isize| matches!(self.rows[*at as usize], RowKind::File(_));
        let found = match step < 0 {
            true => (0..cursor.max(0)).rev().find(is_file),
            false => (cursor.max(-1) + 1..self.rows.len() as isize).find(is_file),
        };
        found.unwrap_or(cursor)
    }

    /// Folds or unfolds the file, goes to the listed file, or edits the comment.
    fn enter(&mut self, height: isize) -> PaneResult {
        match self.row() {
            None => return PaneResult::Ignored,
            Some(RowKind::Comment(nth)) if self.sent.is_none() => {
                let comment = self.draft.comments.remove(nth);
                let editor = Editor::one_line(&comment.text);
                self.index();
                return self.ask(Purpose::Comment(comment), editor);
            }
            Some(RowKind::Comment(_)) => return PaneResult::Notice(SENDING.to_owned()),
            Some(RowKind::Listed(file)) => {
                self.go_to(RowKind::File(file));
                // The file is shown from its first row on.
                self.top = self.cursor;
            }
            Some(RowKind::File(file) | RowKind::Line(file, _)) => {
                if let Some(diff) = &mut self.diff {
                    diff.files[file].is_folded = !diff.files[file].is_folded;
                }
                self.index();
                self.go_to(RowKind::File(file));
            }
        }
        self.move_to(self.cursor, height);
        PaneResult::Done(Vec::new())
    }

    fn comment(&mut self) -> PaneResult {
        let comment = match (self.row(), &self.diff) {
            (Some(RowKind::Line(file, line)), Some(diff)) => Comment::on(diff, file, line),
            _ => None,
        };
        match comment {
            _ if self.sent.is_some() => PaneResult::Notice(SENDING.to_owned()),
            None => PaneResult::Notice("move to a line of the changes to comment on it".to_owned()),
            Some(comment) => self.ask(Purpose::Comment(comment), Editor::one_line("")),
        }
    }

    fn ask(&mut self, purpose: Purpose, editor: Editor) -> PaneResult {
        self.draft.input = Some(Input { purpose, editor });
        PaneResult::Done(Vec::new())
    }

    fn act(&mut self, word: &str, fact: TaskFact, task: &TaskRecord) -> PaneResult {
        if task.status.after(fact).is_err() {
            let possible = ACTIONS.iter().filter(|(.., fact)| task.status.after(*fact).is_ok());
            let possible: Vec<String> = possible.map(|(key, word, _)| format!("{word} ({key})")).collect();
            let possible = if possible.is_empty() { "nothing".to_owned() } else { possible.join(", ") };
            return PaneResult::Notice(format!("cannot {word}: the task is {}; possible now: {possible}", state(task)));
        }
        match (fact, &self.launch) {
            (TaskFact::Claimed, Some(launch)) => self.send(TaskAction::Start(Box::new(launch.clone()))),
            (TaskFact::Claimed, None) => PaneResult::Notice("Esc, then s in the list starts the task".to_owned()),
            (TaskFact::Unblocked, _) => self.send(TaskAction::Unblock),
            (TaskFact::Approved, _) => {
                let asked = self.ask(Purpose::Approve, Editor::one_line(""));
                match self.draft.comments.len() {
                    0 => asked,
                    count => {
                        let count = counted(count, "comment");
                        PaneResult::Notice(format!("not sent: {count}; R rejects with them, y approves without"))
                    }
                }
            }
            (TaskFact::Rejected, _) if self.sent.is_some() => PaneResult::Notice(SENDING.to_owned()),
            (TaskFact::Rejected, _) => self.ask(Purpose::Reject, Editor::multiline("")),
            _ => self.ask(Purpose::Block, Editor::multiline("")),
        }
    }

    fn send(&self, action: TaskAction) -> PaneResult {
        PaneResult::Done(vec![Effect::call(Call::Task { id: self.id, action })])
    }

    fn input_key(&mut self, mut input: Input, key: KeyEvent, task: Option<&TaskRecord>) -> PaneResult {
        if let Purpose::Approve = input.purpose {
            let is_possible = task.is_some_and(|task| task.status.after(TaskFact::Approved).is_ok());
            return match key.code {
                KeyCode::Char('y') if is_possible => self.send(TaskAction::Approve),
                KeyCode::Char('y') => PaneResult::Notice("cannot approve: the task has changed".to_owned()),
                _ => PaneResult::Done(Vec::new()),
            };
        }
        let is_dropped = key.code == KeyCode::Esc;
        if !is_dropped && input.editor.key(key) != Edited::Entered {
            self.draft.input = Some(input);
            return PaneResult::Done(Vec::new());
        }
        let typed = input.editor.text().trim().to_owned();
        match input.purpose {
            Purpose::Comment(comment) => {
                let text = if is_dropped { comment.text.clone() } else { typed };
                if !text.is_empty() {
                    self.draft.comments.push(Comment { text, ..comment });
                    self.index();
                    self.go_to(RowKind::Comment(self.draft.comments.len() - 1));
                }
            }
            _ if is_dropped => {}
            Purpose::Block => return self.send(TaskAction::Block(Some(typed).filter(|typed| !typed.is_empty()))),
            Purpose::Reject | Purpose::Approve => {
                let Some(prompt) = prompt(&typed, &self.draft.comments) else {
                    self.draft.input = Some(input);
                    return PaneResult::Notice("say what to change, or Esc and comment on lines with c".to_owned());
                };
                self.sent = Some(prompt.clone());
                return self.send(TaskAction::Reject(prompt));
            }
        }
        PaneResult::Done(Vec::new())
    }

    fn label(&self, purpose: &Purpose) -> String {
        let count = self.draft.comments.len();
        let comments = counted(count, "comment");
        match purpose {
            Purpose::Comment(comment) if comment.text.is_empty() => format!("comment on {}:", comment.place()),
            Purpose::Comment(comment) => format!("comment on {}; empty removes it:", comment.place()),
            Purpose::Reject if count == 0 => "reject: what to change?".to_owned(),
            Purpose::Reject => format!("reject with {comments}; anything else?"),
            Purpose::Block => "block: why?".to_owned(),
            Purpose::Approve if count == 0 => "approve and merge? y n".to_owned(),
            Purpose::Approve => format!("approve and merge without sending {comments}? y n"),
        }
    }

    pub fn draw(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        theme: Theme,
        world: &World,
        is_focused: bool,
    ) -> Option<CursorPlace> {
        let area = area.intersection(buffer.area);
        let [bar, body, input] = self.parts(area);
        let head = self.head(world, area.width, theme);
        self.head_rows.set(head.len());
        let (cursor, top) = self.placed(self.height(area));
        for (y, at) in body.rows().map(|row| row.y).zip(top..) {
            let row = match usize::try_from(at) {
                Ok(at) => self.rows.get(at).map(|row| self.row_pieces(*row, body.width, theme)),
                Err(_) => head.get((at + head.len() as isize) as usize).cloned(),
            };
            let lead = Piece::new(if is_focused && at == cursor { "▌" } else { " " }, theme.accent());
            let row: Row = std::iter::once(lead).chain(row.unwrap_or_default()).collect();
            canvas::put_row(buffer, body.x, y, body.width, &row);
        }
        if bar.height > 0 {
            self.draw_bar(buffer, bar, theme, world, top);
        }
        let typed = self.draft.input.as_ref().filter(|_| input.height > 0)?;
        canvas::put(buffer, input.x, input.y, input.width, &self.label(&typed.purpose), theme.need());
        let editor = Rect { y: input.y + 1, height: input.height - 1, ..input };
        typed.editor.draw(buffer, editor, theme.plain()).filter(|_| is_focused)
    }

    /// The first row: the file or the task that the rows belong to, and the state of the review.
    fn draw_bar(&self, buffer: &mut Buffer, bar: Rect, theme: Theme, world: &World, top: isize) {
        let row = usize::try_from(top).ok().and_then(|at| self.rows.get(at));
        let task = world.task(self.id);
        let state = task.map(state).unwrap_or_default();
        let right = match self.draft.comments.len() {
            _ if self.sent.is_some() => " sending".to_owned(),
            0 => format!(" {state}"),
            count => format!(" {} · {state}", counted(count, "comment")),
        };
        let right_columns = u16::try_from(text::width(&right)).unwrap_or(u16::MAX).min(bar.width / 2);
        let room = bar.width - right_columns;
        let left = match (row, &self.diff) {
            (Some(RowKind::Line(file, _) | RowKind::File(file)), Some(diff)) => {
                let count = format!(" {}/{}", file + 1, diff.files.len());
                let room = usize::from(room).saturating_sub(count.len());
                format!("{}{count}", text::fit_end(&diff.files[*file].path, room))
            }
            _ => format!("task {}", self.id.short()),
        };
        canvas::put(buffer, bar.x, bar.y, room, &left, theme.bold());
        canvas::put_right(buffer, bar.x + room, bar.y, right_columns, &right, theme.dim());
    }

    fn row_pieces(&self, row: RowKind, columns: u16, theme: Theme) -> Row {
        let width = self.number_width;
        match (row, &self.diff) {
            (RowKind::Comment(nth), diff) => {
                let comment = &self.draft.comments[nth];
                let place = match (diff, comment.line) {
                    (Some(_), None) => format!("{}, line changed: ", comment.place()),
                    (None, _) => format!("{}: ", comment.place()),
                    (Some(_), Some(_)) => String::new(),
                };
                let lead = Piece::new(format!("{:width$} ┃ ", ""), theme.need());
                vec![lead, Piece::new(place, theme.dim()), Piece::new(comment.text.clone(), theme.need())]
            }
            (RowKind::Line(_, line), Some(diff)) => {
                let it = diff.lines[line];
                let source = shifted(diff.text(line), self.shift);
                let (sign, style) = match it.kind {
                    LineKind::Hunk => return vec![Piece::new(source, theme.accent())],
                    LineKind::Note => return vec![Piece::new(source, theme.dim())],
                    LineKind::Same => (' ', theme.plain()),
                    LineKind::Added => ('+', theme.good()),
                    LineKind::Removed => ('-', theme.bad()),
                };
                let number = Piece::new(format!("{:>width$} ", it.number), theme.dim());
                vec![number, Piece::new(format!("{sign}{source}"), style)]
            }
            (RowKind::Listed(file) | RowKind::File(file), Some(diff)) => {
                let it = &diff.files[file];
                let comments = self.draft.comments.iter().filter(|comment| comment.path == it.path).count();
                let comments = if comments > 0 { format!(" {}", counted(comments, "comment")) } else { String::new() };
                let (added, removed) = it
                    .counts
                    .map_or_else(Default::default, |(added, removed)| (format!(" +{added}"), format!(" -{removed}")));
                let note = if it.note.is_empty() { String::new() } else { format!(" {}", it.note) };
                let used = [&added, &removed, &note, &comments].iter().map(|text| text::width(text)).sum::<usize>() + 3;
                let path = text::fit_end(&it.path, usize::from(columns).saturating_sub(used).max(8));
                let (mark, style) = match (row, it.is_folded) {
                    (RowKind::Listed(_), _) => ("  ", theme.plain()),
                    (_, true) => ("▸ ", theme.bold()),
                    (_, false) => ("▾ ", theme.bold()),
                };
                vec![
                    Piece::new(mark, theme.key()),
                    Piece::new(path, style),
                    Piece::new(added, theme.good()),
                    Piece::new(removed, theme.bad()),
                    Piece::new(note, theme.dim()),
                    Piece::new(comments, theme.need()),
                ]
            }
            (RowKind::Line(..) | RowKind::Listed(_) | RowKind::File(_), None) => Row::new(),
        }
    }

    /// Hints for the last row of the app while the pane has the focus.
    pub fn hints(&self) -> String {
        let comments = self.draft.comments.len();
        match self.draft.input.as_ref().map(|input| &input.purpose) {
            Some(Purpose::Comment(_)) => "Enter keeps  Esc drops".to_owned(),
            Some(Purpose::Reject) => "Enter rejects  alt-Enter new line  Esc back".to_owned(),
            Some(Purpose::Block) => "Enter blocks  Esc back".to_owned(),
            Some(Purpose::Approve) => "y approves  n back".to_owned(),
            None if comments > 0 => {
                format!("R sends {}  c comment  Enter edit  [ ] file  Esc back", counted(comments, "comment"))
            }
            None => {
                "c comment  p approve  R reject  [ ] file  Enter fold  s start  b block  u unblock  r read again  Esc back".to_owned()
            }
        }
    }
}

/// The word of a task's state.
fn state(task: &TaskRecord) -> String {
    task.status.as_str().replace('_', " ")
}

/// Formats a number with its noun.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns a line of a file without its first columns.
fn shifted(line: &str, columns: usize) -> String {
    let expanded = line[..line.floor_char_boundary(MAX_LINE_BYTES)].replace('\t', "    ");
    let mut skipped = 0;
    let is_skipped = |piece: &&str| {
        let is_before = skipped < columns;
        skipped += text::width(piece);
        is_before
    };
    text::line(&expanded).graphemes(true).skip_while(is_skipped).collect()
}

#[cfg(test)]
mod tests;
