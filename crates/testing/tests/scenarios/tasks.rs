//! Tasks from the command line and over REST.

use coven_api::List;
use coven_api::task::TaskRecord;
use coven_domain::Timestamp;
use coven_domain::task::Task;
use coven_testing::{TestHome, samples};
use hyper::Method;
use serde_json::{Value, json};

fn add(home: &TestHome, args: &[&str]) -> String {
    let made: Value = home.json(&[&["task", "add", "--json"], args].concat());
    made["id"].as_str().expect("an id").to_owned()
}

fn titles(home: &TestHome, args: &[&str]) -> Vec<String> {
    let list: List<Value> = home.json(&[&["task", "list", "--json"], args].concat());
    let tasks = list.items;
    tasks.iter().map(|task| task["title"].as_str().expect("a title").to_owned()).collect()
}

#[test]
fn tasks_are_added_listed_changed_and_closed() {
    let home = TestHome::started();
    let parser = add(&home, &["Fix the parser", "--type", "bug", "--priority", "1", "--tag", "core,ui"]);
    let docs = add(&home, &["Write the docs", "--parent", &parser[..8], "--depends-on", &parser[..8]]);
    let first = add(&home, &["First of all", "--priority", "0", "--body", "Now."]);
    assert_eq!(titles(&home, &[]), ["First of all", "Fix the parser", "Write the docs"]);
    assert_eq!(titles(&home, &["--ready"]), ["First of all", "Fix the parser"]);
    assert_eq!(titles(&home, &["--tag", "ui"]), ["Fix the parser"]);
    assert_eq!(titles(&home, &["--parent", &parser]), ["Write the docs"]);
    assert_eq!(titles(&home, &["--type", "bug", "--priority", "1,2"]), ["Fix the parser"]);
    assert_eq!(titles(&home, &["--limit", "1"]), ["First of all"]);
    let tree = home.coven(&["task", "list", "--tree"]).expect_success();
    assert!(tree.contains("  Fix the parser") && tree.contains("    Write the docs"), "{tree}");

    let shown = home.coven(&["task", "show", &docs[..8]]).expect_success();
    assert!(shown.contains(&format!("no: it depends on {parser}, which is open")), "{shown}");
    let closed = home.coven(&["task", "close", &parser[..8], &first[..8], "--reason", "done"]).expect_success();
    assert_eq!(closed.lines().count(), 2);
    assert_eq!(titles(&home, &["--ready"]), ["Write the docs"]);
    assert_eq!(titles(&home, &["--all"]).len(), 3);
    assert_eq!(titles(&home, &["--status", "closed"]), ["First of all", "Fix the parser"]);

    home.coven(&["task", "edit", &docs, "--title", "Docs", "--no-depends-on", "--no-parent", "--harness", "claude"])
        .expect_success();
    let task: Value = home.json(&["task", "show", &docs, "--json"]);
    assert_eq!((&task["title"], &task["depends_on"], &task["parent_id"]), (&json!("Docs"), &json!([]), &Value::Null));
    assert_eq!(task["harness"], "claude");
    assert_eq!(home.read::<Value>(&format!("/api/v1/tasks/{docs}/readiness"))["ready"], true);
    home.coven(&["task", "edit", &docs, "--harness", ""]).expect_success();
    let history = home.json::<List<Value>>(&["task", "history", &docs, "--json"]).items;
    let fields: Vec<&str> = history.iter().filter_map(|it| it["field"].as_str()).collect();
    assert_eq!(fields, ["title", "parent", "depends_on", "title", "parent", "depends_on", "harness", "harness"]);
    assert!(history.iter().all(|it| it["by"] == "user"), "{history:?}");
    assert!(home.coven(&["task", "history", &docs]).expect_success().contains("claude"));
}

