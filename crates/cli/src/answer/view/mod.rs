//! Draws the answering screen's state. Nothing here changes it.

mod dialog;
mod footer;
mod header;
pub mod help;
pub mod picker;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::{Alignment, Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::state::{App, Mode, Tone};
use super::tabs;
use crate::tui::text;
use crate::tui::view::Theme;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let panes = app.panes();
    header::draw(frame, app, theme, panes.header);
    tab_bar(frame, app, theme, panes.tabs);
    if panes.rule.area() > 0 {
        frame.render_widget(Span::styled("─".repeat(usize::from(panes.rule.width)), theme.quiet()), panes.rule);
    }
    match app.current() {
        Some(_) => page(frame, app, theme),
        None => empty(frame, app, theme, panes.body),
    }
    notice(frame, app, theme, panes.notice);
    footer::draw(frame, app, theme, panes.footer);
    match &app.mode {
        Mode::Rejecting(editor) => dialog::reject(frame, app, theme, editor),
        Mode::Picking(row) => picker::draw(frame, app, theme, *row),
        Mode::Quitting => dialog::quit(frame, app, theme),
        Mode::Help { scroll } => help::draw(frame, theme, *scroll),
        Mode::Asking | Mode::Typing { .. } => {}
    }
}

fn tab_bar(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let Some(waiting) = app.current() else { return };
    if area.area() == 0 {
        return;
    }
    let spans = tabs::tabs(waiting, usize::from(area.width)).into_iter().map(|tab| {
        let style = match (tab.place == waiting.draft.question, tab.is_answered) {
            (true, _) => theme.selected(),
            (false, true) => theme.good(),
            (false, false) => Style::new(),
        };
        Span::styled(tab.label, style)
    });
    frame.render_widget(Line::from_iter(spans), area);
}

fn page(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let panes = app.panes();
    let (page, inner) = (app.page(theme), panes.inner());
    let height = usize::from(inner.height);
    let count = page.lines.len();
    for ((line, _), row) in page.lines.into_iter().skip(app.offset).zip(inner.rows()) {
        frame.render_widget(line, row);
    }
    // What is above and below is told at the right edge.
    if inner.width > 0 && height > 1 {
        let edge = |y: u16| Rect { x: panes.body.right() - 1, y, width: 1, height: 1 };
        if app.offset > 0 {
            frame.render_widget(Span::styled("↑", theme.key()), edge(panes.body.y));
        }
        if app.offset + height < count {
            frame.render_widget(Span::styled("↓", theme.key()), edge(panes.body.bottom() - 1));
        }
    }
    if let Some((row, column)) = page.caret.filter(|(row, _)| (app.offset..app.offset + height).contains(row)) {
        let x = inner.x.saturating_add(u16::try_from(column).unwrap_or(u16::MAX));
        let y = inner.y + u16::try_from(row - app.offset).unwrap_or(0);
        if x < panes.body.right() {
            frame.set_cursor_position(Position::new(x, y));
        }
    }
}

fn empty(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let what = match (&app.trouble, app.is_complete) {
        (Some(why), _) => text::clean(why).into_owned(),
        (None, false) => "reading the questions …".to_owned(),
        (None, true) => "No questions wait. New ones appear here by themselves.".to_owned(),
    };
    let area = Rect { y: area.y + area.height / 3, height: area.height - area.height / 3, ..area };
    let text = Paragraph::new(what).style(theme.quiet()).alignment(Alignment::Center).wrap(Wrap { trim: true });
    frame.render_widget(text, area);
}

fn notice(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let Some(notice) = &app.notice else { return };
    let style = match notice.tone {
        Tone::News => theme.strong(),
        Tone::Problem => theme.problem(),
    };
    let lines: Vec<Line<'_>> = app.notice_lines().into_iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame.render_widget(Paragraph::new(lines).style(style), area);
}
