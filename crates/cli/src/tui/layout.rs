//! Where things stand on a terminal of any size. Drawing and the mouse ask the same function.

use ratatui::layout::Rect;

/// Below these the list needs the room more than a preview does.
const PREVIEW_MIN_ROWS: u16 = 20;
const PREVIEW_MIN_COLS: u16 = 70;
/// From here on the preview stands beside the list.
const BESIDE_MIN_COLS: u16 = 130;
const DETAILS_MIN_ROWS: u16 = 14;
const HEADS_MIN_ROWS: u16 = 8;
/// A message never takes more lines than this.
pub const MAX_NOTICE_LINES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Panes {
    pub header: Rect,
    /// The heads of the list's columns.
    pub heads: Rect,
    pub list: Rect,
    pub preview: Rect,
    pub is_preview_beside: bool,
    pub details: Rect,
    pub notice: Rect,
    pub footer: Rect,
}

impl Panes {
    pub fn has_preview(&self) -> bool {
        self.preview.area() > 0
    }

    /// Everything has its rows from the outside inwards; the list gets what is left.
    pub fn of(area: Rect, notice_lines: usize) -> Self {
        let mut rest = area;
        let header = cut_top(&mut rest, u16::from(area.height > 2));
        let footer = cut_bottom(&mut rest, u16::from(area.height > 1));
        let notice_lines = u16::try_from(notice_lines.min(MAX_NOTICE_LINES)).unwrap_or(0);
        // One row of the list always stays.
        let notice_lines = notice_lines.min(rest.height.saturating_sub(1));
        let notice = cut_bottom(&mut rest, notice_lines);
        let details = cut_bottom(&mut rest, if area.height < DETAILS_MIN_ROWS { 0 } else { 2 });
        let has_preview = area.height >= PREVIEW_MIN_ROWS && area.width >= PREVIEW_MIN_COLS;
        let is_preview_beside = has_preview && area.width >= BESIDE_MIN_COLS;
        let most_rows = rest.height / 2;
        let preview = match (has_preview, is_preview_beside) {
            (false, _) => Rect::default(),
            (true, false) => cut_bottom(&mut rest, most_rows),
            (true, true) => cut_right(&mut rest, area.width * 11 / 20),
        };
        let heads = cut_top(&mut rest, u16::from(area.height >= HEADS_MIN_ROWS));
        Self { header, heads, list: rest, preview, is_preview_beside, details, notice, footer }
    }
}

fn cut_top(rest: &mut Rect, rows: u16) -> Rect {
    let cut = Rect { height: rows, ..*rest };
    rest.y += rows;
    rest.height -= rows;
    cut
}

fn cut_bottom(rest: &mut Rect, rows: u16) -> Rect {
    rest.height -= rows;
    Rect { y: rest.bottom(), height: rows, ..*rest }
}

fn cut_right(rest: &mut Rect, cols: u16) -> Rect {
    rest.width -= cols;
    Rect { x: rest.right(), width: cols, ..*rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_terminal_has_the_preview_below() {
        let panes = Panes::of(Rect::new(0, 0, 80, 24), 0);
        assert!(panes.has_preview() && !panes.is_preview_beside);
        assert_eq!((panes.list.height, panes.preview.height), (9, 10));
    }

    #[test]
    fn a_wide_one_has_it_beside_and_a_small_one_has_none() {
        let wide = Panes::of(Rect::new(0, 0, 200, 60), 0);
        assert_eq!((wide.is_preview_beside, wide.preview.width, wide.list.width), (true, 110, 90));
        assert!(!Panes::of(Rect::new(0, 0, 80, 19), 0).has_preview());
        assert!(!Panes::of(Rect::new(0, 0, 69, 40), 0).has_preview());
    }

    #[test]
    fn no_size_is_too_small_and_nothing_overlaps() {
        for (width, height) in (0..=140).flat_map(|width| (0..=40).map(move |height| (width, height))) {
            for notice in 0..=4 {
                let area = Rect::new(0, 0, width, height);
                let panes = Panes::of(area, notice);
                let parts =
                    [panes.header, panes.heads, panes.list, panes.preview, panes.details, panes.notice, panes.footer];
                let sum: u32 = parts.iter().map(|part| part.area()).sum();
                assert_eq!(sum, area.area(), "{width}x{height}");
                assert!(parts.iter().all(|part| part.area() == 0 || area.union(*part) == area));
                assert!(height < 2 || panes.list.height > 0, "{width}x{height}");
            }
        }
    }
}
