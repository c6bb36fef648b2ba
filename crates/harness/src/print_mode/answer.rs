//! Parses an agent's output: streams the answer and extracts the session id and the token usage.

use coven_files::Limit;
use serde_json::Value;

use super::rules::{Condition, Counting, Kind, Place, Rules};
use super::utf8::Utf8;
use super::{PrintFormat, is_session_id};

/// An answer must fit into one line of a conversation file, where escaping makes some characters longer.
pub const ANSWER: Limit = Limit::new("the answer of one turn of `coven spawn`", 8 << 20);
/// A longer line is skipped: only the result of a tool can be that long.
pub const OUTPUT_LINE: Limit = Limit::new("a line of JSON that an agent prints", 16 << 20);

/// Token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
}

#[derive(Debug)]
pub struct PrintAnswer {
    rules: Option<&'static Rules>,
    pub text: String,
    pub session: Option<String>,
    usage: Option<Usage>,
    session_usage: Option<Usage>,
    /// The agent's own error message.
    pub trouble: Option<String>,
    utf8: Utf8,
    line: Line,
    /// Whether a JSON line was read. Until then, plain text counts as the answer, because some programs ignore the
    /// output format.
    has_json: bool,
    /// Pieces of a message that the agent may later print in full.
    pieces: String,
    is_paragraph_over: bool,
}

/// State of the current line.
#[derive(Debug)]
enum Line {
    /// Only whitespace so far.
    Empty(Vec<u8>),
    /// Buffered until it is complete.
    Json(Vec<u8>),
    /// Passed on immediately.
    Plain,
    /// Ignored.
    Skipped,
}

impl PrintAnswer {
    pub fn new(format: PrintFormat) -> Self {
        Self {
            rules: format.rules(),
            text: String::new(),
            session: None,
            usage: None,
            session_usage: None,
            trouble: None,
            utf8: Utf8::default(),
            line: Line::Empty(Vec::new()),
            has_json: false,
            pieces: String::new(),
            is_paragraph_over: false,
        }
    }

    pub fn is_too_long(&self) -> bool {
        (self.text.len() + self.pieces.len()) as u64 > ANSWER.bytes
    }

    /// Returns the usage of this turn. `before` is the usage of the session's earlier turns, needed for agents that
    /// report totals for the session.
    pub fn usage(&self, before: Option<Usage>) -> Option<Usage> {
        let less = |all: Usage, before: Usage| Usage {
            input: all.input.saturating_sub(before.input),
            output: all.output.saturating_sub(before.output),
        };
        self.usage.or_else(|| Some(less(self.session_usage?, before?)))
    }

