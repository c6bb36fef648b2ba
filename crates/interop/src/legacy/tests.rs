//! Every format of the older files, and every way in which they can be damaged.

use std::fs;
use std::os::unix::fs::symlink;

use crate::legacy::records::{Import, Known, LegacyAgent, Source, import};
use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WorkflowState;
use serde_json::{Value, json};

use super::*;

mod issue;

/// A project with a home in it.
struct Fixture {
    project: tempfile::TempDir,
    home: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let project = tempfile::tempdir().expect("temporary folder");
        let home = project.path().join(".coven");
        fs::create_dir(&home).expect("disk has space");
        Self { project, home }
    }

    fn with(name: &str, content: &Value) -> Self {
        let fixture = Self::new();
        fixture.write(name, content.to_string().as_bytes());
        fixture
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.home.join(name);
        fs::create_dir_all(path.parent().expect("readable folder")).expect("disk has space");
        fs::write(path, content).expect("disk has space");
    }

    fn read(&self) -> LegacyFindings {
        read(&self.home, Some(self.project.path()))
    }

    /// Returns the items that were not imported and the reasons, without the file names.
    fn left(&self) -> Vec<(String, String)> {
        self.read().left.into_iter().map(|left| (left.what, left.why)).collect()
    }
}

fn at(text: &str) -> Option<Timestamp> {
    Some(text.parse().expect("valid time"))
}

fn daemon_state() -> Value {
    json!({
        "workflow": { "id": "wf-app-1-17", "status": "running" },
        "last_task_sync": "2026-01-10T10:00:00Z",
        "tasks": [
            { "id": "app-1", "title": "Fix it", "description": "All of it.", "status": "in_progress", "priority": 1,
              "type": "bug", "labels": ["ui", "grimoire:fix"], "depends_on": ["app-2"], "blocks": null,
              "created_at": "2026-01-09T10:00:00.123456789Z", "updated_at": "2026-01-09T12:00:00+01:00" },
            { "id": "app-2", "title": "Wait", "status": "pending_merge", "priority": 2, "type": "task",
              "created_at": "2026-01-09T10:00:00Z", "updated_at": "2026-01-09T10:00:00Z" }
        ],
        "agents": {
            "app-1": { "task_id": "app-1", "step_task_id": "app-1-step-2", "pid": 4711, "status": "running",
                       "worktree": "/p/.coven/worktrees/app-1", "branch": "coven/app-1",
                       "started_at": "2026-01-09T10:05:00Z" },
            "app-2": { "task_id": "app-2", "pid": 0, "status": "failed", "worktree": "", "branch": "",
                       "started_at": "2026-01-09T10:05:00Z", "ended_at": "2026-01-09T10:06:00Z", "exit_code": 3,
                       "error": "it broke" }
        }
    })
}

fn run_file() -> Value {
    json!({
        "task_id": "app-1", "workflow_id": "wf-app-1-1767952800000000000", "grimoire_name": "implement-bead",
        "worktree_path": "/p/.coven/worktrees/app-1", "status": "blocked", "current_step": 1,
        "completed_steps": {
            "plan": { "Success": true, "Skipped": false, "Output": "done", "ExitCode": 0, "Error": "",
                      "Duration": 1500000000, "Action": "continue" },
            "test": { "Success": false, "Skipped": false, "Output": "", "ExitCode": 2, "Error": "red",
                      "Duration": 5, "Action": "block" }
        },
        "step_outputs": { "plan": "text" },
        "started_at": "2026-01-09T10:00:00Z", "updated_at": "2026-01-09T11:00:00Z", "error": "tests failed",
        "active_step_task_id": "app-1-step-2"
    })
}

fn familiar() -> Value {
    json!({
        "taskId": "app-3", "status": "waiting",
        "processInfo": { "pid": 99, "startTime": 1_767_952_800_000_i64, "command": "claude -p",
                         "worktreePath": "/p/.coven/worktrees/app-3" },
        "spawnedAt": 1_767_952_801_500_i64, "outputBuffer": ["one", "two"]
    })
}

fn question_file() -> Value {
    json!({
        "id": "q-20260109100000-1", "task_id": "app-1",
        "context": { "step_index": 0, "step_task_id": "app-1-step-1" }, "type": "choice", "text": "Which one?",
        "raw_context": "…", "options": ["a", "b"], "sequence": 4, "detected_at": "2026-01-09T10:00:00Z",
        "answered_at": "2026-01-09T10:01:00Z", "answer": "b", "delivered_at": null
    })
}

