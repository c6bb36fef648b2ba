//! The list of all sets that wait, to choose one.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType};

use super::super::state::{App, Waiting};
use crate::format::{format_duration, short_id};
use crate::tui::text;
use crate::tui::view::Theme;
use crate::tui::view::dialog::{clear, middle};

const WIDTH: u16 = 76;

fn area(app: &App) -> Rect {
    let screen = Rect::new(0, 0, app.size.width, app.size.height);
    let height = u16::try_from(app.queue.len()).unwrap_or(u16::MAX).saturating_add(2);
    middle(screen, WIDTH, height.min(screen.height.saturating_sub(2).max(3)))
}

/// The rows inside the frame, and the first set that is seen with this one selected.
fn inside(app: &App, selected: usize) -> (Rect, usize) {
    let area = area(app);
    let (width, height) = (area.width.saturating_sub(2), area.height.saturating_sub(2));
    let inner = Rect { x: area.x + area.width.min(1), y: area.y + area.height.min(1), width, height };
    (inner, (selected + 1).saturating_sub(usize::from(inner.height)))
}

/// The set on this place of the screen.
pub fn row_at(app: &App, place: Position) -> Option<usize> {
    let super::super::state::Mode::Picking(selected) = app.mode else { return None };
    let (inner, first) = inside(app, selected);
    let row = first + usize::from(place.y.saturating_sub(inner.y));
    (inner.contains(place) && row < app.queue.len()).then_some(row)
}

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, selected: usize) {
    let area = area(app);
    clear(frame, area);
    let title = format!(" {} question sets, the oldest first ", app.queue.len());
    frame.render_widget(Block::bordered().border_type(BorderType::Rounded).title(title), area);
    let (inner, first) = inside(app, selected);
    for ((place, waiting), row) in app.queue.iter().enumerate().skip(first).zip(inner.rows()) {
        let style = if place == selected { theme.selected() } else { Style::new() };
        frame.render_widget(Line::from(Span::styled(entry(app, waiting, usize::from(row.width)), style)), row);
    }
}

fn entry(app: &App, waiting: &Waiting, columns: usize) -> String {
    let asked = &waiting.asked;
    let age = format_duration(app.now.since(asked.asked_at));
    let done = format!("{}/{}", waiting.answered(), asked.questions.len());
    let right = format!(" {done:>5} {age:>4}  {} ", text::fit(short_id(&asked.id), 8));
    let room = columns.saturating_sub(text::width(&right) + 1);
    let title = text::fit(&asked.title(), room);
    let gap = " ".repeat(room.saturating_sub(text::width(&title)));
    text::fit(&format!(" {title}{gap}{right}"), columns)
}