#[test]
fn an_invalid_task_is_refused_with_the_reason_and_changes_nothing() {
    let home = TestHome::started();
    let one = add(&home, &["one"]);
    let two = add(&home, &["two", "--depends-on", &one]);
    let three = add(&home, &["three", "--depends-on", &two, "--parent", &two]);
    let before: Value = home.read("/state");
    let assert_refused = |args: &[&str], code: i32, why: &str| {
        let message = home.coven(&[&["task"], args].concat()).expect_failure(code);
        assert!(message.contains(why), "{args:?}: {message}");
    };
    assert_refused(&["add", "a\nb"], 2, "control character");
    assert_refused(&["add", "a\u{202e}b"], 2, "control character");
    assert_refused(&["add", "\u{200b}"], 2, "describe the task in one line");
    assert_refused(&["add", "x", "--priority", "7"], 2, "priority 7");
    assert_refused(&["add", "x", "--type", "chore"], 2, "type: task, bug");
    assert_refused(&["add", "x", "--tag", "a b"], 2, "invalid tag");
    assert_refused(&["add", "x", "--depends-on", "ffff"], 3, "no task has the id \"ffff\"");
    assert_refused(&["edit", &one], 2, "no changes given");
    assert_refused(&["edit", &one, "--depends-on", &three], 2, "depends on");
    assert_refused(&["edit", &one, "--depends-on", &one], 2, "dependency cycle");
    assert_refused(&["edit", &two, "--parent", &three], 2, "is below");
    assert_refused(&["edit", &two, "--parent", &two], 2, "is below");
    assert_refused(&["delete", &one], 4, "depends on it");
    assert_refused(&["delete", &two], 4, "--recursive");
    assert_refused(&["show", "unknown"], 3, "no task has the id");
    assert_refused(&["list", "--status", "asleep"], 2, "status: open");
    let after: Value = home.read("/state");
    assert_eq!(before, after);
    home.coven(&["task", "close", &one]).expect_success();
    assert_refused(&["close", &one], 4, "the task is closed");
    let answer = home.post(&format!("/api/v1/tasks/{one}/close"), &json!({}));
    let message = answer.expect_error(409, "task_conflict");
    assert!(message.contains("closed"), "{message}");
}