fn import_all(found: &LegacyFindings) -> Import {
    let imported = import(&found.legacy, &Known::default());
    assert_eq!((found.left.clone(), imported.left.clone()), (vec![], vec![]));
    imported
}

#[test]
fn reads_the_state_of_the_daemon() {
    let found = Fixture::with("state.json", &daemon_state()).read();

    assert_eq!(found.left, []);
    let [first, second] = &found.legacy.tasks[..] else { panic!("{:?}", found.legacy.tasks) };
    assert_eq!(
        (first.id.as_str(), first.title.as_deref(), first.state),
        ("app-1", Some("Fix it"), TaskState::InProgress)
    );
    assert_eq!(
        (first.body.as_deref(), first.kind.as_deref(), first.priority),
        (Some("All of it."), Some("bug"), Some(1))
    );
    assert_eq!((first.labels.len(), &first.depends_on), (2, &vec!["app-2".to_owned()]));
    assert_eq!((first.created_at, first.updated_at), (at("2026-01-09T10:00:00.123Z"), at("2026-01-09T11:00:00Z")));
    assert_eq!(second.state, TaskState::PendingMerge);
    let [running, failed] = &found.legacy.agents[..] else { panic!("{:?}", found.legacy.agents) };
    let expected = LegacyAgent {
        source: running.source.clone(),
        name: "app-1".into(),
        task: "app-1".into(),
        step: Some("app-1-step-2".into()),
        state: AgentState::Running,
        pid: Some(4711),
        worktree: Some("/p/.coven/worktrees/app-1".into()),
        branch: Some("coven/app-1".into()),
        output_file: None,
        error: None,
        exit_code: None,
        started_at: at("2026-01-09T10:05:00Z"),
        ended_at: None,
    };
    assert_eq!(*running, expected);
    assert_eq!(
        (failed.state, failed.pid, failed.exit_code, failed.worktree.clone()),
        (AgentState::Failed, None, Some(3), None)
    );
}

#[test]
fn reads_older_formats_of_the_state() {
    // With a session; this format was in use.
    let with_session = json!({
        "session": { "status": "active", "started_at": "2026-01-09T10:00:00Z" },
        "agents": { "a": { "task_id": "a", "pid": 5, "worktree": "/w", "started_at": "2026-01-09T10:00:00Z", "status": "starting" } },
        "tasks": null
    });
    // A type that was defined but never used.
    let versioned = json!({
        "agents": { "a": { "task_id": "a", "pid": 5, "worktree": "/w", "started_at": "2026-01-09T10:00:00Z", "status": "running" } },
        "session_started": "2026-01-09T10:00:00Z", "version": 1
    });
    // From a design document.
    let listed = json!({
        "session": { "started": true, "featureBranch": "f", "maxAgents": 3, "startedAt": "2026-01-09T10:00:00Z" },
        "agents": [{ "id": "agent-1", "taskId": "a", "worktreePath": "/w", "pid": 5, "startedAt": "2026-01-09T10:00:00Z" }]
    });
    for state in [with_session, versioned, listed] {
        let imported = import_all(&Fixture::with("state.json", &state).read());
        let [agent] = &imported.agents[..] else { panic!("{imported:?}") };
        assert_eq!((agent.state, agent.worktree.as_deref(), agent.pid), (AgentState::Failed, Some("/w"), Some(5)));
        assert_eq!(agent.error.as_deref(), Some("recorded as running when imported"));
        assert_eq!(imported.tasks.len(), 1, "a placeholder for a task that is not in the files");
    }
    for empty in [json!({}), json!({ "tasks": [], "agents": {} }), json!({ "session": { "status": "inactive" } })] {
        let fixture = Fixture::with("state.json", &empty);
        assert_eq!((fixture.left(), fixture.read().files.len()), (vec![], 1), "{empty}");
    }
    let by_id = json!({ "tasks": { "a": { "status": "open" } } });
    assert_eq!(import_all(&Fixture::with("state.json", &by_id).read()).tasks[0].title, "a");
}