    pub fn feed(&mut self, bytes: &[u8], on_text: &mut impl FnMut(&str)) {
        let Some(rules) = self.rules else { return self.plain(bytes, on_text) };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.feed_line(rules, piece, on_text);
        }
    }

    /// Handles the end of the output.
    pub fn finish(&mut self, on_text: &mut impl FnMut(&str)) {
        if let Some(rules) = self.rules {
            match std::mem::replace(&mut self.line, Line::Skipped) {
                Line::Json(line) => self.json_line(rules, &line, on_text),
                Line::Empty(_) | Line::Plain | Line::Skipped => {}
            }
        }
        let rest = self.utf8.finish();
        self.emit(rest, on_text);
        self.text.truncate(self.text.trim_end().len());
    }

    /// Feeds a piece that contains at most one line break, as its last byte.
    fn feed_line(&mut self, rules: &'static Rules, piece: &[u8], on_text: &mut impl FnMut(&str)) {
        let is_end = piece.ends_with(b"\n");
        match &mut self.line {
            Line::Empty(blanks) => match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => blanks.extend_from_slice(piece),
                Some(b'{') => {
                    let mut line = std::mem::take(blanks);
                    line.extend_from_slice(piece);
                    self.line = Line::Json(line);
                }
                // Text between JSON lines is not part of the answer.
                Some(_) if self.has_json => self.line = Line::Skipped,
                Some(_) => {
                    let mut line = std::mem::take(blanks);
                    line.extend_from_slice(piece);
                    self.line = Line::Plain;
                    self.plain(&line, on_text);
                }
            },
            Line::Json(line) if (line.len() + piece.len()) as u64 > OUTPUT_LINE.bytes => self.line = Line::Skipped,
            Line::Json(line) => line.extend_from_slice(piece),
            Line::Plain => self.plain(piece, on_text),
            Line::Skipped => {}
        }
        if !is_end {
            return;
        }
        match std::mem::replace(&mut self.line, Line::Empty(Vec::new())) {
            Line::Json(line) => self.json_line(rules, &line, on_text),
            // A blank line of plain text.
            Line::Empty(blanks) if !self.has_json && !self.text.is_empty() => self.plain(&blanks, on_text),
            Line::Empty(_) | Line::Plain | Line::Skipped => {}
        }
    }

    fn json_line(&mut self, rules: &'static Rules, line: &[u8], on_text: &mut impl FnMut(&str)) {
        // Lossy: invalid UTF-8 in one string must not discard the whole line.
        match serde_json::from_str::<Value>(&String::from_utf8_lossy(line)) {
            Ok(value) => {
                if !self.has_json {
                    self.has_json = true;
                    // The text before the first JSON line was not part of the answer.
                    self.text.clear();
                    self.utf8.finish();
                }
                self.apply_line(rules, &value, on_text);
            }
            Err(_) if !self.has_json => self.plain(line, on_text),
            Err(_) => {}
        }
    }

    fn apply_line(&mut self, rules: &Rules, line: &Value, on_text: &mut impl FnMut(&str)) {
        let id = rules.session.and_then(|at| line.pointer(at)?.as_str());
        if let Some(id) = id.filter(|id| is_session_id(id)) {
            // The last id wins: some agents give a resumed session a new one.
            self.session = Some(id.to_owned());
        }
        for rule in rules.text.iter().filter(|rule| matches(rule.when, line)) {
            match rule.at {
                Place::At(at) => {
                    if let Some(text) = line.pointer(at).and_then(Value::as_str) {
                        self.add_text(rule.kind, text, on_text);
                    }
                }
                Place::Each(list, kind, at) => {
                    let elements = line.pointer(list).and_then(Value::as_array).into_iter().flatten();
                    for element in elements.filter(|element| element["type"] == kind) {
                        if let Some(text) = element.pointer(at).and_then(Value::as_str) {
                            self.add_text(rule.kind, text, on_text);
                        }
                    }
                }
            }
        }
        if rules.breaks.iter().any(|when| matches(when, line)) {
            self.end_message();
        }
        for rule in rules.usage.iter().filter(|rule| matches(rule.when, line)) {
            let sum = |places: &[&str]| places.iter().filter_map(|at| line.pointer(at)?.as_u64()).sum::<u64>();
            if !rule.input.iter().chain(rule.output).any(|at| line.pointer(at).is_some()) {
                continue;
            }
            let usage = Usage { input: sum(rule.input), output: sum(rule.output) };
            match rule.counting {
                Counting::Turn => self.usage = Some(usage),
                Counting::Session => self.session_usage = Some(usage),
                Counting::Step => {
                    let before = self.usage.unwrap_or_default();
                    let (input, output) = (before.input + usage.input, before.output + usage.output);
                    self.usage = Some(Usage { input, output });
                }
            }
        }
        let trouble = rules.trouble.iter().filter(|rule| matches(rule.when, line));
        if let Some(message) = trouble.filter_map(|rule| line.pointer(rule.at)?.as_str()).next() {
            self.trouble = Some(message.to_owned());
        }
    }

    fn add_text(&mut self, kind: Kind, text: &str, on_text: &mut impl FnMut(&str)) {
        match kind {
            Kind::Piece => {
                self.pieces.push_str(text);
                self.emit(text, on_text);
            }
            // The pieces were already emitted, and perhaps also some of the next message.
            Kind::Whole if !text.is_empty() && self.pieces.starts_with(text) => {
                self.pieces.drain(..text.len());
                self.is_paragraph_over |= self.pieces.is_empty();
            }
            Kind::Whole => {
                let new = text.strip_prefix(self.pieces.as_str());
                // Pieces that are not a prefix of this message belonged to another one.
                self.is_paragraph_over |= new.is_none();
                self.emit(new.unwrap_or(text), on_text);
                self.end_message();
            }
        }
    }

    fn end_message(&mut self) {
        self.pieces.clear();
        self.is_paragraph_over = true;
    }

    fn plain(&mut self, bytes: &[u8], on_text: &mut impl FnMut(&str)) {
        let text = self.utf8.push(bytes);
        self.emit(&text, on_text);
    }

    fn emit(&mut self, text: &str, on_text: &mut impl FnMut(&str)) {
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_paragraph_over) && !self.text.is_empty() {
            self.text.push_str("\n\n");
            on_text("\n\n");
        }
        self.text.push_str(text);
        on_text(text);
    }
}

fn matches(when: &[Condition], line: &Value) -> bool {
    when.iter().all(|condition| match condition {
        Condition::Is(at, word) => line.pointer(at).is_some_and(|value| value == word),
        Condition::IsTrue(at) => line.pointer(at) == Some(&Value::Bool(true)),
        Condition::Lacks(at) => line.pointer(at).is_none_or(Value::is_null),
    })
}

#[cfg(test)]
mod tests;
