//! The cards: in columns side by side, or in one list where it is narrow.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::card::{self, Shape};
use super::super::layout::{self, Column, Row};
use super::super::state::App;
use super::super::tasks::{COLUMNS, name};
use crate::tui::text;
use crate::tui::view::Theme;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, body: Rect) {
    if let Some(words) = instead(app) {
        let inner = Rect { x: body.x + 1, width: body.width.saturating_sub(2), ..body };
        let lines = text::wrap(&words, usize::from(inner.width), usize::from(inner.height));
        let rows = Rect { y: inner.y + inner.height.min(1), height: inner.height.saturating_sub(1), ..inner };
        let lines: Vec<Line<'_>> = lines.into_iter().map(Line::raw).collect();
        frame.render_widget(Paragraph::new(lines).style(theme.quiet()), rows);
        return;
    }
    if layout::is_stacked(app) {
        return stacked(frame, app, theme);
    }
    let columns = layout::columns(app);
    let places = layout::places(app);
    for column in &columns {
        let is_here = |area: &Rect| area.x == column.body.x;
        let seen = places.iter().filter(|place| is_here(&place.area)).count();
        head(frame, app, theme, column, seen);
    }
    for place in places {
        draw_card(frame, app, theme, &place.id, Shape::Tall, place.area);
    }
}

/// What is said where there is nothing to show.
fn instead(app: &App) -> Option<String> {
    if app.tasks.count() > 0 {
        return None;
    }
    Some(match app.tasks.filter() {
        _ if !app.is_read => "reading the tasks …".to_owned(),
        _ if app.tasks.is_empty() => "No tasks yet. n makes one; so does `coven task add`.".to_owned(),
        "" => "Every task is closed. A shows them, n makes a new one.".to_owned(),
        filter => format!("Nothing matches “{filter}”. Esc clears the filter."),
    })
}

fn head(frame: &mut Frame<'_>, app: &App, theme: Theme, column: &Column, seen: usize) {
    let count = app.tasks.column(column.at).len();
    let above = app.offsets[column.at];
    let below = count.saturating_sub(above + seen);
    let mut words = format!(" {} {count}", name(COLUMNS[column.at]));
    if above > 0 {
        words.push_str(&format!(" ↑{above}"));
    }
    if below > 0 {
        words.push_str(&format!(" ↓{below}"));
    }
    let columns = usize::from(column.head.width.saturating_sub(1));
    let words = text::fit(&words, columns);
    let padding = " ".repeat(columns.saturating_sub(text::width(&words)));
    let is_selected = app.tasks.cursor().0 == column.at;
    let style = theme.strong().add_modifier(Modifier::UNDERLINED);
    let style = if is_selected { style.add_modifier(Modifier::REVERSED) } else { style };
    frame.render_widget(Line::styled(format!("{words}{padding}"), style), column.head);
}

fn stacked(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    for (row, area) in layout::stacked_places(app) {
        match row {
            Row::Head(at) => {
                let words = format!(" {} {}", name(COLUMNS[at]), app.tasks.column(at).len());
                let style = theme.strong().add_modifier(Modifier::UNDERLINED);
                let padding = " ".repeat(usize::from(area.width).saturating_sub(text::width(&words)));
                frame.render_widget(Line::styled(format!("{words}{padding}"), style), area);
            }
            Row::Card(id) => draw_card(frame, app, theme, &id, Shape::Flat, area),
        }
    }
}

fn draw_card(frame: &mut Frame<'_>, app: &App, theme: Theme, id: &str, shape: Shape, area: Rect) {
    let Some(card) = app.tasks.card(id) else { return };
    let columns = layout::inside(area.width);
    let is_selected = app.tasks.is_selected(id);
    let lines = card::lines(&card, shape, columns, app.now, theme);
    for (nth, (line, row)) in lines.into_iter().zip(area.rows()).enumerate() {
        let bar = if is_selected { Span::styled("▌", theme.key()) } else { Span::raw(" ") };
        let line = if is_selected && nth == 0 { line.patch_style(theme.selected()) } else { line };
        let mut spans = vec![bar];
        let style = line.style;
        spans.extend(line.spans.into_iter().map(|span| span.patch_style(style)));
        let inner = Rect { width: row.width.saturating_sub(1), ..row };
        frame.render_widget(Line::from(spans), inner);
    }
}
