//! `notifications.command`, quiet hours, and needs that a terminal shows.

use std::fs;

use coven_domain::activity::Activity;
use coven_testing::{TestHome, TestTerminal, eventually, wait_until};
use serde_json::{Value, json};

use super::{activity, converse, wait_for};

/// Appends what it reads to a file.
const TELLER: &str = "#!/bin/sh\ncat >> \"$HOME/told\"\n";

/// A home whose notifications go to a command only.
fn home_with(notifications: Value) -> TestHome {
    let mut config = json!({ "desktop": false, "command": ["tell"] });
    config.as_object_mut().expect("an object").extend(notifications.as_object().expect("an object").clone());
    let home = TestHome::with_agent(json!({ "notifications": config }));
    home.write_agent("tell", TELLER);
    home
}

/// Returns the notifications that the command got.
fn told(home: &TestHome) -> Vec<Value> {
    let text = fs::read_to_string(home.user().join("told")).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[track_caller]
fn wait_until_told(home: &TestHome, count: usize) -> Vec<Value> {
    eventually(&format!("{count} notifications"), || Some(told(home)).filter(|all| all.len() >= count))
}

#[test]
fn the_command_gets_each_need_once_as_json() {
    let home = home_with(json!({}));
    home.start();
    let first = converse(&home, "Fix it", "permit cargo test");
    let item = home.wait_for_request(&first);
    let expected = json!({
        "id": item.id,
        "kind": "permission",
        "title": "gemini asks for permission in p: Fix it",
        "detail": "cargo test",
        "session": { "id": first, "harness": "gemini", "title": "Fix it" },
        "project": home.session(&first).project_root,
        "answer_command": format!("coven --home {} inbox answer {}", home.path().display(), &item.id[..8]),
    });
    assert_eq!(wait_until_told(&home, 1), [expected]);

    // The activity of the first session is the same need; a later one shows that it was not announced again.
    wait_for(&home, &first, Activity::Permission);
    let second = converse(&home, "Second", "permit touch y");
    let all = wait_until_told(&home, 2);
    assert_eq!(all[1]["session"]["id"], second.as_str());
    let third = converse(&home, "Third", "permit touch z");
    let all = wait_until_told(&home, 3);
    assert_eq!((all.len(), &all[2]["session"]["id"]), (3, &json!(third)));
}

#[test]
fn kinds_that_are_not_chosen_are_not_announced() {
    let home = home_with(json!({ "on": ["question"] }));
    home.start();
    let id = converse(&home, "Quiet", "permit touch x");
    home.wait_for_request(&id);
    let ask = [r#"{"questions":[{"prompt":"Which?","title":"W","options":[{"label":"A"},{"label":"B"}]}]}"#];
    let mut asking = home.command(&["ask", "--json"]);
    let mut asking = asking.stdin(std::process::Stdio::piped()).spawn().expect("coven runs");
    std::io::Write::write_all(&mut asking.stdin.take().expect("a pipe"), ask[0].as_bytes()).expect("it reads");

    let all = wait_until_told(&home, 1);

    assert_eq!((all.len(), &all[0]["kind"], &all[0]["detail"]), (1, &json!("question"), &json!("Which?")));
    asking.kill().expect("it runs");
    asking.wait().expect("it ends");
}

#[test]
fn a_failing_command_is_logged_once_and_harms_nothing() {
    let home = home_with(json!({}));
    home.write_agent("tell", "#!/bin/sh\ncat >> \"$HOME/told\"\necho cannot reach the server >&2\nexit 7\n");
    home.start();
    for nth in 1..=3 {
        converse(&home, &format!("number {nth}"), "permit touch x");
        wait_until_told(&home, nth);
    }
    let failures = || home.own_log().matches("notifications.command failed").count();
    wait_until("the failure is in the log", || failures() > 0);
    assert_eq!(failures(), 1);
    assert!(home.own_log().contains("exit status: 7: cannot reach the server"), "{}", home.own_log());
    assert_eq!(home.inbox("").len(), 3);
}

#[test]
fn a_session_on_a_terminal_is_not_announced_until_the_terminal_leaves() {
    let home = home_with(json!({}));
    home.start();
    let shown = converse(&home, "Shown", "hello");
    wait_for(&home, &shown, Activity::Idle);
    let mut terminal = TestTerminal::with_size(&home, &["attach", &shown], 24, 120);
    wait_until("the daemon knows that it is shown", || !activity(&home, &shown).unseen);
    home.prompt(&shown, "permit touch x");
    terminal.wait_for_text("touch x");
    let other = converse(&home, "Other", "permit touch y");
    let all = wait_until_told(&home, 1);
    assert_eq!((all.len(), &all[0]["session"]["id"]), (1, &json!(other)), "the terminal shows the first need");
    let item = home.wait_for_request(&shown).id;
    home.coven(&["inbox", "answer", &item, "allow"]).expect_success();
    wait_for(&home, &shown, Activity::Idle);
    // Back to the list of the app, and out of it.
    terminal.type_keys("\x1cq");
    assert_eq!(terminal.wait(), 0);

    home.prompt(&shown, "permit touch z");
    let all = wait_until_told(&home, 2);
    assert_eq!((&all[1]["session"]["id"], &all[1]["detail"]), (&json!(shown), &json!("touch z")));
}

#[test]
fn needs_of_the_quiet_hours_are_announced_at_their_end_if_they_still_wait() {
    let home = home_with(json!({ "quietHours": { "from": "22:00", "to": "07:00" } }));
    // The local time of this machine: one second before the end, until the test says otherwise.
    let clock = "#!/bin/sh\necho asked >> \"$HOME/asked\"\nif [ -e \"$HOME/morning\" ]; then echo 07:00:01; else echo 06:59:59; fi\n";
    home.write_agent("date", clock);
    home.start();
    let answered = converse(&home, "Answered", "permit touch x");
    let waits = converse(&home, "Waits", "permit touch y");
    let item = home.wait_for_request(&answered).id;
    home.wait_for_request(&waits);
    let asked = || fs::read_to_string(home.user().join("asked")).unwrap_or_default().lines().count();
    wait_until("the daemon looked at the clock twice", || asked() >= 2);
    assert_eq!(told(&home), [Value::Null; 0]);
    home.coven(&["inbox", "answer", &item, "allow"]).expect_success();

    fs::write(home.user().join("morning"), "").expect("disk has space");

    let all = wait_until_told(&home, 1);
    assert_eq!((all.len(), &all[0]["session"]["id"]), (1, &json!(waits)));
}

#[test]
fn settings_of_notifications_are_checked() {
    let home = TestHome::new();
    for (notifications, part) in [
        (json!({ "quietHours": { "from": "25:00", "to": "07:00" } }), "\"25:00\" is not a time"),
        (json!({ "on": ["permission", "sleep"] }), "unknown variant `sleep`"),
        (json!({ "command": [""] }), "the first element must be a program"),
        (json!({ "command": "tell" }), "invalid type"),
    ] {
        home.configure(json!({ "notifications": notifications }));
        let output = home.coven(&["config", "check"]);
        assert_ne!(output.code, 0, "{notifications}");
        assert!(format!("{}{}", output.stdout, output.stderr).contains(part), "{notifications}: {output:?}");
    }
}
