//! One line of text that is being typed.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::text;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    text: String,
    /// In bytes, always between two characters.
    cursor: usize,
}

impl Line {
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cursor: text.len(), text }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    /// Whether the key was one that edits a line.
    pub fn edit(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => self.cut(0),
            KeyCode::Char('w') if control => self.cut(self.word_start()),
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.text.len(),
            KeyCode::Char('h') if control => self.cut(self.before()),
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.insert(c.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace => self.cut(self.before()),
            KeyCode::Delete => {
                let end = self.after();
                self.text.replace_range(self.cursor..end, "");
            }
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }

    /// Removes what stands between `start` and the cursor.
    fn cut(&mut self, start: usize) {
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..].chars().next().map_or(self.cursor, |c| self.cursor + c.len_utf8())
    }

    fn word_start(&self) -> usize {
        let head = self.text[..self.cursor].trim_end();
        head.rfind(char::is_whitespace).map_or(0, |at| at + head[at..].chars().next().map_or(0, char::len_utf8))
    }

    /// What is seen of the line in `columns`, with the cursor's column in it: the cursor is always seen.
    pub fn view(&self, columns: usize) -> (String, usize) {
        let head = text::fit_end(&self.text[..self.cursor], columns.saturating_sub(1));
        let at = text::width(&head);
        let tail = text::fit(&self.text[self.cursor..], columns.saturating_sub(at));
        (head + &tail, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &mut Line, keys: &[KeyCode]) {
        for key in keys {
            line.edit(KeyEvent::from(*key));
        }
    }

    #[test]
    fn a_line_is_edited_at_its_cursor() {
        let mut line = Line::new("né");
        typed(&mut line, &[KeyCode::Left, KeyCode::Char('漢'), KeyCode::Right, KeyCode::Backspace]);
        assert_eq!(line.text(), "n漢");
        typed(&mut line, &[KeyCode::Home, KeyCode::Delete, KeyCode::Delete, KeyCode::Delete, KeyCode::Backspace]);
        assert!(line.is_empty());
    }

    #[test]
    fn control_keys_cut_words_and_everything() {
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        let mut line = Line::new("fix the  ");
        line.edit(control('w'));
        assert_eq!(line.text(), "fix ");
        line.edit(control('u'));
        assert!(line.is_empty());
        assert!(!line.edit(control('x')));
    }

    #[test]
    fn the_cursor_is_seen_however_long_the_line() {
        assert_eq!(Line::new("abc").view(10), ("abc".to_owned(), 3));
        assert_eq!(Line::new("abcdefgh").view(5), ("…fgh".to_owned(), 4));
        let mut line = Line::new("abcdefgh");
        line.edit(KeyEvent::from(KeyCode::Home));
        assert_eq!(line.view(5), ("abcd…".to_owned(), 0));
    }
}
