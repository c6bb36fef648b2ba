//! STORE-02 and STORE-13: state of an older coven is reported, imported once, and never lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use coven_api::migrate::{MigrateCounts, MigrateItemCounts, MigrateRenamed, MigrateResponse};
use coven_testing::{TestHome, check_invariants};
use serde_json::{Value, json};

const PROMPT: &str = "Run `coven migrate` to migrate existing state";

fn write(home: &TestHome, name: &str, content: &str) {
    let path = home.path().join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("disk has space");
    fs::write(path, content).expect("disk has space");
}

/// Writes one record of every kind.
fn leave_old_state(home: &TestHome) {
    // Closed now, because retention would delete a task that was closed long ago.
    let now = coven_holder::clock::now().to_string();
    let state = json!({
        "tasks": [
            { "id": "app-1", "title": "Fix the parser", "description": "All of it.", "status": "in_progress",
              "priority": 1, "type": "bug", "labels": ["ui"], "created_at": "2026-01-09T10:00:00Z" },
            { "id": "app-2", "title": "Then test it", "status": "open", "priority": 2, "type": "task",
              "depends_on": ["app-1"], "created_at": "2026-01-09T10:00:00Z" },
            { "id": "app-3", "title": "Long done", "status": "closed", "created_at": "2026-01-09T10:00:00Z",
              "updated_at": now }
        ],
        "agents": { "app-1": { "task_id": "app-1", "pid": 1, "status": "running", "branch": "coven/app-1",
                               "worktree": "/gone", "started_at": "2026-01-09T10:00:00Z" } }
    });
    write(home, "state.json", &state.to_string());
    let run = json!({ "task_id": "app-1", "workflow_id": "wf-app-1-17", "grimoire_name": "implement-bead",
        "status": "running", "current_step": -1, "completed_steps": {}, "started_at": "2026-01-09T10:00:00Z" });
    write(home, "workflows/app-1.json", &run.to_string());
    let familiar = json!({ "taskId": "app-9", "status": "working", "spawnedAt": 1_767_952_800_000_i64,
        "processInfo": { "pid": 1, "worktreePath": "/gone" } });
    write(home, "familiars/app-9.json", &familiar.to_string());
    let question = json!({ "id": "q-20260109100000-1", "task_id": "app-1", "type": "choice", "text": "Which one?",
        "options": ["a", "b"], "detected_at": "2026-01-09T10:00:00Z", "answer": "b",
        "answered_at": "2026-01-09T10:01:00Z" });
    write(home, "questions/q-20260109100000-1.json", &question.to_string());
}

const ISSUES: &str = "../.beads/issues.jsonl";

/// Writes three issues of the tracker: one that the older daemon had copied, an epic, and a child of it.
fn leave_issues(home: &TestHome) -> String {
    let link = |from: &str, to: &str, sort: &str| json!({ "issue_id": from, "depends_on_id": to, "type": sort });
    let issues = [
        json!({ "id": "app-2", "title": "Then test all of it", "status": "open", "priority": 2, "issue_type": "task",
                "created_at": "2026-01-09T10:00:00Z", "created_by": "ada", "dependencies": [link("app-2", "app-1", "blocks")] }),
        json!({ "id": "app-4", "title": "Everything", "status": "open", "priority": 0, "issue_type": "epic",
                "created_at": "2026-01-09T10:00:00Z", "created_by": "ada", "a field": "that is unknown" }),
        json!({ "id": "app-5", "title": "A part", "status": "open", "priority": 0, "issue_type": "feature",
                "labels": ["ui"], "notes": "Start here.", "created_at": "2026-01-09T10:00:00Z",
                "dependencies": [link("app-5", "app-4", "parent-child"), link("app-5", "app-3", "blocks")] }),
    ];
    let lines: String = issues.iter().map(|issue| format!("{issue}\n")).collect();
    write(home, ISSUES, &lines);
    lines
}

const OLD_FILES: [&str; 4] =
    ["familiars/app-9.json", "questions/q-20260109100000-1.json", "state.json", "workflows/app-1.json"];

const ALL: MigrateCounts = MigrateCounts { tasks: 4, agents: 2, workflows: 1, questions: 1 };

fn migrate(home: &TestHome, args: &[&str]) -> (i32, MigrateResponse) {
    let ran = home.coven(&[&["migrate", "--json"], args].concat());
    let answer = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran.code, answer)
}

fn renamed(answer: &MigrateResponse) -> Vec<String> {
    let mut files: Vec<String> = answer.renamed.iter().map(|it| it.file.clone()).collect();
    files.sort();
    files
}

