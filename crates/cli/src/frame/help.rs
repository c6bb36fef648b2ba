//! A page with all keys at once.

use ratatui::Frame;
use ratatui::layout::{Rect, Size};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph};

use super::menu::{ENTER, Offer};
use crate::tui::view::Theme;
use crate::tui::view::dialog::{clear, middle};

const WIDTH: u16 = 74;
const KEY_COLUMN: usize = 16;

pub fn entry(theme: Theme, key: &str, what: &str) -> Line<'static> {
    Line::from(vec![Span::styled(format!(" {key:KEY_COLUMN$}"), theme.key()), Span::raw(what.to_owned())])
}

pub fn offer<Action>(theme: Theme, offer: &Offer<Action>) -> Line<'static> {
    match offer.key {
        ENTER => entry(theme, "Enter", offer.help),
        key => entry(theme, key.encode_utf8(&mut [0; 4]), offer.help),
    }
}

fn area(screen: Rect, count: usize) -> Rect {
    middle(screen, WIDTH, u16::try_from(count).unwrap_or(u16::MAX).saturating_add(2))
}

/// How far so many lines can be scrolled on a screen of this size.
pub fn last_scroll(count: usize, size: Size) -> u16 {
    let height = area(Rect::new(0, 0, size.width, size.height), count).height;
    u16::try_from(count).unwrap_or(u16::MAX).saturating_sub(height.saturating_sub(2))
}

pub fn draw(frame: &mut Frame<'_>, lines: Vec<Line<'static>>, scroll: u16) {
    let area = area(frame.area(), lines.len());
    let has_more = last_scroll(lines.len(), frame.area().as_size()) > scroll;
    let more = if has_more { " ↓ more " } else { " any key closes " };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .title(" Keys ")
        .title_bottom(Line::raw(more).right_aligned());
    clear(frame, area);
    frame.render_widget(Paragraph::new(lines).block(block).scroll((scroll, 0)), area);
}
