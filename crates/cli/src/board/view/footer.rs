//! The last line: the keys that do something now.

use ratatui::Frame;
use ratatui::layout::Rect;

use super::super::offer::{self, Action, key_name};
use super::super::report::Subject;
use super::super::state::{App, Mode};
use crate::tui::view::{Theme, footer};

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let always = [("?", "help"), ("q", "quit")].map(owned);
    let (left, right) = match &app.mode {
        Mode::Filtering(_) => {
            let hints = [("type", "words, #tag"), ("↑↓", "move"), ("⏎", "keep"), ("Esc", "clear")];
            (hints.map(owned).to_vec(), Vec::new())
        }
        Mode::Filling(_) => {
            let hints = [("⏎", "save"), ("⇥ ↓", "next field"), ("↑", "field before"), ("Esc", "leave")];
            (hints.map(owned).to_vec(), Vec::new())
        }
        Mode::Reading(page) => {
            let offers = app.tasks.card(&page.id).map(|card| offer::offers(&card)).unwrap_or_default();
            let is_this = |action: Action| match page.subject {
                Subject::Detail => action == Action::Open,
                Subject::Diff => action == Action::Diff,
                Subject::Workflow => action == Action::Workflow,
            };
            // Enter goes back here.
            let kept = offers.iter().filter(|offer| !is_this(offer.action) && offer.action != Action::Open);
            let hints = kept.map(|offer| (key_name(offer.key), offer.word.to_owned()));
            let moving = [("↑↓ PgDn", "scroll")].map(owned);
            (moving.into_iter().chain(hints).collect(), [("Esc", "back")].map(owned).to_vec())
        }
        _ => {
            let offers = app.tasks.selected().map(|card| offer::offers(&card)).unwrap_or_default();
            let offers = offers.iter().map(|offer| (key_name(offer.key), offer.word.to_owned()));
            let new = [("n", "new")].map(owned);
            (offers.chain(new).collect(), always.to_vec())
        }
    };
    frame.render_widget(footer::keys(&left, &right, usize::from(area.width), theme), area);
}

fn owned((key, word): (&str, &str)) -> (String, String) {
    (key.to_owned(), word.to_owned())
}