/// Returns the legacy files and their contents.
fn contents(home: &TestHome) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in ["", "workflows", "familiars", "questions"] {
        let Ok(entries) = fs::read_dir(home.path().join(folder)) else { continue };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let is_old = path.extension().is_some_and(|ending| ending == "json" || ending == "migrated");
            if is_old && path.file_name() != Some("config.json".as_ref()) {
                found.insert(path.clone(), fs::read(path).expect("readable"));
            }
        }
    }
    found
}

fn state(home: &TestHome) -> Value {
    let mut state: Value = home.read("/state");
    // Events of operations change the number.
    state.as_object_mut().expect("an object").remove("event_number");
    state
}

fn exists(home: &TestHome, name: &str) -> bool {
    Path::exists(&home.path().join(name))
}

#[test]
fn store_13_old_state_is_reported_imported_and_renamed() {
    let home = TestHome::new();
    leave_old_state(&home);
    let ran = home.coven(&["daemon", "start"]);
    assert!(ran.stderr.contains(PROMPT), "{ran:?}");
    ran.expect_success();
    let before = contents(&home);

    let (code, answer) = migrate(&home, &[]);

    assert_eq!(
        (code, answer.dry_run, answer.imported, answer.already_present),
        (0, false, ALL, MigrateCounts::default())
    );
    assert_eq!((answer.skipped.clone(), renamed(&answer)), (vec![], OLD_FILES.map(str::to_owned).to_vec()));
    let to = MigrateRenamed { file: "state.json".into(), to: "state.json.migrated".into() };
    assert!(answer.renamed.contains(&to), "{answer:?}");
    // The files are complete.
    let after = contents(&home);
    assert_eq!(after.values().collect::<Vec<_>>(), before.values().collect::<Vec<_>>());
    assert!(after.keys().all(|path| path.extension().is_some_and(|ending| ending == "migrated")), "{after:?}");
    home.stop();
    let ran = home.coven(&["daemon", "start"]);
    assert!(!ran.stderr.contains(PROMPT), "{ran:?}");
    check_invariants(&home);
}

