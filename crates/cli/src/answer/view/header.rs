//! The first line: which set this is, where it comes from, and how long it has been waiting.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::state::App;
use crate::format::short_id;
use crate::tui::text;
use crate::tui::view::Theme;

const NAME: &str = " coven answer";

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    if area.area() == 0 {
        return;
    }
    let columns = usize::from(area.width);
    if let Some(why) = &app.trouble {
        let what = text::fit(&format!(" {why}"), columns);
        frame.render_widget(Line::styled(format!("{what:columns$}"), theme.banner()), area);
        return;
    }
    let Some(waiting) = app.current() else {
        frame.render_widget(Line::styled(text::fit(NAME, columns), theme.strong()), area);
        return;
    };
    let elapsed = format!("waiting {} ", clock(app.now.since(waiting.asked.asked_at)));
    let right = Line::from(Span::styled(elapsed, theme.quiet())).right_aligned();
    let mut room = columns.saturating_sub(right.width() + 1);
    let which = match app.queue.len() {
        1 => NAME.to_owned(),
        count => format!(" set {} of {count}", app.at + 1),
    };
    let mut spans = vec![Span::styled(text::fit(&which, room), theme.strong())];
    room = room.saturating_sub(text::width(&which));
    let asked = &waiting.asked;
    let session = asked.session.as_deref().map(|id| format!("session {}", short_id(id)));
    for part in [Some(short_id(&asked.id).to_owned()), session].into_iter().flatten() {
        let part = format!(" · {}", text::clean(&part));
        if text::width(&part) <= room {
            room -= text::width(&part);
            spans.push(Span::styled(part, theme.quiet()));
        }
    }
    if let Some(folder) = asked.folder.as_deref().filter(|_| room > 12) {
        spans.push(Span::styled(format!(" · {}", text::fit_end(folder, room - 3)), theme.quiet()));
    }
    frame.render_widget(Line::from(spans), area);
    frame.render_widget(right, area);
}

/// `0:02:13`.
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_told_to_the_second() {
        assert_eq!(clock(Duration::from_millis(133_999)), "0:02:13");
        assert_eq!(clock(Duration::from_secs(100_000)), "27:46:40");
    }
}
