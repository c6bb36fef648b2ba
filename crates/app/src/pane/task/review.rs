//! What a review has to say: comments on lines, and the prompt that is made of them.

use super::diff::{Diff, DiffLine, LineKind};
use crate::frame::editor::Editor;
use crate::frame::text;

/// Columns of a changed line that are quoted with its comment.
const MAX_QUOTE_COLUMNS: usize = 80;

/// A comment on a line of the changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    pub path: String,
    pub number: u32,
    /// The line exists only in the old file.
    pub is_removed: bool,
    /// The text of the line, by which it is found again.
    pub source: String,
    pub text: String,
    /// The line in the changes that are shown; `None` if it is no longer there.
    pub line: Option<usize>,
}

impl Comment {
    /// Starts a comment on a line; `None` for a line of no file.
    pub fn on(diff: &Diff, file: usize, line: usize) -> Option<Self> {
        let DiffLine { kind, number, .. } = diff.lines[line];
        if !matches!(kind, LineKind::Same | LineKind::Added | LineKind::Removed) {
            return None;
        }
        let (path, source) = (diff.files[file].path.clone(), diff.text(line).to_owned());
        let is_removed = kind == LineKind::Removed;
        Some(Self { path, number, is_removed, source, text: String::new(), line: Some(line) })
    }

    /// Finds the line again after the changes were read.
    pub fn locate(&mut self, diff: &Diff) {
        self.line = diff.find(&self.path, self.is_removed, self.number, &self.source);
        if let Some(line) = self.line {
            self.number = diff.lines[line].number;
        }
    }

    /// `path:12`, safe to show.
    pub fn place(&self) -> String {
        let side = if self.is_removed { " (removed)" } else { "" };
        format!("{}:{}{side}", text::line(&self.path), self.number)
    }
}

/// What is typed, and what for.
#[derive(Debug, Clone)]
pub struct Input {
    pub purpose: Purpose,
    pub editor: Editor,
}

#[derive(Debug, Clone)]
pub enum Purpose {
    /// A new comment, or one that is edited: it is not in the list meanwhile.
    Comment(Comment),
    Reject,
    Block,
    /// No text: y or n.
    Approve,
}

/// A review that was not sent. The app keeps it while the pane shows something else.
#[derive(Debug, Clone, Default)]
pub struct TaskDraft {
    pub(super) comments: Vec<Comment>,
    pub(super) input: Option<Input>,
}

impl TaskDraft {
    pub fn is_empty(&self) -> bool {
        self.comments.is_empty() && self.input.is_none()
    }
}

/// Composes the prompt for the agent: the reason, then all comments by file and line. `None` if there is nothing to say.
pub fn prompt(reason: &str, comments: &[Comment]) -> Option<String> {
    let mut comments: Vec<&Comment> = comments.iter().collect();
    comments.sort_by_key(|comment| (&comment.path, comment.number));
    let line = |comment: &&Comment| {
        let quote = match comment.line {
            Some(_) => String::new(),
            None => format!(" (was `{}`)", text::fit(comment.source.trim(), MAX_QUOTE_COLUMNS)),
        };
        format!("{}{quote}: {}", comment.place(), comment.text)
    };
    let lines: Vec<String> = comments.iter().map(line).collect();
    let parts: Vec<String> =
        [reason.trim().to_owned(), lines.join("\n")].into_iter().filter(|it| !it.is_empty()).collect();
    Some(parts.join("\n\n")).filter(|prompt| !prompt.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(path: &str, number: u32, text: &str, line: Option<usize>) -> Comment {
        Comment { path: path.into(), number, is_removed: false, source: " let x;".into(), text: text.into(), line }
    }

    #[test]
    fn all_comments_and_the_reason_become_one_prompt() {
        let removed = Comment { is_removed: true, ..comment("b\u{1b}[2J.rs", 1, "keep this", Some(4)) };
        let comments = [comment("c.rs", 12, "too long", Some(9)), removed, comment("c.rs", 3, "why?", None)];
        assert_eq!(
            prompt(" split it\n", &comments).expect("a prompt"),
            "split it\n\nb.rs:1 (removed): keep this\nc.rs:3 (was `let x;`): why?\nc.rs:12: too long"
        );
        assert_eq!(prompt("", &comments[..1]).as_deref(), Some("c.rs:12: too long"));
        assert_eq!(prompt(" \n", &[]), None);
    }
}
