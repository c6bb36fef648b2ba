//! Sizes of a session's terminal, each with the log offset where it takes effect.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Maximum number of sizes in memory; older ones are dropped.
const MAX_SIZES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
}

#[derive(Debug, Default)]
pub(crate) struct Sizes {
    known: Mutex<Known>,
    /// Number of sizes so far.
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Known {
    sizes: VecDeque<Size>,
    forgotten: usize,
}

impl Sizes {
    pub fn add(&self, offset: u64, rows: u16, cols: u16) {
        let mut known = self.lock();
        known.sizes.push_back(Size { offset, rows, cols });
        if known.sizes.len() > MAX_SIZES {
            known.sizes.pop_front();
            known.forgotten += 1;
        }
        drop(known);
        self.count.send_modify(|count| *count += 1);
    }

    /// Notified when a size is added.
    pub fn changes(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Returns the first size from this index on, and its index.
    pub fn from(&self, place: usize) -> Option<(usize, Size)> {
        let known = self.lock();
        let index = place.saturating_sub(known.forgotten);
        known.sizes.get(index).map(|size| (index + known.forgotten, *size))
    }

    /// Returns the index after all sizes before `offset` and after those at `offset` up to the `shown` one.
    pub fn place_at(&self, offset: u64, shown: Option<(u16, u16)>) -> usize {
        let known = self.lock();
        let before = known.sizes.partition_point(|size| size.offset < offset);
        let until = known.sizes.partition_point(|size| size.offset <= offset);
        let is_shown = |size: &Size| Some((size.rows, size.cols)) == shown;
        let seen = known.sizes.range(before..until).rposition(is_shown).map_or(0, |last| last + 1);
        known.forgotten + before + seen
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_after_every_shown_size() {
        let sizes = Sizes::default();
        for (offset, rows) in [(0, 1), (5, 2), (5, 3), (5, 4), (9, 5)] {
            sizes.add(offset, rows, 80);
        }
        assert_eq!((sizes.place_at(0, None), sizes.place_at(5, None), sizes.place_at(6, None)), (0, 1, 4));
        assert_eq!((sizes.place_at(5, Some((3, 80))), sizes.place_at(5, Some((9, 80)))), (3, 1));
        assert_eq!(sizes.from(3), Some((3, Size { offset: 5, rows: 4, cols: 80 })));
        assert_eq!(sizes.from(5), None);
    }

    #[test]
    fn the_oldest_sizes_are_dropped_and_indexes_stay() {
        let sizes = Sizes::default();
        (0..MAX_SIZES as u64 + 10).for_each(|offset| sizes.add(offset, 1, 1));
        assert_eq!(sizes.from(0).map(|(place, size)| (place, size.offset)), Some((10, 10)));
        assert_eq!(sizes.place_at(20, None), 20);
    }
}
