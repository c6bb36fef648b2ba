//! The prompt that is being typed: several lines, with the prompts before it at hand.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::row::{Row, Style};
use super::wrap::{self, Breaking};

/// So many earlier prompts are at hand.
pub const MOST_PROMPTS: usize = 200;
/// Columns of the sign before the prompt.
const SIGN: usize = 2;

#[derive(Debug, Default)]
pub struct Editor {
    text: String,
    /// In bytes, always between two characters.
    cursor: usize,
    past: Vec<String>,
    /// Which earlier prompt is shown, and what was typed before it was.
    recalled: Option<(usize, String)>,
}

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
pub enum Edited {
    Nothing,
    Changed,
    /// Enter: this is to be sent.
    Entered(String),
}

impl Editor {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn clear(&mut self) {
        self.set(String::new());
        self.recalled = None;
    }

    pub fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    /// Puts a prompt at hand.
    pub fn remember(&mut self, prompt: &str) {
        if self.past.last().is_some_and(|last| last == prompt) {
            return;
        }
        self.past.push(prompt.to_owned());
        if self.past.len() > MOST_PROMPTS {
            self.past.remove(0);
        }
    }

    /// Text from elsewhere, which may have several lines.
    pub fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        self.insert(&text);
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    pub fn key(&mut self, key: KeyEvent) -> Edited {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Enter if alt || key.modifiers.contains(KeyModifiers::SHIFT) => self.insert("\n"),
            KeyCode::Enter => return self.enter(),
            // What a terminal sends for Ctrl-J, and some for Shift-Enter.
            KeyCode::Char('j') if control => self.insert("\n"),
            KeyCode::Char('a') if control => self.cursor = self.line_start(),
            KeyCode::Char('e') if control => self.cursor = self.line_end(),
            KeyCode::Char('u') if control => self.remove(self.line_start(), self.cursor),
            KeyCode::Char('k') if control => self.remove(self.cursor, self.line_end()),
            KeyCode::Char('w') if control => self.remove(self.word_start(), self.cursor),
            KeyCode::Backspace if alt || control => self.remove(self.word_start(), self.cursor),
            KeyCode::Char('h') if control => self.remove(self.before(), self.cursor),
            KeyCode::Char('d') if control => self.remove(self.cursor, self.after()),
            KeyCode::Char('b') if control => self.cursor = self.before(),
            KeyCode::Char('f') if control => self.cursor = self.after(),
            KeyCode::Char('b') if alt => self.cursor = self.word_start(),
            KeyCode::Char('f') if alt => self.cursor = self.word_end(),
            KeyCode::Char('p') if control => return self.up(),
            KeyCode::Char('n') if control => return self.down(),
            KeyCode::Char(c) if !control && !alt => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace => self.remove(self.before(), self.cursor),
            KeyCode::Delete => self.remove(self.cursor, self.after()),
            KeyCode::Left if control || alt => self.cursor = self.word_start(),
            KeyCode::Right if control || alt => self.cursor = self.word_end(),
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::End => self.cursor = self.line_end(),
            KeyCode::Up => return self.up(),
            KeyCode::Down => return self.down(),
            _ => return Edited::Nothing,
        }
        Edited::Changed
    }

    fn enter(&mut self) -> Edited {
        if self.cursor == self.text.len() && self.text.ends_with('\\') {
            self.text.pop();
            self.text.push('\n');
            self.cursor = self.text.len();
            return Edited::Changed;
        }
        let text = self.text.trim().to_owned();
        self.clear();
        if text.is_empty() {
            return Edited::Changed;
        }
        self.remember(&text);
        Edited::Entered(text)
    }

    fn remove(&mut self, start: usize, end: usize) {
        self.text.replace_range(start..end, "");
        self.cursor = start;
    }

    /// One line up; from the first one, to the prompt before.
    fn up(&mut self) -> Edited {
        let start = self.line_start();
        if start > 0 {
            let column = self.text[start..self.cursor].width();
            let above = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
            self.cursor = above + at_column(&self.text[above..start - 1], column);
            return Edited::Changed;
        }
        let place = self.recalled.as_ref().map_or(self.past.len(), |(place, _)| *place);
        let Some(place) = place.checked_sub(1) else { return Edited::Nothing };
        let typed = self.recalled.take().map_or_else(|| self.text.clone(), |(_, typed)| typed);
        self.set(self.past[place].clone());
        self.recalled = Some((place, typed));
        Edited::Changed
    }

    fn down(&mut self) -> Edited {
        let end = self.line_end();
        if end < self.text.len() {
            let column = self.text[self.line_start()..self.cursor].width();
            let below = self.text[end + 1..].split('\n').next().unwrap_or_default();
            self.cursor = end + 1 + at_column(below, column);
            return Edited::Changed;
        }
        let Some((place, typed)) = self.recalled.take() else { return Edited::Nothing };
        match self.past.get(place + 1) {
            Some(next) => {
                self.set(next.clone());
                self.recalled = Some((place + 1, typed));
            }
            None => self.set(typed),
        }
        Edited::Changed
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn before(&self) -> usize {
        // What has no width belongs to the character before it.
        let mut characters = self.text[..self.cursor].char_indices().rev();
        characters.find(|(_, c)| *c == '\n' || c.width() != Some(0)).map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        let mut characters = self.text[self.cursor..].char_indices().skip(1);
        let next = characters.find(|(_, c)| *c == '\n' || c.width() != Some(0));
        next.map_or(self.text.len(), |(at, _)| self.cursor + at)
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

    /// The prompt in at most so many rows, and where the cursor is in them: its row is always seen.
    pub fn view(&self, columns: usize, most_rows: usize) -> (Vec<Row>, (usize, usize)) {
        // The cursor stands behind the last character: one column is kept for it.
        let columns = columns.saturating_sub(SIGN + 1).max(1);
        let mut rows = Vec::new();
        let mut cursor = (0, SIGN);
        let mut start = 0;
        for line in self.text.split('\n') {
            let (shown, at) = shown(line, self.cursor.checked_sub(start).filter(|at| *at <= line.len()));
            for range in wrap::rows(&shown, columns, Breaking::Anywhere) {
                if at.is_some_and(|at| range.contains(&at) || at == range.end) {
                    let at = at.expect("it was just looked at");
                    cursor = (rows.len(), SIGN + shown[range.start..at].width());
                }
                let sign = if rows.is_empty() { "› " } else { "  " };
                rows.push(Row::new(Style::User, sign).with(Style::Plain, &shown[range]));
            }
            start += line.len() + 1;
        }
        let most_rows = most_rows.max(1);
        let first = (cursor.0 + 1).saturating_sub(most_rows);
        let rows: Vec<Row> = rows.into_iter().skip(first).take(most_rows).collect();
        (rows, (cursor.0 - first, cursor.1))
    }
}

/// A line as it is shown, and where a place in it is then.
fn shown(line: &str, at: Option<usize>) -> (String, Option<usize>) {
    match at {
        Some(at) => {
            let mut shown = wrap::expanded(&line[..at], 0);
            let place = shown.len();
            shown.push_str(&wrap::expanded(&line[at..], shown.width()));
            (shown, Some(place))
        }
        None => (wrap::expanded(line, 0), None),
    }
}

/// The byte of a line at a column, or the nearest before it.
fn at_column(line: &str, column: usize) -> usize {
    let mut used = 0;
    let beyond = line.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > column
    });
    beyond.map_or(line.len(), |(at, _)| at)
}
