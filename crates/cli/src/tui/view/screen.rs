//! The preview: what the selected session's terminal shows.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

use super::super::state::App;
use super::super::text;
use super::Theme;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect, is_beside: bool) {
    let Some(record) = app.selected() else { return };
    let picture = app.screen.as_ref().filter(|(id, _)| *id == record.id).map(|(_, picture)| picture);
    let size = match picture {
        Some(Ok(picture)) => format!(" {}×{} ", picture.cols, picture.rows),
        _ => String::new(),
    };
    let room = usize::from(area.width).saturating_sub(text::width(&size) + 6);
    let title = format!(" {} ", text::fit(&record.title, room));
    let borders = if is_beside { Borders::TOP | Borders::LEFT } else { Borders::TOP };
    let block = Block::new()
        .borders(borders)
        .border_style(theme.quiet())
        .title_top(Line::from(vec![Span::raw("─"), Span::styled(title, theme.strong())]))
        .title_top(Line::from(size).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(block, area);

    let why = match picture {
        Some(Ok(picture)) if !picture.lines.is_empty() => {
            for (line, row) in picture.tail(usize::from(inner.height)).iter().zip(inner.rows()) {
                frame.render_widget(theme.foreign(line), row);
            }
            return;
        }
        Some(Ok(_)) => "nothing on its screen",
        Some(Err(why)) => why.as_str(),
        None if record.status == "created" => "not launched yet",
        None => "",
    };
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    frame.render_widget(Paragraph::new(text::clean(why)).style(theme.quiet()).wrap(Wrap { trim: true }), inner);
}
