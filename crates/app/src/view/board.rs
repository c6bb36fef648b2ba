//! The Board view: tasks in columns.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashSet;

use coven_api::task::TaskRecord;
use coven_domain::task::TaskState;
use coven_domain::{TaskId, Timestamp};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;

use super::{age, matches};
use crate::frame::canvas::{self, Piece};
use crate::frame::theme::Theme;
use crate::frame::{list::ListState, text};
use crate::world::{Subject, World};

/// From left to right.
const STATES: [TaskState; 5] =
    [TaskState::Open, TaskState::InProgress, TaskState::PendingMerge, TaskState::Blocked, TaskState::Closed];
/// Tasks of one column that can be selected. The heading counts all.
const MAX_CARDS: usize = 200;
/// On less the columns are one list.
const MIN_COLUMNS_WIDTH: u16 = 60;
/// Width of a column with the blank behind it.
const MIN_COLUMN_WIDTH: u16 = 16;
const MIN_WIDTH_WITH_ID: u16 = 26;
const MIN_WIDTH_WITH_AGE: u16 = 12;
const CARD_ROWS: u16 = 2;

#[derive(Debug, Default)]
struct Column {
    tasks: Vec<TaskId>,
    /// Number of tasks in this state, those that are not listed included.
    count: usize,
    /// The first visible card. Drawing moves it, so that the selection is visible.
    offset: Cell<usize>,
}

#[derive(Debug, Default)]
pub struct Board {
    columns: [Column; STATES.len()],
    selected: Option<TaskId>,
    /// Column and row of the selection when it was last seen, for when its task is gone.
    place: (usize, usize),
    /// Tasks that wait for a human.
    needs: HashSet<TaskId>,
    is_filtered: bool,
    /// The columns were last drawn as one list, which also has one offset.
    is_list: Cell<bool>,
    list_offset: Cell<usize>,
}

/// A part of the board and what it shows.
struct Part {
    area: Rect,
    column: usize,
    /// The row in the column; `None` for its heading.
    card: Option<usize>,
    /// Number of the column's cards that are not visible.
    hidden: usize,
}

impl Board {
    /// Puts the tasks that match the filter into their columns. The selection stays on its task.
    pub fn refresh(&mut self, world: &World, filter: &str) {
        self.is_filtered = !filter.trim().is_empty();
        let waiting = world.inbox().iter().filter_map(|item| item.task_id);
        let blocked = world.tasks().filter(|task| task.status == TaskState::Blocked).map(|task| task.id);
        self.needs = waiting.chain(blocked).collect();
        let mut states: [Vec<&TaskRecord>; STATES.len()] = Default::default();
        for task in world.tasks().filter(|task| task.deleted_at.is_none() && is_match(filter, task)) {
            if let Some(column) = STATES.iter().position(|state| *state == task.status) {
                states[column].push(task);
            }
        }
        for (column, mut tasks) in self.columns.iter_mut().zip(states) {
            // The newest of the closed ones come first; of the open ones those that can be started.
            tasks.sort_by_cached_key(|task| {
                let waits = task.status == TaskState::Open && open_dependencies(task, world) > 0;
                (Reverse(task.closed_at), waits, task.priority, task.created_at, task.id)
            });
            column.count = tasks.len();
            column.tasks = tasks.into_iter().take(MAX_CARDS).map(|task| task.id).collect();
        }
        self.follow();
    }

    /// Finds the selection again; if its task is gone, the one that took its place.
    fn follow(&mut self) {
        let has_tasks = |column: &usize| !self.columns[*column].tasks.is_empty();
        let nearest = || Some(self.place.0).filter(has_tasks).or_else(|| (0..STATES.len()).find(has_tasks));
        match self.selected.and_then(|id| self.place_of(id)) {
            Some((column, row)) => self.put(column, row),
            None => match nearest() {
                Some(column) => self.put(column, self.place.1),
                None => self.selected = None,
            },
        }
    }

    fn place_of(&self, id: TaskId) -> Option<(usize, usize)> {
        let row = |column: &Column| column.tasks.iter().position(|it| *it == id);
        self.columns.iter().enumerate().find_map(|(nth, column)| Some((nth, row(column)?)))
    }

