//! Converts the older coven's records into records of this one, and reports those that cannot be imported.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::task::{Attempt, convert, merge_copy, merge_state, placeholder};
use super::{Legacy, LegacyAgent, LegacyQuestion, LegacyTask, LegacyWorkflow, SkippedItem, Source, task_id};
use coven_domain::agent::{Agent, AgentState};
use coven_domain::request::{AnsweredBy, Request, RequestAnswer, RequestState};
use coven_domain::task::links::{self, Links};
use coven_domain::task::{Task, TaskState};
use coven_domain::text::one_line;
use coven_domain::workflow::{RunProgress, WorkflowRun, WorkflowState};
use coven_domain::{AgentId, RequestId, TaskId, WorkflowId};

const MAX_NAME_CHARS: usize = 200;

/// Records that the store already has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    pub tasks: BTreeSet<TaskId>,
    pub agents: BTreeSet<AgentId>,
    pub workflows: BTreeSet<WorkflowId>,
    pub questions: BTreeSet<RequestId>,
    /// The newest agent of each task.
    pub agent_of: BTreeMap<TaskId, AgentId>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub tasks: usize,
    pub agents: usize,
    pub workflows: usize,
    pub questions: usize,
}

/// Records to write, in this order: a record only refers to earlier kinds, and tasks also to each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Import {
    pub tasks: Vec<Task>,
    pub agents: Vec<Agent>,
    pub workflows: Vec<WorkflowRun>,
    pub questions: Vec<Request>,
    /// Records that already exist and stay unchanged.
    pub known: Counts,
    pub left: Vec<SkippedItem>,
}

impl Import {
    pub fn counts(&self) -> Counts {
        Counts {
            tasks: self.tasks.len(),
            agents: self.agents.len(),
            workflows: self.workflows.len(),
            questions: self.questions.len(),
        }
    }
}

/// Converts all records, including known ones, so that every import reports the same skipped items.
pub fn import(legacy: &Legacy, known: &Known) -> Import {
    let mut left = Vec::new();
    let attempts = attempts(legacy);
    let (mut tasks, unclear) = tasks(legacy, &attempts, &mut left);
    add_placeholders(legacy, known, &unclear, &attempts, &mut tasks);
    link(legacy, known, &mut tasks, &mut left);

    let is_there = |task: TaskId| tasks.contains_key(&task) || known.tasks.contains(&task);
    let mut agents: BTreeMap<AgentId, Agent> = BTreeMap::new();
    for found in &legacy.agents {
        let what = format!("agent of {}", found.task);
        match agent(found) {
            _ if !is_there(task_id(&found.task)) => left.push(found.source.left(what, TASK_SKIPPED)),
            agent if agents.contains_key(&agent.id) => left.push(found.source.left(what, DUPLICATE)),
            agent => drop(agents.insert(agent.id, agent)),
        }
    }
    let mut agent_of = known.agent_of.clone();
    let mut in_order: Vec<&Agent> = agents.values().collect();
    in_order.sort_by_key(|agent| (agent.created_at, agent.id));
    agent_of.extend(in_order.iter().map(|agent| (agent.task, agent.id)));

    let mut workflows: BTreeMap<WorkflowId, WorkflowRun> = BTreeMap::new();
    for found in &legacy.workflows {
        let what = format!("workflow {}", found.id);
        match workflow(found, &agent_of) {
            _ if !is_there(task_id(&found.task)) => left.push(found.source.left(what, TASK_SKIPPED)),
            workflow if workflows.contains_key(&workflow.id) => left.push(found.source.left(what, DUPLICATE)),
            workflow => drop(workflows.insert(workflow.id, workflow)),
        }
    }
    let mut questions: BTreeMap<RequestId, Request> = BTreeMap::new();
    for found in &legacy.questions {
        let what = format!("question {}", found.id);
        match agent_of.get(&task_id(&found.task)) {
            None if known.questions.contains(&found.id()) => {}
            None => left.push(found.source.left(what, format!("task {} has no known agent", found.task))),
            Some(_) if questions.contains_key(&found.id()) => left.push(found.source.left(what, DUPLICATE)),
            Some(agent) => drop(questions.insert(found.id(), question(found, *agent))),
        }
    }
    let counts = Counts {
        tasks: tasks.keys().filter(|id| known.tasks.contains(id)).count(),
        agents: agents.keys().filter(|id| known.agents.contains(id)).count(),
        workflows: workflows.keys().filter(|id| known.workflows.contains(id)).count(),
        questions: legacy
            .questions
            .iter()
            .map(LegacyQuestion::id)
            .collect::<BTreeSet<_>>()
            .intersection(&known.questions)
            .count(),
    };
    left.sort();
    left.dedup();
    Import {
        tasks: tasks.into_values().filter(|task| !known.tasks.contains(&task.id)).collect(),
        agents: agents.into_values().filter(|agent| !known.agents.contains(&agent.id)).collect(),
        workflows: workflows.into_values().filter(|it| !known.workflows.contains(&it.id)).collect(),
        questions: questions.into_values().filter(|it| !known.questions.contains(&it.id)).collect(),
        known: counts,
        left,
    }
}