#[test]
fn reads_a_run_with_its_step_results() {
    let fixture = Fixture::with("workflows/app-1.json", &run_file());
    fixture.write("workflows/implement.yaml", b"name: x");

    let found = fixture.read();

    assert_eq!((found.left.clone(), found.files.len()), (vec![], 1), "YAML files are ignored");
    let [run] = &found.legacy.workflows[..] else { panic!("{found:?}") };
    assert_eq!((run.state, run.steps_done, run.name.as_deref()), (WorkflowState::Blocked, 2, Some("implement-bead")));
    let results: Vec<_> =
        run.results.iter().map(|(name, it)| (name.as_str(), it.success, it.exit_code, it.error.as_deref())).collect();
    assert_eq!(results, [("plan", true, Some(0), None), ("test", false, Some(2), Some("red"))]);
    let before_the_first = json!({ "task_id": "b", "status": "", "current_step": -1 });
    let found = Fixture::with("workflows/b.json", &before_the_first).read();
    let run = &found.legacy.workflows[0];
    assert_eq!((run.state, run.steps_done, run.id.as_str()), (WorkflowState::Running, 0, "b"));
    let planned = json!({ "task_id": "c", "workflow_id": "w", "status": "blocked", "blocked_reason": "no key",
        "completed_at": "2026-01-09T10:00:00Z", "step_outputs": { "x": { "any": 1 } } });
    assert_eq!(Fixture::with("workflows/c.json", &planned).read().legacy.workflows[0].error.as_deref(), Some("no key"));
}

#[test]
fn reads_a_familiar() {
    let found = Fixture::with("familiars/app-3.json", &familiar()).read();

    let [agent] = &found.legacy.agents[..] else { panic!("{found:?}") };
    assert_eq!((agent.task.as_str(), agent.state, agent.pid), ("app-3", AgentState::Running, Some(99)));
    assert_eq!(agent.worktree.as_deref(), Some("/p/.coven/worktrees/app-3"));
    assert_eq!(agent.started_at, Some(Timestamp::from_millis(1_767_952_801_500)));
    for (status, state) in [
        ("working", AgentState::Running),
        ("merging", AgentState::Running),
        ("complete", AgentState::Completed),
        ("failed", AgentState::Failed),
    ] {
        let found = Fixture::with("familiars/a.json", &json!({ "taskId": "a", "status": status })).read();
        assert_eq!(found.legacy.agents[0].state, state, "{status}");
        let mtime = found.legacy.agents[0].source.modified_at;
        assert_eq!(import_all(&found).agents[0].created_at, mtime, "no recorded time: the file time is used");
    }
}

#[test]
fn reads_both_formats_of_a_question() {
    let found = Fixture::with("questions/q-1.json", &question_file()).read();
    let [question] = &found.legacy.questions[..] else { panic!("{found:?}") };
    assert_eq!(
        (question.text.as_str(), question.answer.as_deref(), question.options.len()),
        ("Which one?", Some("b"), 2)
    );
    assert!(question.is_answered);
    let planned = json!({ "id": "x", "task_id": "app-1", "agent_id": "y", "type": "decision", "prompt": "Continue?",
        "status": "pending", "created_at": "2026-01-09T10:00:00Z" });
    let found = Fixture::with("questions/x.json", &planned).read();
    assert!(!found.legacy.questions[0].is_answered);
    let answered = json!({ "id": "x", "task_id": "t", "prompt": "?", "status": "resolved", "response": "yes",
        "responded_at": "2026-01-09T10:00:00Z" });
    assert!(Fixture::with("questions/x.json", &answered).read().legacy.questions[0].is_answered);
    let unknown_status = json!({ "id": "x", "task_id": "t", "prompt": "?", "status": "lost" });
    assert_eq!(Fixture::with("questions/x.json", &unknown_status).left().len(), 1);
}

#[test]
fn invalid_items_are_reported_and_the_others_imported() {
    let state = json!({ "tasks": [
        { "id": "good", "title": "Good", "status": "open" },
        { "id": "odd", "status": "sleeping" },
        { "title": "no id" },
        { "id": "half", "status": "open", "priority": "high", "created_at": "yesterday", "labels": "ui", "title": ["x"] },
        { "id": "low", "status": "open", "priority": 9 },
        "text", 7, null
    ], "agents": { "odd": { "status": "dancing" }, "x": 3 }, "workflows": 1 });
    let fixture = Fixture::with("state.json", &state);

    let found = fixture.read();

    let ids: Vec<&str> = found.legacy.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["good", "half", "low"]);
    assert_eq!(found.legacy.unparsed_tasks.iter().collect::<Vec<_>>(), ["odd"]);
    let whats: Vec<String> = fixture.left().into_iter().map(|(what, _)| what).collect();
    let expected = [
        "task odd",
        "a task",
        "task half: title",
        "task half: priority",
        "task half: labels",
        "task half: created_at",
        "task low",
        "a task",
        "a task",
        "a task",
        "agent of odd",
        "agent of x",
        "workflows",
    ];
    assert_eq!(whats, expected);
}

