//! Where things stand on a terminal of any size. Drawing and the mouse ask the same function.

use ratatui::layout::Rect;

/// A message never takes more lines than this.
pub const MAX_NOTICE_LINES: usize = 3;
const RULE_MIN_ROWS: u16 = 12;
/// The page keeps away from the edges, and leaves a column for the mark of what is above and below.
const MARGIN: u16 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Panes {
    pub header: Rect,
    pub tabs: Rect,
    pub rule: Rect,
    /// The page: a question, or the review.
    pub body: Rect,
    pub notice: Rect,
    pub footer: Rect,
}

impl Panes {
    /// Everything has its rows from the outside inwards; the page gets what is left.
    pub fn of(area: Rect, notice_lines: usize) -> Self {
        let mut top = area.y;
        let mut left = area.height;
        let mut take = |wanted: u16, is_wanted: bool| {
            // One row of the page always stays.
            let rows = if is_wanted { wanted.min(left.saturating_sub(1)) } else { 0 };
            left -= rows;
            rows
        };
        let footer = take(1, area.height > 2);
        let tabs = take(1, area.height > 3);
        let header = take(1, area.height > 4);
        let rule = take(1, area.height >= RULE_MIN_ROWS);
        let notice = take(u16::try_from(notice_lines.min(MAX_NOTICE_LINES)).unwrap_or(0), true);
        let mut row = |height: u16| {
            let rect = Rect { y: top, height, ..area };
            top += height;
            rect
        };
        Self {
            header: row(header),
            tabs: row(tabs),
            rule: row(rule),
            body: row(left),
            notice: row(notice),
            footer: row(footer),
        }
    }

    /// Where the page's rows stand.
    pub fn inner(&self) -> Rect {
        let width = self.body.width.saturating_sub(2 * MARGIN);
        Rect { x: self.body.x + MARGIN.min(self.body.width), width, ..self.body }
    }

    /// How wide the page's rows may be.
    pub fn columns(&self) -> usize {
        usize::from(self.inner().width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_terminal_gives_the_page_twenty_rows() {
        let panes = Panes::of(Rect::new(0, 0, 80, 24), 0);
        assert_eq!((panes.body.y, panes.body.height, panes.columns()), (3, 20, 78));
        assert_eq!(Panes::of(Rect::new(0, 0, 80, 24), 2).body.height, 18);
    }

    #[test]
    fn no_size_is_too_small_and_nothing_overlaps() {
        for (width, height) in (0..=20).flat_map(|width| (0..=40).map(move |height| (width, height))) {
            for notice in 0..=4 {
                let area = Rect::new(0, 0, width, height);
                let panes = Panes::of(area, notice);
                let parts = [panes.header, panes.tabs, panes.rule, panes.body, panes.notice, panes.footer];
                assert_eq!(parts.iter().map(|part| part.area()).sum::<u32>(), area.area(), "{width}x{height}");
                assert!(height == 0 || panes.body.height > 0, "{width}x{height}");
            }
        }
    }
}
