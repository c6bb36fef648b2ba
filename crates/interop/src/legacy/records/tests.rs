//! Tests the import of the older coven's records.

use super::*;
use coven_domain::agent::Agent;
use coven_domain::request::RequestState;
use coven_domain::task::{Task, TaskKind};

const SEEN: Timestamp = Timestamp::from_millis(9_000);
const STARTED: Timestamp = Timestamp::from_millis(1_000);

fn source(file: &str) -> Source {
    Source { file: file.to_owned(), line: None, modified_at: SEEN }
}

fn task(id: &str, state: TaskState) -> LegacyTask {
    LegacyTask { created_at: Some(STARTED), ..LegacyTask::new(source("state.json"), id, state) }
}

fn agent(task: &str, state: AgentState) -> LegacyAgent {
    LegacyAgent {
        source: source("state.json"),
        name: task.to_owned(),
        task: task.to_owned(),
        step: None,
        state,
        pid: Some(42),
        worktree: Some("/w".to_owned()),
        branch: Some("coven/x".to_owned()),
        output_file: None,
        error: None,
        exit_code: None,
        started_at: Some(STARTED),
        ended_at: None,
    }
}

fn workflow(task: &str, state: WorkflowState) -> LegacyWorkflow {
    LegacyWorkflow {
        source: source("workflows/a.json"),
        id: format!("wf-{task}-1"),
        task: task.to_owned(),
        name: Some("implement-bead".to_owned()),
        state,
        worktree: Some("/run".to_owned()),
        error: None,
        steps_done: 1,
        results: BTreeMap::new(),
        started_at: Some(STARTED),
        updated_at: None,
        ended_at: None,
    }
}

fn question(task: &str) -> LegacyQuestion {
    LegacyQuestion {
        source: source("questions/a.json"),
        id: "q-1".to_owned(),
        task: task.to_owned(),
        kind: None,
        text: "Continue?".to_owned(),
        options: vec![Choice { description: None, label: "yes".to_owned() }],
        is_answered: false,
        answer: None,
        asked_at: Some(STARTED),
        answered_at: None,
    }
}

fn imported(legacy: &Legacy) -> Import {
    import(legacy, &Known::default())
}

fn one_task(task: LegacyTask) -> Task {
    let mut import = imported(&Legacy { tasks: vec![task], ..Legacy::default() });
    assert_eq!((import.left, import.tasks.len()), (vec![], 1));
    import.tasks.remove(0)
}

fn left(import: &Import) -> Vec<(&str, &str)> {
    import.left.iter().map(|left| (left.what.as_str(), left.why.as_str())).collect()
}

#[test]
fn ids_are_the_same_in_every_import_and_uuids_stay_unchanged() {
    assert_eq!(task_id("app-1"), task_id("app-1"));
    assert_ne!(task_id("app-1").as_uuid(), workflow("app-1", WorkflowState::Running).id().as_uuid());
    // Existing stores contain this id, so it must not change.
    assert_eq!(task_id("app-1").to_string(), "2c58c4bc-e335-5845-bf08-b557bd5b7a72");
    let uuid = "173b747a-549b-4b6b-ae62-f1b0c3f21b86";
    assert_eq!(task_id(uuid).to_string(), uuid);
    let later = LegacyAgent { started_at: Some(SEEN), ..agent("a", AgentState::Running) };
    assert_ne!(later.id(), agent("a", AgentState::Running).id(), "another attempt");
}

#[test]
fn a_task_keeps_its_fields_and_gets_a_tag_with_its_old_id() {
    let full = LegacyTask {
        title: Some("Fix it".to_owned()),
        body: Some("All of it.".to_owned()),
        kind: Some("bug".to_owned()),
        priority: Some(0),
        labels: vec!["ui".to_owned(), "needs review".to_owned()],
        updated_at: Some(SEEN),
        ..task("app-1", TaskState::Open)
    };

    let task = one_task(full);

    assert_eq!((task.title.as_str(), task.kind, task.priority.get()), ("Fix it", TaskKind::Bug, 0));
    assert_eq!(task.tags, ["legacy:app-1", "ui"]);
    assert_eq!(task.body, "All of it.\n\nLabels: needs review", "invalid tags are kept in the body");
    assert_eq!((task.created_at, task.updated_at, task.state), (STARTED, SEEN, TaskState::Open));
}

