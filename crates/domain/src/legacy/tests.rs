//! What becomes of the older coven's records.

use super::*;
use crate::agent::Agent;
use crate::question_set::QuestionSetState;
use crate::task::Task;

const SEEN: Timestamp = Timestamp::from_millis(9_000);
const BEGAN: Timestamp = Timestamp::from_millis(1_000);

fn source(file: &str) -> Source {
    Source { file: file.to_owned(), modified_at: SEEN }
}

fn task(id: &str, state: TaskState) -> LegacyTask {
    LegacyTask { created_at: Some(BEGAN), ..LegacyTask::new(source("state.json"), id, state) }
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
        started_at: Some(BEGAN),
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
        started_at: Some(BEGAN),
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
        text: "Go on?".to_owned(),
        options: vec![Choice { description: None, label: "yes".to_owned() }],
        is_answered: false,
        answer: None,
        asked_at: Some(BEGAN),
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
fn an_id_is_the_same_in_every_run_and_a_uuid_stays() {
    assert_eq!(task_id("app-1"), task_id("app-1"));
    assert_ne!(task_id("app-1").as_uuid(), workflow("app-1", WorkflowState::Running).id().as_uuid());
    // What is in stores by now must be found again.
    assert_eq!(task_id("app-1").to_string(), "2c58c4bc-e335-5845-bf08-b557bd5b7a72");
    let uuid = "173b747a-549b-4b6b-ae62-f1b0c3f21b86";
    assert_eq!(task_id(uuid).to_string(), uuid);
    let later = LegacyAgent { started_at: Some(SEEN), ..agent("a", AgentState::Running) };
    assert_ne!(later.id(), agent("a", AgentState::Running).id(), "another attempt");
}

#[test]
fn a_task_keeps_what_it_had_and_its_old_id() {
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

    assert_eq!((task.title.as_str(), task.kind, task.priority.get()), ("Fix it", crate::task::TaskKind::Bug, 0));
    assert_eq!(task.tags, ["legacy:app-1", "ui"]);
    assert_eq!(task.body, "All of it.\n\nLabels: needs review", "what makes no tag is not lost");
    assert_eq!((task.created_at, task.updated_at, task.state), (BEGAN, SEEN, TaskState::Open));
}

#[test]
fn what_does_not_fit_a_field_is_in_the_body() {
    let odd = LegacyTask {
        title: Some(format!("two\nlines {}", "x".repeat(300))),
        kind: Some("chore".to_owned()),
        ..task("an id with blanks", TaskState::Open)
    };
    let found = one_task(odd);
    assert_eq!(found.title.chars().count(), 200);
    assert_eq!(found.tags, ["type:chore"]);
    assert!(found.body.starts_with("Title: two\nlines xxx"), "{}", found.body);
    assert!(found.body.ends_with("Labels: legacy:an id with blanks"), "{}", found.body);
    let many = LegacyTask { labels: (0..80).map(|nth| format!("l{nth}")).collect(), ..task("a", TaskState::Open) };
    let found = one_task(many);
    assert_eq!((found.tags.len(), found.body.starts_with("Labels: l49, ")), (50, true));
}

#[test]
fn nothing_is_in_progress_or_waits_for_a_merge_afterwards() {
    for (state, expected, says) in [
        (TaskState::Open, TaskState::Open, None),
        (TaskState::Closed, TaskState::Closed, None),
        (TaskState::Blocked, TaskState::Blocked, Some("it was blocked when it was migrated")),
        (TaskState::InProgress, TaskState::Blocked, Some("it was being worked on when it was migrated")),
        (
            TaskState::PendingMerge,
            TaskState::Blocked,
            Some("it waited to be merged when it was migrated; merge it by hand and close the task"),
        ),
    ] {
        let found = one_task(task("a", state));
        assert_eq!((found.state, found.reason.as_deref()), (expected, says), "{state}");
        assert_eq!(found.closed_at.is_some(), expected == TaskState::Closed);
        assert_eq!(found.claim, None);
    }
}

#[test]
fn a_blocked_task_says_where_its_work_is() {
    let legacy = Legacy {
        tasks: vec![task("a", TaskState::InProgress)],
        agents: vec![agent("a", AgentState::Running)],
        ..Legacy::default()
    };
    let expected = "it was being worked on when it was migrated; its work is on the branch coven/x in /w; \
                    see that the process 42 does not go on before you unblock it";
    assert_eq!(imported(&legacy).tasks[0].reason.as_deref(), Some(expected));
    let stopped = LegacyWorkflow { error: Some("no key".to_owned()), ..workflow("a", WorkflowState::Blocked) };
    let legacy = Legacy { tasks: vec![task("a", TaskState::Blocked)], workflows: vec![stopped], ..Legacy::default() };
    assert_eq!(imported(&legacy).tasks[0].reason.as_deref(), Some("no key"));
}

#[test]
fn every_agent_has_ended() {
    let broken = LegacyAgent { exit_code: Some(3), ended_at: Some(SEEN), ..agent("c", AgentState::Failed) };
    let agents = vec![agent("a", AgentState::Running), agent("b", AgentState::Completed), broken];
    let import = imported(&Legacy { agents, ..Legacy::default() });

    let mut found: Vec<&Agent> = import.agents.iter().collect();
    found.sort_by_key(|agent| agent.error.clone());
    let said: Vec<_> = found.iter().map(|agent| (agent.state, agent.error.as_deref(), agent.ended_at)).collect();
    let expected = [
        (AgentState::Completed, None, Some(SEEN)),
        (AgentState::Failed, Some("it exited with 3"), Some(SEEN)),
        (AgentState::Failed, Some("migrated: it was recorded as running"), Some(SEEN)),
    ];
    assert_eq!(said, expected);
}

#[test]
fn every_run_has_ended() {
    for (state, expected, error) in [
        (WorkflowState::Running, WorkflowState::Failed, Some("migrated: it was recorded as running")),
        (WorkflowState::Blocked, WorkflowState::Failed, Some("migrated: it was recorded as blocked")),
        (WorkflowState::PendingMerge, WorkflowState::Failed, Some("migrated: it was recorded as pending_merge")),
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
            (run.name.as_str(), run.definition.as_str(), run.progress.at.clone()),
            ("implement-bead", "", vec![1])
        );
        assert_eq!(run.agent, Some(agent("a", AgentState::Completed).id()));
    }
}

