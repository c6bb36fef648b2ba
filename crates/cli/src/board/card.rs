//! A task as a card: a few lines of any width.

use coven_api::task::TaskRecord;
use coven_domain::Timestamp;
use coven_domain::task::{TaskKind, TaskState};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::tasks::{Card, Merge};
use crate::chat::wrap::{Breaking, rows};
use crate::format::{format_duration, sanitize_line, short_id};
use crate::tui::text;
use crate::tui::view::Theme;

/// How much room a card may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// In a column: the title has lines of its own.
    Tall,
    /// In a list over the whole width: the title stands beside the id.
    Flat,
}

/// The lines of a card; every one fits into `columns`.
pub fn lines(card: &Card<'_>, shape: Shape, columns: usize, now: Timestamp, theme: Theme) -> Vec<Line<'static>> {
    let title = sanitize_line(&card.task.title);
    let mut lines = match shape {
        Shape::Tall => {
            let title = broken(&title, columns, 2).into_iter().map(|line| Line::styled(line, theme.strong()));
            std::iter::once(top(card, columns, None, theme)).chain(title).collect()
        }
        Shape::Flat => vec![top(card, columns, Some(&title), theme)],
    };
    let most = if shape == Shape::Tall { 2 } else { 1 };
    for (sentence, style, most) in told(card, most, now, theme) {
        let broken = broken(&sanitize_line(&sentence), columns, most);
        lines.extend(broken.into_iter().map(|line| Line::styled(line, style)));
    }
    lines
}

/// At most so many lines; a script without blanks is broken anywhere.
fn broken(sentence: &str, columns: usize, most: usize) -> Vec<String> {
    let sentence = text::clean(sentence.trim());
    let mut lines: Vec<String> = Vec::new();
    for row in rows(&sentence, columns, Breaking::Words) {
        if lines.len() + 1 == most {
            lines.push(text::fit(&sentence[row.start..], columns));
            break;
        }
        lines.push(sentence[row].trim_end().to_owned());
    }
    lines
}

/// Id, priority and marks, and the title if it has no line of its own.
fn top(card: &Card<'_>, columns: usize, title: Option<&str>, theme: Theme) -> Line<'static> {
    let task = card.task;
    let mut marks = Vec::new();
    if card.questions > 0 {
        marks.push(Span::styled(format!("?{}", card.questions), theme.recommended()));
    }
    if task.status == TaskState::Open {
        marks.push(match card.is_ready {
            true => Span::styled("ready", theme.good()),
            false => Span::styled("waits", theme.quiet()),
        });
    }
    let id = task.id.short();
    let kind = if task.kind == TaskKind::Task { String::new() } else { format!(" {}", task.kind) };
    let marks_width: usize = marks.iter().map(|mark| mark.width() + 1).sum();
    let head = format!(" P{}{kind}", task.priority.get());
    let room = columns.saturating_sub(text::width(&id) + text::width(&head) + marks_width);
    let mut spans = vec![Span::styled(id, theme.quiet()), Span::raw(head)];
    let mut room_left = room;
    if let Some(title) = title {
        let title = text::fit(title, room.saturating_sub(1));
        room_left = room.saturating_sub(text::width(&title) + 1);
        spans.push(Span::styled(format!(" {title}"), theme.strong()));
    }
    spans.push(Span::raw(" ".repeat(room_left)));
    for mark in marks {
        spans.push(Span::raw(" "));
        spans.push(mark);
    }
    Line::from(spans)
}

/// What there is to say about it: a sentence, its looks, and how many lines it may take.
fn told(card: &Card<'_>, most: usize, now: Timestamp, theme: Theme) -> Vec<(String, Style, usize)> {
    let task = card.task;
    match task.status {
        TaskState::Open if card.is_ready => Vec::new(),
        TaskState::Open if card.waits.is_empty() => Vec::new(),
        TaskState::Open => {
            let ids: Vec<&str> = card.waits.iter().map(|id| short_id(id)).collect();
            vec![(format!("after {}", ids.join(", ")), theme.quiet(), 1)]
        }
        TaskState::InProgress => {
            let (sign, style) = card.agent.map_or(("", Style::new()), |agent| theme.status(agent.status.as_str()));
            let mut told = vec![(format!("{sign} {}", at_work(card)), style, 1)];
            told.extend(card.wait(now).map(|wait| (wait, theme.recommended(), most)));
            told.extend(card.line.map(|line| (format!("› {line}"), theme.quiet(), most)));
            told
        }
        TaskState::PendingMerge => vec![match card.merge() {
            Merge::UnderWay { .. } => ("being merged …".to_owned(), theme.good(), 1),
            Merge::Failed(why) => (format!("not merged: {why}"), theme.problem(), most),
            Merge::Awaited => (awaited(task), theme.recommended(), 1),
        }],
        TaskState::Blocked => {
            let why = task.reason.as_deref().or_else(|| card.run.and_then(|run| run.error.as_deref()));
            vec![(why.unwrap_or("no reason was given").to_owned(), theme.problem(), most)]
        }
        TaskState::Closed => {
            let ago = task.closed_at.map_or_else(String::new, |at| format!("{} ago", format_duration(now.since(at))));
            let why = task.reason.as_deref().map_or_else(String::new, |why| format!(": {why}"));
            vec![(format!("{ago}{why}"), theme.quiet(), 1)]
        }
    }
}

/// That it waits for a review, and how much there is to review.
pub fn awaited(task: &TaskRecord) -> String {
    match task.changes {
        Some(changes) => format!("waits for review: {changes}"),
        None => "waits for review".to_owned(),
    }
}

/// The step that runs and how its agent is.
fn at_work(card: &Card<'_>) -> String {
    let step = card.agent.and_then(|agent| agent.step.as_deref());
    let step = step.or_else(|| card.run.and_then(|run| run.step_name.as_deref()));
    let status = card.agent.map(|agent| agent.status.as_str()).or_else(|| card.run.map(|run| run.status.as_str()));
    match (step, status) {
        (Some(step), Some(status)) => format!("{step}: {status}"),
        (Some(word), None) | (None, Some(word)) => word.to_owned(),
        (None, None) => card.task.claimed_by.as_deref().map_or_else(String::new, |by| format!("claimed by {by}")),
    }
}
