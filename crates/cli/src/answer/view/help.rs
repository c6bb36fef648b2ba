//! All keys at once.

use ratatui::Frame;
use ratatui::layout::{Rect, Size};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph};

use crate::tui::view::Theme;
use crate::tui::view::dialog::{clear, middle};

const WIDTH: u16 = 76;
const KEY_COLUMN: usize = 18;

const KEYS: &[(&str, &str)] = &[
    ("↑ ↓  j k", "one row up or down; PgUp PgDn scroll"),
    ("Space", "choose the row; of several: mark it, or take it back"),
    ("1-9  o  0  e", "that option; Other; none of these; explain more"),
    ("Enter", "choose and go on; on the review: send all answers"),
    ("← →  Tab", "the question before, the next; at the end the review"),
    ("v", "the review"),
    ("r", "choose what is recommended (★) here"),
    ("R", "choose it wherever there is no answer, then review"),
    ("x", "reject the whole set, with a reason if you like"),
    ("[ ]", "the set before, the next set"),
    ("s  ^S", "list all sets that wait"),
    ("", ""),
    ("in a text", "Enter takes it and goes on; ^J or Alt+Enter begins"),
    ("", "a line; Esc goes back and keeps it without choosing"),
    ("mouse", "click rows and tabs, wheel scrolls, Shift+drag marks"),
    ("Esc", "back one level; at the top it asks whether to quit"),
    ("^L", "draw again"),
    ("q  ^C", "quit; what was chosen and typed is kept"),
];

fn lines(theme: Theme) -> Vec<Line<'static>> {
    let entry = |(key, what): &(&str, &str)| {
        Line::from(vec![Span::styled(format!(" {key:KEY_COLUMN$}"), theme.key()), Span::raw((*what).to_owned())])
    };
    KEYS.iter().map(entry).collect()
}

fn area(screen: Rect) -> Rect {
    middle(screen, WIDTH, u16::try_from(KEYS.len()).unwrap_or(u16::MAX) + 2)
}

/// How far the help can be scrolled on a screen of this size.
pub fn last_scroll(size: Size) -> u16 {
    let height = area(Rect::new(0, 0, size.width, size.height)).height;
    u16::try_from(KEYS.len()).unwrap_or(u16::MAX).saturating_sub(height.saturating_sub(2))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_fits_its_box() {
        assert!(lines(Theme::Plain).iter().all(|line| line.width() <= usize::from(WIDTH) - 2));
    }
}