#[test]
fn values_that_do_not_fit_a_field_are_kept_in_the_body() {
    let odd = LegacyTask {
        title: Some(format!("two\nlines {}", "x".repeat(300))),
        kind: Some("chore".to_owned()),
        ..task("an id with spaces", TaskState::Open)
    };
    let found = one_task(odd);
    assert_eq!(found.title.chars().count(), 200);
    assert_eq!(found.tags, ["type:chore"]);
    assert!(found.body.starts_with("Title: two\nlines xxx"), "{}", found.body);
    assert!(found.body.ends_with("Labels: legacy:an id with spaces"), "{}", found.body);
    let many = LegacyTask { labels: (0..80).map(|nth| format!("l{nth}")).collect(), ..task("a", TaskState::Open) };
    let found = one_task(many);
    assert_eq!((found.tags.len(), found.body.starts_with("Labels: l49, ")), (50, true));
}

#[test]
fn unfinished_tasks_become_blocked() {
    for (state, expected, reason) in [
        (TaskState::Open, TaskState::Open, None),
        (TaskState::Closed, TaskState::Closed, None),
        (TaskState::Blocked, TaskState::Blocked, Some("the task was blocked when it was imported")),
        (TaskState::InProgress, TaskState::Blocked, Some("an agent was working on the task when it was imported")),
        (
            TaskState::PendingMerge,
            TaskState::Blocked,
            Some("the task was pending merge when it was imported; merge its branch by hand and close the task"),
        ),
    ] {
        let found = one_task(task("a", state));
        assert_eq!((found.state, found.reason.as_deref()), (expected, reason), "{state}");
        assert_eq!(found.closed_at.is_some(), expected == TaskState::Closed);
        assert_eq!(found.claim, None);
    }
}

#[test]
fn the_reason_of_a_blocked_task_names_its_branch_and_process() {
    let legacy = Legacy {
        tasks: vec![task("a", TaskState::InProgress)],
        agents: vec![agent("a", AgentState::Running)],
        ..Legacy::default()
    };
    let expected = "an agent was working on the task when it was imported; the work is on branch coven/x in /w; \
                    make sure that process 42 has ended before you unblock the task";
    assert_eq!(imported(&legacy).tasks[0].reason.as_deref(), Some(expected));
    let stopped = LegacyWorkflow { error: Some("no key".to_owned()), ..workflow("a", WorkflowState::Blocked) };
    let legacy = Legacy { tasks: vec![task("a", TaskState::Blocked)], workflows: vec![stopped], ..Legacy::default() };
    assert_eq!(imported(&legacy).tasks[0].reason.as_deref(), Some("no key"));
}

#[test]
fn every_imported_agent_has_ended() {
    let broken = LegacyAgent { exit_code: Some(3), ended_at: Some(SEEN), ..agent("c", AgentState::Failed) };
    let agents = vec![agent("a", AgentState::Running), agent("b", AgentState::Completed), broken];
    let import = imported(&Legacy { agents, ..Legacy::default() });

    let mut found: Vec<&Agent> = import.agents.iter().collect();
    found.sort_by_key(|agent| agent.error.clone());
    let errors: Vec<_> = found.iter().map(|agent| (agent.state, agent.error.as_deref(), agent.ended_at)).collect();
    let expected = [
        (AgentState::Completed, None, Some(SEEN)),
        (AgentState::Failed, Some("exited with code 3"), Some(SEEN)),
        (AgentState::Failed, Some("recorded as running when imported"), Some(SEEN)),
    ];
    assert_eq!(errors, expected);
}

#[test]
fn every_imported_run_has_ended() {
    for (state, expected, error) in [
        (WorkflowState::Running, WorkflowState::Failed, Some("recorded as running when imported")),
        (WorkflowState::Blocked, WorkflowState::Failed, Some("recorded as blocked when imported")),
        (WorkflowState::PendingMerge, WorkflowState::Failed, Some("recorded as pending_merge when imported")),
        (WorkflowState::Completed, WorkflowState::Completed, None),
        (WorkflowState::Failed, WorkflowState::Failed, None),
        (WorkflowState::Cancelled, WorkflowState::Cancelled, None),
    ] {
        let legacy = Legacy {
            agents: vec![agent("a", AgentState::Completed)],
            workflows: vec![workflow("a", state)],
            ..Legacy::default()
        };
        let import = imported(&legacy);
        let run = &import.workflows[0];
        assert_eq!((run.state, run.error.as_deref(), run.ended_at), (expected, error, Some(SEEN)));
        assert_eq!(
            (run.name.as_str(), run.definition.as_str(), run.progress.position.clone()),
            ("implement-bead", "", vec![1])
        );
        assert_eq!(run.agent, Some(agent("a", AgentState::Completed).id()));
    }
}

