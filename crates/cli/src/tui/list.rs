//! The sessions, newest first, and which of them are shown: filter, archive, selection.

use super::item::Item;

use super::shelf;

#[derive(Debug)]
struct Row {
    record: Item,
    /// What the filter looks into, in lower case.
    haystack: String,
    /// The reading of the list that has last shown it.
    seen_in: u64,
}

impl Row {
    fn is_conversation(&self) -> bool {
        self.record.kind == shelf::KIND
    }

    /// An id matches from its beginning only: somewhere in it almost any two letters are found.
    fn matches(&self, term: &str) -> bool {
        self.haystack.contains(term) || self.record.id.starts_with(term)
    }
}

/// Whether a session not yet in the list is newer or older than those of the same millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    BeforeEquals,
    AfterEquals,
}

#[derive(Debug, Default)]
pub struct SessionList {
    /// Newest first.
    rows: Vec<Row>,
    /// Indexes into `rows` of what passes the filter.
    shown: Vec<usize>,
    filter: String,
    include_archived: bool,
    /// The selected session, and its place in `shown`.
    selected: Option<String>,
    cursor: usize,
    /// A session to select as soon as it comes along, unless the user has moved by then.
    wanted: Option<String>,
    reading: u64,
    running: usize,
    /// How many conversations are shown.
    conversations: usize,
}

impl SessionList {
    pub fn new(include_archived: bool, filter: String, wanted: Option<String>) -> Self {
        Self { include_archived, filter, wanted, ..Self::default() }
    }

    /// The list is read anew from its beginning; what is known stays until `reading_ended`.
    pub fn reading_started(&mut self) {
        self.reading += 1;
    }

    pub fn page(&mut self, records: Vec<Item>) {
        for record in records {
            self.put(record, Place::AfterEquals);
        }
    }

    /// What the reading has not shown is gone.
    pub fn reading_ended(&mut self) {
        let reading = self.reading;
        self.rows.retain(|row| row.seen_in == reading || row.is_conversation());
    }

    /// These are all conversations.
    pub fn conversations(&mut self, records: Vec<Item>) {
        self.rows.retain(|row| !row.is_conversation());
        for record in records {
            self.put(record, Place::AfterEquals);
        }
    }

    pub fn changed(&mut self, record: Item) {
        self.put(record, Place::BeforeEquals);
    }

    pub fn gone(&mut self, id: &str) {
        self.rows.retain(|row| row.record.id != id);
    }

    fn put(&mut self, record: Item, place: Place) {
        let first = self.rows.partition_point(|row| row.record.created_at > record.created_at);
        let equals = self.rows[first..].iter().take_while(|row| row.record.created_at == record.created_at).count();
        let known = (first..first + equals).find(|at| self.rows[*at].record.id == record.id);
        let row = Row { haystack: haystack(&record), record, seen_in: self.reading };
        match (known, place) {
            (Some(at), _) => self.rows[at] = row,
            (None, Place::BeforeEquals) => self.rows.insert(first, row),
            (None, Place::AfterEquals) => self.rows.insert(first + equals, row),
        }
    }

    /// Works out anew what is shown. To be called once after any number of changes.
    pub fn settle(&mut self) {
        let filter = self.filter.to_lowercase();
        let terms: Vec<&str> = filter.split_whitespace().collect();
        self.shown.clear();
        self.running = 0;
        self.conversations = 0;
        for (at, row) in self.rows.iter().enumerate() {
            if row.record.archived_at.is_some() && !self.include_archived {
                continue;
            }
            self.running += usize::from(row.record.status == "running");
            if terms.iter().all(|term| row.matches(term)) {
                self.shown.push(at);
                self.conversations += usize::from(row.is_conversation());
            }
        }
        self.settle_selection();
    }

    /// The selection stays with its session; if that is gone, with its place.
    fn settle_selection(&mut self) {
        if let Some(at) = self.wanted.as_deref().and_then(|id| self.place_of(id)) {
            self.wanted = None;
            self.cursor = at;
        } else if let Some(at) = self.selected.as_deref().and_then(|id| self.place_of(id)) {
            self.cursor = at;
        }
        self.cursor = self.cursor.min(self.shown.len().saturating_sub(1));
        self.selected = self.get(self.cursor).map(|record| record.id.clone());
    }

    fn place_of(&self, id: &str) -> Option<usize> {
        // Most often nothing has moved.
        if self.get(self.cursor).is_some_and(|record| record.id == id) {
            return Some(self.cursor);
        }
        self.shown.iter().position(|at| self.rows[*at].record.id == id)
    }

    pub fn select(&mut self, place: usize) {
        self.wanted = None;
        self.cursor = place.min(self.shown.len().saturating_sub(1));
        self.selected = self.get(self.cursor).map(|record| record.id.clone());
    }

    pub fn select_by(&mut self, steps: isize) {
        self.select(self.cursor.saturating_add_signed(steps));
    }

    pub fn set_filter(&mut self, filter: &str) {
        if self.filter == filter {
            return;
        }
        self.filter = filter.to_owned();
        let before = self.selected.clone();
        self.settle();
        // A selection that the filter takes away goes to the first match.
        if self.selected != before {
            self.select(0);
        }
    }

