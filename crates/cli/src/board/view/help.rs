//! All keys at once.

use ratatui::Frame;
use ratatui::layout::{Rect, Size};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph};

use super::super::offer::{ENTER, OFFERS};
use crate::tui::view::Theme;
use crate::tui::view::dialog::{clear, middle};

const WIDTH: u16 = 74;
const KEY_COLUMN: usize = 16;

const ANYWHERE: &[(&str, &str)] = &[
    ("n", "a new task"),
    ("i", "what waits for you; a digit or Enter answers it"),
    ("/", "filter: words, #tag, beginning of an id; Esc clears"),
    ("A", "show or hide closed tasks"),
    ("← → ↑ ↓  hjkl", "move; Tab and Shift+Tab go sideways too"),
    ("PgUp PgDn g G", "a page, the first, the last"),
    ("mouse", "click selects, again opens; wheel moves; Shift+drag marks text"),
    ("^L  q Esc ^C", "draw again; leave"),
];

fn lines(theme: Theme) -> Vec<Line<'static>> {
    let entry = |key: &str, what: &str| {
        Line::from(vec![Span::styled(format!(" {key:KEY_COLUMN$}"), theme.key()), Span::raw(what.to_owned())])
    };
    let offers = OFFERS.iter().map(|offer| match offer.key {
        ENTER => entry("Enter", offer.help),
        key => entry(key.encode_utf8(&mut [0; 4]), offer.help),
    });
    let mut lines = vec![Line::styled(" what the selected task allows", theme.quiet())];
    lines.extend(offers);
    lines.push(Line::styled(" the rest", theme.quiet()));
    lines.extend(ANYWHERE.iter().map(|(key, what)| entry(key, what)));
    lines
}

fn area(screen: Rect) -> Rect {
    let count = u16::try_from(lines(Theme::Plain).len()).unwrap_or(u16::MAX);
    middle(screen, WIDTH, count + 2)
}

/// How far the help can be scrolled on a screen of this size.
pub fn last_scroll(size: Size) -> u16 {
    let height = area(Rect::new(0, 0, size.width, size.height)).height;
    let count = u16::try_from(lines(Theme::Plain).len()).unwrap_or(u16::MAX);
    count.saturating_sub(height.saturating_sub(2))
}

pub fn draw(frame: &mut Frame<'_>, theme: Theme, scroll: u16) {
    let area = area(frame.area());
    let more = if last_scroll(frame.area().as_size()) > scroll { " ↓ more " } else { " any key closes " };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .title(" Keys ")
        .title_bottom(Line::raw(more).right_aligned());
    clear(frame, area);
    frame.render_widget(Paragraph::new(lines(theme)).block(block).scroll((scroll, 0)), area);
}
