//! The History view: sessions that have ended, archived ones too.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use coven_api::list::List;
use coven_api::session::{ListSessionsQuery, SessionRecord};
use coven_domain::session::SessionState;
use coven_domain::{SessionId, Timestamp};

use super::{ListLine, age, matches};
use crate::app::Effect;
use crate::feed::{Answer, Call, ENDED};
use crate::frame::canvas::Piece;
use crate::frame::theme::Theme;
use crate::world::{Subject, World};

const PAGE: usize = 200;
/// Sessions that are kept in memory. Older ones are found by `coven sessions --all`.
const MAX_ROWS: usize = 5_000;
/// The next page is asked for when the selection is this near the last row.
const NEAR_END: usize = 50;

#[derive(Debug, Default)]
pub struct History {
    sessions: HashMap<SessionId, SessionRecord>,
    /// The cursor of the next page; none before the first page and behind the last one.
    next: Option<String>,
    /// The query whose answer is awaited.
    asked: Option<ListSessionsQuery>,
    total: u64,
    is_read: bool,
    failure: Option<String>,
    /// The last rows that were listed. With a filter these are not the last ones that were read.
    last_rows: RefCell<Vec<SessionId>>,
}

impl History {
    /// Asks for the first page, again if it was read before.
    pub fn load(&mut self) -> Vec<Effect> {
        self.ask(None)
    }

    /// Asks for the next page if the selected row is near the end of what was read. With a filter the end is that of the
    /// matches, so that older sessions are searched too. After a failure `load` starts again.
    pub fn load_more(&mut self, selected: Option<SessionId>) -> Vec<Effect> {
        let is_near = selected.is_none_or(|id| self.last_rows.borrow().contains(&id));
        let is_wanted = is_near && self.asked.is_none() && self.failure.is_none();
        if is_wanted && self.has_more() { self.ask(self.next.clone()) } else { Vec::new() }
    }

    fn has_more(&self) -> bool {
        !self.is_read || (self.next.is_some() && self.sessions.len() < MAX_ROWS)
    }

    fn ask(&mut self, cursor: Option<String>) -> Vec<Effect> {
        let query = ListSessionsQuery {
            // A record that was never launched may be archived too.
            status: Some(format!("{ENDED},{}", SessionState::Created)),
            all: Some(true),
            limit: Some(PAGE),
            cursor,
            ..ListSessionsQuery::default()
        };
        self.asked = Some(query.clone());
        vec![Effect::call(Call::Sessions(query))]
    }

    /// Builds the list: the newest session first, archived ones with a mark.
    pub fn lines(&self, world: &World, filter: &str, theme: Theme, now: Timestamp) -> Vec<ListLine> {
        let all = self.merged(world);
        let shown: Vec<&SessionRecord> = all.iter().copied().filter(|it| is_match(filter, it)).collect();
        *self.last_rows.borrow_mut() = shown.iter().rev().take(NEAR_END).map(|it| it.id).collect();
        let count =
            if filter.is_empty() && self.has_more() { self.total.max(all.len() as u64) } else { shown.len() as u64 };
        let mut lines = Vec::with_capacity(shown.len() + 2);
        if !shown.is_empty() {
            lines.push(ListLine::Heading(format!("finished and archived {count}")));
        }
        lines.extend(shown.into_iter().map(|it| line(it, theme, now)));
        // Why older sessions are missing.
        let last = match (&self.failure, &self.next) {
            (Some(why), _) => Some(format!("cannot read the history: {why}")),
            (None, _) if !self.is_read => Some("loading".to_owned()),
            (None, Some(_)) if !self.has_more() => Some(format!("only the newest {MAX_ROWS} are listed")),
            (None, Some(_)) if !filter.is_empty() => Some("searching older sessions".to_owned()),
            (None, Some(_)) => Some("older sessions load as you scroll".to_owned()),
            (None, None) => None,
        };
        lines.extend(last.map(ListLine::Heading));
        lines
    }

    /// Returns every known session of the past once, the newest first. Of two records the newer one is right.
    fn merged<'a>(&'a self, world: &'a World) -> Vec<&'a SessionRecord> {
        let mut all: HashMap<SessionId, &SessionRecord> = self.sessions.iter().map(|(id, it)| (*id, it)).collect();
        for session in world.sessions() {
            if all.get(&session.id).is_none_or(|known| known.updated_at <= session.updated_at) {
                all.insert(session.id, session);
            }
        }
        let mut all: Vec<&SessionRecord> = all.into_values().filter(|it| is_past(it)).collect();
        all.sort_unstable_by_key(|it| (Reverse(it.created_at), it.id));
        all
    }