#[test]
fn store_13_imported_records_are_unchanged_and_none_is_running() {
    let home = TestHome::new();
    leave_old_state(&home);
    home.start();

    home.coven(&["migrate"]).expect_success();

    let tasks: Value = home.read("/api/v1/tasks?status=open,in_progress,pending_merge,blocked,closed");
    let mut shown: Vec<(&str, &str)> = tasks["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|task| (task["title"].as_str().expect("text"), task["status"].as_str().expect("text")))
        .collect();
    shown.sort_unstable();
    let expected =
        [("Fix the parser", "blocked"), ("Long done", "closed"), ("Then test it", "open"), ("app-9", "blocked")];
    assert_eq!(shown, expected);
    let found: Value = home.read("/api/v1/tasks?tag=legacy:app-1");
    let task = &found["items"][0];
    assert_eq!(
        (&task["type"], &task["priority"], &task["tags"]),
        (&json!("bug"), &json!(1), &json!(["legacy:app-1", "ui"]))
    );
    let state = state(&home);
    for agent in state["agents"].as_array().expect("a list") {
        assert_eq!(
            (&agent["status"], &agent["error"]),
            (&json!("failed"), &json!("recorded as running when imported"))
        );
    }
    assert_eq!(state["workflows"][0]["status"], "failed");
    let question = &state["questions"][0];
    assert_eq!((&question["status"], &question["answers"][0]["custom_text"]), (&json!("completed"), &json!("b")));
    // The interrupted task can be unblocked and closed. The other task depends on it.
    let id = task["id"].as_str().expect("text");
    home.coven(&["task", "unblock", id]).expect_success();
    home.coven(&["task", "close", id]).expect_success();
    let ready: Value = home.read("/api/v1/tasks?ready=true");
    assert_eq!(ready["items"][0]["title"], "Then test it");
    check_invariants(&home);
}

#[test]
fn store_13_a_dry_run_changes_nothing_and_reports_the_same() {
    let home = TestHome::new();
    leave_old_state(&home);
    home.start();
    let (files, before) = (contents(&home), state(&home));

    let (code, answer) = migrate(&home, &["--dry-run"]);

    assert_eq!((code, answer.dry_run, answer.imported), (0, true, ALL));
    assert_eq!((contents(&home), state(&home)), (files, before));
    let (_, real) = migrate(&home, &[]);
    assert_eq!(MigrateResponse { dry_run: true, ..real }, answer);
}

#[test]
fn store_13_a_second_run_reports_that_there_is_nothing_to_import() {
    let home = TestHome::new();
    leave_old_state(&home);
    home.start();
    migrate(&home, &[]);
    let (files, before) = (contents(&home), state(&home));

    let output = home.coven(&["migrate"]).expect_success();

    assert_eq!(output, "there is nothing to import\n");
    assert_eq!((contents(&home), state(&home)), (files, before));
    // The same files are not imported again.
    leave_old_state(&home);
    let (code, answer) = migrate(&home, &[]);
    assert_eq!((code, answer.imported, answer.skipped.len()), (0, MigrateCounts::default(), 0));
    assert_eq!(answer.already_present, MigrateCounts { tasks: 3, ..ALL }, "one task was created only for its agent");
    assert!(exists(&home, "state.json.migrated-2") && exists(&home, "state.json.migrated"));
    check_invariants(&home);
}

#[test]
fn store_13_unreadable_files_are_reported_and_kept_until_they_are_fixed() {
    let home = TestHome::new();
    leave_old_state(&home);
    write(&home, "workflows/torn.json", "{\"task_id\":\"app-2\",\n \"work");
    write(&home, "questions/lost.json", r#"{"id":"q","task_id":"unknown","text":"?"}"#);
    write(&home, "workflows/implement.yaml", "not: legacy");
    home.start();

    let (code, answer) = migrate(&home, &[]);

    assert_eq!((code, answer.imported), (1, ALL));
    assert_eq!(renamed(&answer), OLD_FILES);
    let left: Vec<(&str, &str)> = answer.skipped.iter().map(|it| (it.file.as_str(), it.why.as_str())).collect();
    let [(torn, why), (lost, unknown)] = left[..] else { panic!("{left:?}") };
    assert_eq!((torn, lost), ("workflows/torn.json", "questions/lost.json"));
    assert!(why.contains("line 2 column 6"), "{why}");
    assert_eq!(unknown, "task unknown has no known agent");
    assert!(exists(&home, "workflows/torn.json") && exists(&home, "workflows/implement.yaml"));
    // Reported again, and imported after it is fixed.
    let counts = MigrateItemCounts { renamed: 0, ..answer.counts };
    assert_eq!(
        migrate(&home, &[]),
        (1, MigrateResponse { imported: MigrateCounts::default(), renamed: vec![], counts, ..answer })
    );
    write(&home, "workflows/torn.json", r#"{"task_id":"app-2","workflow_id":"wf-app-2-1","status":"cancelled"}"#);
    let (_, fixed) = migrate(&home, &[]);
    assert_eq!((fixed.imported.workflows, renamed(&fixed)), (1, vec!["workflows/torn.json".to_owned()]));
    check_invariants(&home);
}

#[test]
fn store_13_issues_of_the_tracker_are_imported_once_and_its_file_is_unchanged() {
    let home = TestHome::new();
    leave_old_state(&home);
    let lines = leave_issues(&home);
    // The tracker is writing the next issue.
    let (next, half) = (json!({ "id": "app-6", "title": "The next one" }).to_string(), 17);
    write(&home, ISSUES, &format!("{lines}{}", &next[..half]));
    home.start();

    let (code, answer) = migrate(&home, &[]);

    assert_eq!((code, answer.imported), (1, MigrateCounts { tasks: 5, agents: 1, ..ALL }), "{answer:?}");
    let reported: Vec<(&str, &str, &str)> =
        answer.skipped.iter().map(|it| (it.file.as_str(), it.what.as_str(), it.why.as_str())).collect();
    let expected = [
        (ISSUES, "line 4: a task", "truncated JSON at column 17"),
        ("familiars/app-9.json", "agent of app-9", "the task was skipped, or may be in a file that cannot be read"),
    ];
    assert_eq!(reported, expected);
    let of = |id: &str| home.read::<Value>(&format!("/api/v1/tasks?status=open,blocked,closed&tag=legacy:{id}"));
    let id_of = |id: &str| of(id)["items"][0]["id"].clone();
    let part = &of("app-5")["items"][0];
    assert_eq!((&part["parent_id"], &part["depends_on"]), (&id_of("app-4"), &json!([id_of("app-3")])), "{part}");
    assert_eq!((&part["type"], &part["body"]), (&json!("feature"), &json!("Notes: Start here.")));
    let copied = &of("app-2")["items"][0];
    assert_eq!((&copied["title"], &copied["depends_on"]), (&json!("Then test all of it"), &json!([id_of("app-1")])));

    // The complete issue is imported with the agent that needed it. The others are already present.
    let whole = format!("{lines}{next}\n");
    write(&home, ISSUES, &whole);
    let (code, answer) = migrate(&home, &[]);
    assert_eq!((code, answer.imported), (0, MigrateCounts { tasks: 2, agents: 1, workflows: 0, questions: 0 }));
    assert_eq!((answer.already_present.tasks, renamed(&answer)), (3, vec!["familiars/app-9.json".to_owned()]));

    let before = state(&home);
    let (code, answer) = migrate(&home, &[]);
    let nothing = MigrateCounts::default();
    assert_eq!((code, answer.imported, answer.already_present), (0, nothing, MigrateCounts { tasks: 4, ..nothing }));
    assert_eq!((answer.skipped, answer.renamed, state(&home)), (vec![], vec![], before));
    assert_eq!(fs::read_to_string(home.path().join(ISSUES)).expect("readable"), whole);
    assert!(!exists(&home, &format!("{ISSUES}.migrated")));
    home.stop();
    let ran = home.coven(&["daemon", "start"]);
    assert!(!ran.stderr.contains(PROMPT), "{ran:?}");
    check_invariants(&home);
}

#[test]
fn store_13_migrate_succeeds_despite_files_with_nothing_to_import() {
    let home = TestHome::new();
    leave_old_state(&home);
    write(&home, "session.json", r#"{"status":"active","featureBranch":null,"sessionId":"s-1"}"#);
    write(&home, "state.json.tmp", "{\"tasks\":");
    write(&home, "workflows/app-1.json.tmp", "");
    home.start();

    let (code, answer) = migrate(&home, &[]);

    assert_eq!((code, answer.imported, renamed(&answer)), (0, ALL, OLD_FILES.map(str::to_owned).to_vec()));
    assert_eq!(answer.skipped, []);
    let reported: Vec<(&str, &str, &str)> =
        answer.leftovers.iter().map(|it| (it.file.as_str(), it.what.as_str(), it.why.as_str())).collect();
    let ended = "sessions are not imported; this one ended with its process; its status was active";
    let torn = |whole: &str| format!("incomplete file; only a complete {whole} is imported");
    let expected = [
        ("session.json", "session s-1", ended),
        ("state.json.tmp", "the file", &torn("state.json")),
        ("workflows/app-1.json.tmp", "the file", &torn("app-1.json")),
    ];
    assert_eq!(reported, expected);
    assert!(expected.iter().all(|(file, ..)| exists(&home, file)));
    let (code, again) = migrate(&home, &[]);
    assert_eq!((code, again.imported, again.leftovers), (0, MigrateCounts::default(), answer.leftovers));
    let shown = home.coven(&["migrate"]).expect_success();
    assert!(shown.contains("leftover   workflows/app-1.json.tmp: the file: incomplete file"), "{shown}");
}

#[test]
fn migrate_does_not_print_the_notice_to_run_migrate() {
    let home = TestHome::new();
    leave_old_state(&home);

    let ran = home.coven(&["migrate"]);

    assert!(!ran.stderr.contains(PROMPT), "{ran:?}");
    assert!(ran.expect_success().contains("tasks      4 imported"));
}

#[test]
fn store_13_nothing_is_imported_while_the_tasks_cannot_be_read() {
    let home = TestHome::new();
    leave_old_state(&home);
    let whole = fs::read_to_string(home.path().join("state.json")).expect("readable");
    write(&home, "state.json", &whole[..whole.len() / 2]);
    home.start();

    let (code, answer) = migrate(&home, &[]);

    assert_eq!((code, answer.imported, renamed(&answer).len()), (1, MigrateCounts::default(), 0));
    write(&home, "state.json", &whole);
    assert_eq!((migrate(&home, &[]).1.imported, exists(&home, "state.json")), (ALL, false));
    check_invariants(&home);
}

#[test]
fn store_02_records_are_imported_once_if_the_daemon_dies_before_renaming_the_files() {
    let mut home = TestHome::new();
    leave_old_state(&home);
    home.start_with_fault("after_migrate");

    let ran = home.coven(&["migrate"]);

    assert_ne!(ran.code, 0, "{ran:?}");
    home.restart_after_death();
    let interrupted = home.operations("?kind=migrate.run").remove(0);
    let error = interrupted.error.expect("an error");
    assert_eq!((interrupted.status.as_str(), error.code.as_str()), ("failed", "interrupted"));
    assert!(error.message.contains("`coven db import` again"), "{}", error.message);
    let before = state(&home);
    assert_eq!(before["tasks"].as_array().map(Vec::len), Some(4));
    assert!(OLD_FILES.iter().all(|name| exists(&home, name)));
    let (code, answer) = migrate(&home, &[]);
    assert_eq!((code, answer.imported, answer.skipped.len()), (0, MigrateCounts::default(), 0));
    assert_eq!((renamed(&answer), state(&home)), (OLD_FILES.map(str::to_owned).to_vec(), before));
    check_invariants(&home);
}
