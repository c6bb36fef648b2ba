//! The text editor of prompts, answers, filters and dialogs: one line, or several.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::canvas::{self, CursorPlace};
use super::text::is_unsafe;

/// Longer text is not accepted.
const MAX_BYTES: usize = 3 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Editor {
    text: String,
    /// In bytes, always on a grapheme boundary.
    cursor: usize,
    is_multiline: bool,
}

/// What a key did to the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// The key means nothing here.
    Ignored,
    Changed,
    /// Enter: the text is complete.
    Entered,
}

impl Editor {
    pub fn one_line(text: &str) -> Self {
        let mut editor = Self::default();
        editor.insert(text);
        editor
    }

    pub fn multiline(text: &str) -> Self {
        let mut editor = Self { is_multiline: true, ..Self::default() };
        editor.insert(text);
        editor
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the text and leaves the editor empty.
    pub fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    pub fn set(&mut self, text: &str) {
        self.take();
        self.insert(text);
    }

    /// Inserts text at the cursor. Characters that act on a terminal are left out.
    pub fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let clean: String = text
            .chars()
            .filter_map(|c| match c {
                '\n' if self.is_multiline => Some('\n'),
                '\n' | '\t' => Some(' '),
                c if is_unsafe(c) => None,
                c => Some(c),
            })
            .collect();
        if self.text.len() + clean.len() <= MAX_BYTES {
            self.text.insert_str(self.cursor, &clean);
            self.cursor += clean.len();
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> Edited {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Enter if self.is_multiline && (alt || shift) => self.insert("\n"),
            KeyCode::Enter => return Edited::Entered,
            // Ctrl-J, which some terminals send for Shift-Enter.
            KeyCode::Char('j') if control && self.is_multiline => self.insert("\n"),
            KeyCode::Char('a') if control => self.cursor = self.line_start(),
            KeyCode::Char('e') if control => self.cursor = self.line_end(),
            KeyCode::Char('u') if control => self.remove(self.line_start(), self.cursor),
            KeyCode::Char('k') if control => self.remove(self.cursor, self.line_end()),
            KeyCode::Char('w') if control => self.remove(self.word_start(), self.cursor),
            KeyCode::Backspace if alt || control => self.remove(self.word_start(), self.cursor),
            KeyCode::Char('h') if control => self.remove(self.before(), self.cursor),
            KeyCode::Char('b') if control => self.cursor = self.before(),
            KeyCode::Char('f') if control => self.cursor = self.after(),
            KeyCode::Char('b') if alt => self.cursor = self.word_start(),
            KeyCode::Char('f') if alt => self.cursor = self.word_end(),
            KeyCode::Char(c) if !control && !alt => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => self.remove(self.before(), self.cursor),
            KeyCode::Delete => self.remove(self.cursor, self.after()),
            KeyCode::Left if control || alt => self.cursor = self.word_start(),
            KeyCode::Right if control || alt => self.cursor = self.word_end(),
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::End => self.cursor = self.line_end(),
            KeyCode::Up if self.is_multiline => return self.up(),
            KeyCode::Down if self.is_multiline => return self.down(),
            _ => return Edited::Ignored,
        }
        Edited::Changed
    }

    fn remove(&mut self, start: usize, end: usize) {
        self.text.replace_range(start..end, "");
        self.cursor = start;
    }

    fn up(&mut self) -> Edited {
        let start = self.line_start();
        if start == 0 {
            return Edited::Ignored;
        }
        let column = self.text[start..self.cursor].width();
        let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
        self.cursor = above + at_column(&self.text[above..start - 1], column);
        Edited::Changed
    }

    fn down(&mut self) -> Edited {
        let end = self.line_end();
        if end == self.text.len() {
            return Edited::Ignored;
        }
        let column = self.text[self.line_start()..self.cursor].width();
        let below = self.text[end + 1..].split('\n').next().unwrap_or_default();
        self.cursor = end + 1 + at_column(below, column);
        Edited::Changed
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        self.cursor + next.map_or(0, str::len)
    }

    fn word_start(&self) -> usize {
        let head = self.text[..self.cursor].trim_end();
        head.rfind(char::is_whitespace).map_or(0, |at| at + head[at..].chars().next().map_or(0, char::len_utf8))
    }

    fn word_end(&self) -> usize {
        let tail = &self.text[self.cursor..];
        let word = tail.len() - tail.trim_start().len();
        tail[word..].find(char::is_whitespace).map_or(self.text.len(), |at| self.cursor + word + at)
    }

    /// Breaks the text into rows of at most `columns`: the byte range of each.
    fn rows(&self, columns: usize) -> Vec<std::ops::Range<usize>> {
        let columns = columns.max(1);
        let mut rows = Vec::new();
        let mut start = 0;
        for line in self.text.split('\n') {
            let (mut first, mut used) = (start, 0);
            for (at, piece) in line.grapheme_indices(true) {
                if used + piece.width() > columns {
                    rows.push(first..start + at);
                    (first, used) = (start + at, 0);
                }
                used += piece.width();
            }
            rows.push(first..start + line.len());
            start += line.len() + 1;
        }
        rows
    }

    /// Number of rows that the text needs at this width; the cursor needs a column behind the text.
    pub fn height(&self, columns: u16) -> u16 {
        u16::try_from(self.rows(usize::from(columns.saturating_sub(1))).len()).unwrap_or(u16::MAX)
    }

    /// Draws the text; the row of the cursor is always visible. Returns the place of the cursor.
    pub fn draw(&self, buffer: &mut Buffer, area: Rect, style: Style) -> Option<CursorPlace> {
        if area.width == 0 || area.height == 0 {
            return None;
        }
        if !self.is_multiline {
            return self.draw_line(buffer, area, style);
        }
        let rows = self.rows(usize::from(area.width.saturating_sub(1)));
        let at = rows.iter().rposition(|row| row.start <= self.cursor).unwrap_or(0);
        let first = (at + 1).saturating_sub(usize::from(area.height));
        for (y, row) in (area.top()..area.bottom()).zip(&rows[first..]) {
            canvas::put(buffer, area.x, y, area.width, &self.text[row.clone()], style);
        }
        let column = self.text[rows[at].start..self.cursor].width();
        Some(place(area, column, at - first))
    }

    /// Draws one line, scrolled so that the cursor is visible.
    fn draw_line(&self, buffer: &mut Buffer, area: Rect, style: Style) -> Option<CursorPlace> {
        let columns = usize::from(area.width.saturating_sub(1));
        let mut start = 0;
        while self.text[start..self.cursor].width() > columns {
            start += self.text[start..].graphemes(true).next().map_or(1, str::len);
        }
        canvas::put(buffer, area.x, area.y, area.width, &self.text[start..], style);
        Some(place(area, self.text[start..self.cursor].width(), 0))
    }
}

fn place(area: Rect, column: usize, row: usize) -> CursorPlace {
    let x = area.x + u16::try_from(column).unwrap_or(u16::MAX).min(area.width.saturating_sub(1));
    CursorPlace { x, y: area.y + u16::try_from(row).unwrap_or(0), shape: 0 }
}

/// Returns the byte of a line at a column, or the nearest before it.
fn at_column(line: &str, column: usize) -> usize {
    let mut used = 0;
    let beyond = line.grapheme_indices(true).find(|(_, piece)| {
        used += piece.width();
        used > column
    });
    beyond.map_or(line.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, keys: &str) {
        for c in keys.chars() {
            editor.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        }
    }

    fn press(editor: &mut Editor, code: KeyCode, modifiers: KeyModifiers) -> Edited {
        editor.key(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn a_line_has_no_line_breaks_and_several_lines_do() {
        let mut line = Editor::one_line("");
        line.insert("a\r\nb\u{1b}c");
        assert_eq!(line.text(), "a bc");
        assert_eq!(press(&mut line, KeyCode::Enter, KeyModifiers::NONE), Edited::Entered);
        let mut lines = Editor::multiline("");
        typed(&mut lines, "one");
        press(&mut lines, KeyCode::Enter, KeyModifiers::ALT);
        typed(&mut lines, "two");
        assert_eq!(lines.text(), "one\ntwo");
        press(&mut lines, KeyCode::Up, KeyModifiers::NONE);
        typed(&mut lines, "!");
        assert_eq!(lines.text(), "one!\ntwo");
    }

    #[test]
    fn keys_edit_whole_characters_and_words() {
        let mut line = Editor::one_line("fix the 👩‍👩‍👧");
        press(&mut line, KeyCode::Backspace, KeyModifiers::NONE);
        assert_eq!(line.text(), "fix the ");
        press(&mut line, KeyCode::Char('w'), KeyModifiers::CONTROL);
        assert_eq!(line.text(), "fix ");
        press(&mut line, KeyCode::Char('a'), KeyModifiers::CONTROL);
        press(&mut line, KeyCode::Delete, KeyModifiers::NONE);
        press(&mut line, KeyCode::Char('k'), KeyModifiers::CONTROL);
        assert!(line.is_empty());
    }

    #[test]
    fn the_cursor_is_always_visible() {
        let area = Rect::new(0, 0, 5, 2);
        let mut buffer = Buffer::empty(area);
        let lines = Editor::multiline("1\n2\n3\nabcdefg");
        assert_eq!(lines.height(5), 5);
        let cursor = lines.draw(&mut buffer, area, Style::new()).expect("room");
        assert_eq!((cursor.x, cursor.y), (3, 1));
        let mut buffer = Buffer::empty(area);
        let line = Editor::one_line("abcdefg");
        let cursor = line.draw(&mut buffer, area, Style::new()).expect("room");
        assert_eq!((cursor.x, cursor.y), (4, 0));
        assert_eq!(buffer[(0, 0)].symbol(), "d");
    }
}
