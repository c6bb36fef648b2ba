//! Reads messages: with editing and history on a terminal, line by line from a pipe.

use std::borrow::Cow;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, IsTerminal};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coven_files::{BoundedLine, Limit, Lines, ReadError};
use crossterm::event::Event;
use reedline::{
    EditCommand, EditMode, Emacs, FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline,
    ReedlineEvent, ReedlineRawEvent, Signal, ValidationResult, Validator,
};
use rustix::fs::OFlags;

use crate::failure::Failure;
use crate::piped::PIPED;
use crate::{format, output};

const HISTORY_LINES: usize = 1000;
pub const HISTORY: Limit = Limit::new("the input history of `coven spawn`", 16 << 20);

/// Result of reading a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    Line(String),
    /// Ctrl-C at the prompt: the line is discarded, the conversation continues.
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
        let mut editor = Reedline::create()
            .with_validator(Box::new(Whole))
            .with_edit_mode(Box::new(Pasting(Emacs::default())))
            .with_ansi_colors(output::has_colours())
            .use_bracketed_paste(true);
        // If the file cannot be used, the editor has no history.
        if make_private(&history).is_ok()
            && let Ok(history) = FileBackedHistory::with_file(HISTORY_LINES, history)
        {
            editor = editor.with_history(Box::new(history));
        }
        Self::Terminal(Box::new(editor), Name(name.to_owned()))
    }

    pub fn next(&mut self) -> Result<Typed, Failure> {
        match self {
            Self::Terminal(editor, name) => match editor.read_line(name).map_err(Failure::Terminal)? {
                Signal::Success(text) => {
                    // Save the history now: the program may be killed later.
                    let _ = editor.sync_history();
                    Ok(Typed::Line(joined(&text)))
                }
                Signal::CtrlC => Ok(Typed::Nothing),
                _ => Ok(Typed::End),
            },
            Self::Pipe => {
                let mut whole = String::new();
                loop {
                    let mut lines = Lines::new(io::stdin().lock(), PIPED);
                    let line = match lines.next_line().map_err(Failure::Input)? {
                        None => return Ok(if whole.is_empty() { Typed::End } else { Typed::Line(joined(&whole)) }),
                        Some(BoundedLine::Whole(line)) if (whole.len() + line.len()) as u64 <= PIPED.bytes => {
                            std::str::from_utf8(line).map_err(|error| Failure::Input(io::Error::other(error)))?
                        }
                        Some(_) => return Err(Failure::Input(ReadError::LongStream { limit: PIPED }.into())),
                    };
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

/// Joins lines that end with a backslash. Pasted backslashes stay.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n").trim_end_matches('\\').replace(PASTED, "")
}

/// Invisible mark after a pasted backslash, which does not continue the line.
const PASTED: char = '\u{2060}';

/// The usual keys; pasted text is sanitized.
struct Pasting(Emacs);

impl EditMode for Pasting {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        match Event::from(event) {
            Event::Paste(text) => ReedlineEvent::Edit(vec![EditCommand::InsertString(pasted(&text))]),
            event => match ReedlineRawEvent::try_from(event) {
                Ok(event) => self.0.parse_event(event),
                Err(()) => ReedlineEvent::None,
            },
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.0.edit_mode()
    }
}

fn pasted(text: &str) -> String {
    let text = format::readable(&text.replace("\r\n", "\n").replace('\r', "\n"));
    text.replace("\\\n", &format!("\\{PASTED}\n"))
}

/// Makes the history file private. Fails for a file that the editor cannot read completely.
fn make_private(history: &Path) -> io::Result<()> {
    // Without NONBLOCK, opening a FIFO would wait for its reader.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(history)?;
    coven_files::ensure_regular(&file, history)?;
    if file.metadata()?.len() > HISTORY.bytes {
        return Err(ReadError::TooLarge { path: history.to_owned(), limit: HISTORY }.into());
    }
    // If the file belongs to another user, its permissions stay.
    let _ = file.set_permissions(Permissions::from_mode(0o600));
    Ok(())
}

/// Treats a line that ends with a backslash as incomplete.
struct Whole;

impl Validator for Whole {
    fn validate(&self, line: &str) -> ValidationResult {
        match line.ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Complete,
        }
    }
}

/// The prompt: the name of the agent.
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
    fn a_backslash_at_the_end_continues_the_line() {
        assert!(matches!(Whole.validate("a\\"), ValidationResult::Incomplete));
        assert!(matches!(Whole.validate("a\\\nb"), ValidationResult::Complete));
        assert_eq!(joined("a\\\nb"), "a\nb");
        assert_eq!(joined("C:\\x"), "C:\\x");
    }

    #[test]
    fn a_history_that_is_a_fifo_or_huge_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let (fifo, huge) = (folder.path().join("fifo"), folder.path().join("huge"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).expect("a fifo");
        std::fs::File::create(&huge).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
        assert!(make_private(&fifo).is_err() && make_private(&huge).is_err());
        assert!(make_private(&folder.path().join("new")).is_ok());
    }

    #[test]
    fn pasted_text_is_unchanged_except_for_control_characters() {
        let text = "docker run \\\n  -v a:b \\\n  img";
        assert_eq!(joined(&pasted(text)), text);
        assert_eq!(joined(&pasted("a\\\r\nb\rc")), "a\\\nb\nc");
        assert!(!pasted("log: \u{1b}[31mred \u{1b}]0;x\u{7}").contains('\u{1b}'));
    }
}
