//! The Agents view: everything that lives or waits, in groups.

use coven_domain::Timestamp;

use super::{ListLine, age, matches};
use crate::frame::canvas::Piece;
use crate::frame::theme::Theme;
use crate::world::{Group, Row, World};

/// Builds the lines of the list: a heading with a count for each group that is not empty.
pub fn lines(world: &World, filter: &str, theme: Theme, now: Timestamp) -> Vec<ListLine> {
    let rows = world.rows();
    let mut lines = Vec::with_capacity(rows.len() + Group::ALL.len());
    for group in Group::ALL {
        let in_group: Vec<&Row> = rows.iter().filter(|row| row.group == *group).collect();
        let shown: Vec<&Row> = in_group.iter().filter(|row| is_match(filter, row)).copied().collect();
        if shown.is_empty() {
            continue;
        }
        let count = match group {
            Group::Finished if filter.is_empty() => world.finished_count(in_group.len()),
            _ => shown.len() as u64,
        };
        lines.push(ListLine::Heading(format!("{group} {count}")));
        lines.extend(shown.into_iter().map(|row| line(row, theme, now)));
    }
    lines
}

fn is_match(filter: &str, row: &Row) -> bool {
    matches(filter, &[&row.harness, &row.title, &row.project, &row.detail, row.group.as_str()])
}

fn line(row: &Row, theme: Theme, now: Timestamp) -> ListLine {
    let (mark, style) = match row.group {
        Group::NeedsYou => ("!", theme.need()),
        Group::Working => ("●", theme.good()),
        Group::Idle => ("○", theme.quiet()),
        Group::Finished => ("·", theme.dim()),
    };
    let title = if row.is_unseen { theme.bold() } else { theme.plain() };
    ListLine::Row {
        subject: row.subject.clone(),
        pieces: vec![
            Piece::new(if row.is_unseen { format!("{mark}*") } else { format!("{mark} ") }, style),
            Piece::new(
                if row.harness.is_empty() { String::new() } else { format!("{} ", row.harness) },
                theme.accent(),
            ),
            Piece::new(row.title.clone(), title),
        ],
        right: age(row.since, now),
        detail: row.detail.clone(),
    }
}
