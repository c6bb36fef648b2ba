//! The questions before something that cannot be taken back.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use super::super::control::WORD;
use super::super::line::Line as Typed;
use super::super::report::What;
use super::super::state::App;
use super::super::text;
use super::Theme;
use crate::format::short_id;

const WIDTH: u16 = 68;

pub fn confirm(frame: &mut Frame<'_>, app: &App, theme: Theme, id: &str, what: &What) {
    let (title, explanation, yes) = match what {
        What::Kill => ("Kill", "Its processes are ended at once; its output is kept.", "kills it"),
        _ => ("Finish", "It is asked to end and becomes completed; its output is kept.", "finishes it"),
    };
    let question = name(app, id);
    let keys = Line::from(vec![
        Span::styled("y", theme.key()),
        Span::raw(format!(" {yes} · any other key leaves it running")),
    ]);
    let inner = boxed(frame, theme.strong(), title, &[&question, explanation], 2);
    if let Some(row) = inner.rows().next_back() {
        frame.render_widget(keys, row);
    }
}

pub fn sacrifice(frame: &mut Frame<'_>, app: &App, theme: Theme, id: &str, line: &Typed) {
    let question = name(app, id);
    let warning = "The session and all of its entries are deleted for good.";
    let ask = format!("Type the word {WORD} and press Enter; anything else cancels.");
    let inner = boxed(frame, theme.problem(), "Sacrifice", &[&question, warning, &ask], 2);
    if let Some(row) = inner.rows().next_back() {
        let (seen, cursor) = line.view(usize::from(row.width).saturating_sub(2));
        frame.render_widget(Line::from(vec![Span::styled("> ", theme.key()), Span::styled(seen, theme.strong())]), row);
        let column = u16::try_from(cursor + 2).unwrap_or(u16::MAX);
        frame.set_cursor_position(Position::new(row.x.saturating_add(column), row.y));
    }
}

fn name(app: &App, id: &str) -> String {
    let short = short_id(id);
    let Some(record) = app.list.find(id) else { return short.to_owned() };
    let harness = text::fit(&record.harness, 16);
    let rest = text::width(&harness) + text::width(short) + 6;
    let columns = usize::from(WIDTH.min(app.size.width)).saturating_sub(4);
    // Where there is no room for a useful piece of it the name is broken into lines.
    let title = text::fit(&record.title, columns.saturating_sub(rest).max(24));
    format!("“{title}” {harness}, {short}")
}

/// A frame in the middle of the screen with these sentences in it; returns its inside, whose last row is the caller's.
pub fn boxed(frame: &mut Frame<'_>, border: Style, title: &str, sentences: &[&str], extra: u16) -> Rect {
    let screen = frame.area();
    let width = WIDTH.min(screen.width);
    let columns = usize::from(width.saturating_sub(4));
    let lines: Vec<Line<'_>> =
        sentences.iter().flat_map(|sentence| text::wrap(sentence, columns, 3)).map(Line::raw).collect();
    let wanted = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(extra + 2);
    let area = middle(screen, width, wanted);
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(border).title(format!(" {title} "));
    let inner = block.inner(area);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    clear(frame, area);
    frame.render_widget(block, area);
    // Where rows are missing the question gives way, not the line that answers it.
    let shown = Rect { height: inner.height.saturating_sub(1), ..inner };
    frame.render_widget(Paragraph::new(lines), shown);
    inner
}

/// Empties a box, together with wide characters that would reach into it from the left.
pub fn clear(frame: &mut Frame<'_>, area: Rect) {
    frame.render_widget(Clear, area);
    let Some(left) = area.x.checked_sub(1) else { return };
    for y in area.top()..area.bottom() {
        let cell = &mut frame.buffer_mut()[(left, y)];
        if text::width(cell.symbol()) > 1 {
            cell.set_symbol(" ");
        }
    }
}

pub fn middle(screen: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(screen.width), height.min(screen.height));
    let x = screen.x + (screen.width - width) / 2;
    let y = screen.y + (screen.height - height) / 2;
    Rect { x, y, width, height }
}
