//! Draws the board's state. Nothing here changes it.

mod cards;
mod dialog;
mod footer;
mod header;
pub mod help;
mod inbox;
mod page;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::layout;
use super::state::{App, Mode, Tone};
use crate::tui::text;
use crate::tui::view::Theme;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    if layout::is_too_small(app) {
        return too_small(frame);
    }
    let panes = app.panes();
    match &app.mode {
        Mode::Reading(page) => page::draw(frame, app, theme, page, panes),
        _ => {
            header::draw(frame, app, theme, panes.header);
            cards::draw(frame, app, theme, panes.body);
        }
    }
    notice(frame, app, theme, panes.notice);
    footer::draw(frame, app, theme, panes.footer);
    match &app.mode {
        Mode::Confirming { id, sure } => dialog::confirm(frame, app, theme, id, *sure),
        Mode::Saying { id, purpose, line, inbox: _ } => dialog::say(frame, app, theme, id, *purpose, line),
        Mode::Filling(form) => dialog::form(frame, theme, form),
        Mode::Inbox { cursor } => inbox::draw(frame, app, theme, *cursor),
        Mode::Help { scroll } => help::draw(frame, theme, *scroll),
        Mode::Browsing | Mode::Filtering(_) | Mode::Reading(_) => {}
    }
}

fn too_small(frame: &mut Frame<'_>) {
    let (columns, rows) = layout::LEAST;
    let words = format!("the board needs {columns}×{rows}; q leaves");
    let width = usize::from(frame.area().width);
    let lines: Vec<Line<'_>> = text::wrap(&words, width, 3).into_iter().map(Line::raw).collect();
    frame.render_widget(Paragraph::new(lines), frame.area());
}

fn notice(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let Some(notice) = &app.notice else { return };
    let style = match notice.tone {
        Tone::News => Style::new(),
        Tone::Problem => theme.problem(),
    };
    let lines: Vec<Line<'_>> = app.notice_lines().into_iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame.render_widget(Paragraph::new(lines).style(style), area);
}

#[cfg(test)]
mod tests;
