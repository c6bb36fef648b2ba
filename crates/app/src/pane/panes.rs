//! The panes on the right: a tree of splits. One pane follows the selection; the others keep what they show.

use ratatui::layout::Rect;
use serde::{Deserialize, Serialize};

/// More panes are too small to read.
pub const MAX_PANES: usize = 4;
/// A split must leave this much for each side.
const MIN_COLS: u16 = 20;
const MIN_ROWS: u16 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Right,
    Below,
}

/// How panes divide the space. A leaf is the number of a pane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    Pane(usize),
    Split { direction: Direction, first: Box<Self>, second: Box<Self> },
}

impl Layout {
    /// Splits a pane; the new one is to the right of it or below.
    pub fn split(&mut self, pane: usize, direction: Direction, new: usize) {
        match self {
            Self::Pane(found) if *found == pane => {
                let (first, second) = (Box::new(Self::Pane(pane)), Box::new(Self::Pane(new)));
                *self = Self::Split { direction, first, second };
            }
            Self::Pane(_) => {}
            Self::Split { first, second, .. } => {
                first.split(pane, direction, new);
                second.split(pane, direction, new);
            }
        }
    }

    /// Removes a pane; its neighbour takes the space. The last pane stays.
    pub fn remove(&mut self, pane: usize) {
        let Self::Split { first, second, .. } = self else { return };
        let kept = match (first.as_ref(), second.as_ref()) {
            (Self::Pane(found), _) if *found == pane => second.as_ref().clone(),
            (_, Self::Pane(found)) if *found == pane => first.as_ref().clone(),
            _ => {
                first.remove(pane);
                second.remove(pane);
                return;
            }
        };
        *self = kept;
    }

    /// The panes, from left to right and top to bottom.
    pub fn panes(&self) -> Vec<usize> {
        match self {
            Self::Pane(pane) => vec![*pane],
            Self::Split { first, second, .. } => [first.panes(), second.panes()].concat(),
        }
    }

    /// Divides an area. One column or row between two panes is free for a line. A side that is too small is left out.
    pub fn areas(&self, area: Rect) -> Vec<(usize, Rect)> {
        match self {
            Self::Pane(pane) => vec![(*pane, area)],
            Self::Split { direction, first, second } => {
                let (left, right) = halves(*direction, area);
                match fits(left) && fits(right) {
                    true => [first.areas(left), second.areas(right)].concat(),
                    false => first.areas(area),
                }
            }
        }
    }

    /// The lines between the panes of an area.
    pub fn lines(&self, area: Rect) -> Vec<(Direction, Rect)> {
        let Self::Split { direction, first, second } = self else { return Vec::new() };
        let (left, right) = halves(*direction, area);
        if !fits(left) || !fits(right) {
            return first.lines(area);
        }
        let line = match direction {
            Direction::Right => Rect { x: left.right(), width: 1, ..area },
            Direction::Below => Rect { y: left.bottom(), height: 1, ..area },
        };
        [vec![(*direction, line)], first.lines(left), second.lines(right)].concat()
    }
}

/// Reports whether an area of this size can be split.
pub fn can_split(area: Rect, direction: Direction) -> bool {
    let (left, right) = halves(direction, area);
    fits(left) && fits(right)
}

const fn fits(area: Rect) -> bool {
    area.width >= MIN_COLS && area.height >= MIN_ROWS
}

const fn halves(direction: Direction, area: Rect) -> (Rect, Rect) {
    match direction {
        Direction::Right => {
            let left = area.width.saturating_sub(1) / 2;
            let x = area.x + left + 1;
            (Rect { width: left, ..area }, Rect { x, width: area.width.saturating_sub(left + 1), ..area })
        }
        Direction::Below => {
            let top = area.height.saturating_sub(1) / 2;
            let y = area.y + top + 1;
            (Rect { height: top, ..area }, Rect { y, height: area.height.saturating_sub(top + 1), ..area })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_never_overlap_and_a_removed_one_gives_its_space_back() {
        let area = Rect::new(30, 1, 81, 30);
        let mut layout = Layout::Pane(0);
        layout.split(0, Direction::Right, 1);
        layout.split(1, Direction::Below, 2);
        let areas = layout.areas(area);
        assert_eq!(areas.iter().map(|(pane, _)| *pane).collect::<Vec<_>>(), [0, 1, 2]);
        for (nth, (_, one)) in areas.iter().enumerate() {
            assert!(areas[..nth].iter().all(|(_, other)| one.intersection(*other).is_empty()), "{areas:?}");
            assert!(layout.lines(area).iter().all(|(_, line)| one.intersection(*line).is_empty()));
        }
        layout.remove(1);
        assert_eq!(layout.panes(), [0, 2]);
        layout.remove(0);
        assert_eq!(layout, Layout::Pane(2));
        layout.remove(2);
        assert_eq!(layout, Layout::Pane(2), "the last pane stays");
    }

    #[test]
    fn a_side_that_is_too_small_is_not_shown() {
        let mut layout = Layout::Pane(0);
        layout.split(0, Direction::Right, 1);
        let small = Rect::new(0, 0, 30, 10);
        assert_eq!(layout.areas(small), [(0, small)]);
        assert!(!can_split(small, Direction::Right) && can_split(small, Direction::Below));
    }
}
