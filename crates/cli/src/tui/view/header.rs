//! The first line: what this is, the filter, how many, and whether it is live.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::super::state::{App, Link, Mode};
use super::super::text;
use super::Theme;

const NAME: &str = " coven sessions";
const SHORT_NAME: &str = " coven";
const HINT: &str = "   / filters";

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    if area.area() == 0 {
        return;
    }
    let columns = usize::from(area.width);
    if let Link::Lost(why) = &app.link {
        let what = text::fit(&format!(" daemon not reachable, retrying · {why}"), columns);
        frame.render_widget(Line::styled(format!("{what:columns$}"), theme.banner()), area);
        return;
    }
    let right = Line::from(Span::styled(counts(app), theme.quiet())).right_aligned();
    let room = columns.saturating_sub(right.width() + 2);
    let left = match &app.mode {
        Mode::Filtering(line) => {
            let (seen, cursor) = line.view(room.saturating_sub(3));
            let column = u16::try_from(cursor + 3).unwrap_or(u16::MAX);
            frame.set_cursor_position(Position::new(area.x.saturating_add(column), area.y));
            Line::from(vec![Span::styled(" / ", theme.key()), Span::raw(seen)])
        }
        _ if !app.list.filter().is_empty() => {
            let filter = text::fit(app.list.filter(), room.saturating_sub(3));
            Line::from(vec![Span::styled(" / ", theme.key()), Span::styled(filter, theme.strong())])
        }
        _ => {
            let name = if room < NAME.len() { SHORT_NAME } else { NAME };
            let hint = if room < NAME.len() + HINT.len() { "" } else { HINT };
            Line::from(vec![Span::styled(text::fit(name, room), theme.strong()), Span::styled(hint, theme.quiet())])
        }
    };
    frame.render_widget(left, area);
    frame.render_widget(right, area);
}

fn counts(app: &App) -> String {
    let mut parts = Vec::new();
    if let Some(total) = app.reading.filter(|total| *total > app.list.known() as u64) {
        parts.push(format!("reading {} of {total}", app.list.known()));
    }
    if app.list.filter().is_empty() {
        parts.push(format!("{} running", app.list.running()));
        let conversations = app.list.conversation_count();
        let sessions = app.list.len() - conversations;
        parts.push(format!("{sessions} {}", if sessions == 1 { "session" } else { "sessions" }));
        if conversations > 0 {
            parts
                .push(format!("{conversations} {}", if conversations == 1 { "conversation" } else { "conversations" }));
        }
    } else {
        parts.push(format!("{} of {}", app.list.len(), app.list.known()));
    }
    if app.list.includes_archived() {
        parts.push("with archived".to_owned());
    }
    parts.push(if app.link == Link::Live { "live" } else { "connecting" }.to_owned());
    format!("{} ", parts.join(" · "))
}