#[test]
fn tasks_from_stdin_are_added_together_or_not_at_all() {
    let home = TestHome::started();
    let lines = [
        json!({"ref": "epic", "title": "Release", "type": "epic", "depends_on": ["a", "b"]}),
        json!({"ref": "a", "title": "Build", "parent": "epic"}),
        json!({"ref": "b", "title": "Test", "parent": "epic", "depends_on": ["a"], "priority": 1}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let out = home.coven_with_input(&["task", "add", "--stdin"], input.as_bytes()).expect_success();
    assert_eq!(out.lines().count(), 3, "{out}");
    assert_eq!(titles(&home, &["--ready"]), ["Build"]);
    assert_eq!(titles(&home, &[]), ["Test", "Release", "Build"]);

    let message =
        home.coven_with_input(&["task", "add", "--stdin"], b"{\"title\":\"x\"}\n{\"title\":\"\"}\n").expect_failure(2);
    assert!(message.contains("task 2 of 2") && message.contains("no tasks were created"), "{message}");
    let cycle = b"{\"title\":\"x\",\"ref\":\"x\",\"depends_on\":[\"y\"]}\n{\"title\":\"y\",\"ref\":\"y\",\"depends_on\":[\"x\"]}\n";
    let message = home.coven_with_input(&["task", "add", "--stdin"], cycle).expect_failure(2);
    assert!(message.contains("task 1 of 2") && message.contains("dependency cycle"), "{message}");
    let link = |nth: u32| json!({"title": "x", "ref": nth.to_string(), "parent": ((nth + 1) % 20).to_string()});
    let long: String = (0..20).map(|nth| format!("{}\n", link(nth))).collect();
    let message = home.coven_with_input(&["task", "add", "--stdin"], long.as_bytes()).expect_failure(2);
    assert!(message.contains("task 1 of 20") && message.contains("is below … (12 more) is below \"x\""), "{message}");
    let message = home.coven_with_input(&["task", "add", "--stdin"], b"{\"title\":\"x\"}\nno\n").expect_failure(2);
    assert!(message.contains("line 2 is not a valid task"), "{message}");
    home.coven_with_input(&["task", "add", "--stdin"], b"\n").expect_failure(2);
    assert_eq!(titles(&home, &["--all"]).len(), 3);

    let added =
        home.coven_with_input(&["task", "add", "--stdin", "--json"], b"{\"title\":\"Page\"}\n").expect_success();
    let page: List<TaskRecord> = serde_json::from_str(&added).expect("a page");
    assert_eq!((page.items[0].title.as_str(), page.next), ("Page", None));
}

#[test]
fn a_deleted_task_is_hidden_with_all_subtasks() {
    let home = TestHome::started();
    let top = add(&home, &["top"]);
    let below = add(&home, &["below", "--parent", &top]);
    add(&home, &["leaf", "--parent", &below, "--depends-on", &top]);
    add(&home, &["other"]);
    let deleted: Value = home.json(&["task", "delete", &top, "--recursive", "--json"]);
    assert_eq!(deleted["deleted"].as_array().map(Vec::len), Some(3));
    assert_eq!(titles(&home, &["--all"]), ["other"]);
    home.coven(&["task", "show", &top]).expect_failure(3);
    let listed: Value = home.read("/api/v1/tasks?include_deleted=true");
    assert_eq!(listed["total"], 4);
    let state: Value = home.read("/state");
    assert_eq!(state["tasks"].as_array().map(Vec::len), Some(1));
}

#[test]
fn every_change_has_an_event_with_its_author_that_survives_a_kill() {
    let mut home = TestHome::started();
    home.env.push(("COVEN_SESSION_ID".to_owned(), "1234".to_owned()));
    let id = add(&home, &["one"]);
    home.coven(&["task", "edit", &id, "--priority", "0"]).expect_success();
    home.coven(&["task", "edit", &id, "--priority", "0"]).expect_success();
    home.kill_daemon();
    home.start();
    home.coven(&["task", "close", &id]).expect_success();
    let page: Value = home.json(&["events", "--since", "0", "--json"]);
    let events = page["items"].as_array().expect("a page");
    let changes: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event["kind"].as_str().is_some_and(|kind| kind.starts_with("task.")))
        .map(|event| (event["kind"].as_str().expect("a kind"), event["payload"]["by"].as_str().expect("author")))
        .collect();
    let by = "session:1234";
    assert_eq!(changes, [("task.created", by), ("task.updated", by), ("task.closed", by)]);
}

#[test]
fn a_list_longer_than_a_page_is_complete() {
    let home = TestHome::new();
    let made = |nth: u32| {
        let id = format!("{nth:08x}-0000-4000-a000-{nth:012x}").parse().expect("an id");
        Task::new(id, &format!("task {nth}"), Timestamp::from_millis(nth.into())).expect("a title")
    };
    samples::put_tasks(&home, (0..10_002).map(made));
    home.start();
    let all: Vec<String> = (0..10_002).map(|nth| format!("task {nth}")).collect();
    assert_eq!(titles(&home, &[]), all);
    assert_eq!(titles(&home, &["--limit", "10001"]), all[..10_001]);
    // A deletion between two pages does not shift the rows.
    let first: Value = home.read("/api/v1/tasks?limit=3");
    home.coven(&["task", "delete", "00000001"]).expect_success();
    let second: Value = home.read(&format!("/api/v1/tasks?limit=3&cursor={}", first["next"].as_str().expect("more")));
    assert_eq!((&first["total"], &second["items"][0]["title"]), (&json!(10_002), &json!("task 3")));
    let rest: List<Value> =
        home.json(&["task", "list", "--all", "--json", "--cursor", second["next"].as_str().expect("more")]);
    assert_eq!((&rest.items[0]["title"], rest.items.len(), rest.next), (&json!("task 6"), 9_996, None));
    let all: Vec<u32> = (0..10_002).filter(|nth| *nth != 1).collect();
    let table = home.coven(&["task", "list"]).expect_success();
    let shown: Vec<&str> = table.lines().skip(1).filter_map(|line| line.get(0..8)).collect();
    assert_eq!(shown, all.iter().map(|nth| format!("{nth:08x}")).collect::<Vec<_>>());
    assert_eq!(home.coven(&["task", "list", "--limit", "2"]).expect_success().lines().count(), 3);
    assert_eq!(titles(&home, &["--tag", "none"]), Vec::<String>::new());
    let message = home.coven(&["task", "list", "--limit", "0"]).expect_failure(2);
    assert!(message.contains("limit: must be between 1 and 1000"), "{message}");
}

#[test]
fn a_table_of_tasks_has_the_open_dependencies() {
    let home = TestHome::started();
    let [first, second, third] = ["first", "second", "third"].map(|title| add(&home, &[title]));
    let last = add(&home, &["last", "--tag", "ui", "--depends-on", &format!("{first},{second},{third}")]);
    home.coven(&["task", "close", &second]).expect_success();

    for args in [&["task", "list"][..], &["task", "list", "--all"], &["task", "list", "--tag", "ui"]] {
        let table = home.coven(args).expect_success();
        let line = table.lines().find(|line| line.starts_with(&last[..8])).expect("a line");
        let waits = [&first, &second, &third].map(|id| line.contains(&id[..8]));
        assert_eq!(waits, [true, false, true], "{table}");
    }
    home.get("/api/v1/tasks?brief=true").expect_error(400, "invalid_request");
}

#[test]
fn tasks_can_be_read_and_changed_over_rest() {
    let home = TestHome::started();
    let made = home.post("/api/v1/tasks", &json!({"title": "one", "by": "planner"}));
    assert_eq!(made.status, 201);
    let id = made.json::<Value>()["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/tasks/{id}");
    let patch = |body: Value| home.request(Method::PATCH, &path, Some(body.to_string().into_bytes()));
    assert_eq!(patch(json!({"harness": "claude"})).json::<Value>()["harness"], "claude");
    assert_eq!(patch(json!({"harness": null})).json::<Value>()["harness"], Value::Null);
    patch(json!({"status": "closed"})).expect_error(400, "invalid_request");
    patch(json!({"priority": 9})).expect_error(400, "invalid_task");
    patch(json!({"by": ""})).expect_error(400, "invalid_request");
    home.post("/api/v1/tasks", &json!({"title": "x", "depends_on": ["ffffffff"]})).expect_error(404, "task_not_found");
    home.get("/api/v1/tasks?limit=0").expect_error(400, "invalid_request");
    home.get("/api/v1/tasks?cursor=2.x").expect_error(400, "invalid_request");
    let history: Value = home.read(&format!("{path}/history?limit=1"));
    assert_eq!((&history["items"][0]["field"], &history["items"][0]["by"]), (&json!("title"), &json!("planner")));
    let rest: Value = home.read(&format!("{path}/history?cursor={}", history["next"].as_str().expect("a cursor")));
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(2));
}