const DUPLICATE: &str = "duplicate; the first one is used";
const TASK_SKIPPED: &str = "the task was skipped, or may be in a file that cannot be read";

/// Returns the last attempt at each task.
fn attempts(legacy: &Legacy) -> BTreeMap<TaskId, Attempt> {
    let mut attempts: BTreeMap<TaskId, Attempt> = BTreeMap::new();
    let mut agents: Vec<&LegacyAgent> = legacy.agents.iter().collect();
    agents.sort_by_key(|agent| agent.started_at);
    for agent in agents {
        let has_ended = agent.state != AgentState::Running;
        let attempt = Attempt {
            pid: agent.pid.filter(|_| !has_ended),
            worktree: agent.worktree.clone(),
            branch: agent.branch.clone(),
            error: agent.error.clone(),
            state: (!has_ended).then_some(TaskState::InProgress),
        };
        attempts.insert(task_id(&agent.task), attempt);
    }
    for workflow in &legacy.workflows {
        let attempt = attempts.entry(task_id(&workflow.task)).or_default();
        attempt.worktree = attempt.worktree.take().or_else(|| workflow.worktree.clone());
        attempt.error = workflow.error.clone().or_else(|| attempt.error.take());
        attempt.state = Some(task_state_after(workflow.state));
    }
    attempts
}

fn task_state_after(run: WorkflowState) -> TaskState {
    match run {
        WorkflowState::Running => TaskState::InProgress,
        WorkflowState::PendingMerge => TaskState::PendingMerge,
        WorkflowState::Blocked | WorkflowState::Failed => TaskState::Blocked,
        WorkflowState::Completed => TaskState::Closed,
        WorkflowState::Cancelled => TaskState::Open,
    }
}

/// Returns the tasks, and the ids of those that exist but could not be converted.
fn tasks(
    legacy: &Legacy,
    attempts: &BTreeMap<TaskId, Attempt>,
    left: &mut Vec<SkippedItem>,
) -> (BTreeMap<TaskId, Task>, BTreeSet<TaskId>) {
    let mut unclear: BTreeSet<TaskId> = legacy.unparsed_tasks.iter().map(|name| task_id(name)).collect();
    let mut records = deduplicate(&legacy.issues, left);
    for (id, issue) in &mut records {
        let known = attempts.get(id).and_then(|attempt| attempt.state);
        issue.state = merge_state(known.unwrap_or(TaskState::Open), issue.state);
    }
    for (id, copy) in deduplicate(&legacy.tasks, left) {
        let record = match records.remove(&id) {
            Some(issue) => merge_copy(issue, copy),
            None => copy,
        };
        records.insert(id, record);
    }
    let mut tasks: BTreeMap<TaskId, Task> = BTreeMap::new();
    for (id, found) in records {
        match convert(&found, attempts.get(&id).unwrap_or(&Attempt::default())) {
            Ok(task) => drop(tasks.insert(id, task)),
            Err(bad) => {
                unclear.insert(id);
                left.push(found.source.left(format!("task {}", found.id), bad.to_string()));
            }
        }
    }
    (tasks, unclear)
}

