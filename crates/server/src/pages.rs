//! Cache of session list pages, valid until the next event.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Maximum number and size of cached pages.
const MAX_PAGES: usize = 16;
const MAX_BYTES: usize = 256 << 10;

/// A page is valid as long as the number of the newest event is the same.
#[derive(Debug, Default)]
pub struct Pages(Mutex<(u64, HashMap<String, Bytes>)>);

impl Pages {
    pub fn get(&self, number: u64, query: &str) -> Option<Bytes> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.1.get(query).filter(|_| pages.0 == number).cloned()
    }

    pub fn put(&self, number: u64, query: &str, page: &Bytes) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.0 < number || pages.1.len() >= MAX_PAGES {
            pages.1.clear();
        }
        // A page that was read before a newer one is not cached.
        if pages.0 <= number && page.len() <= MAX_BYTES {
            pages.0 = number;
            pages.1.insert(query.to_owned(), page.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_valid_until_the_next_event() {
        let (pages, old, new) = (Pages::default(), Bytes::from_static(b"old"), Bytes::from_static(b"new"));
        pages.put(5, "limit=1", &old);
        assert_eq!(pages.get(5, "limit=1"), Some(old.clone()));
        assert_eq!(pages.get(5, "limit=2"), None);
        assert_eq!(pages.get(6, "limit=1"), None);
        pages.put(6, "limit=1", &new);
        pages.put(5, "limit=1", &old);
        assert_eq!(pages.get(6, "limit=1"), Some(new));
    }
}
