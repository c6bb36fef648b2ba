//! Every list is paged: following `next` returns each row once, even while rows are added.

use std::collections::BTreeSet;
use std::fs;

use coven_api::list::List;
use coven_api::routes::{
    ALL, Endpoint, ListAgents, ListConversations, ListHarnesses, ListInbox, ListOperations, ListQuestions, ListRepos,
    ListSessions, ListSteps, ListTaskHistory, ListTaskRuns, ListTasks, ListWorkflows, ReadState,
};
use coven_domain::task::TaskState;
use coven_testing::TestHome;
use serde_json::{Value, json};

use crate::chat::{ECHO, file, home_with, spawn};

const LIMIT: usize = 3;

/// Reads page after page, and calls `add` after the first. Returns the value of `key` of each row.
#[track_caller]
fn walk(key: &str, mut page: impl FnMut(Option<&str>) -> List<Value>, mut add: impl FnMut()) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut cursor: Option<String> = None;
    for number in 0..100 {
        let page = page(cursor.as_deref());
        assert!(page.items.len() <= LIMIT, "{page:?}");
        assert!(page.next.is_none() || page.items.len() == LIMIT, "only the last page is short: {page:?}");
        found.extend(page.items.iter().map(|row| row[key].to_string().trim_matches('"').to_owned()));
        if number == 0 {
            add();
        }
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
    panic!("endless list: {found:?}")
}

/// Walks a list of the API.
#[track_caller]
fn walk_api(home: &TestHome, path: &str, key: &str, add: impl FnMut()) -> Vec<String> {
    let join = if path.contains('?') { '&' } else { '?' };
    let page = |cursor: Option<&str>| {
        let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        home.read(&format!("{path}{join}limit={LIMIT}{cursor}"))
    };
    walk(key, page, add)
}

/// Walks a list that a verb prints.
#[track_caller]
fn walk_verb(home: &TestHome, verb: &[&str], key: &str, add: impl FnMut()) -> Vec<String> {
    let page = |cursor: Option<&str>| {
        let mut args = [verb, &["--json", "--limit", "3"]].concat();
        args.extend(cursor.iter().flat_map(|cursor| ["--cursor", *cursor]));
        home.json(&args)
    };
    walk(key, page, add)
}

/// Asserts that every expected row was found and that no row was found twice.
#[track_caller]
fn assert_each_once(found: &[String], expected: &[String]) {
    let distinct: BTreeSet<&String> = found.iter().collect();
    assert_eq!(distinct.len(), found.len(), "duplicate row: {found:?}");
    let missing: Vec<_> = expected.iter().filter(|id| !distinct.contains(id)).collect();
    assert!(missing.is_empty(), "{missing:?} are missing in {found:?}");
}

