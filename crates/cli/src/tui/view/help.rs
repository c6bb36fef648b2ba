//! All keys at once.

use ratatui::Frame;
use ratatui::layout::Size;
use ratatui::text::Line;

use super::super::offer::OFFERS;
use super::Theme;
use crate::frame::help;

const MOVING: &[(&str, &str)] = &[
    ("↑ ↓  j k", "one up or down"),
    ("PgUp PgDn", "a page up or down (also ^B ^F, ^U ^D)"),
    ("Home End  g G", "the newest, the oldest"),
    ("/", "filter: title, harness, status, id, folder; Esc clears"),
    ("A", "show or hide archived sessions"),
];

const GENERAL: &[(&str, &str)] =
    &[("^L", "draw again"), ("mouse", "click selects, wheel scrolls, Shift+drag marks text"), ("q Esc ^C", "leave")];

fn lines(theme: Theme) -> Vec<Line<'static>> {
    let entry = |(key, what): &(&str, &str)| help::entry(theme, key, what);
    let mut lines: Vec<Line<'static>> = MOVING.iter().map(entry).collect();
    lines.push(Line::styled(" what the selected session allows", theme.quiet()));
    lines.extend(OFFERS.iter().map(|offer| help::offer(theme, offer)));
    lines.push(entry(&("Enter e", "a conversation: go on with it, show how to export it")));
    lines.push(Line::styled(" the rest", theme.quiet()));
    lines.extend(GENERAL.iter().map(entry));
    lines
}

/// How far the help can be scrolled on a screen of this size.
pub fn last_scroll(size: Size) -> u16 {
    help::last_scroll(lines(Theme::Plain).len(), size)
}

pub fn draw(frame: &mut Frame<'_>, theme: Theme, scroll: u16) {
    help::draw(frame, lines(theme), scroll);
}
