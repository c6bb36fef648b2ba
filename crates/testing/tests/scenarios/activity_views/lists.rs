//! `coven why`, `show` and the lists.

use coven_domain::activity::Activity;
use coven_testing::records::SessionRecord;
use coven_testing::{TestHome, eventually, wait_until};
use serde_json::{Value, json};

use super::{converse, wait_for};

#[test]
fn why_explains_the_activity_with_its_evidence() {
    let home = TestHome::started_with_agent(json!({}));
    let id = converse(&home, "first", "permit cargo test");
    wait_for(&home, &id, Activity::Permission);

    let text = home.coven(&["why", "first"]).expect_success();
    let evidence: Value = home.json(&["why", &id, "--json"]);

    for part in [
        "activity  permission for ",
        "detail    wants to run: cargo test\n",
        "source    protocol\n",
        "unseen    yes",
        "hooks     none",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    let rows: Vec<&str> = text.lines().rev().take(2).collect();
    assert!(rows[0].contains("asks for permission") && rows[0].ends_with("wants to run: cargo test"), "{text}");
    assert!(rows[1].contains("works") && rows[1].contains("changed"), "{text}");
    assert_eq!((&evidence["activity"], &evidence["source"]), (&json!("permission"), &json!("protocol")));
    assert_eq!(evidence["observations"].as_array().map(Vec::len), Some(2), "{evidence}");
    let shown = home.coven(&["show", &id]).expect_success();
    assert!(shown.contains("activity  permission for ") && shown.contains(": wants to run: cargo test\n"), "{shown}");

    home.kill(&id);
    let ended = home.coven(&["why", &id]).expect_success();
    assert!(ended.contains("activity  none: the session is not running"), "{ended}");
    assert!(ended.contains("asks for permission"), "the evidence stays: {ended}");
    home.coven(&["why", "nothing"]).expect_failure(3);
}

#[test]
fn sessions_that_need_the_user_come_first_and_can_be_filtered() {
    let home = TestHome::started_with_agent(json!({}));
    let asks = converse(&home, "asks", "permit touch x");
    wait_for(&home, &asks, Activity::Permission);
    let rests = converse(&home, "rests", "hello");
    wait_for(&home, &rests, Activity::Idle);
    let works = converse(&home, "works", "hang");
    wait_for(&home, &works, Activity::Working);
    let ended = home.run_to_end("exit 0").id;

    let table = home.coven(&["sessions"]).expect_success();
    let ids: Vec<&str> = table.lines().skip(1).map(|line| &line[..8]).collect();
    assert_eq!(ids, [&asks[..8], &works[..8], &rests[..8], &ended[..8]], "{table}");
    let row = table.lines().nth(1).expect("a row");
    assert!(row.contains("permission ") && row.contains("wants to run: touch x"), "{row}");
    assert!(table.lines().nth(3).is_some_and(|row| row.contains(", unseen")), "{table}");

    let found = |filter: &str| -> Vec<String> {
        let records: Vec<SessionRecord> = home.items(&["sessions", "--json", "--activity", filter]);
        records.into_iter().map(|it| it.id).collect()
    };
    assert_eq!(found("permission"), std::slice::from_ref(&asks));
    assert_eq!(found("idle,permission"), [rests.clone(), asks.clone()], "newest first");
    assert_eq!(found("question"), [""; 0]);
    let wrong = home.coven(&["sessions", "--activity", "asleep"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("working, permission, question, idle, limited, unknown"), "{}", wrong.stderr);
    let refused = home.get("/api/v1/sessions?activity=asleep").expect_error(400, "invalid_request");
    assert!(refused.contains("permission"), "{refused}");
    let plain = home.coven(&["sessions", "--activity", "permission", "--harness", "gemini"]).expect_success();
    assert_eq!(plain.lines().count(), 2, "{plain}");
}

#[test]
fn the_board_shows_what_the_agent_of_a_task_does() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let task = home.add_task("Works on it", "hang", &[]);
    home.start_task(&task);
    home.wait_for_agent(&task);

    let text = home.coven(&["board", "--once"]).expect_success();
    let board: Value = home.json(&["board", "--json"]);

    let head = text.lines().find(|line| line.contains("LAST LINE")).expect("a table");
    assert!(head.contains("ACTIVITY") && head.contains("DETAIL"), "{text}");
    assert!(text.lines().any(|line| line.contains("Works on it") && line.contains("unknown")), "{text}");
    assert_eq!(board["in_progress"][0]["activity"], "unknown");
}

#[test]
fn the_board_prints_the_tasks_that_need_the_user_first() {
    let home = TestHome::with_agent(json!({}));
    home.git("git init -q -b main; git config user.name me; git config user.email me@here");
    home.git("echo a > a.txt; echo '/.coven/' > .git/info/exclude; git add -A; git commit -qm first");
    home.start();
    let quiet = home.coven(&["board", "--once"]).expect_success();
    assert!(quiet.starts_with("open 0\n"), "{quiet}");
    let step = |script: &str| {
        format!("steps:\n  - {{ name: work, type: agent, harness: gemini, channel: acp, prompt: '{script}' }}\n")
    };
    let [blocked, working] = ["blocked", "works"].map(|workflow| home.add_task_for(workflow, &step("hang")));
    for task in [&blocked, &working] {
        home.start_task(task);
        home.wait_for_agent(task);
    }
    home.coven(&["task", "block", &blocked, "--reason", "no key"]).expect_success();
    let asking = home.add_task_for("asks", &step("permit touch x"));
    home.start_task(&asking);
    let request =
        eventually("the agent asks", || home.inbox("").into_iter().find(|it| it.task_id == asking.parse().ok()));
    let session = request.session_id.expect("a session").to_string();
    wait_for(&home, &session, Activity::Permission);
    wait_until("the record asks", || home.session(&session).activity.as_deref() == Some("permission"));

    let text = home.coven(&["board", "--once"]).expect_success();

    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "needs you 2", "{text}");
    assert!(lines[2].starts_with(&asking[..8]) && lines[2].contains("wants to run: touch x"), "{text}");
    assert!(lines[3].starts_with(&blocked[..8]) && lines[3].contains("no key"), "{text}");
    assert_eq!(lines[4..6], ["", "open 0"], "{text}");
    assert!(text.contains("in progress 2\n") && text.contains("blocked 1\n"), "{text}");
}
