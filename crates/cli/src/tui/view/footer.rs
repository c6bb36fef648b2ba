//! The last line: the keys that do something now, or the line that is being typed.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::super::line::Line as Typed;
use super::super::offer::{self, key_name};
use super::super::shelf;
use super::super::state::{App, Mode};
use super::super::text;
use super::Theme;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    if area.area() == 0 {
        return;
    }
    let columns = usize::from(area.width);
    match &app.mode {
        Mode::Typing { line, .. } => typing(frame, theme, line, area),
        Mode::Filtering(_) => {
            let hints = [("type", "to filter"), ("↑↓", "move"), ("Enter", "keep"), ("Esc", "clear")];
            frame.render_widget(keys(&hints.map(owned), &[], columns, theme), area);
        }
        _ => {
            let offers = match app.selected() {
                Some(record) if record.kind == shelf::KIND => vec![offer::RESUME, offer::EXPORT],
                Some(record) => offer::offers(record).iter().map(|offer| (offer.key, offer.word)).collect(),
                None => Vec::new(),
            };
            let offers: Vec<_> = offers.iter().map(|(key, word)| (key_name(*key), (*word).to_owned())).collect();
            let always = [("?", "help"), ("q", "quit")].map(owned);
            frame.render_widget(keys(&offers, &always, columns, theme), area);
        }
    }
}

fn owned((key, word): (&str, &str)) -> (String, String) {
    (key.to_owned(), word.to_owned())
}

/// As many keys as fit. What is always there has its place at the right; what finds none is in the help.
pub fn keys(left: &[(String, String)], right: &[(String, String)], columns: usize, theme: Theme) -> Line<'static> {
    let size = |(key, word): &(String, String)| text::width(key) + text::width(word) + 3;
    let mut room = columns.saturating_sub(1);
    let mut kept_right: Vec<_> = right.iter().rev().take_while(|hint| take(&mut room, size(hint))).collect();
    kept_right.reverse();
    let kept_left: Vec<_> = left.iter().take_while(|hint| take(&mut room, size(hint))).collect();
    let mut spans = vec![Span::raw(" ")];
    let hint =
        |(key, word): &(String, String)| [Span::styled(key.clone(), theme.key()), Span::raw(format!(" {word}  "))];
    spans.extend(kept_left.into_iter().flat_map(hint));
    spans.push(Span::raw(" ".repeat(room)));
    spans.extend(kept_right.into_iter().flat_map(hint));
    Line::from(spans)
}

fn take(room: &mut usize, size: usize) -> bool {
    match room.checked_sub(size) {
        Some(left) => {
            *room = left;
            true
        }
        None => false,
    }
}

fn typing(frame: &mut Frame<'_>, theme: Theme, line: &Typed, area: Rect) {
    let columns = usize::from(area.width);
    let hint = if columns >= 60 { "  Enter sends · Esc leaves " } else { "" };
    let (seen, cursor) = line.view(columns.saturating_sub(3 + text::width(hint)));
    let column = u16::try_from(cursor + 3).unwrap_or(u16::MAX);
    frame.render_widget(Line::from(vec![Span::styled(" > ", theme.key()), Span::raw(seen)]), area);
    frame.render_widget(Line::from(Span::styled(hint, theme.quiet())).right_aligned(), area);
    frame.set_cursor_position(Position::new(area.x.saturating_add(column), area.y));
}