fn deduplicate(found: &[LegacyTask], left: &mut Vec<SkippedItem>) -> BTreeMap<TaskId, LegacyTask> {
    let mut records = BTreeMap::new();
    for task in found {
        match records.entry(task_id(&task.id)) {
            Entry::Vacant(entry) => drop(entry.insert(task.clone())),
            Entry::Occupied(_) => left.push(task.source.left(format!("task {}", task.id), DUPLICATE)),
        }
    }
    records
}

/// Adds a placeholder for each missing task that has agents or runs. The older coven got its tasks from a tracker and
/// did not always store them.
fn add_placeholders(
    legacy: &Legacy,
    known: &Known,
    unclear: &BTreeSet<TaskId>,
    attempts: &BTreeMap<TaskId, Attempt>,
    tasks: &mut BTreeMap<TaskId, Task>,
) {
    if legacy.is_task_list_partial {
        return;
    }
    let done: BTreeSet<TaskId> = legacy
        .workflows
        .iter()
        .filter(|workflow| workflow.state == WorkflowState::Completed)
        .map(|workflow| task_id(&workflow.task))
        .collect();
    let of_workflows = legacy.workflows.iter().map(|it| (&it.task, &it.source, it.started_at));
    let of_agents = legacy.agents.iter().map(|it| (&it.task, &it.source, it.started_at));
    for (name, source, started_at) in of_workflows.chain(of_agents) {
        let id = task_id(name);
        if tasks.contains_key(&id) || known.tasks.contains(&id) || unclear.contains(&id) {
            continue;
        }
        let attempt = attempts.get(&id).cloned().unwrap_or_default();
        let source = Source { modified_at: started_at.unwrap_or(source.modified_at), ..source.clone() };
        // If the name is not a valid title, the task and its records are skipped.
        if let Ok(task) = placeholder(name, done.contains(&id), &attempt, source) {
            tasks.insert(id, task);
        }
    }
}

/// Sets the dependencies and parent of each task. Skips links to missing tasks and links that form a cycle.
fn link(legacy: &Legacy, known: &Known, tasks: &mut BTreeMap<TaskId, Task>, left: &mut Vec<SkippedItem>) {
    let (mut depends_on, mut parents) = (Links::new(), Links::new());
    let mut cycle_errors: BTreeMap<(TaskId, TaskId), SkippedItem> = BTreeMap::new();
    for found in legacy.tasks.iter().chain(&legacy.issues) {
        let id = task_id(&found.id);
        if !tasks.contains_key(&id) {
            continue;
        }
        let dependencies = found.depends_on.iter().map(|other| (id, task_id(other), other, false));
        let blocks = found.blocks.iter().map(|other| (task_id(other), id, other, false));
        let above = found.parents.iter().map(|other| (id, task_id(other), other, true));
        for (from, to, other, is_parent) in dependencies.chain(blocks).chain(above) {
            let what = format!("link of task {} to {other}", found.id);
            let is_there = tasks.contains_key(&from) && (tasks.contains_key(&to) || known.tasks.contains(&to));
            if !is_there {
                left.push(found.source.left(what, "that task was not found in any file"));
                continue;
            }
            if is_parent && parents.get(&from).is_some_and(|above| !above.contains(&to)) {
                left.push(found.source.left(what, "the task already has another parent"));
                continue;
            }
            let links = if is_parent { &mut parents } else { &mut depends_on };
            links.entry(from).or_default().insert(to);
            cycle_errors.insert((from, to), found.source.left(what, "the link would form a cycle"));
        }
    }
    let removed = [remove_cycles(&mut depends_on), remove_cycles(&mut parents)].concat();
    left.extend(removed.iter().filter_map(|link| cycle_errors.get(link).cloned()));
    for task in tasks.values_mut() {
        task.depends_on = depends_on.get(&task.id).into_iter().flatten().copied().collect();
        task.parent = parents.get(&task.id).and_then(|above| above.first().copied());
    }
}

