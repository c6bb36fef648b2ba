//! The Inbox view: everything that waits for the user, oldest first.

use coven_api::inbox::{InboxItem, InboxKind};
use coven_domain::Timestamp;

use super::{ListLine, age, matches};
use crate::frame::canvas::Piece;
use crate::frame::markdown;
use crate::frame::theme::Theme;
use crate::world::{Subject, World};

pub fn lines(world: &World, filter: &str, theme: Theme, now: Timestamp) -> Vec<ListLine> {
    let items: Vec<&InboxItem> = world.inbox().iter().filter(|item| is_match(filter, item)).collect();
    let mut lines = Vec::with_capacity(items.len() + 1);
    if !items.is_empty() {
        lines.push(ListLine::Heading(format!("needs you {}", items.len())));
    }
    lines.extend(items.into_iter().map(|item| line(item, theme, now)));
    lines
}

/// The word for what an item wants.
pub const fn kind_word(kind: InboxKind) -> &'static str {
    match kind {
        InboxKind::Permission => "permission",
        InboxKind::QuestionSet | InboxKind::Question => "question",
        InboxKind::Terminal => "input",
        InboxKind::Merge => "review",
        InboxKind::Blocked => "blocked",
    }
}

pub fn subject(item: &InboxItem) -> Subject {
    match (item.kind, item.task_id) {
        (InboxKind::Merge | InboxKind::Blocked, Some(task)) => Subject::Task(task),
        _ => Subject::Item(item.id.clone()),
    }
}

fn is_match(filter: &str, item: &InboxItem) -> bool {
    matches(filter, &[kind_word(item.kind), item.harness.as_deref().unwrap_or_default(), &item.title])
}

fn line(item: &InboxItem, theme: Theme, now: Timestamp) -> ListLine {
    let mut pieces = vec![Piece::new("! ", theme.need())];
    // The title of some items says what they want.
    if !item.title.starts_with(kind_word(item.kind)) {
        pieces.push(Piece::new(format!("{} ", kind_word(item.kind)), theme.accent()));
    }
    if let Some(harness) = &item.harness {
        pieces.push(Piece::new(format!("{harness} "), theme.quiet()));
    }
    let title = if item.question_set().is_some() { markdown::plain(&item.title) } else { item.title.clone() };
    pieces.push(Piece::new(title, theme.plain()));
    ListLine::Row { subject: subject(item), pieces, right: age(item.created_at, now), detail: String::new() }
}