    /// Selects a row of a column, or the last one.
    fn put(&mut self, column: usize, row: usize) {
        let tasks = &self.columns[column].tasks;
        self.place = (column, row.min(tasks.len().saturating_sub(1)));
        self.selected = tasks.get(self.place.1).copied();
    }

    /// All shown tasks, column by column.
    pub fn subjects(&self) -> Vec<Subject> {
        self.columns.iter().flat_map(|column| &column.tasks).map(|id| Subject::Task(*id)).collect()
    }

    pub fn selected(&self) -> Option<Subject> {
        self.selected.map(Subject::Task)
    }

    pub fn select(&mut self, subject: &Subject) {
        if let Subject::Task(id) = subject
            && let Some((column, row)) = self.place_of(*id)
        {
            self.put(column, row);
        }
    }

    /// Moves the selection within its column; through all columns where they are one list.
    pub fn step(&mut self, by: isize) {
        let (column, row) = self.place;
        if !self.is_list.get() {
            return self.put(column, row.saturating_add_signed(by));
        }
        let all = self.subjects();
        let at = all.iter().position(|it| Some(it) == self.selected().as_ref()).unwrap_or(0);
        if let Some(subject) = all.get(at.saturating_add_signed(by).min(all.len().saturating_sub(1))) {
            self.select(subject);
        }
    }

    /// Moves the selection to the column on the left (-1) or right (1) that has a task.
    pub fn step_column(&mut self, by: isize) {
        let (column, row) = self.place;
        let has_tasks = |column: &usize| !self.columns[*column].tasks.is_empty();
        let found = match by < 0 {
            true => (0..column).rev().find(has_tasks),
            false => (column + 1..STATES.len()).find(has_tasks),
        };
        if let Some(found) = found {
            self.put(found, row);
        }
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect, world: &World, theme: Theme, now: Timestamp) {
        let area = area.intersection(buffer.area);
        if self.selected.is_none() {
            let words = match () {
                () if self.is_filtered => "no task matches the filter",
                () if !world.is_complete => "reading the tasks",
                () => "no tasks yet; o makes one",
            };
            canvas::put(buffer, area.x, area.y, area.width, words, theme.dim());
            return;
        }
        for part in self.parts(area) {
            let column = &self.columns[part.column];
            let Some(row) = part.card else {
                self.draw_heading(buffer, &part, theme);
                continue;
            };
            if let Some(task) = world.task(column.tasks[row]) {
                self.draw_card(buffer, part.area, (task, world), theme, now);
            }
        }
    }

    fn draw_heading(&self, buffer: &mut Buffer, part: &Part, theme: Theme) {
        let Rect { x, y, width, .. } = part.area;
        let count = format!(" {}", self.columns[part.column].count);
        let name = STATES[part.column].as_str().replace('_', " ");
        let name = text::fit(&name, usize::from(width).saturating_sub(count.len()));
        let style = if self.place.0 == part.column { theme.bold() } else { theme.dim() };
        let style = style.add_modifier(Modifier::UNDERLINED);
        let used = canvas::put(buffer, x, y, width, &format!("{name}{count}"), style);
        let more = format!(" ↕{}", part.hidden);
        if part.hidden > 0 && text::width(&more) <= usize::from(width - used) {
            canvas::put_right(buffer, x + used, y, width - used, &more, theme.dim());
        }
    }