    pub fn session(&self, id: SessionId) -> Option<&SessionRecord> {
        self.sessions.get(&id)
    }

    /// A session changed, or was deleted.
    pub fn session_changed(&mut self, record: &SessionRecord, is_deleted: bool) {
        if is_deleted {
            self.sessions.remove(&record.id);
            self.total = self.total.saturating_sub(1);
        } else if let Some(known) = self.sessions.get_mut(&record.id) {
            *known = record.clone();
        }
    }

    /// Takes a page. Reports whether the list changed.
    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) -> bool {
        let Call::Sessions(query) = call else { return false };
        if self.asked.as_ref() != Some(query) {
            return false;
        }
        self.asked = None;
        match result {
            Ok(Answer::Sessions(page)) => {
                self.failure = None;
                self.take_page(page, query.cursor.is_none());
            }
            Ok(_) => return false,
            // The daemon no longer accepts the cursor, or is away: the next request starts where this one did.
            Err(why) => self.failure = Some(why.clone()),
        }
        true
    }

    fn take_page(&mut self, page: &List<SessionRecord>, is_first: bool) {
        if is_first {
            self.forget_deleted(page);
        }
        let is_known_further = is_first && self.is_read && self.sessions.len() > page.items.len();
        for record in &page.items {
            let is_newer = self.sessions.get(&record.id).is_none_or(|known| known.updated_at <= record.updated_at);
            if is_newer {
                self.sessions.insert(record.id, record.clone());
            }
        }
        self.total = page.total.unwrap_or(self.total);
        // After a repeated first page the older pages are still known.
        if !is_known_further {
            self.next.clone_from(&page.next);
        }
        self.is_read = true;
    }

    /// Drops the sessions that a new first page should contain and does not.
    fn forget_deleted(&mut self, page: &List<SessionRecord>) {
        if !page.items.iter().any(|it| self.sessions.contains_key(&it.id)) {
            // Between the page and the known sessions there may be others.
            self.sessions.clear();
        }
        let ids: HashSet<SessionId> = page.items.iter().map(|it| it.id).collect();
        let oldest = page.items.iter().map(|it| it.created_at).min().filter(|_| page.next.is_some());
        self.sessions.retain(|id, it| ids.contains(id) || oldest.is_some_and(|oldest| it.created_at <= oldest));
    }
}

/// Reports whether a session has ended or is archived.
const fn is_past(session: &SessionRecord) -> bool {
    !matches!(session.status, SessionState::Created | SessionState::Running) || session.archived_at.is_some()
}

fn folder(session: &SessionRecord) -> &str {
    session.cwd.rsplit('/').next().unwrap_or_default()
}

fn detail(session: &SessionRecord) -> String {
    let status = match session.exit_code {
        Some(0) | None => session.status.to_string(),
        Some(code) => format!("{}, exit code {code}", session.status),
    };
    if session.archived_at.is_some() { format!("{status}, archived") } else { status }
}

fn is_match(filter: &str, session: &SessionRecord) -> bool {
    filter.is_empty() || matches(filter, &[&session.harness, &session.title, folder(session), &detail(session)])
}

