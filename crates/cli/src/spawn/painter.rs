//! Prints an answer while it arrives: text immediately, then each complete line with its Markdown styled.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

use crate::failure::Failure;
use crate::{format, output};

const BOLD: &str = "\x1b[1m";
const CODE: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";
const TAB: &str = "    ";

pub struct Painter {
    /// `None` if the output is not a terminal; else whether to use colours.
    paints: Option<bool>,
    /// Width of the terminal, updated for each chunk: the user may resize it.
    cols: usize,
    /// The incomplete last line.
    line: String,
    is_in_code: bool,
}

impl Painter {
    pub fn new() -> Self {
        let paints = output::is_terminal().then(output::has_colours);
        Self { paints, cols: 0, line: String::new(), is_in_code: false }
    }

    pub fn piece(&mut self, text: &str) -> Result<(), Failure> {
        if self.paints.is_none() {
            self.line.push_str(text);
            let line_start = self.line.rfind('\n').map_or(0, |at| at + 1);
            self.line.drain(..line_start);
            return output::bytes(text.as_bytes());
        }
        self.cols = output::terminal_size().map_or(0, |(_, cols)| usize::from(cols));
        // The tab stops of the terminal are unknown.
        output::bytes(self.painted(&format::readable(text).replace('\t', TAB)).as_bytes())
    }

    /// Ends the answer.
    pub fn finish(&mut self) -> Result<(), Failure> {
        match (self.line.is_empty(), self.paints) {
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
            // A wrapped line cannot be repainted.
            let is_painted = self.paints == Some(true) && whole.width() < self.cols;
            if is_painted && styled != whole {
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

/// Styles bold and code inside a line and removes their marks.
fn spans(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['`', '*']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let is_code = from.starts_with('`');
        let length = from.bytes().take_while(|byte| *byte == from.as_bytes()[0]).count();
        let (mark, inner) = from.split_at(length);
        let end = match is_code {
            true => end_of_code(inner, mark),
            false if length == 2 => end_of_bold(before, inner),
            false => None,
        };
        match end {
            Some(end) => {
                let style = if is_code { CODE } else { BOLD };
                let _ = write!(out, "{style}{}{PLAIN}", &inner[..end]);
                rest = &inner[end + length..];
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

/// Returns the end of code: a run of as many backticks as at its start.
fn end_of_code(inner: &str, mark: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + inner[from..].find('`')?;
        let length = inner[at..].bytes().take_while(|byte| *byte == b'`').count();
        if length == mark.len() && at > 0 {
            return Some(at);
        }
        from = at + length;
    }
}

/// Returns the end of bold text, which must enclose words: operators and file patterns use stars too.
fn end_of_bold(before: &str, inner: &str) -> Option<usize> {
    let is_word = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace() && c != '/' && c != '*');
    let end = inner.find("**")?;
    let is_outside = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '/');
    let is_bold = is_word(inner.chars().next())
        && is_word(inner[..end].chars().next_back())
        && is_outside(before.chars().next_back())
        && is_outside(inner[end + 2..].chars().next());
    is_bold.then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painter() -> Painter {
        Painter { paints: Some(true), cols: 40, line: String::new(), is_in_code: false }
    }

    #[test]
    fn chunks_appear_immediately_and_complete_lines_are_restyled() {
        let mut painter = painter();
        assert_eq!(painter.painted("# Ti"), "# Ti", "an incomplete line appears immediately");
        assert_eq!(painter.painted("tle\n"), "tle\r\x1b[2K\x1b[1m# Title\x1b[0m\n");
        assert_eq!(painter.painted("plain\n"), "plain\n");
    }

    #[test]
    fn code_and_bold_are_styled_and_unclosed_marks_stay() {
        assert_eq!(spans("a `b` **c**"), format!("a {CODE}b{PLAIN} {BOLD}c{PLAIN}"));
        assert_eq!(spans("(**c**) ``a ` b`` end"), format!("({BOLD}c{PLAIN}) {CODE}a ` b{PLAIN} end"));
        for left in [
            "a ` b",
            "2 * 3 * 4",
            "** open",
            "``",
            "use 2 ** 3 and 4 ** 5 in python",
            "glob **/*.rs and **/*.toml match",
            "x**y**z",
        ] {
            assert_eq!(spans(left), left);
        }
    }

    #[test]
    fn a_wrapped_line_is_not_restyled() {
        let mut painter = painter();
        let long = format!("**{}**\n", "x".repeat(60));
        assert_eq!(painter.painted(&long), long);
    }

    #[test]
    fn a_code_block_is_styled_to_its_end() {
        let mut painter = painter();
        assert!(painter.painted("```\n").contains(DIM));
        assert!(painter.painted("# no title\n").contains(CODE));
        painter.painted("```\n");
        assert!(painter.painted("# title\n").contains(BOLD));
    }
}
