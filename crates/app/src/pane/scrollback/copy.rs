//! Copy mode: the whole output as lines, with search and selection. It shows the output up to the time it was opened.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;

use coven_api::entry::EntryRecord;
use coven_domain::entry::EntryKind;
use coven_domain::{SessionId, Timestamp};
use coven_screen::TextLog;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::ledger::{self, DEFAULT_SIZE, Reader};
use super::lines::{Lines, Needle};
use crate::app::{Effect, PaneResult};
use crate::feed::{Answer, Call};
use crate::frame::canvas::{self, CursorPlace};
use crate::frame::editor::{Edited, Editor};
use crate::frame::theme::Theme;

/// Output that is converted in one go, so that the app stays responsive.
const BYTES_PER_TICK: usize = 512 << 10;

struct Search {
    needle: Needle,
    matches: Vec<usize>,
    /// The match at the cursor.
    current: Option<usize>,
}

pub struct CopyMode {
    reader: Reader,
    queue: VecDeque<EntryRecord>,
    /// None before the first and after the last output.
    log: Option<TextLog>,
    /// Drawing at another width wraps the lines.
    lines: RefCell<Lines>,
    /// A character of the text; so are the start of the selection and the top row.
    cursor: usize,
    top: usize,
    /// Where the selection starts, and whether it has whole lines.
    selection: Option<(usize, bool)>,
    /// The column that the cursor returns to in a longer row.
    column: usize,
    /// The cursor stays at the end while lines arrive.
    is_at_end: bool,
    search: Option<Search>,
    typing: Option<Editor>,
    message: Option<String>,
}

impl CopyMode {
    pub fn new(session: SessionId) -> Self {
        Self {
            reader: Reader::new(session, 0),
            queue: VecDeque::new(),
            log: None,
            lines: RefCell::default(),
            cursor: 0,
            top: 0,
            selection: None,
            column: 0,
            is_at_end: true,
            search: None,
            typing: None,
            message: None,
        }
    }