#[test]
fn a_missing_task_with_runs_gets_a_placeholder() {
    let legacy = Legacy {
        workflows: vec![workflow("done", WorkflowState::Completed), workflow("half", WorkflowState::Running)],
        ..Legacy::default()
    };

    let import = imported(&legacy);

    let mut tasks: Vec<_> = import.tasks.iter().map(|task| (task.title.as_str(), task.state)).collect();
    tasks.sort();
    assert_eq!(tasks, [("done", TaskState::Closed), ("half", TaskState::Blocked)]);
    let half = import.tasks.iter().find(|task| task.title == "half").expect("exists");
    assert_eq!((half.tags.clone(), half.created_at), (vec!["legacy:half".to_owned()], STARTED));
    assert!(half.reason.as_deref().is_some_and(|reason| reason.ends_with("; the work is in /run")), "{half:?}");
}

#[test]
fn a_task_that_may_be_in_a_damaged_file_gets_no_placeholder() {
    let run = vec![workflow("a", WorkflowState::Running)];
    let broken = Legacy { workflows: run.clone(), is_task_list_partial: true, ..Legacy::default() };
    let unclear = Legacy { workflows: run.clone(), unparsed_tasks: ["a".to_owned()].into(), ..Legacy::default() };
    let long = LegacyTask { body: Some("x".repeat(2 << 20)), ..task("a", TaskState::Open) };
    let refused = Legacy { tasks: vec![long], workflows: run, ..Legacy::default() };
    for legacy in [broken, unclear, refused] {
        let import = imported(&legacy);
        assert_eq!((import.tasks.len(), import.workflows.len()), (0, 0));
        let why = "the task was skipped, or may be in a file that cannot be read";
        assert!(left(&import).contains(&("workflow wf-a-1", why)), "{:?}", import.left);
    }
}

#[test]
fn a_question_belongs_to_the_agent_of_its_task() {
    let legacy =
        Legacy { agents: vec![agent("a", AgentState::Running)], questions: vec![question("a")], ..Legacy::default() };
    let asked = &imported(&legacy).questions[0];
    assert_eq!((asked.state, asked.agent), (RequestState::Cancelled, Some(legacy.agents[0].id())));
    assert_eq!((asked.answer.clone(), asked.answered_at), (None, None));
    for answer in ["yes", "later"] {
        let answered = LegacyQuestion {
            is_answered: true,
            answer: Some(answer.to_owned()),
            answered_at: Some(SEEN),
            ..question("a")
        };
        let import = imported(&Legacy { questions: vec![answered], ..legacy.clone() });
        let asked = &import.questions[0];
        assert_eq!((asked.state, asked.answered_at), (RequestState::Answered, Some(SEEN)));
        assert_eq!((asked.answer_text().as_deref(), asked.undelivered()), (Some(answer), None));
    }
    let alone = imported(&Legacy { questions: vec![question("a")], ..Legacy::default() });
    assert_eq!(left(&alone), [("question q-1", "task a has no known agent")]);
}

#[test]
fn links_to_missing_tasks_and_cycles_are_removed() {
    let links = |id: &str, depends_on: &[&str], blocks: &[&str], parent: Option<&str>| LegacyTask {
        depends_on: depends_on.iter().map(|it| (*it).to_owned()).collect(),
        blocks: blocks.iter().map(|it| (*it).to_owned()).collect(),
        parents: parent.map(str::to_owned).into_iter().collect(),
        ..task(id, TaskState::Open)
    };
    let tasks = vec![
        links("a", &["b", "gone"], &[], Some("c")),
        links("b", &[], &["c"], None),
        links("c", &[], &[], Some("a")),
    ];

    let import = imported(&Legacy { tasks, ..Legacy::default() });

    let of = |id: &str| import.tasks.iter().find(|task| task.id == task_id(id)).expect("exists");
    assert_eq!((of("a").depends_on.clone(), of("c").depends_on.clone()), (vec![task_id("b")], vec![task_id("b")]));
    assert_eq!([of("a").parent, of("c").parent].iter().flatten().count(), 1, "one of the two parent links is removed");
    let whats: Vec<&str> = left(&import).iter().map(|(what, _)| *what).collect();
    assert_eq!((whats.len(), whats.contains(&"link of task a to gone")), (2, true), "{whats:?}");
    let own = imported(&Legacy { tasks: vec![links("a", &["a"], &[], None)], ..Legacy::default() });
    assert_eq!((own.left.len(), own.tasks[0].depends_on.len()), (1, 0));
}

