//! The tasks in their columns, with all that is known of each: filter, selection, order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use coven_api::inbox::InboxItem;
use coven_api::task::TaskRecord;
use coven_api::workflow::{AgentRecord, WorkflowRecord};
use coven_domain::Timestamp;
use coven_domain::task::TaskState;

use super::read::{NEWEST_CLOSED, Snapshot};
use crate::verb::task_text::TaskView;
use crate::verb::workflow_text::wait_text;

/// From left to right.
pub const COLUMNS: [TaskState; 5] =
    [TaskState::Open, TaskState::InProgress, TaskState::PendingMerge, TaskState::Blocked, TaskState::Closed];

/// The state's word for people.
pub fn name(state: TaskState) -> String {
    state.to_string().replace('_', " ")
}

/// What is known of one task.
#[derive(Debug, Clone, Copy)]
pub struct Card<'a> {
    pub task: &'a TaskRecord,
    pub run: Option<&'a WorkflowRecord>,
    /// Whoever worked on it last.
    pub agent: Option<&'a AgentRecord>,
    pub is_ready: bool,
    /// What it depends on and is not closed.
    pub waits: &'a [String],
    /// How many things that its agent asked wait for a human.
    pub questions: usize,
    /// What its agent wrote last.
    pub line: Option<&'a str>,
}

/// How it is with the merge of a task whose work is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge<'a> {
    /// Somebody has to look at it.
    Awaited,
    UnderWay {
        by: &'a str,
    },
    Failed(&'a str),
}

impl<'a> Card<'a> {
    /// Why its step makes no progress.
    pub fn wait(&self, now: Timestamp) -> Option<String> {
        let wait = self.run.and_then(|run| run.waiting.as_ref())?;
        Some(format!("waits {}", wait_text(wait, now)))
    }

    pub fn merge(&self) -> Merge<'a> {
        let run = self.run;
        match (run.and_then(|run| run.approved_by.as_deref()), run.and_then(|run| run.error.as_deref())) {
            (Some(by), _) => Merge::UnderWay { by },
            (None, Some(why)) => Merge::Failed(why),
            (None, None) => Merge::Awaited,
        }
    }
}

#[derive(Debug, Default)]
pub struct Tasks {
    known: BTreeMap<String, TaskRecord>,
    /// In which order they came: those made together are as old as each other.
    arrivals: BTreeMap<String, usize>,
    arrived: usize,
    /// What each still waits for.
    waits: BTreeMap<String, Vec<String>>,
    /// The newest run of each task.
    runs: BTreeMap<String, WorkflowRecord>,
    /// The newest agent of each task.
    agents: BTreeMap<String, AgentRecord>,
    ready: BTreeSet<String>,
    inbox: Vec<InboxItem>,
    /// By session.
    lines: BTreeMap<String, String>,
    filter: String,
    hides_closed: bool,
    /// The ids of what is shown.
    columns: [Vec<String>; COLUMNS.len()],
    column: usize,
    row: usize,
    selected: Option<String>,
    /// A task to select as soon as it comes along, unless the user has moved by then.
    wanted: Option<String>,
    /// The user has moved the selection.
    has_moved: bool,
}

impl Tasks {
    pub fn new(filter: String, hides_closed: bool, wanted: Option<String>) -> Self {
        Self { filter, hides_closed, wanted, ..Self::default() }
    }

    pub fn read(&mut self, snapshot: Snapshot) {
        self.arrivals = snapshot.tasks.iter().enumerate().map(|(nth, task)| (task.id.to_string(), nth)).collect();
        self.arrived = self.arrivals.len();
        self.known = snapshot.tasks.into_iter().map(|task| (task.id.to_string(), task)).collect();
        self.ready = snapshot.ready;
        self.inbox = snapshot.inbox;
        self.runs.clear();
        for run in snapshot.runs {
            self.runs.entry(run.task_id.to_string()).or_insert(run);
        }
        self.agents.clear();
        snapshot.agents.into_iter().for_each(|agent| self.agent(agent));
        let sessions = self.agents.values().filter_map(|agent| agent.session_id);
        let live: BTreeSet<String> = sessions.map(|id| id.to_string()).collect();
        self.lines.retain(|session, _| live.contains(session));
    }

    pub fn changed(&mut self, TaskView { task, readiness, run }: TaskView) {
        let id = task.id.to_string();
        if task.deleted_at.is_some() {
            return self.gone(&id);
        }
        match readiness.ready {
            true => self.ready.insert(id.clone()),
            false => self.ready.remove(&id),
        };
        match run {
            Some(run) => self.runs.insert(id.clone(), run),
            None => self.runs.remove(&id),
        };
        self.arrivals.entry(id.clone()).or_insert(self.arrived);
        self.arrived += 1;
        self.known.insert(id, task);
    }

