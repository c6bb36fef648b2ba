//! What the human types: with editing and history on a terminal, line by line from a pipe.

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use reedline::{
    FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal, ValidationResult, Validator,
};

use crate::failure::Failure;

const REMEMBERED: usize = 1000;

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    Line(String),
    /// Ctrl-C at the prompt: the line is thrown away, the conversation goes on.
    Nothing,
    /// Ctrl-D, or the end of the pipe.
    End,
}

pub enum Input {
    Terminal(Box<Reedline>, Name),
    Pipe,
}

impl Input {
    pub fn new(name: &str, history: PathBuf) -> Self {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Self::Pipe;
        }
        let mut editor = Reedline::create().with_validator(Box::new(Whole)).use_bracketed_paste(true);
        // Without a place to remember, nothing is remembered.
        if let Ok(history) = FileBackedHistory::with_file(REMEMBERED, history) {
            editor = editor.with_history(Box::new(history));
        }
        Self::Terminal(Box::new(editor), Name(name.to_owned()))
    }

    pub fn next(&mut self) -> Result<Typed, Failure> {
        match self {
            Self::Terminal(editor, name) => match editor.read_line(name).map_err(Failure::Terminal)? {
                Signal::Success(text) => Ok(Typed::Line(joined(&text))),
                Signal::CtrlC => Ok(Typed::Nothing),
                _ => Ok(Typed::End),
            },
            Self::Pipe => {
                let mut whole = String::new();
                loop {
                    let mut line = String::new();
                    if io::stdin().lock().read_line(&mut line).map_err(Failure::Input)? == 0 {
                        return Ok(if whole.is_empty() { Typed::End } else { Typed::Line(joined(&whole)) });
                    }
                    whole.push_str(line.trim_end_matches(['\n', '\r']));
                    if !whole.ends_with('\\') {
                        return Ok(Typed::Line(joined(&whole)));
                    }
                    whole.push('\n');
                }
            }
        }
    }
}

/// Lines that go on after a backslash, without the backslashes.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n").trim_end_matches('\\').to_owned()
}

/// A line that ends with a backslash goes on.
struct Whole;

impl Validator for Whole {
    fn validate(&self, line: &str) -> ValidationResult {
        match line.ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Complete,
        }
    }
}

/// Who is talked to.
pub struct Name(String);

impl Prompt for Name {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("… ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_at_the_end_goes_on() {
        assert!(matches!(Whole.validate("a\\"), ValidationResult::Incomplete));
        assert!(matches!(Whole.validate("a\\\nb"), ValidationResult::Complete));
        assert_eq!(joined("a\\\nb"), "a\nb");
        assert_eq!(joined("C:\\x"), "C:\\x");
    }
}
