//! The first line: what this is or the filter, every column with its count, and whether it is live.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::super::layout;
use super::super::state::{App, Link, Mode};
use super::super::tasks::{COLUMNS, name};
use crate::tui::text;
use crate::tui::view::Theme;

const NAME: &str = " coven board";

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let columns = usize::from(area.width);
    if let Link::Lost(why) = &app.link {
        let what = text::fit(&format!(" daemon not reachable, retrying · {why}"), columns);
        let padding = " ".repeat(columns.saturating_sub(text::width(&what)));
        frame.render_widget(Line::styled(format!("{what}{padding}"), theme.banner()), area);
        return;
    }
    let right = Line::from(Span::styled(state(app), theme.quiet())).right_aligned();
    let room = columns.saturating_sub(right.width() + 1);
    let left = match &app.mode {
        Mode::Filtering(line) => {
            let (seen, cursor) = line.view(room.saturating_sub(3));
            let column = u16::try_from(cursor + 3).unwrap_or(u16::MAX);
            frame.set_cursor_position(Position::new(area.x.saturating_add(column), area.y));
            Line::from(vec![Span::styled(" / ", theme.key()), Span::raw(seen)])
        }
        _ if !app.tasks.filter().is_empty() => {
            let filter = text::fit(app.tasks.filter(), room.saturating_sub(3));
            Line::from(vec![Span::styled(" / ", theme.key()), Span::styled(filter, theme.strong())])
        }
        _ => Line::from(strip(app, theme, room)),
    };
    frame.render_widget(left, area);
    frame.render_widget(right, area);
}

/// The name, and the columns that are off the screen with their counts.
fn strip(app: &App, theme: Theme, room: usize) -> Vec<Span<'static>> {
    let mut spans = vec![Span::styled(text::fit(NAME, room), theme.strong())];
    if layout::is_stacked(app) {
        return spans;
    }
    let shown = layout::columns(app);
    let is_shown = |at: usize| shown.iter().any(|column| column.at == at);
    let count = |at: usize| app.tasks.column(at).len();
    let hidden = (0..app.tasks.column_count()).filter(|at| !is_shown(*at));
    for at in hidden {
        let is_left = shown.first().is_some_and(|column| at < column.at);
        let words = format!("{} {}", name(COLUMNS[at]), count(at));
        let words = if is_left { format!("  ‹ {words}") } else { format!("  {words} ›") };
        let used: usize = spans.iter().map(Span::width).sum();
        if used + text::width(&words) > room {
            break;
        }
        spans.push(Span::styled(words, theme.quiet()));
    }
    spans
}

fn state(app: &App) -> String {
    let mut parts = Vec::new();
    if !app.tasks.filter().is_empty() {
        parts.push(format!("{} match", app.tasks.count()));
    }
    let waiting = app.tasks.inbox().len();
    if waiting > 0 {
        parts.push(format!("?{waiting} asked"));
    }
    if app.tasks.ready_count() > 0 {
        parts.push(format!("{} ready", app.tasks.ready_count()));
    }
    parts.push(if app.link == Link::Live { "live" } else { "connecting" }.to_owned());
    format!("{} ", parts.join(" · "))
}
