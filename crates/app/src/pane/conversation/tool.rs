//! A tool call: one row while it is folded, with what it changed and printed while it is not.

use coven_api::message_content::{ToolCall, ToolContent, ToolStatus};
use serde_json::Value;

use crate::frame::canvas::{Piece, Row};
use crate::frame::text;
use crate::frame::theme::Theme;

/// Lines kept of what a call changed and printed, and characters of a line.
const MAX_LINES: usize = 200;
const MAX_LINE_CHARS: usize = 500;
/// Arguments that say what a call is about.
const SUBJECTS: [&str; 8] = ["command", "file_path", "filePath", "path", "pattern", "query", "url", "abs_path"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    label: String,
    status: ToolStatus,
    /// Its turn is over, and it has no end.
    is_abandoned: bool,
    /// Lines added and removed.
    changed: (usize, usize),
    /// Lines with their sign: `+`, `-`, `=` for a file's name, and a blank for output.
    lines: Vec<(char, String)>,
}

impl Tool {
    pub fn of(call: &ToolCall) -> Self {
        let (label, status) = (label(call), call.status);
        let mut tool = Self { label, status, is_abandoned: false, changed: (0, 0), lines: Vec::new() };
        let Some(result) = &call.result else { return tool };
        for part in &result.content {
            match part {
                ToolContent::Diff { path, old_text, new_text } => {
                    tool.add_diff(path, old_text.as_deref().unwrap_or_default(), new_text);
                }
                ToolContent::Content { content } => tool.add(' ', content["text"].as_str().unwrap_or_default().lines()),
                ToolContent::Terminal { .. } | ToolContent::Other { .. } => {}
            }
        }
        tool.add(' ', result.terminals.iter().flat_map(|terminal| terminal.output.lines()));
        if tool.lines.is_empty() {
            let raw = &result.raw_output;
            let parts = [raw.as_str(), raw["stdout"].as_str(), raw["stderr"].as_str(), raw["output"].as_str()];
            tool.add(' ', parts.into_iter().flatten().flat_map(str::lines));
        }
        tool
    }

    /// Marks a call that has no end. Reports whether it changed.
    pub fn abandon(&mut self) -> bool {
        let is_open = !self.status.is_over() && !self.is_abandoned;
        self.is_abandoned |= is_open;
        is_open
    }

    pub fn size(&self) -> usize {
        self.label.len() + self.lines.iter().map(|(_, line)| line.len()).sum::<usize>()
    }

    fn add<'a>(&mut self, sign: char, lines: impl IntoIterator<Item = &'a str>) {
        let room = (MAX_LINES + 1).saturating_sub(self.lines.len());
        self.lines.extend(lines.into_iter().take(room).map(|line| (sign, cut(line))));
        if self.lines.len() > MAX_LINES {
            self.lines[MAX_LINES] = (' ', "… the rest is not shown".to_owned());
        }
    }

    /// Adds the lines between the first and the last that differ.
    fn add_diff(&mut self, path: &str, old: &str, new: &str) {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
        let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
        let (old, new) = (&old[head..], &new[head..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
        let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
        self.changed = (self.changed.0 + new.len(), self.changed.1 + old.len());
        self.add('=', [path]);
        self.add('-', old.iter().copied());
        self.add('+', new.iter().copied());
    }

    pub fn rows(&self, is_unfolded: bool, columns: usize, theme: Theme) -> Vec<Row> {
        let mut rows = vec![self.first_row(columns, theme)];
        for (sign, line) in self.lines.iter().filter(|_| is_unfolded) {
            let (lead, style) = match sign {
                '=' => ("  ", theme.bold()),
                '+' => ("  + ", theme.good()),
                '-' => ("  - ", theme.bad()),
                _ => ("  ", theme.dim()),
            };
            rows.push(vec![Piece::new(lead, style), Piece::new(line.replace('\t', "    "), style)]);
        }
        rows
    }

    /// `● edit parser.rs  +2 −1  done`: the end is always visible, and the label is cut.
    fn first_row(&self, columns: usize, theme: Theme) -> Row {
        let (style, mut state) = match self.status {
            _ if self.is_abandoned => (theme.dim(), "not finished".to_owned()),
            ToolStatus::Pending => (theme.need(), "pending".to_owned()),
            ToolStatus::InProgress => (theme.need(), "running".to_owned()),
            ToolStatus::Completed => (theme.good(), "done".to_owned()),
            ToolStatus::Failed => (theme.bad(), "failed".to_owned()),
            ToolStatus::Cancelled => (theme.dim(), "cancelled".to_owned()),
        };
        let reason = self.lines.iter().find(|(sign, line)| *sign == ' ' && !line.trim().is_empty());
        if let (ToolStatus::Failed, Some((_, reason))) = (self.status, reason) {
            state = format!("failed: {}", text::fit(reason.trim(), columns / 2));
        }
        let changed = match self.changed {
            (0, 0) => String::new(),
            (added, removed) => format!("  +{added} −{removed}"),
        };
        let room = columns.saturating_sub(text::width(&state) + text::width(&changed) + 4);
        vec![
            Piece::new("● ", style),
            Piece::new(text::fit(&self.label, room), theme.plain()),
            Piece::new(changed, theme.quiet()),
            Piece::new(format!("  {state}"), if self.status == ToolStatus::Failed { style } else { theme.dim() }),
        ]
    }
}

/// Returns the agent's title, with what the call is about if the title leaves it out.
fn label(call: &ToolCall) -> String {
    let first_line = |words: &str| cut(words.trim().lines().next().unwrap_or_default().trim_end());
    let title = first_line(&call.tool);
    let subject = first_line(&match SUBJECTS.iter().find_map(|name| call.args.get(name)) {
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        Some(Value::String(words)) => words.clone(),
        _ => String::new(),
    });
    match (title.is_empty(), subject.is_empty()) {
        (true, true) => "tool call".to_owned(),
        (true, false) => subject,
        (false, false) if !title.contains(&subject) => format!("{title}: {subject}"),
        (false, _) => title,
    }
}

fn cut(line: &str) -> String {
    line.chars().take(MAX_LINE_CHARS).collect()
}