    fn draw_card(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        (task, world): (&TaskRecord, &World),
        theme: Theme,
        now: Timestamp,
    ) {
        let is_selected = self.selected == Some(task.id);
        let lead = Piece::new(if is_selected { "▌" } else { " " }, theme.accent());
        let is_needing = self.needs.contains(&task.id);
        let mark = Piece::new(if is_needing { "! " } else { "" }, theme.need());
        let title = if is_selected { theme.bold().patch(theme.reverse()) } else { theme.bold() };
        let title = Piece::new(text::line(&task.title), title);
        let since = match task.status {
            TaskState::Open | TaskState::InProgress => task.created_at,
            TaskState::Closed => task.closed_at.unwrap_or(task.updated_at),
            TaskState::PendingMerge | TaskState::Blocked => task.updated_at,
        };
        let age = format!(" {}", age(since, now));
        let age_columns = if area.width < MIN_WIDTH_WITH_AGE { 0 } else { u16::try_from(age.len()).unwrap_or(0) };
        let rest = area.width.saturating_sub(age_columns);
        if self.is_list.get() {
            canvas::put_row(buffer, area.x, area.y, rest, &[lead, mark, title]);
            canvas::put_right(buffer, area.x + rest, area.y, area.width - rest, &age, theme.dim());
            return;
        }
        canvas::put_row(buffer, area.x, area.y, area.width, &[lead.clone(), mark, title]);
        if area.height < CARD_ROWS {
            return;
        }
        // In a narrow column the reason matters more.
        let id = if area.width < MIN_WIDTH_WITH_ID { String::new() } else { format!("{} ", task.id.short()) };
        let harness = task.harness.as_deref().map_or_else(String::new, |harness| format!("{harness} "));
        let detail_style = if is_needing { theme.plain() } else { theme.dim() };
        let row = [
            lead,
            Piece::new(id, theme.dim()),
            Piece::new(harness, theme.quiet()),
            Piece::new(self.detail(task, world), detail_style),
        ];
        canvas::put_row(buffer, area.x, area.y + 1, rest, &row);
        canvas::put_right(buffer, area.x + rest, area.y + 1, area.width - rest, &age, theme.dim());
    }

    fn detail(&self, task: &TaskRecord, world: &World) -> String {
        match task.status {
            TaskState::Open => match open_dependencies(task, world) {
                0 => task.reason.clone().unwrap_or_default(),
                1 => "waits for a task".to_owned(),
                count => format!("waits for {count} tasks"),
            },
            TaskState::PendingMerge if self.needs.contains(&task.id) => match task.changes {
                Some(changes) => format!("to review: {changes}"),
                None => "to review".to_owned(),
            },
            TaskState::PendingMerge => "being merged".to_owned(),
            TaskState::InProgress if self.needs.contains(&task.id) => "its agent asks".to_owned(),
            TaskState::InProgress | TaskState::Blocked | TaskState::Closed => task.reason.clone().unwrap_or_default(),
        }
    }

    /// Returns the task at a cell.
    pub fn at(&self, area: Rect, x: u16, y: u16) -> Option<Subject> {
        let part = self.parts(area).into_iter().find(|part| part.area.contains(Position { x, y }))?;
        self.columns[part.column].tasks.get(part.card?).map(|id| Subject::Task(*id))
    }

    /// Returns everything that is visible, scrolled so that the selection is.
    fn parts(&self, area: Rect) -> Vec<Part> {
        let shown: Vec<usize> = (0..STATES.len()).filter(|column| !self.columns[*column].tasks.is_empty()).collect();
        let count = u16::try_from(shown.len()).unwrap_or(0);
        let is_list = area.width < MIN_COLUMNS_WIDTH || area.width < MIN_COLUMN_WIDTH * count;
        self.is_list.set(is_list);
        if is_list {
            return self.list_parts(area, &shown);
        }
        let mut parts = Vec::new();
        let mut x = area.x;
        for (nth, column) in shown.into_iter().enumerate() {
            let width = area.width / count + u16::from(nth < usize::from(area.width % count));
            let heading = Rect { x, width: width.saturating_sub(1), height: area.height.min(1), ..area };
            let rows = Rect { y: area.y + heading.height, height: area.height - heading.height, ..heading };
            x += width;
            let tasks = self.columns[column].tasks.len();
            // A card that is cut at the lower edge shows its title.
            let fitting = usize::from(rows.height / CARD_ROWS);
            let selected = Some(self.place.1).filter(|_| self.place.0 == column);
            let first = revealed(&self.columns[column].offset, selected, tasks, fitting);
            let visible = (tasks - first).min(usize::from(rows.height.div_ceil(CARD_ROWS)));
            let hidden = tasks - visible;
            parts.push(Part { area: heading, column, card: None, hidden });
            parts.extend((0..visible).map(|nth| {
                let y = rows.y + u16::try_from(nth).unwrap_or(0) * CARD_ROWS;
                let area = Rect { y, height: CARD_ROWS.min(rows.bottom() - y), ..rows };
                Part { area, column, card: Some(first + nth), hidden: 0 }
            }));
        }
        parts
    }

