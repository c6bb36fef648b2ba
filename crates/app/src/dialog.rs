//! Boxes over the frame: the help, the palette, questions before something is lost, and the forms of launches and tasks.

pub mod fields;
pub mod palette;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::fields::Fields;
use self::palette::Palette;
use crate::feed::{Answer, Call};
use crate::frame::canvas::{self, CursorPlace};
use crate::frame::editor::{Edited, Editor};
use crate::frame::keymap::Action;
use crate::frame::text;
use crate::frame::theme::Theme;
use crate::setup::View;
use crate::world::Subject;

/// What an entered line is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    Rename(coven_domain::SessionId),
    RejectWork(coven_domain::TaskId),
    Block(coven_domain::TaskId),
    Close(coven_domain::TaskId),
    Export(coven_domain::SessionId),
}

/// What a dialog wants after a key.
#[derive(Debug, Clone, PartialEq)]
pub enum DialogResult {
    Stay,
    Close,
    Act(Action),
    Show(View),
    Go(Subject),
    Call(Box<Call>),
    Entered(Purpose, String),
    Refused(String),
}

pub enum Dialog {
    Help { rows: Vec<(String, &'static str)>, scroll: usize },
    Palette(Palette),
    Confirm { question: String, call: Box<Call>, typed: Option<Typed> },
    Line { title: &'static str, editor: Editor, purpose: Purpose },
    Fields(Fields),
}

/// A word that must be typed before something is deleted for ever.
pub struct Typed {
    pub word: &'static str,
    pub editor: Editor,
}

impl Dialog {
    pub fn paste(&mut self, pasted: &str) {
        match self {
            Self::Palette(palette) => palette.paste(pasted),
            Self::Line { editor, .. } | Self::Confirm { typed: Some(Typed { editor, .. }), .. } => {
                editor.insert(pasted)
            }
            Self::Fields(fields) => fields.paste(pasted),
            Self::Help { .. } | Self::Confirm { .. } => {}
        }
    }

    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) {
        if let Self::Fields(fields) = self {
            fields.answered(call, result);
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> DialogResult {
        let is_quit = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if key.code == KeyCode::Esc || is_quit {
            return DialogResult::Close;
        }
        match self {
            Self::Help { scroll, rows } => {
                match key.code {
                    KeyCode::Char('?' | 'q') | KeyCode::Enter => return DialogResult::Close,
                    KeyCode::Down | KeyCode::Char('j') => *scroll = (*scroll + 1).min(rows.len()),
                    KeyCode::Up | KeyCode::Char('k') => *scroll = scroll.saturating_sub(1),
                    KeyCode::PageDown | KeyCode::Char(' ') => *scroll = (*scroll + 10).min(rows.len()),
                    KeyCode::PageUp => *scroll = scroll.saturating_sub(10),
                    _ => {}
                }
                DialogResult::Stay
            }
            Self::Palette(palette) => palette.key(key),
            Self::Confirm { call, typed, .. } => match typed {
                Some(Typed { word, editor }) => match editor.key(key) {
                    Edited::Entered if editor.text() == *word => DialogResult::Call(call.clone()),
                    Edited::Entered => DialogResult::Refused(format!("type {word} to go on, or press Esc")),
                    _ => DialogResult::Stay,
                },
                None => match key.code {
                    KeyCode::Char('y') | KeyCode::Enter => DialogResult::Call(call.clone()),
                    KeyCode::Char('n' | 'q') => DialogResult::Close,
                    _ => DialogResult::Stay,
                },
            },
            Self::Line { editor, purpose, .. } => match editor.key(key) {
                Edited::Entered => DialogResult::Entered(purpose.clone(), editor.text().to_owned()),
                _ => DialogResult::Stay,
            },
            Self::Fields(fields) => fields.key(key),
        }
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) -> Option<CursorPlace> {
        match self {
            Self::Help { rows, scroll } => {
                draw_help(buffer, area, rows, *scroll, theme);
                None
            }
            Self::Palette(palette) => palette.draw(buffer, area, theme),
            Self::Confirm { question, typed, .. } => draw_confirm(buffer, area, question, typed.as_ref(), theme),
            Self::Line { title, editor, .. } => {
                let inside = canvas::boxed(buffer, canvas::middle(area, 70, 3), title, theme.accent());
                editor.draw(buffer, inside, theme.plain())
            }
            Self::Fields(fields) => fields.draw(buffer, area, theme),
        }
    }
}

fn draw_help(buffer: &mut Buffer, area: Rect, rows: &[(String, &'static str)], scroll: usize, theme: Theme) {
    let height = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX);
    let inside = canvas::boxed(buffer, canvas::middle(area, 64, height), "keys", theme.accent());
    let visible = usize::from(inside.height);
    let first = scroll.min(rows.len().saturating_sub(visible));
    let keys_width = 14.min(inside.width / 2);
    for (y, (keys, help)) in (inside.top()..inside.bottom()).zip(&rows[first..]) {
        canvas::put(buffer, inside.x + 1.min(inside.width), y, keys_width.saturating_sub(1), keys, theme.key());
        canvas::put(buffer, inside.x + keys_width, y, inside.width - keys_width, help, theme.plain());
    }
    if first + visible < rows.len() {
        let box_bottom = inside.bottom();
        canvas::put_right(buffer, inside.x, box_bottom, inside.width, " ↓ more ", theme.accent());
    }
}

fn draw_confirm(
    buffer: &mut Buffer,
    area: Rect,
    question: &str,
    typed: Option<&Typed>,
    theme: Theme,
) -> Option<CursorPlace> {
    let width = 64.min(area.width);
    let rows = text::wrap(question, usize::from(width.saturating_sub(4)));
    let height = u16::try_from(rows.len() + 3).unwrap_or(u16::MAX);
    let inside = canvas::boxed(buffer, canvas::middle(area, width, height), "", theme.need());
    for (y, row) in (inside.top()..inside.bottom()).zip(&rows) {
        canvas::put(buffer, inside.x + 1.min(inside.width), y, inside.width.saturating_sub(2), row, theme.plain());
    }
    let y = inside.bottom().checked_sub(1).filter(|y| *y >= inside.y)?;
    match typed {
        None => {
            canvas::put(buffer, inside.x + 1, y, inside.width.saturating_sub(1), "y yes   n no", theme.key());
            None
        }
        Some(Typed { word, editor }) => {
            let used = canvas::put(
                buffer,
                inside.x + 1,
                y,
                inside.width.saturating_sub(1),
                &format!("type {word}: "),
                theme.key(),
            );
            let x = inside.x + 1 + used;
            editor.draw(buffer, Rect { x, y, width: inside.right().saturating_sub(x), height: 1 }, theme.plain())
        }
    }
}
