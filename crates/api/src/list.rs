//! Pages: the one shape of every list.

use std::fmt;
use std::str::FromStr;

use coven_domain::Timestamp;
use serde::{Deserialize, Serialize};

use crate::routes::Endpoint;

/// The largest page that a client may ask for.
pub const MAX_LIMIT: usize = 1000;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "{T}List"))]
pub struct List<T> {
    pub items: Vec<T>,
    /// The `cursor` of the next page; null on the last page.
    pub next: Option<String>,
    /// The number of items on all pages together, where the daemon counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl<T> List<T> {
    /// Takes one page from `items`, which starts behind the cursor. `cursor` returns the cursor behind an item.
    pub fn page(items: impl IntoIterator<Item = T>, limit: usize, cursor: impl FnOnce(&T) -> String) -> Self {
        let mut rest = items.into_iter();
        let items: Vec<T> = rest.by_ref().take(limit).collect();
        let next = rest.next().and_then(|_| items.last().map(cursor));
        Self { items, next, total: None }
    }

    /// A list that has one page only.
    pub const fn whole(items: Vec<T>) -> Self {
        Self { items, next: None, total: None }
    }

    #[must_use]
    pub const fn with_total(mut self, total: u64) -> Self {
        self.total = Some(total);
        self
    }

    pub fn map<U>(self, change: impl FnMut(T) -> U) -> List<U> {
        List { items: self.items.into_iter().map(change).collect(), next: self.next, total: self.total }
    }
}

/// The query of a list without filters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PageQuery {
    /// 1 to 1000; 100 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

/// Identifies a list with its filters. A cursor starts with the key, so that no other list accepts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListKey(u32);

impl ListKey {
    /// The key of a route's list.
    pub fn of<E: Endpoint>(query: &E::Query) -> Self {
        Self::below::<E>("", query)
    }

    /// The key of a list that belongs to the record with this id.
    pub fn below<E: Endpoint>(id: impl fmt::Display, query: &E::Query) -> Self {
        let query = serde_urlencoded::to_string(query).expect("queries are flat structs of plain values");
        // These differ from page to page.
        let is_filter = |field: &&str| !["limit=", "cursor=", "offset="].iter().any(|name| field.starts_with(name));
        let filters: Vec<&str> = query.split('&').filter(is_filter).collect();
        Self::new(&[E::ROUTE.name, &id.to_string(), &filters.join("&")])
    }

    /// The key of a list that no route has.
    pub fn new(parts: &[&str]) -> Self {
        // FNV-1a: the key of a list is the same in every build and on every machine.
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
        Self(bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
    }

    /// The cursor of the page after this place.
    pub fn cursor(self, place: impl fmt::Display) -> String {
        format!("{:08x}.{place}", self.0)
    }

    /// Reads the place of a cursor that this list made.
    pub fn place<P: FromStr>(self, cursor: Option<&str>) -> Result<Option<P>, BadCursor> {
        let Some(cursor) = cursor else { return Ok(None) };
        let (key, place) = cursor.split_once('.').ok_or(BadCursor)?;
        if key != format!("{:08x}", self.0) {
            return Err(BadCursor);
        }
        place.parse().map(Some).map_err(|_| BadCursor)
    }
}

/// The place of an item in a list that is ordered by a time, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeCursor {
    pub at: Timestamp,
    pub id: String,
}

impl TimeCursor {
    pub fn new(at: Timestamp, id: impl fmt::Display) -> Self {
        Self { at, id: id.to_string() }
    }
}

impl fmt::Display for TimeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.at.as_millis(), self.id)
    }
}

/// A text that is not the `next` of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cursor: give the `next` of the previous page, with the same filters")]
pub struct BadCursor;

impl FromStr for TimeCursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (at, id) = text.split_once('_').ok_or(BadCursor)?;
        let at = at.parse().map_err(|_| BadCursor)?;
        Ok(Self { at: Timestamp::from_millis(at), id: id.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{ListRepos, ListTaskRuns, ListTasks};
    use crate::task::ListTasksQuery;

    #[test]
    fn only_a_page_that_more_items_follow_has_a_next() {
        let page = |start: u64, limit| List::page(start..10, limit, u64::to_string);
        assert_eq!(page(0, 4), List { items: vec![0, 1, 2, 3], next: Some("3".to_owned()), total: None });
        assert_eq!(page(8, 2), List::whole(vec![8, 9]));
        assert_eq!(page(10, 2), List::whole(vec![]));
        assert_eq!(
            page(8, 2).with_total(10).map(|it| it + 1),
            List { items: vec![9, 10], next: None, total: Some(10) }
        );
    }

    #[test]
    fn a_total_is_a_key_only_where_it_is_known() {
        let text = |list: List<u8>| serde_json::to_string(&list).expect("plain data");
        assert_eq!(text(List::whole(vec![1])), r#"{"items":[1],"next":null}"#);
        assert_eq!(text(List::whole(vec![1]).with_total(1)), r#"{"items":[1],"next":null,"total":1}"#);
    }

    #[test]
    fn a_cursor_is_accepted_by_the_list_and_the_filters_that_made_it() {
        let query = |tag: Option<&str>, limit| ListTasksQuery {
            tag: tag.map(str::to_owned),
            limit: Some(limit),
            ..ListTasksQuery::default()
        };
        let key = ListKey::of::<ListTasks>(&query(Some("core"), 2));
        let cursor = key.cursor("7.x");
        assert_eq!(key.place(Some(&cursor)), Ok(Some("7.x".to_owned())));
        assert_eq!(key.place::<String>(None), Ok(None));
        assert_eq!(key, ListKey::of::<ListTasks>(&query(Some("core"), 9)), "the size of a page is not a filter");

        let page = PageQuery::default();
        let others = [
            ListKey::of::<ListTasks>(&query(None, 2)),
            ListKey::of::<ListTasks>(&query(Some("ui"), 2)),
            ListKey::of::<ListRepos>(&page),
            ListKey::below::<ListTaskRuns>("a", &page),
            ListKey::below::<ListTaskRuns>("b", &page),
            ListKey::new(&["a", "b"]),
            ListKey::new(&["ab"]),
        ];
        for (nth, other) in others.iter().enumerate() {
            assert_eq!(other.place::<String>(Some(&cursor)), Err(BadCursor), "{nth}");
            assert!(!others[..nth].contains(other), "{nth}");
        }
        for bad in ["", "7", ".", &cursor[..8], &cursor[1..]] {
            assert_eq!(key.place::<String>(Some(bad)), Err(BadCursor), "{bad}");
        }
        assert_eq!(key.place::<u64>(Some(&cursor)), Err(BadCursor));
    }

    #[test]
    fn a_time_cursor_is_read_back_and_refuses_other_texts() {
        let cursor = TimeCursor::new(Timestamp::from_millis(17), "a_b");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in ["", "17", "_a", "x_a"] {
            assert_eq!(bad.parse::<TimeCursor>(), Err(BadCursor), "{bad}");
        }
    }
}
