//! The list: only the rows that are on the screen are made.

use super::super::item::Item;
use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::super::state::App;
use super::super::text;
use super::Theme;
use crate::format::{age, short_id};

const STATUS: usize = 9;
const AGE: usize = 4;
const ID: usize = 8;
const GAP: usize = 2;

/// How wide each column is; 0 leaves it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    status: usize,
    harness: usize,
    title: usize,
    id: usize,
}

impl Columns {
    /// The title gets what the others leave; on a narrow terminal they go, one after the other.
    fn of(width: usize, longest_harness: usize) -> Self {
        let status = if width >= 30 { STATUS } else { 0 };
        let harness = if width >= 45 { longest_harness.clamp(7, 12) } else { 0 };
        let id = if width >= 60 { ID } else { 0 };
        // A blank, the sign and a blank; the age and a blank at the end.
        let fixed = 3 + AGE + 1;
        let taken: usize = [status, harness, id].iter().filter(|part| **part > 0).map(|part| part + GAP).sum();
        Self { status, harness, title: width.saturating_sub(fixed + taken + GAP), id }
    }

    fn join(self, sign: Span<'static>, status: Span<'static>, [harness, title, age, id]: [&str; 4]) -> Line<'static> {
        let gap = " ".repeat(GAP);
        let mut spans = vec![Span::raw(" "), sign, Span::raw(" ")];
        if self.status > 0 {
            spans.push(status);
            spans.push(Span::raw(gap.clone()));
        }
        if self.harness > 0 {
            spans.push(Span::raw(padded(harness, self.harness) + &gap));
        }
        spans.push(Span::raw(padded(title, self.title) + &gap));
        spans.push(Span::raw(format!("{age:>AGE$}")));
        if self.id > 0 {
            spans.push(Span::raw(gap + &padded(id, self.id)));
        }
        spans.push(Span::raw(" "));
        Line::from(spans)
    }
}

/// Cut or filled to exactly so many columns.
fn padded(text: &str, columns: usize) -> String {
    let mut fitted = text::fit(text, columns);
    fitted.extend(std::iter::repeat_n(' ', columns.saturating_sub(text::width(&fitted))));
    fitted
}

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, heads: Rect, area: Rect) {
    if app.list.is_empty() {
        return empty(frame, app, theme, area);
    }
    let height = usize::from(area.height);
    let places = app.offset..(app.offset + height).min(app.list.len());
    let visible: Vec<&Item> = places.clone().filter_map(|place| app.list.get(place)).collect();
    let longest = visible.iter().map(|record| text::width(&record.harness)).max().unwrap_or(0);
    let columns = Columns::of(usize::from(area.width), longest);

    let head =
        columns.join(Span::raw(" "), Span::raw(padded("STATUS", columns.status)), ["HARNESS", "TITLE", "AGE", "ID"]);
    frame.render_widget(head.style(theme.quiet()), heads);
    for ((row, place), record) in area.rows().zip(places).zip(visible) {
        let mut line = row_of(record, app, theme, columns);
        if place == app.list.cursor() {
            line = line.style(theme.selected());
        } else if record.archived_at.is_some() {
            line = line.style(theme.quiet());
        }
        frame.render_widget(line, row);
    }
    scrollbar(frame, app, theme, area);
}

fn row_of(record: &Item, app: &App, theme: Theme, columns: Columns) -> Line<'static> {
    let (sign, look) = theme.status(&record.status);
    let title = match record.archived_at {
        Some(_) => format!("(archived) {}", record.title),
        None => record.title.clone(),
    };
    let status = Span::styled(padded(&record.status, columns.status), look);
    let age = age(&record.created_at, app.now);
    columns.join(Span::styled(sign, look), status, [&record.harness, &title, &age, short_id(&record.id)])
}

/// A mark at the right edge shows where in a long list this is.
fn scrollbar(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let (height, len) = (usize::from(area.height), app.list.len());
    if len <= height || height < 3 || area.width < 2 {
        return;
    }
    let size = (height * height / len).max(1);
    let start = app.offset * (height - size) / (len - height);
    for row in area.rows().skip(start).take(size) {
        let edge = Rect { x: area.right() - 1, width: 1, ..row };
        frame.render_widget(Span::styled("▐", theme.quiet()), edge);
    }
}

fn empty(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let filter = app.list.filter();
    let what = match (app.is_complete, filter.is_empty(), app.list.includes_archived()) {
        (false, ..) => "reading the sessions …".to_owned(),
        (true, false, _) => format!("Nothing matches “{}”. Esc clears the filter.", text::clean(filter)),
        (true, true, false) => "No sessions yet. Start one with `coven run demo`; A shows archived ones.".to_owned(),
        (true, true, true) => "No sessions yet. Start one with `coven run demo`.".to_owned(),
    };
    let area = Rect { y: area.y + area.height / 3, height: area.height - area.height / 3, ..area };
    let text = Paragraph::new(what).style(theme.quiet()).alignment(Alignment::Center).wrap(Wrap { trim: true });
    frame.render_widget(text, area);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_fill_the_width_exactly_and_go_one_by_one() {
        for width in 20..250 {
            let columns = Columns::of(width, 20);
            let line = columns.join(
                Span::raw("●"),
                Span::raw(padded("running", columns.status)),
                ["claude", "漢字 a long title 漢字", "12m", "1f2e3d4c"],
            );
            assert_eq!(line.width(), width, "{line}");
        }
        assert_eq!(Columns::of(80, 5), Columns { status: 9, harness: 7, title: 40, id: 8 });
        assert_eq!(Columns::of(40, 5), Columns { status: 9, harness: 0, title: 19, id: 0 });
    }
}
