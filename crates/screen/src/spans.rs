//! The visible screen as text and as runs of equal style, in types independent of alacritty.

use alacritty_terminal::grid::Row;
use alacritty_terminal::index::Line;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi;

use crate::model::Model;
use crate::modes::CURSOR_VISIBLE;
use crate::sgr::{BLINK, Look};

/// A colour as the program named it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    #[default]
    Default,
    /// One of 256; the first 16 follow the viewer's theme.
    Indexed(u8),
    Rgb(u8, u8, u8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Underline {
    #[default]
    None,
    Single,
    Double,
    Curly,
    Dotted,
    Dashed,
}

/// How a run of characters looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Style {
    pub fg: Color,
    pub bg: Color,
    pub underline_color: Color,
    pub underline: Underline,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub inverse: bool,
    pub hidden: bool,
    pub strike: bool,
    pub blink: bool,
}

/// A run of equally styled characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub style: Style,
    /// The address a link leads to.
    pub link: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorView {
    /// Counted from 0 at the top.
    pub row: u16,
    /// Counted from 0 at the left.
    pub col: u16,
    pub visible: bool,
    /// DECSCUSR: 0 the viewer's default, 1–2 block, 3–4 underline, 5–6 bar; odd numbers blink.
    pub shape: u8,
}

pub(crate) fn cursor(model: &Model) -> CursorView {
    let (row, col) = model.cursor_point();
    CursorView {
        row: row as u16,
        col: col as u16,
        visible: model.modes.get(CURSOR_VISIBLE) == Some(true),
        shape: model.modes.cursor_style,
    }
}

pub(crate) fn text(model: &Model) -> String {
    let mut text = String::new();
    // Pending line breaks, so that empty lines at the end are left out.
    let mut breaks = 0;
    let mut line = String::new();
    for row in 0..model.rows() {
        line.clear();
        push_text(&model.grid()[Line(row as i32)], &mut line);
        if !line.is_empty() {
            text.extend(std::iter::repeat_n('\n', breaks));
            text.push_str(&line);
            breaks = 0;
        }
        breaks += 1;
    }
    text
}

/// Appends the characters of a row without trailing blanks.
pub(crate) fn push_text(cells: &Row<Cell>, text: &mut String) {
    let start = text.len();
    for cell in cells {
        if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
            continue;
        }
        text.push(cell.c);
        text.extend(cell.zerowidth().into_iter().flatten());
    }
    let kept = text[start..].trim_end_matches(' ').len();
    text.truncate(start + kept);
}

pub(crate) fn rows(model: &Model) -> Vec<Vec<Span>> {
    (0..model.rows()).map(|row| row_spans(&model.grid()[Line(row as i32)])).collect()
}

/// Returns one row as spans. Blanks take the preceding style if that makes no visible difference.
pub(crate) fn row_spans(cells: &Row<Cell>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut look = Look::default();
    let mut shown = 0;
    for cell in cells {
        if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
            continue;
        }
        let blank = Look::of_blank(cell);
        let is_invisible = blank.as_ref().is_some_and(|blank| *blank == Look::default());
        let changed = match blank {
            Some(blank) if look.suits_blank(&blank) => false,
            Some(blank) => {
                look = blank;
                true
            }
            None if look.matches(cell) => false,
            None => {
                look = Look::of(cell);
                true
            }
        };
        if changed || spans.is_empty() {
            spans.push(span(&look));
        }
        if let Some(last) = spans.last_mut() {
            last.text.push(cell.c);
            last.text.extend(cell.zerowidth().into_iter().flatten());
        }
        if !is_invisible {
            shown = spans.len();
        }
    }
    spans.truncate(shown);
    if let Some(last) = spans.last_mut()
        && last.link.is_none()
        && last.style.bg == Color::Default
        && last.style.underline == Underline::None
        && !last.style.inverse
        && !last.style.strike
    {
        last.text.truncate(last.text.trim_end_matches(' ').len());
    }
    spans
}

fn span(look: &Look) -> Span {
    let has = |flag| look.flags.contains(flag);
    let underline = match look.flags & Flags::ALL_UNDERLINES {
        Flags::UNDERLINE => Underline::Single,
        Flags::DOUBLE_UNDERLINE => Underline::Double,
        Flags::UNDERCURL => Underline::Curly,
        Flags::DOTTED_UNDERLINE => Underline::Dotted,
        Flags::DASHED_UNDERLINE => Underline::Dashed,
        _ => Underline::None,
    };
    Span {
        text: String::new(),
        style: Style {
            fg: color(look.fg),
            bg: color(look.bg),
            underline_color: look.underline_color.map_or(Color::Default, color),
            underline,
            bold: has(Flags::BOLD),
            dim: has(Flags::DIM),
            italic: has(Flags::ITALIC),
            inverse: has(Flags::INVERSE),
            hidden: has(Flags::HIDDEN),
            strike: has(Flags::STRIKEOUT),
            blink: has(BLINK),
        },
        link: look.link.as_ref().map(|link| link.uri().to_owned()),
    }
}

fn color(color: ansi::Color) -> Color {
    match color {
        ansi::Color::Named(name) if (name as usize) < 16 => Color::Indexed(name as u8),
        ansi::Color::Named(_) => Color::Default,
        ansi::Color::Indexed(index) => Color::Indexed(index),
        ansi::Color::Spec(rgb) => Color::Rgb(rgb.r, rgb.g, rgb.b),
    }
}