#[test]
fn unknown_formats_are_reported() {
    for (name, content) in [
        ("state.json", json!([])),
        ("state.json", json!("text")),
        ("state.json", json!({ "other": 1 })),
        ("state.json", json!({ "tasks": "none" })),
        ("workflows/a.json", json!([1])),
        ("workflows/a.json", json!({ "status": "running" })),
        ("workflows/a.json", json!({ "task_id": "a", "status": "paused" })),
        ("familiars/a.json", json!({ "status": "working" })),
        ("questions/a.json", json!({ "id": "a", "task_id": "t" })),
    ] {
        let left = Fixture::with(name, &content).read().left;
        assert_eq!(left.len(), 1, "{name} {content}: {left:?}");
        assert_eq!(left[0].file, name);
    }
    assert!(Fixture::with("state.json", &json!({ "tasks": 1 })).read().legacy.is_task_list_partial);
}

#[test]
fn a_file_truncated_anywhere_is_reported_and_not_imported() {
    let files = [
        ("state.json", daemon_state()),
        ("workflows/a.json", run_file()),
        ("familiars/a.json", familiar()),
        ("questions/a.json", question_file()),
        ("session.json", json!({ "status": "active", "sessionId": "s" })),
    ];
    for (name, content) in files {
        let text = content.to_string();
        let fixture = Fixture::new();
        for end in 0..text.len() {
            fixture.write(name, &text.as_bytes()[..end]);
            let found = fixture.read();
            let reported = [found.left, found.leftovers].concat();
            assert_eq!((reported.len(), found.files.len()), (1, 0), "{name} truncated at {end}");
            assert!(reported[0].why.contains("line 1"), "{reported:?}");
            assert_eq!(found.legacy.is_task_list_partial, name == "state.json");
        }
    }
}

#[test]
fn a_file_with_any_changed_byte_never_causes_a_panic() {
    let files: [(Value, Take); 4] = [
        (daemon_state(), state::take),
        (run_file(), workflow::take),
        (familiar(), agent::take_familiar),
        (question_file(), question::take),
    ];
    for (content, take) in files {
        let text = content.to_string().into_bytes();
        for at in 0..text.len() {
            for byte in [b'"', b'9', 0xff] {
                let mut broken = text.clone();
                broken[at] = byte;
                let Ok(value) = serde_json::from_slice(&broken) else { continue };
                let mut found = LegacyFindings::default();
                take(&value, &Source::default(), &mut found.legacy, &mut found.left);
                import(&found.legacy, &Known::default());
            }
        }
    }
}

#[test]
fn temporary_files_are_reported_and_complete_files_imported() {
    let fixture = Fixture::with("workflows/app-1.json", &run_file());
    for name in [
        "state.json.tmp",
        "session.json.4711.tmp",
        "workflows/app-1.json.tmp",
        "familiars/a.json.tmp-17",
        "questions/a.b.json.tmp",
    ] {
        fixture.write(name, b"{\"task_id\":");
    }
    // Files of this coven, and files of earlier imports.
    fixture.write("config.json.tmp", b"{");
    fixture.write("workflows/app-0.json.migrated", b"{}");
    fixture.write("workflows/app-0.json.migrated-2", b"{}");

    let found = fixture.read();

    let left: Vec<(&str, &str)> = found.leftovers.iter().map(|it| (it.file.as_str(), it.why.as_str())).collect();
    let expected = [
        ("session.json.4711.tmp", "incomplete file; only a complete session.json is imported"),
        ("state.json.tmp", "incomplete file; only a complete state.json is imported"),
        ("familiars/a.json.tmp-17", "incomplete file; only a complete a.json is imported"),
        ("workflows/app-1.json.tmp", "incomplete file; only a complete app-1.json is imported"),
        ("questions/a.b.json.tmp", "incomplete file; only a complete a.b.json is imported"),
    ];
    assert_eq!(left, expected);
    let files: Vec<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!((files, found.legacy.workflows.len()), (vec!["workflows/app-1.json"], 1));
}

#[test]
fn a_session_is_reported_with_its_status_and_branch() {
    let ended = "sessions are not imported; this one ended with its process";
    for (session, what, why) in [
        (
            json!({ "status": "active", "featureBranch": "next", "sessionId": "s-1" }),
            "session s-1",
            format!(
                "{ended}; its status was active; its work is on branch next: \
                 to base a task on it, run `coven task edit ID --base next`"
            ),
        ),
        (
            json!({ "status": "inactive", "featureBranch": null, "sessionId": "s-1" }),
            "session s-1",
            format!("{ended}; its status was inactive"),
        ),
        (json!({ "status": "dozing" }), "the file", format!("{ended}; its status was dozing")),
        (json!({ "user": 1 }), "the file", "unknown format".to_owned()),
        (json!([1]), "the file", "expected an object, not a list".to_owned()),
    ] {
        let fixture = Fixture::with("session.json", &session);
        let found = fixture.read();
        let leftovers: Vec<(String, String)> = found.leftovers.into_iter().map(|it| (it.what, it.why)).collect();
        assert_eq!(leftovers, [(what.to_owned(), why)], "{session}");
        assert_eq!(found.legacy, Legacy::default(), "a session is not imported");
    }
}

