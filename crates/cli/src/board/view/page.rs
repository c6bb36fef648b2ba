//! A page of text about one task, over the whole screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::super::layout::Panes;
use super::super::page::{Page, Shade};
use super::super::report::Subject;
use super::super::state::App;
use crate::format::{sanitize_line, short_id};
use crate::tui::text;
use crate::tui::view::Theme;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, page: &Page, panes: Panes) {
    let subject = match page.subject {
        Subject::Detail => "task",
        Subject::Diff => "diff",
        Subject::Workflow => "workflow",
    };
    let title = app.tasks.card(&page.id).map(|card| sanitize_line(&card.task.title)).unwrap_or_default();
    let height = usize::from(panes.body.height);
    let last = page.shown.len().min(page.scroll + height);
    let place = match page.shown.len() > height {
        true => format!("{}–{last} of {} ", page.scroll + 1, page.shown.len()),
        false => String::new(),
    };
    let room = usize::from(panes.header.width).saturating_sub(text::width(&place) + 1);
    let head = text::fit(&format!(" {subject} {} {title}", short_id(&page.id)), room);
    frame.render_widget(Line::styled(head, theme.strong()), panes.header);
    frame.render_widget(Line::from(Span::styled(place, theme.quiet())).right_aligned(), panes.header);
    let inner = Rect { x: panes.body.x + 1, width: panes.body.width.saturating_sub(2), ..panes.body };
    if page.is_empty() {
        frame.render_widget(Line::styled("reading …", theme.quiet()), inner);
        return;
    }
    for (line, row) in page.shown.iter().skip(page.scroll).zip(inner.rows()) {
        frame.render_widget(Line::styled(line.text.as_str(), style(theme, line.shade)), row);
    }
}

fn style(theme: Theme, shade: Shade) -> Style {
    let coloured = |color: Color| match theme {
        Theme::Colored => Style::new().fg(color),
        Theme::Plain => Style::new(),
    };
    match shade {
        Shade::Plain => Style::new(),
        Shade::Strong => theme.strong(),
        Shade::Quiet => theme.quiet(),
        Shade::Added => coloured(Color::Green),
        Shade::Removed => coloured(Color::Red),
        Shade::Place => coloured(Color::Cyan),
    }
}
