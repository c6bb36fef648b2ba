//! Aligned tables: columns as wide as their widest cell, cut to the terminal's width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::format;

const GAP: usize = 2;
/// Minimum width of a column, regardless of the terminal.
const MIN_COLUMN_WIDTH: usize = 8;

pub struct Table {
    head: Vec<&'static str>,
    /// All cells in one buffer instead of one string per cell.
    text: String,
    cells: Vec<Cell>,
    /// Columns that shrink on a narrow terminal, in this order.
    elastic: &'static [usize],
}

struct Cell {
    end: usize,
    width: usize,
}

impl Table {
    pub fn new(head: &[&'static str], elastic: &'static [usize]) -> Self {
        Self { head: head.to_vec(), text: String::new(), cells: Vec::new(), elastic }
    }

    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        for cell in cells {
            let cell = cell.as_ref();
            // Control characters in a title must not act on the terminal.
            let width = match is_simple(cell) {
                true => {
                    self.text.push_str(cell);
                    cell.len()
                }
                false => {
                    let cell = format::sanitize_line(cell);
                    self.text.push_str(&cell);
                    cell.width()
                }
            };
            self.cells.push(Cell { end: self.text.len(), width });
        }
        debug_assert!(self.cells.len().is_multiple_of(self.head.len()));
    }

    /// Formats the table; `width` is the terminal's, or `None` for a pipe.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut widths: Vec<usize> = self.head.iter().map(|name| name.width()).collect();
        for row in self.cells.chunks(self.head.len()) {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(cell.width);
            }
        }
        if let Some(width) = width {
            self.shrink(&mut widths, width);
        }
        let line_bytes = widths.iter().sum::<usize>() + GAP * widths.len() + 1;
        // If the widest line fits, no line needs to be cut.
        let width = width.filter(|width| line_bytes - 1 - GAP > *width);
        let rows = self.cells.len() / self.head.len();
        let mut out = String::with_capacity(line_bytes.saturating_mul(rows + 1));
        push_line(&mut out, self.head.iter().map(|name| (*name, name.width())), &widths, width);
        let mut start = 0;
        for row in self.cells.chunks(self.head.len()) {
            let cells = row.iter().map(|cell| {
                let text = &self.text[start..cell.end];
                start = cell.end;
                (text, cell.width)
            });
            push_line(&mut out, cells, &widths, width);
        }
        out
    }

    fn shrink(&self, widths: &mut [usize], width: usize) {
        let gaps = GAP * widths.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        for &column in self.elastic {
            let least = MIN_COLUMN_WIDTH.max(self.head[column].width()).min(widths[column]);
            let cut = excess.min(widths[column] - least);
            widths[column] -= cut;
            excess -= cut;
        }
    }
}

/// Appends a row of cells with their widths, cut to the terminal.
fn push_line<'a>(
    out: &mut String,
    cells: impl Iterator<Item = (&'a str, usize)>,
    widths: &[usize],
    terminal: Option<usize>,
) {
    let start = out.len();
    for ((cell, whole), width) in cells.zip(widths) {
        let used = push_cut(out, cell, whole, *width);
        out.extend(std::iter::repeat_n(' ', width - used + GAP));
    }
    out.truncate(start + out[start..].trim_end().len());
    if let Some(terminal) = terminal
        && out[start..].width() > terminal
    {
        let line = cut(&out[start..], terminal);
        out.truncate(start);
        out.push_str(&line);
    }
    out.push('\n');
}

/// Returns whether the text is printable ASCII, so that its width is its length. Most cells are.
fn is_simple(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Cuts the text to `width` columns and marks a cut with an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    let mut out = String::new();
    push_cut(&mut out, text, text.width(), width);
    out
}

/// Like `cut` for a text that is `whole` columns wide, appended to `out`. Returns the number of columns used.
fn push_cut(out: &mut String, text: &str, whole: usize, width: usize) -> usize {
    if whole <= width {
        out.push_str(text);
        return whole;
    }
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        out.push(character);
    }
    if width > 0 {
        out.push('…');
        used += 1;
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "TITLE", "CWD"], &[2, 1]);
        table.row(["1a", "写代码 quickly", "/home/a/project"]);
        table.row(["2", "two", "/"]);
        table
    }

    #[test]
    fn columns_are_aligned_by_display_width() {
        let expected = "ID  TITLE           CWD\n1a  写代码 quickly  /home/a/project\n2   two             /\n";
        assert_eq!(table().text(None), expected);
    }

    #[test]
    fn a_narrow_terminal_shrinks_the_elastic_columns_in_order() {
        let text = table().text(Some(30));
        assert!(text.lines().all(|line| line.width() <= 30), "{text}");
        assert_eq!(text.lines().nth(1), Some("1a  写代码 quickly  /home/a/p…"));
        assert!(table().text(Some(10)).lines().all(|line| line.width() <= 10));
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let mut table = Table::new(&["T"], &[]);
        table.row(["a\x1b[31mb\nc"]);
        assert_eq!(table.text(None), "T\na [31mb c\n");
    }

    #[test]
    fn a_wide_character_is_never_cut_in_half() {
        assert_eq!(cut("写代码", 4), "写…");
        assert_eq!(cut("写代码", 6), "写代码");
        assert_eq!((cut("abc", 0), cut("abc", 1)), (String::new(), "…".into()));
    }
}
