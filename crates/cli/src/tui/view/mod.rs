//! Draws the browser's state. Nothing here changes it.

mod details;
pub mod dialog;
pub mod footer;
mod header;
pub mod help;
mod rows;
mod screen;
mod theme;

use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::state::{App, Mode, Tone};

pub use theme::Theme;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let panes = app.panes();
    header::draw(frame, app, theme, panes.header);
    rows::draw(frame, app, theme, panes.heads, panes.list);
    if panes.has_preview() {
        screen::draw(frame, app, theme, panes.preview, panes.is_preview_beside);
    }
    details::draw(frame, app, theme, panes.details);
    notice(frame, app, theme, panes.notice);
    footer::draw(frame, app, theme, panes.footer);
    match &app.mode {
        Mode::Confirming { id, what } => dialog::confirm(frame, app, theme, id, what),
        Mode::Sacrificing { id, line } => dialog::sacrifice(frame, app, theme, id, line),
        Mode::Help { scroll } => help::draw(frame, theme, *scroll),
        Mode::Browsing | Mode::Filtering(_) | Mode::Typing { .. } => {}
    }
}

fn notice(frame: &mut Frame<'_>, app: &App, theme: Theme, area: ratatui::layout::Rect) {
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