    pub fn set_include_archived(&mut self, include: bool) {
        self.include_archived = include;
        self.settle();
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn includes_archived(&self) -> bool {
        self.include_archived
    }

    /// The session in this place of what is shown.
    pub fn get(&self, place: usize) -> Option<&Item> {
        self.shown.get(place).map(|at| &self.rows[*at].record)
    }

    pub fn find(&self, id: &str) -> Option<&Item> {
        self.rows.iter().map(|row| &row.record).find(|record| record.id == id)
    }

    pub fn selected(&self) -> Option<&Item> {
        self.get(self.cursor)
    }

    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// How many are shown.
    pub fn len(&self) -> usize {
        self.shown.len()
    }

    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// How many are known, whatever the filter.
    pub fn known(&self) -> usize {
        self.rows.len()
    }

    pub fn running(&self) -> usize {
        self.running
    }

    /// How many of those that are shown are conversations.
    pub fn conversation_count(&self) -> usize {
        self.conversations
    }
}

fn haystack(record: &Item) -> String {
    let archived = if record.archived_at.is_some() { "archived" } else { "" };
    let fields = [&record.title, &record.harness, &record.status, &record.cwd].map(String::as_str);
    format!("{}\n{archived}", fields.join("\n")).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{ids, record};
    use super::*;

    fn listed(records: Vec<Item>) -> SessionList {
        let mut list = SessionList::new(false, String::new(), None);
        list.reading_started();
        list.page(records);
        list.reading_ended();
        list.settle();
        list
    }

    #[test]
    fn newest_first_in_the_order_of_the_pages_and_changes_on_top() {
        // given two sessions of the same millisecond, as the daemon orders them
        let mut list = listed(vec![record("c", 2), record("a", 1), record("b", 1)]);
        assert_eq!(ids(&list), ["c", "a", "b"]);
        // when a newer one of that millisecond and the newest of all come along
        list.changed(record("d", 1));
        list.changed(record("e", 3));
        list.settle();
        // then each stands where it belongs
        assert_eq!(ids(&list), ["e", "c", "d", "a", "b"]);
    }

    #[test]
    fn a_second_reading_replaces_and_drops_without_ever_being_empty() {
        let mut list = listed(vec![record("b", 2), record("a", 1)]);
        list.reading_started();
        list.settle();
        assert_eq!(ids(&list), ["b", "a"]);
        let mut changed = record("a", 1);
        changed.title = "new".to_owned();
        list.page(vec![record("c", 3), changed]);
        list.reading_ended();
        list.settle();
        assert_eq!(ids(&list), ["c", "a"]);
        assert_eq!(list.get(1).map(|record| record.title.as_str()), Some("new"));
    }

    #[test]
    fn the_filter_matches_every_word_in_any_field() {
        let mut first = record("f00d", 2);
        (first.title, first.harness, first.cwd) = ("Fix the Parser".into(), "claude".into(), "/work/alpha".into());
        let mut second = record("beef", 1);
        (second.title, second.harness, second.status) = ("Write docs".into(), "codex".into(), "failed".into());
        let mut list = listed(vec![first, second]);
        for (filter, expected) in [
            ("parser", vec!["f00d"]),
            ("CLAUDE fix", vec!["f00d"]),
            ("alpha", vec!["f00d"]),
            ("failed", vec!["beef"]),
            ("bee", vec!["beef"]),
            ("eef", vec![]),
            ("parser codex", vec![]),
            ("  ", vec!["f00d", "beef"]),
        ] {
            list.set_filter(filter);
            assert_eq!(ids(&list), expected, "{filter}");
        }
    }

    #[test]
    fn archived_sessions_are_hidden_unless_asked_for() {
        let mut old = record("old", 1);
        old.archived_at = Some("2025-01-01T00:00:00.000Z".into());
        let mut list = listed(vec![record("new", 2), old]);
        assert_eq!(ids(&list), ["new"]);
        list.set_include_archived(true);
        assert_eq!(ids(&list), ["new", "old"]);
    }

    #[test]
    fn the_selection_stays_with_its_session_and_then_with_its_place() {
        let mut list = listed(vec![record("c", 3), record("b", 2), record("a", 1)]);
        list.select(1);
        // when a newer session arrives the same one is still selected
        list.changed(record("d", 4));
        list.settle();
        assert_eq!(list.selected().map(|record| record.id.as_str()), Some("b"));
        // when it vanishes the next one takes its place
        list.gone("b");
        list.settle();
        assert_eq!(list.selected().map(|record| record.id.as_str()), Some("a"));
    }

    #[test]
    fn a_wanted_session_is_selected_when_its_page_arrives() {
        let mut list = SessionList::new(false, String::new(), Some("a".into()));
        list.reading_started();
        list.page(vec![record("b", 2)]);
        list.settle();
        assert_eq!(list.selected().map(|record| record.id.as_str()), Some("b"));
        list.page(vec![record("a", 1)]);
        list.settle();
        assert_eq!(list.selected().map(|record| record.id.as_str()), Some("a"));
    }

    #[test]
    fn ten_thousand_sessions_are_filtered_well_within_a_frame() {
        let records = (0..10_000).map(|n| record(&format!("{n:08x}-0000"), n)).rev().collect();
        let mut list = listed(records);
        let start = std::time::Instant::now();
        list.set_filter("0000270f");
        assert_eq!(ids(&list), ["0000270f-0000"]);
        // A debug build on a busy machine is slow; what is meant is "no quadratic work".
        assert!(start.elapsed().as_millis() < 2_000, "{:?}", start.elapsed());
    }
}
