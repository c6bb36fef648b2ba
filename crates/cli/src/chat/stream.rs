//! A text that is being written: rows are given out as soon as nothing can change them any more.

use unicode_width::UnicodeWidthStr;

use super::content::Voice;
use super::row::{Row, Style};
use super::wrap::{self, Breaking};

/// More empty lines than this in a row say nothing.
const MOST_BLANK: usize = 2;

#[derive(Debug)]
pub struct Stream {
    voice: Voice,
    /// The line under way, as far as it was not given out.
    tail: String,
    /// How the line under way is written, once its beginning was given out.
    line: Option<Line>,
    /// Empty lines that come before the next one; at the end of a text they are dropped.
    blank: usize,
    has_rows: bool,
    is_in_fence: bool,
}

/// How a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    style: Style,
    breaking: Breaking,
    is_fence: bool,
}

impl Stream {
    pub fn new(voice: Voice) -> Self {
        Self { voice, tail: String::new(), line: None, blank: 0, has_rows: false, is_in_fence: false }
    }

    /// Returns the rows that more text completes.
    pub fn push(&mut self, text: &str, columns: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        for piece in text.split_inclusive('\n') {
            let line = piece.strip_suffix('\n');
            self.tail.push_str(&wrap::expanded(line.unwrap_or(piece), self.tail.width()));
            self.give_out_full_rows(columns, &mut rows);
            if line.is_some() {
                self.end_line(&mut rows);
            }
        }
        rows
    }

    /// The last rows: nothing more comes.
    pub fn finish(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        if self.has_tail() {
            self.end_line(&mut rows);
        }
        rows
    }

    /// Whether a line is under way.
    pub fn has_tail(&self) -> bool {
        !self.tail.trim().is_empty()
    }

    fn give_out_full_rows(&mut self, columns: usize, rows: &mut Vec<Row>) {
        let kind = self.kind();
        let columns = columns.saturating_sub(self.prefix(true).width());
        let ranges = wrap::rows(&self.tail, columns, kind.breaking);
        let Some((last, full)) = ranges.split_last() else { return };
        for range in full {
            let text = self.tail[range.clone()].trim_end().to_owned();
            self.give_out(&text, kind, rows);
            self.line = Some(kind);
        }
        self.tail.drain(..last.start);
    }

    fn end_line(&mut self, rows: &mut Vec<Row>) {
        let text = std::mem::take(&mut self.tail);
        let text = text.trim_end();
        if text.is_empty() {
            // The rest of a line that was given out is no empty line.
            self.blank += usize::from(self.line.is_none());
        } else {
            let kind = match self.line {
                Some(kind) => kind,
                None => kind_of(self.voice, text, self.is_in_fence),
            };
            self.give_out(text, kind, rows);
            self.is_in_fence ^= kind.is_fence;
        }
        self.line = None;
    }

    fn give_out(&mut self, text: &str, kind: Line, rows: &mut Vec<Row>) {
        let blank = std::mem::take(&mut self.blank).min(MOST_BLANK);
        if self.has_rows {
            let empty = self.prefix(true).trim_end().to_owned();
            rows.extend((0..blank).map(|_| Row::new(kind.style, &empty)));
        }
        rows.push(self.row(text, kind, self.has_rows));
        self.has_rows = true;
    }

    fn kind(&self) -> Line {
        self.line.unwrap_or_else(|| kind_of(self.voice, &self.tail, self.is_in_fence))
    }

    fn row(&self, text: &str, kind: Line, is_further: bool) -> Row {
        Row::new(kind.style, self.prefix(is_further)).with(kind.style, text)
    }

    const fn prefix(&self, is_further: bool) -> &'static str {
        match (self.voice, is_further) {
            (Voice::User, false) => "› ",
            (Voice::User, true) => "  ",
            (Voice::Agent, _) => "",
            (Voice::Thought, _) => "┊ ",
        }
    }
}

/// Agents write Markdown: code keeps its shape, headings stand out.
fn kind_of(voice: Voice, text: &str, is_in_fence: bool) -> Line {
    let plain = |style| Line { style, breaking: Breaking::Words, is_fence: false };
    match voice {
        Voice::User => return plain(Style::User),
        Voice::Thought => return plain(Style::Dim),
        Voice::Agent => {}
    }
    let start = text.trim_start();
    if start.starts_with("```") {
        return Line { style: Style::Dim, breaking: Breaking::Anywhere, is_fence: true };
    }
    if is_in_fence {
        return Line { style: Style::Plain, breaking: Breaking::Anywhere, is_fence: false };
    }
    let is_heading = text.starts_with('#') && text.trim_start_matches('#').starts_with(' ');
    plain(if is_heading { Style::Bold } else { Style::Plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything a text gives out, pushed in pieces of so many characters.
    fn written(voice: Voice, text: &str, columns: usize, step: usize) -> Vec<Row> {
        let mut stream = Stream::new(voice);
        let characters: Vec<char> = text.chars().collect();
        let mut rows: Vec<Row> = Vec::new();
        for piece in characters.chunks(step) {
            rows.extend(stream.push(&piece.iter().collect::<String>(), columns));
        }
        rows.extend(stream.finish());
        rows
    }

    fn texts(rows: &[Row]) -> Vec<String> {
        rows.iter().map(Row::text).collect()
    }

    #[test]
    fn it_reads_the_same_however_it_was_cut() {
        let text =
            "\n# Plan\nThe quick brown fox jumps.\n\n\n\n```rust\nfn  main() { very_long_code(); }\n```\nend\t.\r\n\n";
        let whole = written(Voice::Agent, text, 16, 1000);
        let expected = [
            "# Plan",
            "The quick brown",
            "fox jumps.",
            "",
            "",
            "```rust",
            "fn  main() { ver",
            "y_long_code(); }",
            "```",
            "end .",
        ];
        assert_eq!(texts(&whole), expected);
        for step in 1..20 {
            assert_eq!(written(Voice::Agent, text, 16, step), whole, "in pieces of {step}");
        }
    }

    #[test]
    fn rows_are_given_out_as_soon_as_they_are_full() {
        let mut stream = Stream::new(Voice::Agent);
        assert_eq!(texts(&stream.push("one two thr", 8)), ["one two"]);
        assert_eq!(texts(&stream.push("ee\n", 8)), ["three"]);
        // when the terminal gets wider in between, then the rest is written in its width
        stream.push("a b", 4);
        assert_eq!(texts(&stream.push(" c d e f\n", 80)), ["a b c d e f"]);
    }

    #[test]
    fn voices_are_told_apart() {
        assert_eq!(texts(&written(Voice::User, "one two\n\nthree", 7, 1)), ["› one", "  two", "", "  three"]);
        assert_eq!(texts(&written(Voice::Thought, "a\n\nb", 20, 1)), ["┊ a", "┊", "┊ b"]);
    }
}
