//! An answer on the screen as it comes: every piece at once, and every whole line with its Markdown shown.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use crate::failure::Failure;
use crate::{output, wording};

const BOLD: &str = "\x1b[1m";
const CODE: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

pub struct Painter {
    /// None where the answer goes to a program, as it is.
    cols: Option<usize>,
    /// The line that is being written.
    line: String,
    is_in_code: bool,
}

impl Painter {
    pub fn new() -> Self {
        let cols = output::terminal_size().map(|(_, cols)| usize::from(cols)).filter(|_| output::is_terminal());
        Self { cols, line: String::new(), is_in_code: false }
    }

    pub fn piece(&mut self, text: &str) -> Result<(), Failure> {
        if self.cols.is_none() {
            self.line.push_str(text);
            let begun = self.line.rfind('\n').map_or(0, |at| at + 1);
            self.line.drain(..begun);
            return output::bytes(text.as_bytes());
        }
        output::bytes(self.painted(&wording::readable(text)).as_bytes())
    }

    /// The end of the answer.
    pub fn finish(&mut self) -> Result<(), Failure> {
        match (self.line.is_empty(), self.cols) {
            (true, _) => Ok(()),
            (false, Some(_)) => {
                let rest = self.painted("\n");
                output::bytes(rest.as_bytes())
            }
            (false, None) => output::bytes(b"\n"),
        }
    }

    fn painted(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((line, behind)) = rest.split_once('\n') {
            self.line.push_str(line);
            out.push_str(line);
            let whole = std::mem::take(&mut self.line);
            let styled = self.styled(&whole);
            // What has wrapped cannot be painted over.
            let fits = self.cols.is_some_and(|cols| whole.width() < cols);
            if fits && styled != whole {
                let _ = write!(out, "\r\x1b[2K{styled}");
            }
            out.push('\n');
            rest = behind;
        }
        self.line.push_str(rest);
        out.push_str(rest);
        out
    }

    fn styled(&mut self, line: &str) -> String {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            self.is_in_code = !self.is_in_code;
            return format!("{DIM}{line}{PLAIN}");
        }
        if self.is_in_code {
            return format!("{CODE}{line}{PLAIN}");
        }
        if trimmed.starts_with('#') && trimmed.trim_start_matches('#').starts_with(' ') {
            return format!("{BOLD}{line}{PLAIN}");
        }
        spans(line)
    }
}

/// Bold and code inside a line; the marks go.
fn spans(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['`', '*']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (mark, style) = match from.starts_with("**") {
            true => ("**", BOLD),
            false if from.starts_with('`') => ("`", CODE),
            false => {
                out.push('*');
                rest = &from[1..];
                continue;
            }
        };
        let inner = &from[mark.len()..];
        match inner.find(mark).filter(|end| *end > 0) {
            Some(end) => {
                let _ = write!(out, "{style}{}{PLAIN}", &inner[..end]);
                rest = &inner[end + mark.len()..];
            }
            None => {
                out.push_str(mark);
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painter() -> Painter {
        Painter { cols: Some(40), line: String::new(), is_in_code: false }
    }

    #[test]
    fn pieces_come_at_once_and_whole_lines_are_painted_over() {
        let mut painter = painter();
        assert_eq!(painter.painted("# Ti"), "# Ti", "nobody waits for a line to end");
        assert_eq!(painter.painted("tle\n"), "tle\r\x1b[2K\x1b[1m# Title\x1b[0m\n");
        assert_eq!(painter.painted("plain\n"), "plain\n");
    }

    #[test]
    fn code_and_bold_are_shown_and_what_is_not_closed_is_left() {
        assert_eq!(spans("a `b` **c**"), format!("a {CODE}b{PLAIN} {BOLD}c{PLAIN}"));
        for left in ["a ` b", "2 * 3 * 4", "** open", "``"] {
            assert_eq!(spans(left), left);
        }
    }

    #[test]
    fn what_wrapped_is_left_as_it_is() {
        let mut painter = painter();
        let long = format!("**{}**\n", "x".repeat(60));
        assert_eq!(painter.painted(&long), long);
    }

    #[test]
    fn a_block_of_code_is_code_until_it_ends() {
        let mut painter = painter();
        assert!(painter.painted("```\n").contains(DIM));
        assert!(painter.painted("# no title\n").contains(CODE));
        painter.painted("```\n");
        assert!(painter.painted("# title\n").contains(BOLD));
    }
}
