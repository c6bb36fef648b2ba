//! What waits for a human, in a box over the board.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType};

use super::super::state::App;
use crate::tui::text;
use crate::tui::view::Theme;
use crate::tui::view::dialog::{clear, middle};
use crate::wording::{age, plain};

const WIDTH: u16 = 76;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, cursor: usize) {
    let items = app.tasks.inbox();
    let cursor = cursor.min(items.len().saturating_sub(1));
    let keys =
        items.get(cursor).map_or_else(|| "any key closes".to_owned(), |item| answer_keys(&item.kind, &item.options));
    let screen = frame.area();
    let columns = usize::from(WIDTH.min(screen.width).saturating_sub(4));
    let keys = text::wrap(&plain(&keys), columns, 3);
    let rows = items.len().max(1) + keys.len() + 1;
    let area = middle(screen, WIDTH, u16::try_from(rows + 2).unwrap_or(u16::MAX));
    let block = Block::bordered().border_type(BorderType::Rounded).title(" Inbox ");
    let inner = block.inner(area);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    clear(frame, area);
    frame.render_widget(block, area);
    let list = usize::from(inner.height).saturating_sub(keys.len() + 1).max(1);
    let mut below = inner.rows();
    if items.is_empty() {
        frame.render_widget(Line::raw("Nothing waits for you."), inner);
    }
    let first = (cursor + 1).saturating_sub(list);
    for (nth, row) in (first..items.len()).zip(inner.rows().take(list)) {
        let item = &items[nth];
        let asker = app.tasks.asker(item).map(|task| format!(" · {}", plain(&task.title))).unwrap_or_default();
        let who = item.harness.as_deref().unwrap_or(&item.kind);
        let words = format!("{:>4} {}: {}{asker}", age(&item.created_at, app.now), plain(who), plain(&item.title));
        let line = Span::raw(text::fit(&words, usize::from(row.width)));
        let line = if nth == cursor { line.style(theme.selected()) } else { line };
        frame.render_widget(Line::from(line), row);
    }
    let from = usize::from(inner.height).saturating_sub(keys.len());
    for (line, row) in keys.into_iter().zip(below.by_ref().skip(from)) {
        frame.render_widget(Line::styled(line, theme.key()), row);
    }
}

fn answer_keys(kind: &str, options: &[coven_api::inbox::InboxOption]) -> String {
    if kind == "question_set" {
        return "⏎ answers on its own screen · o its session · Esc closes".to_owned();
    }
    let options: Vec<String> =
        options.iter().take(9).enumerate().map(|(nth, option)| format!("{} {}", nth + 1, option.name)).collect();
    format!("{} · o its session · Esc closes", options.join(" · "))
}
