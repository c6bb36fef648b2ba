//! What waits for a human, in a box over the board.

use coven_domain::task::TaskState;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType};

use super::super::inbox::{Choice, Opens, Waiting, waiting};
use super::super::state::App;
use super::super::tasks::Merge;
use crate::format::{format_duration, sanitize_line};
use crate::tui::text;
use crate::tui::view::Theme;
use crate::tui::view::dialog::{clear, middle};

const WIDTH: u16 = 76;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, cursor: usize) {
    let items = waiting(&app.tasks);
    let cursor = cursor.min(items.len().saturating_sub(1));
    let keys = items.get(cursor).map_or_else(|| "any key closes".to_owned(), keys);
    let screen = frame.area();
    let columns = usize::from(WIDTH.min(screen.width).saturating_sub(4));
    let keys = text::wrap(&sanitize_line(&keys), columns, 3);
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
        let line = Span::raw(text::fit(&words(app, &items[nth]), usize::from(row.width)));
        let line = if nth == cursor { line.style(theme.selected()) } else { line };
        frame.render_widget(Line::from(line), row);
    }
    let from = usize::from(inner.height).saturating_sub(keys.len());
    for (line, row) in keys.into_iter().zip(below.by_ref().skip(from)) {
        frame.render_widget(Line::styled(line, theme.key()), row);
    }
}

/// How long it waits, who it is and what about.
fn words(app: &App, item: &Waiting<'_>) -> String {
    match item {
        Waiting::Asked(item) => {
            let asker =
                app.tasks.asker(item).map(|task| format!(" · {}", sanitize_line(&task.title))).unwrap_or_default();
            let who = item.harness.as_deref().unwrap_or(item.kind.as_str());
            format!(
                "{:>4} {}: {}{asker}",
                format_duration(app.now.since(item.created_at)),
                sanitize_line(who),
                sanitize_line(&item.title)
            )
        }
        Waiting::Task(card) => {
            let (who, why) = match (card.task.status, card.merge()) {
                (TaskState::PendingMerge, Merge::Failed(why)) => ("not merged", Some(why)),
                (TaskState::PendingMerge, Merge::Awaited | Merge::UnderWay { .. }) => ("review", None),
                _ => ("blocked", card.task.reason.as_deref()),
            };
            let why = why.map(|why| format!(" · {}", sanitize_line(why))).unwrap_or_default();
            format!(
                "{:>4} {who}: {}{why}",
                format_duration(app.now.since(card.task.updated_at)),
                sanitize_line(&card.task.title)
            )
        }
    }
}

fn keys(item: &Waiting<'_>) -> String {
    let named = item.choices().into_iter().enumerate().map(|(nth, choice)| match choice {
        Choice::Option { id: _, name } => format!("{} {name}", nth + 1),
        Choice::Action(offer) => format!("{} {}", nth + 1, offer.word),
    });
    let opens = item.opens().map(|opens| match opens {
        Opens::Questions => "⏎ answers on its own screen",
        Opens::Line => "⏎ types a line into it",
        Opens::Page => "⏎ opens it",
    });
    let session = item.has_session().then_some("o its session");
    let rest = opens.into_iter().chain(session).chain(["Esc closes"]).map(str::to_owned);
    named.chain(rest).collect::<Vec<_>>().join(" · ")
}
