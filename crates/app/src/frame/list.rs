//! The selection and scroll position of a list whose rows come and go.

/// A list of rows with a key each. The selection stays on its key when other rows change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListState<K> {
    selected: Option<K>,
    /// Position of the selection when it was last seen, for when its row is gone.
    position: usize,
    /// The first visible line.
    pub offset: usize,
}

impl<K> Default for ListState<K> {
    fn default() -> Self {
        Self { selected: None, position: 0, offset: 0 }
    }
}

impl<K: Clone + PartialEq> ListState<K> {
    pub const fn selected(&self) -> Option<&K> {
        self.selected.as_ref()
    }

    pub fn select(&mut self, key: K) {
        self.selected = Some(key);
    }

    /// Position of the selection in these rows.
    pub fn position(&self, keys: &[K]) -> Option<usize> {
        keys.iter().position(|key| Some(key) == self.selected.as_ref())
    }

    /// Follows a change of the rows: a selection whose row is gone moves to the row that took its place.
    pub fn follow(&mut self, keys: &[K]) {
        match self.position(keys) {
            Some(at) => self.position = at,
            None => {
                self.position = self.position.min(keys.len().saturating_sub(1));
                self.selected = keys.get(self.position).cloned();
            }
        }
    }

    /// Moves the selection by rows, without wrapping.
    pub fn step(&mut self, keys: &[K], by: isize) {
        let at = self.position(keys).unwrap_or(self.position);
        self.select_at(keys, at.saturating_add_signed(by));
    }

    /// Selects the row at a position, or the last one.
    pub fn select_at(&mut self, keys: &[K], at: usize) {
        self.position = at.min(keys.len().saturating_sub(1));
        self.selected = keys.get(self.position).cloned();
    }

    /// Scrolls so that a line is visible, with the lines from `top` on if they fit.
    pub fn reveal(&mut self, line: usize, lines: usize, height: usize) {
        let height = height.max(1);
        self.offset = self.offset.clamp((line + 1).saturating_sub(height), line).min(lines.saturating_sub(height));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_stays_on_its_row_and_moves_only_if_that_is_gone() {
        let mut list = ListState::default();
        list.follow(&[1, 2, 3]);
        assert_eq!(list.selected(), Some(&1));
        list.step(&[1, 2, 3], 1);
        list.follow(&[9, 8, 1, 2, 3]);
        assert_eq!(list.selected(), Some(&2));
        list.follow(&[9, 8, 1, 3]);
        assert_eq!(list.selected(), Some(&3), "the row that took its place");
        list.follow(&[9]);
        assert_eq!(list.selected(), Some(&9));
        list.follow(&[]);
        assert_eq!(list.selected(), None);
    }

    #[test]
    fn scrolling_keeps_the_line_visible() {
        let mut list = ListState::<u8>::default();
        list.reveal(9, 20, 5);
        assert_eq!(list.offset, 5);
        list.reveal(6, 20, 5);
        assert_eq!(list.offset, 5);
        list.reveal(2, 20, 5);
        assert_eq!(list.offset, 2);
        list.reveal(2, 3, 5);
        assert_eq!(list.offset, 0);
    }
}
