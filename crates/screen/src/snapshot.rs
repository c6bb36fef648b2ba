//! Serializes a screen as bytes that repaint it.

use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::vte::ansi::CharsetIndex;

use crate::model::{Model, NAMED_COLORS, PRIMARY};
use crate::modes;
use crate::pen::{self, Pen};
use crate::sgr::{Look, push};

const ERASE: &[u8] = b"\x1b[H\x1b[J";

pub(crate) fn snapshot(model: &mut Model) -> Vec<u8> {
    let mut pen = Pen::new();
    // CAN aborts an incomplete sequence in the terminal, which would swallow the first one.
    pen.out.push(0x18);
    modes::clear(&mut pen.out);
    pen.out.extend_from_slice(ERASE);
    write_tabs(model, &mut pen.out);
    if model.is_alternate() {
        paint_primary_behind(model, &mut pen);
    }
    pen::clear_pending_wraps(model.term.grid_mut());
    pen.paint(model.grid());
    write_titles(model, &mut pen.out);
    write_colors(model, &mut pen.out);
    model.keyboard[model.active()].write(&mut pen.out);
    model.modes.write(&mut pen.out);
    write_cursors(model, &mut pen);
    pen.out
}

/// Paints the primary screen, then switches to the alternate one, as the program did.
fn paint_primary_behind(model: &mut Model, pen: &mut Pen) {
    let saved = model.saved[PRIMARY];
    let keyboard = model.keyboard[PRIMARY].clone();
    model.with_primary(|grid| {
        pen::clear_pending_wraps(grid);
        pen.paint(grid);
        keyboard.write(&mut pen.out);
        // Margins are not set yet, so every row can be addressed even in origin mode.
        if saved.origin {
            pen.out.extend_from_slice(b"\x1b[?6h");
        }
        pen.set_cursor(grid, &grid.cursor, saved.charset, 0);
    });
    pen.out.extend_from_slice(b"\x1b[?1049h\x1b[?6l");
    pen.set_look(Look::default());
    pen.set_charsets(Default::default(), CharsetIndex::G0);
    pen.out.extend_from_slice(ERASE);
}

fn write_tabs(model: &Model, out: &mut Vec<u8>) {
    if model.has_default_tabs() {
        return;
    }
    out.extend_from_slice(b"\x1b[3g");
    for col in (0..model.cols()).filter(|col| model.tabs[*col]) {
        push(out, format_args!("\x1b[{}G\x1bH", col + 1));
    }
    out.push(b'\r');
}

fn write_titles(model: &Model, out: &mut Vec<u8>) {
    for title in &model.titles {
        let title = title.as_deref().unwrap_or("");
        push(out, format_args!("\x1b]2;{title}\x1b\\\x1b[22;2t"));
    }
    match &model.title {
        Some(title) => push(out, format_args!("\x1b]2;{title}\x1b\\")),
        None if !model.titles.is_empty() => out.extend_from_slice(b"\x1b]2;\x1b\\"),
        None => {}
    }
}

pub(crate) fn write_colors(model: &Model, out: &mut Vec<u8>) {
    let colors = model.term.colors();
    for index in 0..256 {
        if let Some(color) = colors[index] {
            push(out, format_args!("\x1b]4;{index};{color}\x1b\\"));
        }
    }
    for (named, code) in NAMED_COLORS {
        if let Some(color) = colors[named as usize] {
            push(out, format_args!("\x1b]{code};{color}\x1b\\"));
        }
    }
}

/// Writes the margins, the saved cursor and the cursor. They come last because each moves the cursor.
fn write_cursors(model: &mut Model, pen: &mut Pen) {
    let (top, bottom) = model.margins;
    if (top, bottom) != (0, model.rows()) {
        push(&mut pen.out, format_args!("\x1b[{};{}r", top + 1, bottom));
    }
    let saved = model.saved[model.active()];
    if saved.origin {
        // Origin mode cannot address rows outside the margins, and restoring moves the cursor inside anyway.
        let line = &mut model.term.grid_mut().saved_cursor.point.line;
        *line = Line(line.0.clamp(top as i32, bottom as i32 - 1));
        pen.out.extend_from_slice(b"\x1b[?6h");
    }
    let grid = model.grid();
    let offset = |origin: bool| if origin { top } else { 0 };
    pen.set_cursor(grid, &grid.saved_cursor, saved.charset, offset(saved.origin));
    pen.out.extend_from_slice(b"\x1b7");
    if model.origin != saved.origin {
        pen.out.extend_from_slice(if model.origin { b"\x1b[?6h" } else { b"\x1b[?6l" });
    }
    pen.set_cursor(grid, &grid.cursor, model.charset, offset(model.origin));
    repeat_preceding(model, pen, offset(model.origin));
}

/// Prints the last character again so that REP can repeat it. If that is not possible, clears it in the model too.
fn repeat_preceding(model: &mut Model, pen: &mut Pen, top: usize) {
    let Some(c) = model.preceding.take() else {
        return;
    };
    let grid = model.grid();
    let cursor = &grid.cursor;
    let (row, mut col) = (cursor.point.line, cursor.point.column.0);
    if !cursor.input_needs_wrap {
        if col == 0 || model.modes.insert {
            return;
        }
        col -= 1;
    }
    if grid[row][Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER) && col > 0 {
        col -= 1;
    }
    let cell = &grid[row][Column(col)];
    let printed = cursor.charsets[model.charset].map(c);
    if cell.c != printed || !Look::of(&cursor.template).matches(cell) {
        return;
    }
    pen.go(row.0 as usize, col, top);
    let mut buffer = [0; 4];
    pen.out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
    for mark in cell.zerowidth().into_iter().flatten() {
        pen.out.extend_from_slice(mark.encode_utf8(&mut buffer).as_bytes());
    }
    model.preceding = Some(c);
}