#[test]
fn links_folders_and_fifos_are_reported_and_do_not_block() {
    let fixture = Fixture::new();
    fixture.write("elsewhere", daemon_state().to_string().as_bytes());
    let path = |name: &str| fixture.home.join(name);
    symlink(path("elsewhere"), path("state.json")).expect("disk has space");
    fs::create_dir_all(path("workflows/a.json")).expect("disk has space");
    fs::create_dir_all(path("questions")).expect("disk has space");
    let made = std::process::Command::new("mkfifo").arg(path("questions/a.json")).status().expect("mkfifo runs");
    assert!(made.success());
    fixture.write("familiars", b"not a folder");

    let found = fixture.read();

    let mut left: Vec<(&str, &str)> = found.left.iter().map(|it| (it.file.as_str(), it.why.as_str())).collect();
    let (folder, why) = left.remove(1);
    assert!(folder == "familiars" && why.starts_with("cannot be read"), "{why}");
    let expected = [
        ("state.json", "a symbolic link"),
        ("workflows/a.json", "a folder, not a regular file"),
        ("questions/a.json", "a fifo, not a regular file"),
    ];
    assert_eq!((left, found.files.len()), (expected.to_vec(), 0));
}

#[test]
fn a_file_that_is_too_large_is_reported() {
    let fixture = Fixture::new();
    fixture.write("state.json", b"{}");
    let file = File::options().write(true).open(fixture.home.join("state.json")).expect("writable");
    file.set_len(LEGACY_FILE.bytes + 1).expect("sparse file");
    assert_eq!(fixture.left(), [("the file".to_owned(), "larger than 16 MiB".to_owned())]);
}

#[test]
fn a_renamed_file_does_not_replace_an_earlier_one() {
    let fixture = Fixture::with("workflows/a.json", &run_file());
    fixture.write("workflows/a.json.migrated", b"older");
    let file = fixture.read().files.remove(0);
    assert_eq!(file.aside_name(), "workflows/a.json.migrated-2");

    assert_eq!(file.rename_imported(), Ok(Some("workflows/a.json.migrated-2".to_owned())));

    assert_eq!(file.rename_imported(), Ok(None), "the file no longer exists");
    assert_eq!(fs::read(fixture.home.join("workflows/a.json.migrated")).expect("backup exists"), b"older");
    assert_eq!(fixture.read(), LegacyFindings::default());
    assert!(!is_in(&fixture.home));
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_renamed() {
    let fixture = Fixture::with("workflows/a.json", &run_file());
    let file = fixture.read().files.remove(0);
    fixture.write("workflows/a.json", b"{\"task_id\":\"newer\"}");

    let left = file.rename_imported().expect_err("file changed");

    let source = Source { file: "workflows/a.json".into(), ..Source::default() };
    assert_eq!(left.file, source.file);
    assert!(fixture.home.join("workflows/a.json").exists());
}

#[test]
fn times_are_read_in_all_formats() {
    let read = |value: Value| {
        let found = Fixture::with("familiars/a.json", &json!({ "taskId": "a", "spawnedAt": value })).read();
        (found.legacy.agents[0].started_at.map(Timestamp::as_millis), found.left.len())
    };
    for same in [
        json!("2026-01-09T10:00:00Z"),
        json!("2026-01-09T11:00:00.000000+01:00"),
        json!(1_767_952_800),
        json!(1_767_952_800.0),
        json!(1_767_952_800_000_i64),
        json!(1_767_952_800_000_000_i64),
        json!(1_767_952_800_000_000_000_i64),
    ] {
        assert_eq!(read(same.clone()), (Some(1_767_952_800_000), 0), "{same}");
    }
    for never in [json!(null), json!(""), json!(0), json!("0001-01-01T00:00:00Z")] {
        assert_eq!(read(never.clone()), (None, 0), "{never}");
    }
    for bad in [json!("soon"), json!(-5), json!(1e300), json!(true), json!([])] {
        assert_eq!(read(bad.clone()), (None, 1), "{bad}");
    }
}