    pub fn gone(&mut self, id: &str) {
        self.known.remove(id);
        self.arrivals.remove(id);
        self.ready.remove(id);
    }

    pub fn agent(&mut self, agent: AgentRecord) {
        let task = agent.task_id.to_string();
        let is_older =
            self.agents.get(&task).is_some_and(|known| known.id != agent.id && known.created_at > agent.created_at);
        if !is_older {
            self.agents.insert(task, agent);
        }
    }

    pub fn set_ready(&mut self, ready: BTreeSet<String>) {
        self.ready = ready;
    }

    /// Whether something waits that did not wait before.
    pub fn set_inbox(&mut self, inbox: Vec<InboxItem>) -> bool {
        let is_new = inbox.iter().any(|item| self.inbox.iter().all(|known| known.id != item.id));
        self.inbox = inbox;
        is_new
    }

    pub fn wrote(&mut self, session: String, line: String) {
        self.lines.insert(session, line);
    }

    pub fn inbox(&self) -> &[InboxItem] {
        &self.inbox
    }

    /// Those that a human is needed for, the longest wait first. What was approved waits for nobody.
    pub fn waiting(&self) -> Vec<Card<'_>> {
        let waits = |task: &TaskRecord| matches!(task.status, TaskState::PendingMerge | TaskState::Blocked);
        let cards = self.known.iter().filter(|(_, task)| waits(task)).filter_map(|(id, _)| self.card(id));
        let is_approved = |card: &Card<'_>| {
            card.task.status == TaskState::PendingMerge && matches!(card.merge(), Merge::UnderWay { .. })
        };
        let mut cards: Vec<Card<'_>> = cards.filter(|card| !is_approved(card)).collect();
        cards.sort_by_key(|card| card.task.updated_at);
        cards
    }

    /// The task whose agent asked it.
    pub fn asker(&self, item: &InboxItem) -> Option<&TaskRecord> {
        if let Some(id) = &item.task_id {
            return self.known.get(&id.to_string());
        }
        let session = item.session_id?;
        let agent = self.agents.values().find(|agent| agent.session_id == Some(session))?;
        self.known.get(&agent.task_id.to_string())
    }

    pub fn card(&self, id: &str) -> Option<Card<'_>> {
        let task = self.known.get(id)?;
        let agent = self.agents.get(id);
        let session = agent.and_then(|agent| agent.session_id);
        let asked = |item: &&InboxItem| self.asker(item).is_some_and(|asker| asker.id == task.id);
        Some(Card {
            task,
            run: self.runs.get(id),
            agent,
            is_ready: self.ready.contains(id),
            waits: self.waits.get(id).map(Vec::as_slice).unwrap_or_default(),
            questions: self.inbox.iter().filter(asked).count(),
            line: session.and_then(|session| self.lines.get(&session.to_string())).map(String::as_str),
        })
    }

    /// Works out anew what is shown. To be called once after any number of changes.
    pub fn settle(&mut self) {
        let filter = self.filter.to_lowercase();
        let terms: Vec<&str> = filter.split_whitespace().collect();
        for (at, state) in COLUMNS.iter().enumerate() {
            let is_shown = |(_, task): &(&String, &TaskRecord)| {
                task.status == *state && terms.iter().all(|term| matches(task, term))
            };
            let mut tasks: Vec<(&String, &TaskRecord)> = self.known.iter().filter(is_shown).collect();
            let by_age =
                |id: &String, task: &TaskRecord| (task.priority, task.created_at, self.arrivals.get(id).copied());
            match state {
                TaskState::Closed => {
                    tasks.sort_by_key(|(_, task)| (Reverse(task.closed_at), task.id));
                    tasks.truncate(if self.hides_closed { 0 } else { NEWEST_CLOSED });
                }
                TaskState::Open => tasks.sort_by_key(|(id, task)| (!self.ready.contains(*id), by_age(id, task))),
                TaskState::InProgress | TaskState::PendingMerge | TaskState::Blocked => {
                    tasks.sort_by_key(|(id, task)| by_age(id, task));
                }
            }
            self.columns[at] = tasks.into_iter().map(|(id, _)| id.clone()).collect();
        }
        // All that is not closed is known here.
        let is_open = |id: &String| self.known.get(id).is_some_and(|task| task.status != TaskState::Closed);
        let waits = |task: &TaskRecord| -> Vec<String> {
            task.depends_on.iter().map(ToString::to_string).filter(is_open).collect()
        };
        let waiting = self.known.iter().filter(|(_, task)| !task.depends_on.is_empty());
        self.waits = waiting.map(|(id, task)| (id.clone(), waits(task))).collect();
        self.settle_selection();
    }

    /// The selection stays with its task wherever that goes; if it is gone, with its place.
    fn settle_selection(&mut self) {
        let wanted = self.wanted.as_deref().and_then(|id| self.place_of(id));
        if wanted.is_some() {
            self.wanted = None;
        }
        match wanted.or_else(|| self.selected.as_deref().and_then(|id| self.place_of(id))) {
            Some((column, row)) => (self.column, self.row) = (column, row),
            // Where the first task is, until the user goes elsewhere: an empty column can be stayed in.
            None if !self.has_moved && self.columns[self.column].is_empty() => {
                self.column = self.columns.iter().position(|ids| !ids.is_empty()).unwrap_or(0);
            }
            None => {}
        }
        self.put(self.column, self.row);
    }

    fn place_of(&self, id: &str) -> Option<(usize, usize)> {
        let row = |ids: &Vec<String>| ids.iter().position(|it| it == id);
        self.columns.iter().enumerate().find_map(|(column, ids)| Some((column, row(ids)?)))
    }

    pub fn select(&mut self, column: usize, row: usize) {
        (self.wanted, self.has_moved) = (None, true);
        self.put(column, row);
    }

    fn put(&mut self, column: usize, row: usize) {
        self.column = column.min(self.column_count() - 1);
        let ids = &self.columns[self.column];
        self.row = row.min(ids.len().saturating_sub(1));
        self.selected = ids.get(self.row).cloned();
    }

    /// Now, or as soon as it comes along.
    pub fn select_task(&mut self, id: &str) {
        self.wanted = Some(id.to_owned());
        self.settle_selection();
    }

    /// Up or down in the column.
    pub fn select_by(&mut self, steps: isize) {
        self.select(self.column, self.row.saturating_add_signed(steps));
    }

    /// Up or down through all columns, one below the other.
    pub fn select_through(&mut self, steps: isize) {
        let all: Vec<&String> = self.columns.iter().flatten().collect();
        let here = all.iter().position(|id| Some(id.as_str()) == self.selected.as_deref()).unwrap_or(0);
        let there = here.saturating_add_signed(steps).min(all.len().saturating_sub(1));
        if let Some(id) = all.get(there).map(|id| (*id).clone()) {
            self.select_task(&id);
        }
    }

    /// The next column to the left or right.
    pub fn select_column(&mut self, steps: isize) {
        let column = self.column.saturating_add_signed(steps).min(self.column_count() - 1);
        if column != self.column {
            self.select(column, 0);
        }
    }

    /// The next column in which there is something.
    pub fn select_full_column(&mut self, steps: isize) {
        let is_full = |column: &usize| !self.columns[*column].is_empty();
        let found = match steps < 0 {
            true => (0..self.column).rev().find(is_full),
            false => (self.column + 1..self.column_count()).find(is_full),
        };
        if let Some(column) = found {
            self.select(column, 0);
        }
    }

    pub fn set_filter(&mut self, filter: &str) {
        if self.filter == filter {
            return;
        }
        self.filter = filter.to_owned();
        let before = self.selected.take();
        self.settle();
        match before.as_deref().and_then(|id| self.place_of(id)) {
            Some((column, row)) => self.select(column, row),
            None if self.selected.is_none() => {
                let first = self.columns.iter().position(|ids| !ids.is_empty());
                self.select(first.unwrap_or(self.column), 0);
            }
            None => {}
        }
    }

    pub fn toggle_closed(&mut self) {
        self.hides_closed = !self.hides_closed;
        self.settle();
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn hides_closed(&self) -> bool {
        self.hides_closed
    }

    /// How many columns there are, those off the screen too.
    pub fn column_count(&self) -> usize {
        COLUMNS.len() - usize::from(self.hides_closed)
    }

    pub fn column(&self, at: usize) -> &[String] {
        &self.columns[at]
    }

    /// Where the selection is: its column and its row there.
    pub fn cursor(&self) -> (usize, usize) {
        (self.column, self.row)
    }

    pub fn selected(&self) -> Option<Card<'_>> {
        self.card(self.selected.as_deref()?)
    }

    pub fn is_selected(&self, id: &str) -> bool {
        self.selected.as_deref() == Some(id)
    }

    /// There is none at all, not even one that is not shown.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// How many are shown, whatever their state.
    pub fn count(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    pub fn ready_count(&self) -> usize {
        self.columns[0].iter().filter(|id| self.ready.contains(*id)).count()
    }
}

/// `#word` is a tag from its beginning; an id matches from its beginning too, everything else anywhere.
fn matches(task: &TaskRecord, term: &str) -> bool {
    let has_tag = |word: &str| task.tags.iter().any(|tag| tag.to_lowercase().starts_with(word));
    if let Some(word) = term.strip_prefix('#') {
        return has_tag(word);
    }
    let is_in = |text: &str| text.to_lowercase().contains(term);
    is_in(&task.title)
        || task.id.to_string().starts_with(term)
        || has_tag(term)
        || task.kind.as_str() == term
        || task.harness.as_deref().is_some_and(is_in)
        || task.reason.as_deref().is_some_and(is_in)
}
