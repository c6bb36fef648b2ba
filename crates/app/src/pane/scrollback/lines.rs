//! The lines of a session's output: one text, safe to show, of bounded size. Wraps it to rows and searches in it.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::frame::text;

/// Memory of the text with its line and row starts. The oldest lines are dropped beyond that.
const MAX_BYTES: usize = 64 << 20;
/// Memory of a line besides its text: its start, and that of its row.
const LINE_BYTES: usize = 2 * size_of::<u32>();

/// Places are bytes of the text.
#[derive(Default)]
pub struct Lines {
    /// Every line ends with a line break.
    pub text: String,
    starts: Vec<u32>,
    rows: Vec<u32>,
    columns: usize,
    pub are_dropped: bool,
}

impl Lines {
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Adds lines. Returns how many bytes of the oldest were dropped.
    pub fn push(&mut self, added: &str) -> usize {
        self.push_within(added, MAX_BYTES)
    }

    fn push_within(&mut self, added: &str, most: usize) -> usize {
        for line in added.lines() {
            let start = self.text.len();
            self.text.push_str(&text::line(line));
            self.text.push('\n');
            self.starts.push(offset(start));
            self.wrap(start..self.text.len());
        }
        let size = self.text.len() + self.count() * LINE_BYTES;
        if size <= most {
            return 0;
        }
        // A large part at a time, because the rest is moved.
        let excess = size - most / 8 * 7;
        let first = (1..self.count()).find(|line| self.starts[*line] as usize + line * LINE_BYTES >= excess);
        let cut = first.map_or(offset(self.text.len()), |line| self.starts[line]);
        self.text.drain(..cut as usize);
        for starts in [&mut self.starts, &mut self.rows] {
            starts.retain(|start| *start >= cut);
            starts.iter_mut().for_each(|start| *start -= cut);
        }
        self.are_dropped = true;
        cut as usize
    }

    /// Breaks all lines into rows of at most `columns`.
    pub fn set_columns(&mut self, columns: u16) {
        if self.columns == usize::from(columns) {
            return;
        }
        self.columns = usize::from(columns);
        self.rows.clear();
        for line in 0..self.count() {
            let end = self.starts.get(line + 1).map_or(self.text.len(), |next| *next as usize);
            self.wrap(self.starts[line] as usize..end);
        }
    }

    /// Adds the rows of a line. Before the width is known there is one.
    fn wrap(&mut self, line: Range<usize>) {
        self.rows.push(offset(line.start));
        let (columns, text) = (self.columns, &self.text[line.start..line.end - 1]);
        // No character has more columns than bytes.
        if columns == 0 || text.len() <= columns {
            return;
        }
        if text.is_ascii() {
            self.rows.extend((columns..text.len()).step_by(columns).map(|at| offset(line.start + at)));
            return;
        }
        let mut used = 0;
        for (at, piece) in text.grapheme_indices(true) {
            let wide = piece.width();
            if used + wide > columns && at > 0 {
                self.rows.push(offset(line.start + at));
                used = 0;
            }
            used += wide;
        }
    }

