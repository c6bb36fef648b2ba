//! The bar of questions: one tab each, with a mark that tells whether it is answered, and the review behind them.

use std::ops::Range;

use super::reply::Choosable;
use super::state::Waiting;
use crate::tui::text;

const REVIEW: &str = "Review";
/// A title is not cut below this where the bar can be moved instead.
const NARROWEST: usize = 4;
const WIDEST: usize = 24;
/// A mark, and a blank on each of its sides and behind the title.
const AROUND: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tab {
    /// The question, or as many as there are for the review.
    pub place: usize,
    /// Columns of the bar.
    pub columns: Range<usize>,
    pub label: String,
    pub is_answered: bool,
}

/// As many tabs as fit, the current one among them.
pub fn tabs(waiting: &Waiting, columns: usize) -> Vec<Tab> {
    let questions = &waiting.asked.questions;
    let titles: Vec<&str> = questions.iter().map(|question| question.title.as_str()).chain([REVIEW]).collect();
    let width = |most: usize| titles.iter().map(|title| text::width(&text::fit(title, most)) + AROUND).sum::<usize>();
    let most = (NARROWEST..=WIDEST).rev().find(|most| width(*most) <= columns).unwrap_or(NARROWEST);
    let tab = |place: usize| {
        let (mark, is_answered) = match waiting.draft.replies.get(place) {
            Some(reply) if reply.is_chosen(Choosable::Elaboration) => ("?", true),
            Some(reply) if reply.is_given() => ("✓", true),
            Some(_) => ("○", false),
            None => ("»", waiting.answered() == questions.len()),
        };
        (format!(" {mark} {} ", text::fit(titles[place], most)), is_answered)
    };
    let all: Vec<(String, bool)> = (0..titles.len()).map(tab).collect();
    let current = waiting.draft.question;
    // The first tab from which the current one is still seen.
    let first = (0..=current)
        .find(|first| all[*first..=current].iter().map(|(label, _)| text::width(label)).sum::<usize>() <= columns)
        .unwrap_or(current);
    let mut at = 0;
    let mut shown = Vec::new();
    for (place, (label, is_answered)) in all.into_iter().enumerate().skip(first) {
        let end = at + text::width(&label);
        if end > columns && place != current {
            break;
        }
        shown.push(Tab { place, columns: at..end, label, is_answered });
        at = end;
    }
    shown
}
