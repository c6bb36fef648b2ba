//! The palette: everything that can be reached or done, found by a few letters of its name.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::DialogResult;
use crate::frame::canvas::{self, CursorPlace};
use crate::frame::editor::{Edited, Editor};
use crate::frame::keymap::Action;
use crate::frame::text;
use crate::frame::theme::Theme;
use crate::setup::View;
use crate::world::Subject;

/// Matches that are shown and can be chosen.
const MAX_MATCHES: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Action(Action),
    View(View),
    Subject(Subject),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub target: Target,
    pub name: String,
    /// The key of an action, or the kind of a thing.
    pub remark: String,
}

pub struct Palette {
    entries: Vec<Entry>,
    query: Editor,
    /// Indexes of the entries that match, the best first.
    matches: Vec<usize>,
    selected: usize,
    matcher: Matcher,
}

impl Palette {
    pub fn new(entries: Vec<Entry>) -> Self {
        let mut palette = Self {
            entries,
            query: Editor::one_line(""),
            matches: Vec::new(),
            selected: 0,
            matcher: Matcher::new(Config::DEFAULT),
        };
        palette.find();
        palette
    }

    pub fn paste(&mut self, text: &str) {
        self.query.insert(text);
        self.find();
    }

    fn find(&mut self) {
        self.selected = 0;
        let pattern = Pattern::parse(self.query.text(), CaseMatching::Smart, Normalization::Smart);
        let mut characters = Vec::new();
        let mut scored: Vec<(u32, usize)> = Vec::new();
        for (nth, entry) in self.entries.iter().enumerate() {
            let name = Utf32Str::new(&entry.name, &mut characters);
            if let Some(score) = pattern.score(name, &mut self.matcher) {
                scored.push((score, nth));
            }
        }
        scored.sort_by_key(|(score, nth)| (std::cmp::Reverse(*score), *nth));
        self.matches = scored.into_iter().take(MAX_MATCHES).map(|(_, nth)| nth).collect();
    }

    pub fn key(&mut self, key: KeyEvent) -> DialogResult {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = self.matches.len().saturating_sub(1);
        match key.code {
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.selected = (self.selected + 1).min(last),
            KeyCode::Char('p') if control => self.selected = self.selected.saturating_sub(1),
            KeyCode::Char('n') if control => self.selected = (self.selected + 1).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::PageDown => self.selected = (self.selected + 10).min(last),
            KeyCode::Enter => {
                return match self.matches.get(self.selected).map(|nth| self.entries[*nth].target.clone()) {
                    Some(Target::Action(action)) => DialogResult::Act(action),
                    Some(Target::View(view)) => DialogResult::Show(view),
                    Some(Target::Subject(subject)) => DialogResult::Go(subject),
                    None => DialogResult::Stay,
                };
            }
            _ => {
                if self.query.key(key) == Edited::Changed {
                    self.find();
                }
            }
        }
        DialogResult::Stay
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) -> Option<CursorPlace> {
        let inside = canvas::boxed(buffer, canvas::middle(area, 72, 20), "commands", theme.accent());
        if inside.is_empty() {
            return None;
        }
        let line = Rect { height: 1, ..inside };
        let used = canvas::put(buffer, line.x, line.y, line.width, "› ", theme.key());
        let query = Rect { x: line.x + used, width: line.width - used, ..line };
        let cursor = self.query.draw(buffer, query, theme.plain());
        let rows = usize::from(inside.height - 1);
        if self.matches.is_empty() && rows > 0 {
            canvas::put(buffer, inside.x, inside.y + 1, inside.width, "  nothing matches", theme.dim());
        }
        let first = (self.selected + 1).saturating_sub(rows);
        for (y, (nth, at)) in (inside.y + 1..inside.bottom()).zip(self.matches.iter().enumerate().skip(first)) {
            let entry = &self.entries[*at];
            let is_selected = nth == self.selected;
            let (mark, style) = if is_selected { ("▌ ", theme.reverse()) } else { ("  ", theme.plain()) };
            let used = canvas::put(buffer, inside.x, y, inside.width, mark, theme.accent());
            let rest = inside.width - used;
            let remark =
                canvas::put_right(buffer, inside.x + used, y, rest, &text::fit(&entry.remark, 18), theme.dim());
            let name = Rect { x: inside.x + used, y, width: rest.saturating_sub(remark + 1), height: 1 };
            canvas::clear(buffer, Rect { width: name.width + u16::from(remark == 0), ..name });
            canvas::put(buffer, name.x, y, name.width, &entry.name, style);
        }
        cursor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn palette() -> Palette {
        let entry =
            |name: &str, action| Entry { target: Target::Action(action), name: name.to_owned(), remark: String::new() };
        Palette::new(vec![
            entry("kill the session", Action::Kill),
            entry("quit", Action::Quit),
            entry("Fix CI", Action::Help),
        ])
    }

    #[test]
    fn a_few_letters_find_an_entry() {
        let mut palette = palette();
        palette.paste("fxc");
        assert_eq!(palette.key(KeyEvent::from(KeyCode::Enter)), DialogResult::Act(Action::Help));
        palette.paste("zzz");
        assert_eq!(palette.key(KeyEvent::from(KeyCode::Enter)), DialogResult::Stay);
    }

    #[test]
    fn it_is_drawn_at_any_size() {
        for (width, height) in (1..40).flat_map(|width| (1..12).map(move |height| (width, height))) {
            let area = Rect::new(0, 0, width, height);
            palette().draw(&mut Buffer::empty(area), area, Theme { has_colors: true });
        }
    }
}