    pub fn requests(&mut self) -> Vec<Effect> {
        let is_wanted = self.queue.is_empty();
        is_wanted.then(|| self.reader.request()).flatten().into_iter().collect()
    }

    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) -> Vec<Effect> {
        self.queue.extend(self.reader.answered(call, result));
        self.convert();
        self.requests()
    }

    pub fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        self.reader.tick(now);
        self.convert();
        self.requests()
    }

    pub fn next_tick_millis(&self) -> Option<u64> {
        if self.queue.is_empty() { self.reader.next_tick_millis() } else { Some(1) }
    }

    /// Converts the next output to lines.
    fn convert(&mut self) {
        let lines = self.lines.get_mut();
        let (mut text, mut budget) = (Vec::new(), BYTES_PER_TICK);
        while budget > 0
            && let Some(entry) = self.queue.pop_front()
        {
            budget = budget.saturating_sub(ledger::memory(&entry));
            let size = ledger::size_of_terminal(&entry);
            let (rows, cols) = size.unwrap_or(DEFAULT_SIZE);
            let log = self.log.get_or_insert_with(|| TextLog::new(rows, cols));
            if entry.kind == EntryKind::Output {
                log.push(&entry.bytes(), &mut text).expect("a vector takes everything");
                lines.are_dropped |= ledger::is_lost(&entry);
            } else if size.is_some() {
                log.resize(rows, cols);
            }
        }
        if self.queue.is_empty()
            && self.reader.is_complete()
            && let Some(log) = self.log.take()
        {
            log.finish(&mut text).expect("a vector takes everything");
        }
        let dropped = lines.push(&String::from_utf8_lossy(&text));
        for place in [&mut self.cursor, &mut self.top].into_iter().chain(self.selection.as_mut().map(|it| &mut it.0)) {
            *place = place.saturating_sub(dropped);
        }
        if self.is_at_end {
            self.cursor = lines.line(lines.count().saturating_sub(1)).start;
        }
    }

    pub fn key(&mut self, key: KeyEvent, area: Rect) -> PaneResult {
        self.message = None;
        self.settle(area);
        if let Some(editor) = &mut self.typing {
            match (key.code, editor.key(key)) {
                (KeyCode::Esc, _) => self.typing = None,
                (_, Edited::Entered) => self.start_search(),
                (_, Edited::Changed | Edited::Ignored) => {}
            }
            return PaneResult::Done(Vec::new());
        }
        let page = isize::try_from(text_height(area)).unwrap_or(1);
        let half = (page / 2).max(1);
        let lines = self.lines.get_mut();
        let line = lines.line(lines.line_of(self.cursor));
        let (left, right) = (lines.last_in(line.start..self.cursor), lines.end_of(self.cursor));
        let (line_end, last_line) = (lines.last_in(line.clone()), lines.line(lines.count().saturating_sub(1)).start);
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Esc, _) if self.selection.is_some() => self.selection = None,
            (KeyCode::Esc | KeyCode::Char('q'), _) | (KeyCode::Char('c'), true) => return PaneResult::Left,
            (KeyCode::Char('u'), true) => self.scroll(-half, area),
            (KeyCode::Char('d'), true) => self.scroll(half, area),
            (KeyCode::PageUp, _) | (KeyCode::Char('b'), true) => self.scroll(-page, area),
            (KeyCode::PageDown, _) | (KeyCode::Char('f'), true) => self.scroll(page, area),
            (KeyCode::Up | KeyCode::Char('k'), _) => self.step(-1),
            (KeyCode::Down | KeyCode::Char('j'), _) => self.step(1),
            (KeyCode::Char('g'), _) => self.go_to(0),
            (KeyCode::Char('G'), _) => {
                self.go_to(last_line);
                self.is_at_end = self.selection.is_none();
            }
            (KeyCode::Left | KeyCode::Char('h'), _) => self.go_to(left),
            (KeyCode::Right | KeyCode::Char('l'), _) => self.go_to(right.min(line_end)),
            (KeyCode::Home | KeyCode::Char('0'), _) => self.go_to(line.start),
            (KeyCode::End | KeyCode::Char('$'), _) => self.go_to(line_end),
            (KeyCode::Char('v' | ' '), _) => self.select(false),
            (KeyCode::Char('V'), _) => self.select(true),
            (KeyCode::Char('y') | KeyCode::Enter, _) => return self.copy(),
            (KeyCode::Char('/'), _) => self.typing = Some(Editor::one_line("")),
            (KeyCode::Char('n'), _) => self.next_match(true, false),
            (KeyCode::Char('N'), _) => self.next_match(false, false),
            _ => return PaneResult::Ignored,
        }
        self.settle(area);
        PaneResult::Done(Vec::new())
    }

    fn select(&mut self, is_lines: bool) {
        self.is_at_end = false;
        self.selection = match self.selection {
            Some((_, was_lines)) if was_lines == is_lines => None,
            Some((start, _)) => Some((start, is_lines)),
            None => Some((self.cursor, is_lines)),
        };
    }

    /// Returns the selected bytes; without a selection the line of the cursor.
    fn selected(&self, lines: &Lines) -> Range<usize> {
        let (start, is_lines) = self.selection.unwrap_or((self.cursor, true));
        let (first, last) = (start.min(self.cursor), start.max(self.cursor));
        match is_lines {
            true => lines.line(lines.line_of(first)).start..lines.line(lines.line_of(last)).end,
            false => first..lines.end_of(last),
        }
    }

    pub fn paste(&mut self, text: &str) {
        if let Some(editor) = &mut self.typing {
            editor.insert(text);
        }
    }

    fn copy(&mut self) -> PaneResult {
        let lines = self.lines.borrow();
        if lines.count() == 0 {
            return PaneResult::Notice("there is no output to copy".to_owned());
        }
        let selected = self.selected(&lines);
        let count = lines.line_of(selected.end) - lines.line_of(selected.start) + 1;
        let text = lines.text[selected].to_owned();
        drop(lines);
        self.selection = None;
        self.message = Some(format!("copied {} {}", thousands(count), if count == 1 { "line" } else { "lines" }));
        PaneResult::Done(vec![Effect::Copy(text)])
    }

    fn start_search(&mut self) {
        let text = self.typing.take().map(|mut editor| editor.take()).unwrap_or_default();
        if !text.is_empty() {
            self.search = Some(Search { needle: Needle::new(&text), matches: Vec::new(), current: None });
        }
        self.next_match(true, true);
    }

    /// Moves to the match above or below the cursor, and from the first or last one to the other end.
    fn next_match(&mut self, is_upwards: bool, is_new: bool) {
        let Some(search) = &mut self.search else {
            self.message = Some("/ searches".to_owned());
            return;
        };
        // Searched again each time, because more output may have arrived.
        search.matches = search.needle.find(&self.lines.get_mut().text).map(|range| range.start).collect();
        // A new search at the end of the output starts behind the last line.
        let here = if is_new && self.is_at_end { usize::MAX } else { self.cursor };
        let before = search.matches.partition_point(|it| if is_new { *it <= here } else { *it < here });
        let behind = search.matches.partition_point(|it| *it <= here);
        let last = search.matches.len().checked_sub(1);
        let wrapped = last.map(|last| match is_upwards {
            true => before.checked_sub(1).unwrap_or(last),
            false => {
                if behind > last {
                    0
                } else {
                    behind
                }
            }
        });
        search.current = wrapped;
        match wrapped {
            Some(at) => {
                let to = search.matches[at];
                self.go_to(to);
            }
            None => self.message = Some(format!("not found: {}", search.needle.text)),
        }
    }

    fn go_to(&mut self, at: usize) {
        let lines = self.lines.get_mut();
        let start = lines.row(lines.row_of(at)).start;
        (self.cursor, self.column) = (at, lines.text[start..at].width());
        self.is_at_end &= lines.count() == 0;
    }

    /// Moves the cursor by rows of the pane.
    fn step(&mut self, by: isize) {
        let lines = self.lines.get_mut();
        let row = lines.row_of(self.cursor).saturating_add_signed(by).min(lines.row_count().saturating_sub(1));
        self.cursor = lines.at_column(row, self.column);
        // Before anything was read there is nothing to leave.
        self.is_at_end &= lines.count() == 0;
    }

    /// Moves the cursor and the view by rows.
    pub fn scroll(&mut self, rows: isize, area: Rect) {
        self.settle(area);
        let lines = self.lines.get_mut();
        self.top = lines.row(lines.row_of(self.top).saturating_add_signed(rows)).start;
        self.step(rows);
        self.settle(area);
    }

    /// Wraps the lines to the area, and moves the view so that the cursor is visible.
    fn settle(&mut self, area: Rect) {
        self.lines.get_mut().set_columns(area.width);
        let top = self.top_row(&self.lines.borrow(), area);
        self.top = self.lines.get_mut().row(top).start;
    }

    /// Returns the first visible row.
    fn top_row(&self, lines: &Lines, area: Rect) -> usize {
        let (cursor, height) = (lines.row_of(self.cursor), text_height(area));
        let last_top = lines.row_count().saturating_sub(height);
        lines.row_of(self.top).min(last_top).clamp((cursor + 1).saturating_sub(height), cursor)
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) -> Option<CursorPlace> {
        let mut lines = self.lines.borrow_mut();
        lines.set_columns(area.width);
        let (last_y, top) = (area.bottom() - 1, self.top_row(&lines, area));
        let selected = self.selection.map(|_| self.selected(&lines)).unwrap_or_default();
        // The lines of the visible rows: a match may start above them.
        let start = lines.line(lines.line_of(lines.row(top).start)).start;
        let end = lines.line(lines.line_of(lines.row(top + text_height(area)).start)).end;
        let find = |search: &Search| search.needle.find(&lines.text[start..end]).collect::<Vec<_>>();
        let matches = self.search.as_ref().map(find).unwrap_or_default();
        let mut cursor = None;
        for (y, row) in (area.top()..last_y).zip(top..lines.row_count()) {
            let (row, mut x) = (lines.row(row), area.x);
            for (at, piece) in lines.text[row.clone()].grapheme_indices(true).map(|(at, piece)| (row.start + at, piece))
            {
                if at == self.cursor {
                    cursor = Some(CursorPlace { x, y, shape: 0 });
                }
                let nth = matches.partition_point(|range| start + range.end <= at);
                let is_match = matches.get(nth).is_some_and(|range| start + range.start <= at);
                let style = if is_match { theme.need().add_modifier(Modifier::UNDERLINED) } else { theme.plain() };
                let style = if selected.contains(&at) { style.add_modifier(Modifier::REVERSED) } else { style };
                x += canvas::put(buffer, x, y, area.right().saturating_sub(x), piece, style);
            }
            if row.start == self.cursor {
                cursor = Some(CursorPlace { x: area.x, y, shape: 0 });
            }
        }
        let Some(editor) = &self.typing else {
            canvas::put(buffer, area.x, last_y, area.width, &self.status(&lines), theme.reverse());
            return cursor;
        };
        let used = canvas::put(buffer, area.x, last_y, area.width, "/", theme.key());
        let rest = Rect { x: area.x + used, y: last_y, width: area.width - used, height: 1 };
        editor.draw(buffer, rest, theme.plain())
    }

    /// Builds the last row: where the cursor is, and what happened.
    fn status(&self, lines: &Lines) -> String {
        let is_finished = self.queue.is_empty() && self.reader.is_complete();
        let mut parts = match (lines.count(), is_finished) {
            (0, true) => vec!["no output".to_owned()],
            (0, false) => Vec::new(),
            (count, _) => vec![format!("line {} of {}", thousands(lines.line_of(self.cursor) + 1), thousands(count))],
        };
        let found = self.search.as_ref().and_then(|it| Some((it.current?, it.matches.len())));
        parts.extend(
            self.message.clone().or(found.map(|(at, all)| format!("{} of {}", thousands(at + 1), thousands(all)))),
        );
        parts.extend(
            self.selection.map(|(_, is_lines)| if is_lines { "selecting lines" } else { "selecting" }.to_owned()),
        );
        match &self.reader.failure {
            Some(why) => parts.push(format!("cannot read the output: {why}")),
            None if !is_finished => parts.push("reading".to_owned()),
            None => {}
        }
        parts.extend(lines.are_dropped.then(|| "earlier output is not shown".to_owned()));
        parts.join("  ")
    }

    pub const fn hints(&self) -> &'static str {
        match (&self.typing, &self.selection) {
            (Some(_), _) => "enter search upwards  esc cancel",
            (None, Some(_)) => "move to select  y copy  esc cancel",
            (None, None) => "/ search  n N next  v select  y copy  q back",
        }
    }
}

/// Rows for the text: the last one has the position.
fn text_height(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(1)).max(1)
}

/// Writes a number with a comma between thousands.
fn thousands(number: usize) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", thousands(number / 1_000), number % 1_000),
    }
}
