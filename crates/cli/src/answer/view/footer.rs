//! The last line: the keys that do something now.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::state::{App, Mode};
use crate::tui::view::Theme;
use crate::tui::view::footer::keys;

type Hint = (&'static str, &'static str);

const SINGLE: &[Hint] = &[("⏎", "choose, go on"), ("→", "next"), ("r", "recommended"), ("x", "reject")];
const MULTIPLE: &[Hint] = &[("Space", "mark"), ("⏎", "go on"), ("→", "next"), ("r", "recommended"), ("x", "reject")];
const REVIEW: &[Hint] = &[("⏎", "send"), ("Esc", "back"), ("1-9", "question"), ("x", "reject")];
const TYPING: &[Hint] = &[("⏎", "take it, go on"), ("^J", "new line"), ("Esc", "back, text is kept")];
const REJECTING: &[Hint] = &[("⏎", "reject"), ("^J", "new line"), ("Esc", "back")];
const PICKING: &[Hint] = &[("⏎", "answer this one"), ("↑↓", "move"), ("Esc", "back")];
const SETS: &[Hint] = &[("[ ]", "sets"), ("?", "help"), ("q", "quit")];
const ALWAYS: &[Hint] = &[("?", "help"), ("q", "quit")];

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    if area.area() == 0 {
        return;
    }
    let question = app.current().map(|waiting| waiting.question().map(|(_, question)| question.multi_select));
    let (left, right): (&[Hint], &[Hint]) = match (&app.mode, question) {
        (Mode::Typing { .. }, _) => (TYPING, &[]),
        (Mode::Rejecting(_), _) => (REJECTING, &[]),
        (Mode::Picking(_), _) => (PICKING, &[]),
        (Mode::Asking | Mode::Quitting | Mode::Help { .. }, question) => {
            let left = match question {
                None => &[],
                Some(None) => REVIEW,
                Some(Some(true)) => MULTIPLE,
                Some(Some(false)) => SINGLE,
            };
            (left, if app.queue.len() > 1 { SETS } else { ALWAYS })
        }
    };
    let owned =
        |hints: &[Hint]| hints.iter().map(|(key, word)| ((*key).to_owned(), (*word).to_owned())).collect::<Vec<_>>();
    frame.render_widget(keys(&owned(left), &owned(right), usize::from(area.width), theme), area);
}