    /// The columns below each other, a row for each task.
    fn list_parts(&self, area: Rect, shown: &[usize]) -> Vec<Part> {
        let cards = |column: usize| {
            std::iter::once(None).chain((0..self.columns[column].tasks.len()).map(Some)).map(move |card| (column, card))
        };
        let rows: Vec<(usize, Option<usize>)> = shown.iter().flat_map(|column| cards(*column)).collect();
        let (column, row) = self.place;
        let selected = rows.iter().position(|it| *it == (column, Some(row)));
        let height = usize::from(area.height);
        let mut first = revealed(&self.list_offset, selected, rows.len(), height);
        // The heading above the first row is shown with it.
        if height > 1 && first > 0 && selected == Some(first) && rows[first - 1].1.is_none() {
            first -= 1;
        }
        let visible = rows.into_iter().skip(first).zip(area.rows());
        visible.map(|((column, card), area)| Part { area, column, card, hidden: 0 }).collect()
    }
}

/// Moves an offset so that the selected row is visible, and returns it.
fn revealed(offset: &Cell<usize>, selected: Option<usize>, rows: usize, height: usize) -> usize {
    let mut list = ListState::<()>::default();
    list.offset = offset.get().min(rows.saturating_sub(height.max(1)));
    if let Some(selected) = selected {
        list.reveal(selected, rows, height);
    }
    offset.set(list.offset);
    list.offset
}

fn is_match(filter: &str, task: &TaskRecord) -> bool {
    if filter.is_empty() {
        return true;
    }
    let (id, tags) = (task.id.to_string(), task.tags.join(" "));
    let [harness, reason] = [&task.harness, &task.reason].map(|it| it.as_deref().unwrap_or_default());
    matches(filter, &[&task.title, &id, &tags, harness, reason, task.kind.as_str(), task.status.as_str()])
}