#[test]
fn store_17_store_18_closed_tasks_are_deleted_by_their_periods_and_a_dry_run_deletes_nothing() {
    let home = TestHome::new();
    home.configure(json!({"store": {"taskRetentionDays": null, "taskSoftDeleteDays": null}}));
    home.start();
    let (one, two) = (add(&home, &["one"]), add(&home, &["two"]));
    home.coven(&["task", "close", &one]).expect_success();
    let kept: Value = home.json(&["db", "sweep", "--json"]);
    assert_eq!((&kept["dry_run"], &kept["tasks_soft_deleted"]), (&json!(false), &json!([])), "never means never");
    let text = home.coven(&["db", "sweep", "--dry-run"]).expect_success();
    assert!(text.ends_with("nothing was deleted: --dry-run\n"), "{text}");
    // New periods can be tried with a daemon that still uses the old ones, and without a daemon.
    home.configure(json!({"store": {"taskRetentionDays": 0, "taskSoftDeleteDays": 0}}));
    for _ in 0..2 {
        let previewed: Value = home.json(&["db", "sweep", "--dry-run", "--json"]);
        assert_eq!(previewed["tasks_soft_deleted"], json!([one]));
        assert_eq!(home.json::<Value>(&["retention", "--dry-run", "--json"]), previewed, "the earlier name");
        home.stop();
    }
    assert!(!home.path().join("coven.sock").exists(), "no daemon was started that would sweep");
    // Now the periods apply.
    let went: Value = home.json(&["db", "sweep", "--json"]);
    assert_eq!((&went["tasks_soft_deleted"], &went["dry_run"]), (&json!([one]), &json!(false)));
    home.coven(&["db", "sweep"]).expect_success();
    let listed: Value = home.read("/api/v1/tasks?include_deleted=true");
    assert_eq!((&listed["total"], &listed["items"][0]["id"]), (&json!(1), &json!(two)));
}