#[test]
fn duplicates_are_imported_once_and_known_records_are_skipped() {
    let legacy = Legacy {
        tasks: vec![task("a", TaskState::Open), task("a", TaskState::Closed)],
        agents: vec![agent("a", AgentState::Running), agent("a", AgentState::Failed)],
        workflows: vec![workflow("a", WorkflowState::Running), workflow("a", WorkflowState::Failed)],
        questions: vec![question("a"), question("a")],
        ..Legacy::default()
    };
    let first = imported(&legacy);
    let one_each = Counts { tasks: 1, agents: 1, workflows: 1, questions: 1 };
    assert_eq!((first.counts(), first.known, first.left.len()), (one_each, Counts::default(), 4));

    let known = Known {
        tasks: [task_id("a")].into(),
        agents: [legacy.agents[0].id()].into(),
        workflows: [legacy.workflows[0].id()].into(),
        questions: [legacy.questions[0].id()].into(),
        agent_of: BTreeMap::new(),
    };
    let second = import(&legacy, &known);
    assert_eq!((second.counts(), second.known), (Counts::default(), one_each));
    assert_eq!(second.left, first.left, "every import reports the skipped items");
}

fn issue(line: usize, id: &str, state: TaskState) -> LegacyTask {
    let source = Source { line: Some(line), ..source("../.beads/issues.jsonl") };
    LegacyTask { created_at: Some(STARTED), ..LegacyTask::new(source, id, state) }
}

#[test]
fn an_issue_becomes_a_task_with_extra_data_in_its_body() {
    let full = LegacyTask {
        title: Some("Fix it".to_owned()),
        body: Some("All of it.".to_owned()),
        notes: Some("Not the parser.".to_owned()),
        author: Some("ada".to_owned()),
        mentions: vec!["related app-2".to_owned(), "discovered-from app-3".to_owned()],
        kind: Some("epic".to_owned()),
        reason: Some("done".to_owned()),
        closed_at: Some(SEEN),
        ..issue(1, "app-1", TaskState::Closed)
    };

    let import = imported(&Legacy { issues: vec![full], ..Legacy::default() });

    let [task] = &import.tasks[..] else { panic!("{import:?}") };
    assert_eq!(
        (task.id, task.kind, task.tags.clone()),
        (task_id("app-1"), TaskKind::Epic, vec!["legacy:app-1".into()])
    );
    let body = "All of it.\n\nNotes: Not the parser.\n\nCreated by: ada\n\nLinks: related app-2, discovered-from app-3";
    assert_eq!(task.body, body);
    let closed = (TaskState::Closed, Some("done"), Some(SEEN));
    assert_eq!((task.state, task.reason.as_deref(), task.closed_at), closed);
}

#[test]
fn skipped_parts_of_an_issue_are_reported_with_the_line() {
    let child = LegacyTask {
        depends_on: vec!["b".to_owned(), "gone".to_owned()],
        parents: vec!["lost".to_owned(), "c".to_owned(), "b".to_owned()],
        ..issue(4, "a", TaskState::Open)
    };
    let issues =
        vec![child, issue(5, "b", TaskState::Open), issue(6, "c", TaskState::Open), issue(7, "b", TaskState::Closed)];

    let import = imported(&Legacy { issues, ..Legacy::default() });

    let expected = [
        ("line 4: link of task a to b", "the task already has another parent"),
        ("line 4: link of task a to gone", "that task was not found in any file"),
        ("line 4: link of task a to lost", "that task was not found in any file"),
        ("line 7: task b", "duplicate; the first one is used"),
    ];
    assert_eq!(left(&import), expected);
    let child = import.tasks.iter().find(|task| task.id == task_id("a")).expect("exists");
    assert_eq!((child.depends_on.clone(), child.parent), (vec![task_id("b")], Some(task_id("c"))));
}

