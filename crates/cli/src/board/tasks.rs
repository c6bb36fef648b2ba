//! The tasks in their columns, with all that is known of each: filter, selection, order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use coven_api::inbox::InboxItem;
use coven_api::task::TaskRecord;
use coven_api::workflow::{AgentRecord, WorkflowRecord};
use coven_domain::Timestamp;
use coven_domain::task::TaskState;

use super::read::{NEWEST_CLOSED, Snapshot};
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
    hides_closed: bool,
    /// The ids of what is shown.
    columns: [Vec<String>; COLUMNS.len()],
}

impl Tasks {
    pub fn new(hides_closed: bool) -> Self {
        Self { hides_closed, ..Self::default() }
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

    pub fn agent(&mut self, agent: AgentRecord) {
        let task = agent.task_id.to_string();
        let is_older =
            self.agents.get(&task).is_some_and(|known| known.id != agent.id && known.created_at > agent.created_at);
        if !is_older {
            self.agents.insert(task, agent);
        }
    }

    pub fn inbox(&self) -> &[InboxItem] {
        &self.inbox
    }

    pub fn wrote(&mut self, session: String, line: String) {
        self.lines.insert(session, line);
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

    /// Puts the tasks into their columns.
    pub fn settle(&mut self) {
        for (at, state) in COLUMNS.iter().enumerate() {
            let is_shown = |(_, task): &(&String, &TaskRecord)| task.status == *state;
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
    }

    /// Counts the columns.
    pub fn column_count(&self) -> usize {
        COLUMNS.len() - usize::from(self.hides_closed)
    }

    pub fn column(&self, at: usize) -> &[String] {
        &self.columns[at]
    }
}