fn ask(home: &TestHome) -> String {
    let question = json!([{"title": "T", "prompt": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]);
    home.coven(&["ask", &question.to_string(), "--no-wait"]).expect_success().trim().to_owned()
}

#[test]
fn question_sets_are_paged_with_and_without_a_daemon() {
    let home = TestHome::new();
    let mut sets: Vec<String> = (0..7).map(|_| ask(&home)).collect();

    let mut added = Vec::new();
    let found = walk_verb(&home, &["questions"], "id", || added.push(ask(&home)));
    sets.append(&mut added);
    assert_eq!(found, sets, "oldest first, and the set that was added");

    sets.iter().take(5).for_each(|id| drop(home.coven(&["answer", id, "--option", "A"]).expect_success()));
    let found = walk_verb(&home, &["questions", "history"], "id", || {
        home.coven(&["answer", &sets[5], "--option", "B"]).expect_success();
    });
    assert_each_once(&found, &sets[..5]);
    assert!(!found.contains(&sets[5]), "the newest come first");
    assert_each_once(&walk_verb(&home, &["questions", "list", "--all"], "id", || {}), &sets);
    home.coven(&["questions", "--cursor", "x"]).expect_failure(2);

    home.start();
    let mut waiting = vec![sets[6].clone(), sets[7].clone()];
    waiting.extend((0..3).map(|_| ask(&home)));
    for path in [ListQuestions::ROUTE.path, ListInbox::ROUTE.path] {
        let found = walk_api(&home, path, "id", || added.push(ask(&home)));
        waiting.append(&mut added);
        assert_eq!(found, waiting, "{path}");
    }
    assert_eq!(walk_verb(&home, &["inbox"], "id", || {}), waiting);
}

#[test]
fn the_record_of_a_question_set_is_the_same_from_the_verb_and_from_the_daemon() {
    let home = TestHome::started();
    let id = ask(&home);
    let shown: Value = home.json(&["questions", "show", &id, "--json"]);
    assert_eq!(shown, home.read::<Value>(&format!("{}/{id}", ListQuestions::ROUTE.path)));
    home.coven(&["answer", &id, "--option", "A"]).expect_success();
    let answered: Value = home.json(&["questions", "answers", &id, "--json"]);
    assert_eq!(answered["answers"], json!([{"question_index": 0, "selected_options": ["A"], "custom_text": null}]));
}

#[test]
fn tasks_history_runs_and_agents_are_paged() {
    let home = TestHome::in_repository(json!({"scheduler": {"maxConcurrentAgents": 20}}));
    home.start();
    let add = || home.add_task("A task", "commit a.txt", &[]);
    let tasks: Vec<String> = (0..5).map(|_| add()).collect();
    tasks.iter().for_each(|id| home.start_task(id));
    tasks.iter().for_each(|id| drop(home.wait_for_task(id, TaskState::PendingMerge)));
    let ids = |rows: Vec<Value>| rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect();
    let all_agents = format!("{}?all=true", ListAgents::ROUTE.path);
    let runs: Vec<String> = ids(home.items(&["workflow", "list", "--json"]));
    let agents: Vec<String> = ids(home.read::<List<Value>>(&all_agents).items);
    assert_eq!((runs.len(), agents.len()), (5, 5));

    assert_each_once(&walk_verb(&home, &["task", "list"], "id", || drop(add())), &tasks);
    assert_each_once(&walk_verb(&home, &["inbox"], "id", || {}), &tasks);
    let start_another = || home.start_task(&add());
    assert_each_once(&walk_api(&home, ListWorkflows::ROUTE.path, "id", start_another), &runs);
    assert_each_once(&walk_api(&home, &all_agents, "id", start_another), &agents);
    assert_each_once(&walk_verb(&home, &["workflow", "list"], "id", || {}), &runs);

    let task = &tasks[0];
    let edit = |title: &str| drop(home.coven(&["task", "edit", task, "--title", title]).expect_success());
    (0..5).for_each(|number| edit(&number.to_string()));
    let path = ListTaskHistory::of(task).target().to_owned();
    let changes: Vec<Value> = home.read::<List<Value>>(&path).items;
    let numbers: Vec<String> = changes.iter().map(|change| change["number"].to_string()).collect();
    let found = walk_api(&home, &path, "number", || edit("last"));
    assert_each_once(&found, &numbers);
    assert_eq!(found.len(), numbers.len() + 1, "the change that was made meanwhile is at the end");
}

#[test]
fn repositories_and_harnesses_are_paged() {
    let home = TestHome::started_with_agent(json!({}));
    let repos: Vec<String> = (0..7).map(|number| home.make_repo(&format!("repo{number}")).id.to_string()).collect();
    let found = walk_api(&home, ListRepos::ROUTE.path, "id", || drop(home.make_repo("added")));
    assert_each_once(&found, &repos);
    assert_each_once(&walk_verb(&home, &["repo", "list"], "id", || {}), &repos);

    let all: List<Value> = home.read(ListHarnesses::ROUTE.path);
    let all: Vec<String> = all.items.iter().map(|it| it["id"].as_str().expect("an id").to_owned()).collect();
    assert!(all.len() > LIMIT, "{all:?}");
    assert_eq!(walk_api(&home, ListHarnesses::ROUTE.path, "id", || {}), all);
    assert_eq!(walk_verb(&home, &["harness", "list"], "id", || {}), all);
}

#[test]
fn conversations_that_cannot_be_read_are_on_pages_too() {
    let home = home_with(ECHO);
    home.start();
    let mut expected = Vec::new();
    for nth in 0..4 {
        let id = format!("talk-{nth}");
        spawn(&home, &["-i", "--session", &id], "hello\n").expect_success();
        expected.push(id);
    }
    for nth in 0..4 {
        let id = format!("broken-{nth}");
        fs::write(file(&home, &id), "not JSON\n{}\n").expect("room on disk");
        expected.push(id);
    }
    let page = |cursor: Option<&str>| {
        let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page: Value = home.read(&format!("{}?limit={LIMIT}{cursor}", ListConversations::ROUTE.path));
        assert_eq!(page["total"], 4);
        let rows = ["items", "broken"].map(|key| page[key].as_array().expect("a list").clone());
        List { items: rows.concat(), next: page["next"].as_str().map(str::to_owned), total: None }
    };
    let found = walk("id", page, || {});
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert_each_once(&found, &expected);
}

#[test]
fn a_cursor_is_refused_by_every_list_but_its_own() {
    let home = TestHome::in_repository(json!({"scheduler": {"maxConcurrentAgents": 20}}));
    home.start();
    (0..2).for_each(|_| drop(ask(&home)));
    let tasks: Vec<String> = (0..2).map(|_| home.add_task("A task", "commit a.txt", &["--tag", "core"])).collect();
    tasks.iter().for_each(|id| home.start_task(id));
    tasks.iter().for_each(|id| drop(home.wait_for_task(id, TaskState::PendingMerge)));
    (0..2).for_each(|_| drop(home.coven(&["db", "sweep", "--dry-run"]).expect_success()));
    let lists = [
        ListSessions::ROUTE.path.to_owned(),
        ListTasks::ROUTE.path.to_owned(),
        format!("{}?tag=core", ListTasks::ROUTE.path),
        format!("{}?status=open,pending_merge", ListTasks::ROUTE.path),
        ListTaskHistory::of(&tasks[0]).target().to_owned(),
        ListTaskHistory::of(&tasks[1]).target().to_owned(),
        ListTaskRuns::of(&tasks[0]).target().to_owned(),
        ListWorkflows::ROUTE.path.to_owned(),
        ListSteps::of(&tasks[0]).target().to_owned(),
        format!("{}?all=true", ListAgents::ROUTE.path),
        ListInbox::ROUTE.path.to_owned(),
        format!("{}?all=true", ListInbox::ROUTE.path),
        ListQuestions::ROUTE.path.to_owned(),
        ListOperations::ROUTE.path.to_owned(),
        ListHarnesses::ROUTE.path.to_owned(),
        ListRepos::ROUTE.path.to_owned(),
        ListConversations::ROUTE.path.to_owned(),
        ReadState::ROUTE.path.to_owned(),
    ];
    let with = |path: &str, rest: &str| format!("{path}{}{rest}", if path.contains('?') { '&' } else { '?' });
    let next = |path: &String| home.read::<Value>(&with(path, "limit=1"))["next"].as_str().map(str::to_owned);
    let cursors: Vec<Option<String>> = lists.iter().map(next).collect();
    assert!(cursors.iter().flatten().count() >= 14, "{cursors:?}");

    for (list, own) in lists.iter().zip(&cursors) {
        for (other, cursor) in lists.iter().zip(&cursors).filter(|(_, cursor)| *cursor != own) {
            let Some(cursor) = cursor else { continue };
            let message = home.get(&with(list, &format!("cursor={cursor}"))).expect_error(400, "invalid_request");
            assert!(message.starts_with("cursor: "), "{list} with the cursor of {other}: {message}");
        }
        if let Some(own) = own {
            assert_eq!(home.get(&with(list, &format!("cursor={own}"))).status, 200, "{list}");
        }
    }
}

#[test]
fn every_list_takes_limit_and_cursor() {
    // The AGENT dialect has the lists of its specification.
    let is_ours = |path: &str| path.starts_with("/api/v1") || !path.starts_with("/api");
    for route in ALL.iter().filter(|route| route.name.starts_with("List") && is_ours(route.path)) {
        let parameters = (route.parameters)();
        assert!(parameters.contains(&"limit") && parameters.contains(&"cursor"), "{}", route.name);
    }
}

#[test]
fn the_tasks_of_a_bulk_add_are_on_pages_and_the_operation_stays_small() {
    const COUNT: usize = 1500;
    let home = TestHome::started();
    let body = "x".repeat(200);
    let tasks: Vec<Value> =
        (0..COUNT).map(|nth| json!({"title": format!("task {nth}"), "body": body, "priority": nth % 5})).collect();
    let lines: Vec<String> = tasks.iter().map(Value::to_string).collect();
    let titles = |items: &[Value]| -> Vec<String> {
        items.iter().map(|task| task["title"].as_str().expect("a title").to_owned()).collect()
    };
    let expected = titles(&tasks);

    let printed =
        home.coven_with_input(&["task", "add", "--stdin", "--json"], lines.join("\n").as_bytes()).expect_success();
    let printed: List<Value> = serde_json::from_str(&printed).expect("a page");
    assert_eq!((titles(&printed.items), printed.next), (expected.clone(), None), "all of them, in their order");

    let operations: List<Value> = home.read(ListOperations::ROUTE.path);
    let operation = &operations.items[0];
    assert!(operation.to_string().len() < 128 << 10, "{} bytes", operation.to_string().len());
    let mut found = operation["result"]["items"].as_array().expect("the first tasks").clone();
    assert!((1..COUNT).contains(&found.len()));
    assert_eq!(operation["result"]["total"], COUNT);
    let mut next = operation["result"]["next"].as_str().map(str::to_owned);
    let id = operation["id"].as_str().expect("an id");
    while let Some(cursor) = next {
        let path = format!("{}?operation={id}&limit=1000&cursor={cursor}", ListTasks::ROUTE.path);
        let page: List<Value> = home.read(&path);
        found.extend(page.items);
        next = page.next;
    }
    assert_eq!(titles(&found), expected);
    home.get(&format!("{}?operation=x", ListTasks::ROUTE.path)).expect_error(400, "invalid_request");
}
