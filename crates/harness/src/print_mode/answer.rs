//! Reads what an agent prints: the answer as it comes, the id of its session, what it cost.

use coven_files::Limit;
use serde_json::Value;

use super::rules::{Condition, Counting, Kind, Place, Rules};
use super::utf8::Utf8;
use super::{PrintFormat, is_session_id};

/// It must fit into a line of a conversation, where some characters take more room.
pub const ANSWER: Limit = Limit::new("the answer of one turn of `coven spawn`", 8 << 20);
/// A longer line is left out: it can only be something that a tool brought.
pub const OUTPUT_LINE: Limit = Limit::new("a line of JSON that an agent prints", 16 << 20);

/// Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
}

#[derive(Debug)]
pub struct Answer {
    rules: Option<&'static Rules>,
    pub text: String,
    pub session: Option<String>,
    usage: Option<Usage>,
    session_usage: Option<Usage>,
    /// What went wrong, in the agent's words.
    pub trouble: Option<String>,
    utf8: Utf8,
    line: Line,
    /// Whether a line of JSON has come. Until then a program that prints plain text all the same is heard.
    has_json: bool,
    /// The pieces of a message that may come whole later.
    pieces: String,
    is_paragraph_over: bool,
}

/// The line that is being read.
#[derive(Debug)]
enum Line {
    /// Nothing but blanks so far.
    Empty(Vec<u8>),
    /// Kept until it is whole.
    Json(Vec<u8>),
    /// Handed on as it comes.
    Plain,
    /// Left out.
    Skipped,
}

impl Answer {
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

    /// What this turn took, if the earlier turns of its session took so much.
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

    /// Nothing more comes.
    pub fn finish(&mut self, on_text: &mut impl FnMut(&str)) {
        if let Some(rules) = self.rules {
            match std::mem::replace(&mut self.line, Line::Skipped) {
                Line::Json(line) => self.json_line(rules, &line, on_text),
                Line::Empty(_) | Line::Plain | Line::Skipped => {}
            }
        }
        let rest = self.utf8.finish();
        self.hand_on(rest, on_text);
        self.text.truncate(self.text.trim_end().len());
    }

    /// A piece that holds at most one end of a line, as its last byte.
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
                // Noise between the lines of JSON.
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
        // Invalid UTF-8 in a string is worth no whole line.
        match serde_json::from_str::<Value>(&String::from_utf8_lossy(line)) {
            Ok(value) => {
                if !self.has_json {
                    self.has_json = true;
                    // What came before was noise.
                    self.text.clear();
                    self.utf8.finish();
                }
                self.heed(rules, &value, on_text);
            }
            Err(_) if !self.has_json => self.plain(line, on_text),
            Err(_) => {}
        }
    }

    fn heed(&mut self, rules: &Rules, line: &Value, on_text: &mut impl FnMut(&str)) {
        let id = rules.session.and_then(|at| line.pointer(at)?.as_str());
        if let Some(id) = id.filter(|id| is_session_id(id)) {
            // The last one counts: some agents give a resumed session a new id.
            self.session = Some(id.to_owned());
        }
        for rule in rules.text.iter().filter(|rule| holds(rule.when, line)) {
            match rule.at {
                Place::At(at) => {
                    if let Some(text) = line.pointer(at).and_then(Value::as_str) {
                        self.say(rule.kind, text, on_text);
                    }
                }
                Place::Each(list, kind, at) => {
                    let elements = line.pointer(list).and_then(Value::as_array).into_iter().flatten();
                    for element in elements.filter(|element| element["type"] == kind) {
                        if let Some(text) = element.pointer(at).and_then(Value::as_str) {
                            self.say(rule.kind, text, on_text);
                        }
                    }
                }
            }
        }
        if rules.breaks.iter().any(|when| holds(when, line)) {
            self.end_message();
        }
        for rule in rules.usage.iter().filter(|rule| holds(rule.when, line)) {
            let sum = |places: &[&str]| places.iter().filter_map(|at| line.pointer(at)?.as_u64()).sum::<u64>();
            if !rule.input.iter().chain(rule.output).any(|at| line.pointer(at).is_some()) {
                continue;
            }
            let told = Usage { input: sum(rule.input), output: sum(rule.output) };
            match rule.counting {
                Counting::Turn => self.usage = Some(told),
                Counting::Session => self.session_usage = Some(told),
                Counting::Step => {
                    let before = self.usage.unwrap_or_default();
                    self.usage = Some(Usage { input: before.input + told.input, output: before.output + told.output });
                }
            }
        }
        let trouble = rules.trouble.iter().filter(|rule| holds(rule.when, line));
        if let Some(words) = trouble.filter_map(|rule| line.pointer(rule.at)?.as_str()).next() {
            self.trouble = Some(words.to_owned());
        }
    }

    fn say(&mut self, kind: Kind, text: &str, on_text: &mut impl FnMut(&str)) {
        match kind {
            Kind::Piece => {
                self.pieces.push_str(text);
                self.hand_on(text, on_text);
            }
            // Its pieces have come, and perhaps those of the next one too.
            Kind::Whole if !text.is_empty() && self.pieces.starts_with(text) => {
                self.pieces.drain(..text.len());
                self.is_paragraph_over |= self.pieces.is_empty();
            }
            Kind::Whole => {
                let new = text.strip_prefix(self.pieces.as_str());
                // Pieces that are not the beginning of it were of another message.
                self.is_paragraph_over |= new.is_none();
                self.hand_on(new.unwrap_or(text), on_text);
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
        self.hand_on(&text, on_text);
    }

    fn hand_on(&mut self, text: &str, on_text: &mut impl FnMut(&str)) {
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

fn holds(when: &[Condition], line: &Value) -> bool {
    when.iter().all(|condition| match condition {
        Condition::Is(at, word) => line.pointer(at).is_some_and(|value| value == word),
        Condition::IsTrue(at) => line.pointer(at) == Some(&Value::Bool(true)),
        Condition::Lacks(at) => line.pointer(at).is_none_or(Value::is_null),
    })
}

#[cfg(test)]
mod tests;