fn open_dependencies(task: &TaskRecord, world: &World) -> usize {
    let is_open = |id: &&TaskId| world.task(**id).is_some_and(|it| it.status != TaskState::Closed);
    task.depends_on.iter().filter(is_open).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(number: usize) -> String {
        format!("0190f3a2-0000-7000-8000-{number:012}")
    }

    fn task(number: usize, status: &str, title: &str) -> TaskRecord {
        serde_json::from_value(json!({
            "id": id(number), "title": title, "body": "", "type": "task", "priority": 2, "depends_on": [], "tags": [],
            "status": status, "args": [], "harness": "codex", "reason": (status == "blocked").then_some("no tests"),
            "created_at": format!("2026-01-01T00:00:{:02}.000Z", number % 60), "updated_at": "2026-01-01T00:00:00.000Z",
            "closed_at": (status == "closed").then_some("2026-01-01T00:00:00.000Z"),
        }))
        .expect("a task")
    }

    fn world(tasks: &[(usize, &str, &str)]) -> World {
        let mut world = World::default();
        world.add_tasks(tasks.iter().map(|(number, status, title)| task(*number, status, title)).collect());
        world.is_complete = true;
        world
    }

    fn board(world: &World) -> Board {
        let mut board = Board::default();
        board.refresh(world, "");
        board
    }

    fn subject(number: usize) -> Subject {
        Subject::Task(id(number).parse().expect("an id"))
    }

    fn drawn(board: &Board, world: &World, area: Rect) -> Vec<String> {
        let mut buffer = Buffer::empty(area);
        let now = "2026-01-01T02:00:00.000Z".parse().expect("a time");
        board.draw(&mut buffer, area, world, Theme { has_colors: false }, now);
        let row = |y| (area.left()..area.right()).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        area.rows().map(|it| row(it.y).trim_end().to_owned()).collect()
    }

    const FIVE: [(usize, &str, &str); 6] = [
        (1, "open", "Read the spec"),
        (2, "open", "Write the parser"),
        (3, "in_progress", "Fix the tests"),
        (4, "pending_merge", "Add a flag"),
        (5, "blocked", "Rename all of the things"),
        (6, "closed", "Start"),
    ];

    #[test]
    fn columns_fit_at_80_and_become_a_list_below() {
        let world = world(&FIVE);
        let mut board = board(&world);
        let shown = drawn(&board, &world, Rect { x: 0, y: 0, width: 80, height: 5 });
        assert_eq!(
            shown,
            [
                "open 2          in progress 1   pending merge 1 blocked 1       closed 1",
                "▌Read the spec   Fix the tests   Add a flag      ! Rename all …  Start",
                "▌codex       1h  codex       1h  codex bein… 2h  codex no t… 2h  codex       2h",
                " Write the par…",
                " codex       1h",
            ]
        );
        board.step(9);
        let shown = drawn(&board, &world, Rect { x: 0, y: 0, width: 40, height: 6 });
        assert_eq!(
            shown,
            [
                "open 2",
                " Read the spec                        1h",
                "▌Write the parser                     1h",
                "in progress 1",
                " Fix the tests                        1h",
                "pending merge 1",
            ]
        );
        board.step(3);
        assert_eq!(board.selected(), Some(subject(5)), "a list is one column");
        let shown = drawn(&board, &world, Rect { x: 0, y: 0, width: 40, height: 3 });
        assert_eq!(shown[2], "▌! Rename all of the things           2h");
    }

    #[test]
    fn the_selection_stays_on_its_task() {
        let world_before = world(&FIVE);
        let mut board = board(&world_before);
        assert_eq!(board.selected(), Some(subject(1)));
        board.step(1);
        board.step_column(1);
        assert_eq!(board.selected(), Some(subject(3)));
        let mut moved = FIVE;
        moved[2].1 = "blocked";
        board.refresh(&world(&moved), "");
        assert_eq!((board.selected(), board.place.0), (Some(subject(3)), 3));
        board.step_column(-1);
        assert_eq!(board.selected(), Some(subject(4)));
        board.refresh(&world(&FIVE[..3]), "");
        assert!(board.selected().is_some(), "another one takes its place");
        board.refresh(&world(&FIVE[..3]), "parser");
        assert_eq!(board.subjects(), [subject(2)]);
        board.refresh(&world(&[]), "");
        assert_eq!(board.selected(), None);
        assert_eq!(
            drawn(&board, &world(&[]), Rect { x: 0, y: 0, width: 40, height: 1 }),
            ["no tasks yet; o makes one"]
        );
    }

    #[test]
    fn nothing_overlaps_at_any_size_and_the_mouse_hits_what_is_drawn() {
        let states = ["open", "in_progress", "pending_merge", "blocked", "closed"];
        let titles = ["a\u{1b}[2Jb\u{202e}", "漢字漢字漢字漢字漢字漢字", "👩‍👩‍👧 family", "", "plain"];
        let tasks: Vec<(usize, &str, &str)> =
            (0..60).map(|nth| (nth, states[nth % (1 + nth % 5)], titles[nth % 5])).collect();
        let world = world(&tasks);
        let mut board = board(&world);
        for width in 1..=120 {
            for height in 1..=30 {
                let area = Rect { x: 2, y: 1, width, height };
                board.step_column(if height % 9 == 0 { -1 } else { 1 });
                board.step(if width % 7 == 0 { -3 } else { 2 });
                let shown = drawn(&board, &world, area).concat();
                assert!(!shown.chars().any(text::is_unsafe));
                let parts = board.parts(area);
                for (nth, part) in parts.iter().enumerate() {
                    assert!(!part.area.is_empty() || height == 1 || width == 1, "{width}×{height}");
                    assert_eq!(part.area.intersection(area), part.area);
                    assert!(parts[..nth].iter().all(|other| other.area.intersection(part.area).is_empty()));
                }
                let subjects = parts.iter().filter_map(|part| Some((part.area, (part.column, part.card?))));
                for (cells, (column, row)) in subjects.filter(|(cells, _)| !cells.is_empty()) {
                    let task = Subject::Task(board.columns[column].tasks[row]);
                    assert_eq!(board.at(area, cells.right() - 1, cells.bottom() - 1), Some(task));
                }
                assert!(height == 1 || shown.contains('▌'), "{width}×{height}: the selection is visible");
            }
        }
        assert_eq!(board.at(Rect { x: 0, y: 0, width: 80, height: 5 }, 79, 200), None);
    }

    #[test]
    fn a_column_scrolls_and_says_how_much_is_hidden() {
        let tasks: Vec<(usize, &str, &str)> = (0..30).map(|nth| (nth, "open", "one of many")).collect();
        let world = world(&tasks);
        let mut board = board(&world);
        board.step(29);
        let shown = drawn(&board, &world, Rect { x: 0, y: 0, width: 70, height: 7 });
        assert!(shown[0].starts_with("open 30") && shown[0].ends_with("↕27"), "{shown:#?}");
        assert!(shown[5].starts_with("▌one of many"));
    }
}