fn line(session: &SessionRecord, theme: Theme, now: Timestamp) -> ListLine {
    let is_archived = session.archived_at.is_some();
    let (mark, style) = match (is_archived, session.status) {
        (true, _) => ("▫ ", theme.dim()),
        (false, SessionState::Failed | SessionState::Orphaned) => ("✗ ", theme.bad()),
        (false, _) => ("· ", theme.dim()),
    };
    ListLine::Row {
        subject: Subject::Session(session.id),
        pieces: vec![
            Piece::new(mark, style),
            Piece::new(format!("{} ", session.harness), theme.accent()),
            Piece::new(session.title.clone(), if is_archived { theme.dim() } else { theme.plain() }),
        ],
        right: age(session.created_at, now),
        detail: detail(session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(10_000_000_000);

    fn id(number: u64) -> SessionId {
        format!("00000000-0000-4000-8000-{number:012}").parse().expect("an id")
    }

    fn record(number: u64, status: &str) -> SessionRecord {
        let at = Timestamp::from_millis(i64::try_from(number).expect("small") * 60_000).to_string();
        serde_json::from_value(serde_json::json!({
            "id": id(number), "harness": "claude", "channel": "terminal", "title": format!("fix {number}"),
            "status": status, "project_root": "/p", "cwd": "/p/web", "created_at": at, "updated_at": at, "metadata": {},
        }))
        .expect("a record")
    }

    fn answer(history: &mut History, effects: &[Effect], from: u64, count: u64, is_last: bool) {
        let [Effect::Call(call)] = effects else { panic!("one request: {effects:?}") };
        let items: Vec<_> = (0..count).map(|nth| record(from - nth, "completed")).collect();
        let next = (!is_last).then(|| format!("after {}", from + 1 - count));
        let page = List { items, next, total: Some(1_000) };
        assert!(history.answered(call, &Ok(Answer::Sessions(page))));
    }

    fn rows(history: &History, world: &World, filter: &str) -> Vec<SessionId> {
        let lines = history.lines(world, filter, Theme { has_colors: true }, NOW);
        let subjects = lines.iter().filter_map(ListLine::subject);
        subjects.map(|it| if let Subject::Session(id) = it { *id } else { panic!("{it:?}") }).collect()
    }

    fn headings(history: &History, world: &World, filter: &str) -> Vec<String> {
        let lines = history.lines(world, filter, Theme { has_colors: true }, NOW);
        let text = |line: ListLine| if let ListLine::Heading(text) = line { Some(text) } else { None };
        lines.into_iter().filter_map(text).collect()
    }

    #[test]
    fn pages_follow_each_other_without_duplicates() {
        let (mut history, mut world) = (History::default(), World::default());
        let first = history.load();
        answer(&mut history, &first, 1_000, 200, false);
        assert_eq!(headings(&history, &world, ""), ["finished and archived 1000", "older sessions load as you scroll"]);
        assert_eq!(history.load_more(Some(id(1_000))), [], "far from the end");
        let second = history.load_more(Some(id(801)));
        assert_eq!(history.load_more(Some(id(801))), [], "asked already");
        // A page may overlap with the one before it.
        answer(&mut history, &second, 802, 200, true);
        world.put_session(record(1_001, "failed"));
        world.put_session(record(1_000, "completed"));
        world.put_session(record(2_000, "running"));
        let listed = rows(&history, &world, "");
        assert_eq!(listed, (603..=1_001).rev().map(id).collect::<Vec<_>>());
        assert_eq!(history.load_more(Some(id(603))), [], "that was the last page");
    }

    #[test]
    fn the_newest_state_wins_and_deleted_sessions_go() {
        let (mut history, mut world) = (History::default(), World::default());
        let first = history.load();
        answer(&mut history, &first, 10, 3, true);
        let mut again = record(9, "running");
        again.updated_at = NOW;
        world.put_session(again);
        assert_eq!(rows(&history, &world, ""), [id(10), id(8)]);
        history.session_changed(&record(10, "completed"), true);
        assert_eq!(rows(&history, &world, ""), [id(8)]);
        let mut archived = record(8, "killed");
        archived.archived_at = Some(NOW);
        history.session_changed(&archived, false);
        assert_eq!(rows(&history, &world, "archived"), [id(8)]);
        // A new first page no longer has it.
        let repeated = history.load();
        answer(&mut history, &repeated, 10, 1, true);
        assert_eq!(rows(&history, &world, ""), [id(10)]);
    }

    #[test]
    fn a_repeated_first_page_keeps_the_older_pages() {
        let (mut history, world) = (History::default(), World::default());
        let first = history.load();
        answer(&mut history, &first, 1_000, 200, false);
        let _ = rows(&history, &world, "");
        let second = history.load_more(Some(id(801)));
        answer(&mut history, &second, 800, 200, false);
        let repeated = history.load();
        answer(&mut history, &repeated, 1_001, 200, false);
        assert_eq!(rows(&history, &world, ""), (601..=1_001).rev().map(id).collect::<Vec<_>>());
        let third = history.load_more(Some(id(601)));
        let [Effect::Call(call)] = third.as_slice() else { panic!("{third:?}") };
        assert!(matches!(call.as_ref(), Call::Sessions(query) if query.cursor.as_deref() == Some("after 601")));
    }

    #[test]
    fn a_filter_keeps_paging_and_a_failure_is_shown_until_the_list_is_loaded_again() {
        let (mut history, world) = (History::default(), World::default());
        let first = history.load();
        answer(&mut history, &first, 1_000, 200, false);
        assert_eq!(rows(&history, &world, "fix 999"), [id(999)]);
        let second = history.load_more(Some(id(999)));
        let [Effect::Call(call)] = second.as_slice() else { panic!("{second:?}") };
        assert!(history.answered(call, &Err("gone".to_owned())));
        assert_eq!(headings(&history, &world, "none"), ["cannot read the history: gone"]);
        assert_eq!(history.load_more(None), [], "a daemon that is away is not asked again and again");
        let again = history.load();
        answer(&mut history, &again, 1_000, 200, false);
        assert_eq!(headings(&history, &world, "none"), ["searching older sessions"]);
        assert_eq!(history.load_more(None), second);
    }
}
