//! What is asked before a set is rejected, and before the screen is left.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::super::page::typed_line;
use super::super::state::App;
use crate::chat::editor::Editor;
use crate::tui::text;
use crate::tui::view::Theme;
use crate::tui::view::dialog::boxed;

/// Rows of a reason that are seen at once.
const REASON_ROWS: u16 = 5;

pub fn quit(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let count = match app.queue.len() {
        1 => "A question set waits".to_owned(),
        count => format!("{count} question sets wait"),
    };
    let sentence = format!("{count} for an answer. What you chose and typed is kept; `coven answer` comes back to it.");
    let keys = Line::from(vec![Span::styled("y", theme.key()), Span::raw(" quits · any other key stays")]);
    let inner = boxed(frame, theme.strong(), "Quit", &[&sentence], 2);
    if let Some(row) = inner.rows().next_back() {
        frame.render_widget(keys, row);
    }
}

pub fn reject(frame: &mut Frame<'_>, app: &App, theme: Theme, editor: &Editor) {
    let Some(waiting) = app.current() else { return };
    let question = format!("“{}” is not answered, and the agent is told so.", text::fit(&waiting.asked.title(), 60));
    let ask = "Why? Enter rejects, with or without a reason; Esc goes back.";
    let inner = boxed(frame, theme.problem(), "Reject", &[&question, ask], REASON_ROWS + 1);
    // The last rows are the reason's, however few there are.
    let height = REASON_ROWS.min(inner.height);
    let area = Rect { y: inner.bottom() - height, height, ..inner };
    if area.area() == 0 {
        return;
    }
    let (rows, (row, column)) = editor.view(usize::from(area.width), usize::from(area.height));
    for (line, place) in rows.iter().zip(area.rows()) {
        frame.render_widget(typed_line(line, 0, theme), place);
    }
    let x = area.x.saturating_add(u16::try_from(column).unwrap_or(u16::MAX));
    let y = area.y.saturating_add(u16::try_from(row).unwrap_or(u16::MAX));
    if area.contains(Position::new(x, y)) {
        frame.set_cursor_position(Position::new(x, y));
    }
}