/// Removes and returns the links that form a cycle; older versions did not check for cycles.
fn remove_cycles(links: &mut Links) -> Vec<(TaskId, TaskId)> {
    let cycle_edges = links::cycle_edges(links);
    for (from, to) in &cycle_edges {
        links.entry(*from).or_default().remove(to);
    }
    cycle_edges
}

/// Converts an agent. It counts as ended and is never signaled, because this coven did not start its process.
fn agent(found: &LegacyAgent) -> Agent {
    let started = found.started_at.or(found.ended_at).unwrap_or(found.source.modified_at);
    let ended = found.ended_at.unwrap_or(found.source.modified_at).not_before(started);
    let (state, error) = match found.state {
        AgentState::Starting | AgentState::Running => {
            (AgentState::Failed, Some("recorded as running when imported".to_owned()))
        }
        state @ (AgentState::Completed | AgentState::Failed | AgentState::Killed) => {
            let code = found.exit_code.filter(|code| *code != 0).map(|code| format!("exited with code {code}"));
            (state, found.error.clone().or(code))
        }
    };
    Agent {
        id: found.id(),
        task: task_id(&found.task),
        workflow: None,
        step: found.step.clone(),
        session: None,
        state,
        pid: found.pid,
        worktree: found.worktree.clone(),
        branch: found.branch.clone(),
        output_file: found.output_file.clone(),
        error,
        created_at: started,
        updated_at: ended,
        ended_at: Some(ended),
    }
}

/// Converts a run. It counts as ended because it has no definition to continue with.
fn workflow(found: &LegacyWorkflow, agent_of: &BTreeMap<TaskId, AgentId>) -> WorkflowRun {
    let (task, name) = (task_id(&found.task), found.name.as_deref().unwrap_or("unknown"));
    let started = found.started_at.or(found.updated_at).unwrap_or(found.source.modified_at);
    let updated = found.updated_at.unwrap_or(found.source.modified_at).not_before(started);
    let mut workflow = WorkflowRun::new(found.id(), task, &one_line(name, MAX_NAME_CHARS), "", started);
    workflow.agent = agent_of.get(&task).copied();
    (workflow.state, workflow.error) = match found.state {
        WorkflowState::Running | WorkflowState::Blocked | WorkflowState::PendingMerge => {
            let why = found.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            (WorkflowState::Failed, Some(format!("recorded as {} when imported{why}", found.state)))
        }
        state @ (WorkflowState::Completed | WorkflowState::Failed | WorkflowState::Cancelled) => {
            (state, found.error.clone())
        }
    };
    workflow.progress =
        RunProgress { position: vec![found.steps_done], results: found.results.clone(), ..RunProgress::new(started) };
    workflow.updated_at = updated;
    workflow.ended_at = Some(found.ended_at.unwrap_or(updated).not_before(started));
    workflow
}

/// Converts a question. An unanswered one is abandoned: its agent has ended.
fn question(found: &LegacyQuestion, agent: AgentId) -> Request {
    let asked = found.asked_at.or(found.answered_at).unwrap_or(found.source.modified_at);
    let answered = found.answered_at.unwrap_or(found.source.modified_at).not_before(asked);
    let state = if found.is_answered { RequestState::Answered } else { RequestState::Cancelled };
    // The agent has ended, so there is nothing left to deliver.
    let line = |text: &String| RequestAnswer::Line { text: text.clone(), is_delivered: true };
    Request {
        agent: Some(agent),
        state,
        answer: found.answer.as_ref().map(line),
        answered_by: found.is_answered.then_some(AnsweredBy::Human),
        updated_at: answered,
        answered_at: found.is_answered.then_some(answered),
        ..Request::input(found.id(), None, prompt_with_options(found), 0, asked)
    }
}

/// Returns the text of a question with its options.
fn prompt_with_options(found: &LegacyQuestion) -> String {
    let labels: Vec<&str> = found.options.iter().map(|option| option.label.as_str()).collect();
    match labels.is_empty() {
        true => found.text.clone(),
        false => format!("{} ({})", found.text, labels.join(", ")),
    }
}
