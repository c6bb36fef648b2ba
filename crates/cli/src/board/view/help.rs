//! All keys at once.

use ratatui::Frame;
use ratatui::layout::Size;
use ratatui::text::Line;

use super::super::offer::OFFERS;
use crate::frame::help;
use crate::tui::view::Theme;

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
    let mut lines = vec![Line::styled(" what the selected task allows", theme.quiet())];
    lines.extend(OFFERS.iter().map(|offer| help::offer(theme, offer)));
    lines.push(Line::styled(" the rest", theme.quiet()));
    lines.extend(ANYWHERE.iter().map(|(key, what)| help::entry(theme, key, what)));
    lines
}

/// How far the help can be scrolled on a screen of this size.
pub fn last_scroll(size: Size) -> u16 {
    help::last_scroll(lines(Theme::Plain).len(), size)
}

pub fn draw(frame: &mut Frame<'_>, theme: Theme, scroll: u16) {
    help::draw(frame, lines(theme), scroll);
}