    pub fn line_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start as usize <= at).saturating_sub(1)
    }

    pub fn row_of(&self, at: usize) -> usize {
        self.rows.partition_point(|start| *start as usize <= at).saturating_sub(1)
    }

    /// Returns a line without its line break; behind the last one nothing.
    pub fn line(&self, line: usize) -> Range<usize> {
        self.range(&self.starts, line)
    }

    pub fn row(&self, row: usize) -> Range<usize> {
        self.range(&self.rows, row)
    }

    fn range(&self, starts: &[u32], nth: usize) -> Range<usize> {
        let start = starts.get(nth).map_or(self.text.len(), |start| *start as usize);
        let end = starts.get(nth + 1).map_or(self.text.len(), |next| *next as usize);
        start..start + self.text[start..end].trim_end_matches('\n').len()
    }

    /// Returns the character of a row at a column, or its last one.
    pub fn at_column(&self, row: usize, column: usize) -> usize {
        let row = self.row(row);
        let mut used = 0;
        let pieces = self.text[row.clone()].grapheme_indices(true).take_while(|(_, piece)| {
            let start = used;
            used += piece.width();
            start <= column
        });
        row.start + pieces.last().map_or(0, |(at, _)| at)
    }

    /// Returns the last character of a range, or its start.
    pub fn last_in(&self, range: Range<usize>) -> usize {
        range.start + self.text[range.clone()].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    /// Returns the end of the character at a place. A line break is not part of a line.
    pub fn end_of(&self, at: usize) -> usize {
        let next = self.text[at..].graphemes(true).next().filter(|piece| *piece != "\n");
        at + next.map_or(0, str::len)
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("the text is shortened long before")
}

/// What is searched: without capital letters it matches them too.
pub struct Needle {
    pub text: String,
    folded: Vec<char>,
    is_exact: bool,
}

impl Needle {
    pub fn new(text: &str) -> Self {
        let is_exact = text.chars().any(char::is_uppercase);
        Self { text: text.to_owned(), folded: text.chars().map(|c| fold(c, is_exact)).collect(), is_exact }
    }

    pub fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut end = 0;
        text.char_indices().filter_map(move |(at, c)| {
            if at < end || self.folded.first() != Some(&fold(c, self.is_exact)) {
                return None;
            }
            let mut rest = text[at..].chars();
            let is_match =
                self.folded.iter().all(|wanted| rest.next().map(|c| fold(c, self.is_exact)) == Some(*wanted));
            is_match.then(|| {
                end = text.len() - rest.as_str().len();
                at..end
            })
        })
    }
}

/// Returns the small letter. One character stays one character.
fn fold(c: char, is_exact: bool) -> char {
    match is_exact {
        true => c,
        false if c.is_ascii() => c.to_ascii_lowercase(),
        false => c.to_lowercase().next().unwrap_or(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, columns: u16) -> Lines {
        let mut lines = Lines::default();
        lines.set_columns(columns);
        lines.push(text);
        lines
    }

    #[test]
    fn lines_are_safe_and_the_oldest_are_dropped() {
        let mut lines = lines("one\n\ntw\u{1b}[31mo\u{202e}\n", 80);
        assert_eq!(lines.text, "one\n\ntwo\n");
        let mut kept = lines.text.len();
        for number in 0..100 {
            let added = format!("line {number}\n");
            kept = kept + added.len() - lines.push_within(&added, 300);
            assert!(lines.text.len() + lines.count() * LINE_BYTES <= 300);
            assert_eq!((lines.text.len(), lines.row_count()), (kept, lines.count()));
        }
        assert!(lines.are_dropped && lines.count() > 10);
        assert_eq!(&lines.text[lines.line(lines.count() - 1)], "line 99");
        assert_eq!(&lines.text[lines.row(0)], format!("line {}", 100 - lines.count()));
        lines.push_within(&"x".repeat(500), 300);
        assert_eq!((lines.count(), lines.text.as_str()), (0, ""), "a line that does not fit at all");
    }

    #[test]
    fn rows_break_at_characters() {
        let rows = |text, columns| {
            let mut lines = lines(text, 7);
            lines.set_columns(columns);
            (0..lines.row_count()).map(|row| lines.text[lines.row(row)].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(rows("漢字漢x", 5), ["漢字", "漢x"]);
        assert_eq!(rows("漢字x", 1), ["漢", "字", "x"]);
        assert_eq!(rows("abcdef\n\nab", 3), ["abc", "def", "", "ab"]);
        assert_eq!(rows("ab\nc", 0), ["ab", "c"]);
        assert_eq!(rows("abcd", 2), ["ab", "cd"]);
    }

    #[test]
    fn small_letters_match_capital_ones_and_not_the_other_way() {
        let find = |needle, line| Needle::new(needle).find(line).collect::<Vec<Range<usize>>>();
        assert_eq!(find("err", "Error ERR err"), [0..3, 6..9, 10..13]);
        assert_eq!(find("Err", "Error ERR Err"), [0..3, 10..13]);
        assert_eq!(find("größe", "GRÖSSE GRÖẞE Größe"), [8..16, 17..24]);
        assert_eq!(find("aa", "aaaa aa"), [0..2, 2..4, 5..7]);
        assert!(find("", "a").is_empty());
    }
}