#[test]
fn what_was_done_for_a_task_that_is_nowhere_has_one_to_stand_for_it() {
    let legacy = Legacy {
        workflows: vec![workflow("done", WorkflowState::Completed), workflow("half", WorkflowState::Running)],
        ..Legacy::default()
    };

    let import = imported(&legacy);

    let mut tasks: Vec<_> = import.tasks.iter().map(|task| (task.title.as_str(), task.state)).collect();
    tasks.sort();
    assert_eq!(tasks, [("done", TaskState::Closed), ("half", TaskState::Blocked)]);
    let half = import.tasks.iter().find(|task| task.title == "half").expect("it is there");
    assert_eq!((half.tags.clone(), half.created_at), (vec!["legacy:half".to_owned()], BEGAN));
    assert!(half.reason.as_deref().is_some_and(|reason| reason.ends_with("; its work is in /run")), "{half:?}");
}

#[test]
fn nothing_stands_for_a_task_that_may_be_in_a_broken_file() {
    let run = vec![workflow("a", WorkflowState::Running)];
    let broken = Legacy { workflows: run.clone(), may_lack_tasks: true, ..Legacy::default() };
    let unclear = Legacy { workflows: run.clone(), unclear_tasks: ["a".to_owned()].into(), ..Legacy::default() };
    let long = LegacyTask { body: Some("x".repeat(2 << 20)), ..task("a", TaskState::Open) };
    let refused = Legacy { tasks: vec![long], workflows: run, ..Legacy::default() };
    for legacy in [broken, unclear, refused] {
        let import = imported(&legacy);
        assert_eq!((import.tasks.len(), import.workflows.len()), (0, 0));
        let why = "its task was left, or may be in a file that cannot be read";
        assert!(left(&import).contains(&("workflow wf-a-1", why)), "{:?}", import.left);
    }
}

#[test]
fn a_question_goes_with_the_agent_of_its_task() {
    let legacy =
        Legacy { agents: vec![agent("a", AgentState::Running)], questions: vec![question("a")], ..Legacy::default() };
    let asked = &imported(&legacy).questions[0];
    assert_eq!((asked.state, asked.agent), (QuestionSetState::Abandoned, legacy.agents[0].id()));
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
        assert_eq!((asked.state, asked.answered_at), (QuestionSetState::Completed, Some(SEEN)));
        assert_eq!((asked.answer.as_deref(), asked.is_delivered), (Some(answer), true));
    }
    let alone = imported(&Legacy { questions: vec![question("a")], ..Legacy::default() });
    assert_eq!(left(&alone), [("question q-1", "no agent of its task a is known")]);
}

#[test]
fn links_are_set_where_they_lead_somewhere_and_make_no_circle() {
    let links = |id: &str, depends_on: &[&str], blocks: &[&str], parent: Option<&str>| LegacyTask {
        depends_on: depends_on.iter().map(|it| (*it).to_owned()).collect(),
        blocks: blocks.iter().map(|it| (*it).to_owned()).collect(),
        parent: parent.map(str::to_owned),
        ..task(id, TaskState::Open)
    };
    let tasks = vec![
        links("a", &["b", "gone"], &[], Some("c")),
        links("b", &[], &["c"], None),
        links("c", &[], &[], Some("a")),
    ];

    let import = imported(&Legacy { tasks, ..Legacy::default() });

    let of = |id: &str| import.tasks.iter().find(|task| task.id == task_id(id)).expect("it is there");
    assert_eq!((of("a").depends_on.clone(), of("c").depends_on.clone()), (vec![task_id("b")], vec![task_id("b")]));
    assert_eq!([of("a").parent, of("c").parent].iter().flatten().count(), 1, "one of two that stand below each other");
    let whats: Vec<&str> = left(&import).iter().map(|(what, _)| *what).collect();
    assert_eq!((whats.len(), whats.contains(&"link of task a to gone")), (2, true), "{whats:?}");
    let own = imported(&Legacy { tasks: vec![links("a", &["a"], &[], None)], ..Legacy::default() });
    assert_eq!((own.left.len(), own.tasks[0].depends_on.len()), (1, 0));
}

#[test]
fn what_is_there_twice_is_taken_once_and_what_is_known_not_at_all() {
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
    assert_eq!(second.left, first.left, "what was left is told every time");
}