#[test]
fn an_issue_and_its_copy_become_one_task() {
    let copy = LegacyTask {
        title: Some("As it was".to_owned()),
        body: Some("All of it.".to_owned()),
        labels: vec!["ui".to_owned(), "grimoire:fix".to_owned()],
        priority: Some(4),
        ..task("a", TaskState::PendingMerge)
    };
    let tracked = LegacyTask {
        title: Some("As it is".to_owned()),
        labels: vec!["ui".to_owned()],
        priority: Some(0),
        depends_on: vec!["b".to_owned(), "gone".to_owned()],
        updated_at: Some(SEEN),
        ..issue(1, "a", TaskState::Blocked)
    };
    let issues = vec![tracked, issue(2, "b", TaskState::Open)];

    let import = imported(&Legacy { tasks: vec![copy], issues, ..Legacy::default() });

    let task = import.tasks.iter().find(|task| task.id == task_id("a")).expect("exists");
    assert_eq!((import.tasks.len(), task.title.as_str(), task.body.as_str()), (2, "As it is", "All of it."));
    assert_eq!(
        (task.priority.get(), task.tags.clone()),
        (0, ["legacy:a", "ui", "grimoire:fix"].map(String::from).to_vec())
    );
    assert_eq!((task.depends_on.clone(), task.updated_at), (vec![task_id("b")], SEEN));
    assert!(task.reason.as_deref().is_some_and(|reason| reason.starts_with("the task was pending merge")), "{task:?}");
    // Problems in the tracker's file do not prevent the rename of the other file.
    let files: Vec<&str> = import.left.iter().map(|left| left.file.as_str()).collect();
    assert_eq!(files, ["../.beads/issues.jsonl"]);
}

#[test]
fn a_final_state_in_the_older_daemon_takes_precedence_over_the_tracker() {
    use TaskState::{Blocked, Closed, InProgress, Open, PendingMerge};
    for (known, tracked, expected) in [
        (Open, [Open, InProgress, Blocked, Closed], [Open, InProgress, Blocked, Closed]),
        (InProgress, [Open, InProgress, Blocked, Closed], [InProgress, InProgress, Blocked, Closed]),
        (PendingMerge, [Open, InProgress, Blocked, Closed], [PendingMerge; 4]),
        (Blocked, [Open, InProgress, Blocked, Closed], [Blocked; 4]),
        (Closed, [Open, InProgress, Blocked, Closed], [Closed; 4]),
    ] {
        assert_eq!(tracked.map(|state| super::task::merge_state(known, state)), expected, "{known}");
    }
    // The daemon deleted completed runs, so an existing run determines the state of its task.
    for (run, starts_with) in [
        (WorkflowState::Running, Some("an agent was working on the task")),
        (WorkflowState::PendingMerge, Some("the task was pending merge")),
        (WorkflowState::Failed, Some("the task was blocked")),
        (WorkflowState::Cancelled, None),
    ] {
        let legacy =
            Legacy { issues: vec![issue(1, "a", Open)], workflows: vec![workflow("a", run)], ..Legacy::default() };
        let task = &imported(&legacy).tasks[0];
        assert_eq!(task.state, if starts_with.is_some() { Blocked } else { Open }, "{run}");
        assert!(task.reason.as_deref().unwrap_or_default().starts_with(starts_with.unwrap_or_default()), "{task:?}");
    }
    let legacy = Legacy {
        issues: vec![issue(1, "a", Open)],
        agents: vec![agent("a", AgentState::Running)],
        ..Legacy::default()
    };
    assert_eq!(imported(&legacy).tasks[0].state, Blocked);
}

#[test]
fn a_known_issue_is_not_imported_again() {
    let legacy =
        Legacy { issues: vec![issue(1, "a", TaskState::Closed), issue(2, "b", TaskState::Open)], ..Legacy::default() };
    let known = Known { tasks: [task_id("a")].into(), ..Known::default() };
    assert_eq!(legacy.task_ids(), [task_id("a"), task_id("b")].into());

    let import = import(&legacy, &known);

    let one_task = Counts { tasks: 1, ..Counts::default() };
    assert_eq!((import.counts(), import.known, import.tasks[0].id), (one_task, one_task, task_id("b")));
}
