//! Drawing into the frame's cells. Every text that is drawn here is made safe first.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::text;

/// Where the terminal's cursor is shown, and its shape (DECSCUSR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorPlace {
    pub x: u16,
    pub y: u16,
    pub shape: u8,
}

/// A piece of text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub text: String,
    pub style: Style,
}

impl Piece {
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

/// A row of pieces.
pub type Row = Vec<Piece>;

/// Draws a text on one row, cut to `columns`. Returns the columns it used.
pub fn put(buffer: &mut Buffer, x: u16, y: u16, columns: u16, content: &str, style: Style) -> u16 {
    let area = buffer.area;
    if y < area.top() || y >= area.bottom() || x >= area.right() {
        return 0;
    }
    let columns = columns.min(area.right() - x);
    let mut used = 0;
    for piece in text::fit(content, usize::from(columns)).graphemes(true) {
        let wide = u16::try_from(piece.width()).unwrap_or(u16::MAX);
        if wide == 0 {
            continue;
        }
        buffer[(x + used, y)].set_symbol(piece).set_style(style);
        for rest in 1..wide {
            buffer[(x + used + rest, y)].set_symbol("").set_style(style);
        }
        used += wide;
    }
    used
}

/// Draws pieces one behind the other, cut to `columns`.
pub fn put_row(buffer: &mut Buffer, x: u16, y: u16, columns: u16, row: &[Piece]) -> u16 {
    let mut used = 0;
    for piece in row {
        if used >= columns {
            break;
        }
        used += put(buffer, x + used, y, columns - used, &piece.text, piece.style);
    }
    used
}

/// Draws a text so that it ends at the right edge of `columns`.
pub fn put_right(buffer: &mut Buffer, x: u16, y: u16, columns: u16, content: &str, style: Style) -> u16 {
    let shown = text::fit(content, usize::from(columns));
    let wide = u16::try_from(shown.width()).unwrap_or(columns).min(columns);
    put(buffer, x + columns - wide, y, wide, &shown, style)
}

/// Makes an area blank.
pub fn clear(buffer: &mut Buffer, area: Rect) {
    let area = area.intersection(buffer.area);
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            buffer[(x, y)].reset();
        }
    }
}

/// Applies a style to all cells of an area.
pub fn tint(buffer: &mut Buffer, area: Rect, style: Style) {
    buffer.set_style(area.intersection(buffer.area), style);
}

/// Draws a box with a title into an area and returns the area inside.
pub fn boxed(buffer: &mut Buffer, area: Rect, title: &str, style: Style) -> Rect {
    let area = area.intersection(buffer.area);
    if area.width < 2 || area.height < 2 {
        return Rect { width: 0, height: 0, ..area };
    }
    clear(buffer, area);
    let (left, right, top, bottom) = (area.left(), area.right() - 1, area.top(), area.bottom() - 1);
    for x in left + 1..right {
        buffer[(x, top)].set_symbol("─").set_style(style);
        buffer[(x, bottom)].set_symbol("─").set_style(style);
    }
    for y in top + 1..bottom {
        buffer[(left, y)].set_symbol("│").set_style(style);
        buffer[(right, y)].set_symbol("│").set_style(style);
    }
    for (x, y, corner) in [(left, top, "╭"), (right, top, "╮"), (left, bottom, "╰"), (right, bottom, "╯")] {
        buffer[(x, y)].set_symbol(corner).set_style(style);
    }
    if !title.is_empty() && area.width > 6 {
        put(buffer, left + 2, top, area.width - 4, &format!(" {title} "), style);
    }
    Rect { x: left + 1, y: top + 1, width: area.width - 2, height: area.height - 2 }
}

/// Returns a box of at most this size in the middle of an area.
pub fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}
