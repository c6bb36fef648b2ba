//! Desktop notifications: `notify-send` is a script that records its arguments.

use std::fs;

use coven_domain::task::TaskState;
use coven_testing::agents::agent_with_traits;
use coven_testing::process::is_alive;
use coven_testing::{TestHome, eventually, wait_until};
use serde_json::json;

use super::{ask, choosing, nth_id, put_set, wait_for_event};

/// One line per notification, each argument in brackets; `|` stands for the end of a line in an argument.
const RECORDER: &str = "#!/bin/sh
line=$(for word in \"$@\"; do printf '[%s]' \"$word\" | tr '\\n' '|'; done)
echo \"$line\" >> \"$HOME/notified\"
";

/// Returns the complete lines: the script may still be writing the last one.
fn notified(home: &TestHome) -> Vec<String> {
    let text = fs::read_to_string(home.user().join("notified")).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

/// Waits for this number of notifications.
#[track_caller]
fn wait_for(home: &TestHome, count: usize) -> Vec<String> {
    eventually(&format!("{count} notifications"), || Some(notified(home)).filter(|lines| lines.len() >= count))
}

#[test]
fn a_new_question_is_shown_but_one_pending_at_start_is_not() {
    let home = TestHome::new();
    home.write_agent("notify-send", RECORDER);
    let before = ask(&home, "Before?");
    home.start();
    wait_for_event(&home, &before, "question_set.asked");
    let long = format!("--Which\u{7} \u{1b}[31mone\n{}", "x".repeat(300));
    put_set(&home, &nth_id(1), &long);

    let shown = wait_for(&home, 1);

    let expected = format!(
        "[--app-name=coven][--][an agent asks a question][--Which [31mone {}…|coven --home {} inbox answer {}]",
        "x".repeat(199 - "--Which [31mone ".len()),
        home.path().display(),
        &nth_id(1)[..8],
    );
    assert_eq!(shown, [expected]);
}

#[test]
fn items_within_a_second_are_combined() {
    let home = TestHome::new();
    home.write_agent("notify-send", RECORDER);
    home.start();
    let first = ask(&home, "First?");
    wait_for_event(&home, &first, "question_set.asked");
    wait_for(&home, 1);
    for nth in 0..4 {
        put_set(&home, &nth_id(nth), "More?");
        // One by one, so that the daemon does not find two together.
        wait_for_event(&home, &nth_id(nth), "question_set.asked");
    }
    let items = |line: &str| -> usize {
        let words = line.split_once(" items need your attention").map(|(start, _)| start.rsplit('[').next());
        words.flatten().map_or(1, |count| count.parse().expect("a number"))
    };

    wait_until("all items are shown", || notified(&home).iter().map(|line| items(line)).sum::<usize>() >= 5);

    let lines = notified(&home);
    assert_eq!(lines.iter().map(|line| items(line)).sum::<usize>(), 5, "{lines:?}");
    assert!(lines.len() < 5, "one notification per item: {lines:?}");
}

#[test]
fn a_permission_request_is_shown_unless_a_rule_decides_it() {
    let home = TestHome::with_agent(json!({
        "harnesses": { "trusted": agent_with_traits("") },
        "permissions": { "harnesses": { "trusted": "allow" } },
    }));
    home.write_agent("notify-send", RECORDER);
    home.start();
    let repo = home.make_repo("app");
    let trusted = home.open_as(&repo, "trusted").id;
    home.prompt(&trusted, "permit touch x");
    home.wait_for_text(&trusted, "chose:");
    let careful = home.open(&repo).id;
    home.prompt(&careful, "permit touch y");
    let title = home.session(&careful).title;

    let shown = wait_for(&home, 1);

    let item = home.wait_for_request(&careful).id;
    let answer = format!("coven --home {} inbox answer {}", home.path().display(), &item[..8]);
    let expected = format!("[--app-name=coven][--][gemini asks for permission in app: {title}][touch y|{answer}]");
    assert_eq!(shown, [expected]);
}

#[test]
fn a_task_that_needs_a_human_is_shown_even_if_a_restart_finds_it() {
    let home = TestHome::in_repository(json!({ "scheduler": { "maxConcurrentAgents": 3 } }));
    home.write_agent("notify-send", RECORDER);
    home.start();
    let review = home.add_task("Look at me", "commit new.txt", &[]);
    home.start_task(&review);
    home.wait_for_task(&review, TaskState::PendingMerge);
    assert!(wait_for(&home, 1)[0].contains("to review: Look at me"));

    let dies = home.add_task("Dies", "leave_dirty left.txt ;; hang", &[]);
    home.start_task(&dies);
    let session = home.wait_for_agent(&dies).session_id.expect("a session");
    wait_until("the agent has written its file", || home.worktree(&dies).join("left.txt").exists());
    home.kill_daemon_and(&session.to_string());
    home.start();

    let shown = wait_for(&home, 2);
    assert!(shown[1].contains("blocked: Dies: daemon restarted with uncommitted work"), "{shown:?}");
}

#[test]
fn a_hanging_notification_program_delays_nothing_and_is_killed() {
    let home = TestHome::new();
    let script = format!("{RECORDER}echo $$ >> \"$HOME/pids\"\nexec tail -f /dev/null\n");
    home.write_agent("notify-send", &script);
    home.start();
    let first = ask(&home, "First?");
    wait_for(&home, 1);
    let second = ask(&home, "Second?");

    assert_eq!(wait_for(&home, 2).len(), 2, "the second notification does not wait for the first");
    for id in [&first, &second] {
        assert_eq!(home.answer_request(id, &choosing("A")).status, 200);
    }
    let pids: Vec<u32> = eventually("both programs have started", || {
        let text = fs::read_to_string(home.user().join("pids")).unwrap_or_default();
        let pids: Vec<u32> = text.lines().filter_map(|pid| pid.parse().ok()).collect();
        Some(pids).filter(|pids| pids.len() == 2)
    });
    wait_until("both programs have exited", || !pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn no_notification_is_shown_if_disabled_or_unavailable() {
    let home = TestHome::new();
    home.write_agent("notify-send", RECORDER);
    home.configure(json!({ "notifications": { "desktop": false } }));
    home.start();
    let quiet = ask(&home, "Quiet?");
    wait_for_event(&home, &quiet, "question_set.asked");
    home.stop();
    assert_eq!(notified(&home), [""; 0]);
    let doctor = |home: &TestHome| {
        let mut command = home.command(&["doctor"]);
        let output = command.env("PATH", home.agents()).output().expect("coven runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!doctor(&home).contains("desktop"));

    home.configure(json!({}));
    assert!(doctor(&home).contains(&format!("ok    desktop   {}", home.agents().join("notify-send").display())));
    fs::remove_file(home.agents().join("notify-send")).expect("writable");
    assert!(doctor(&home).contains("note  desktop   notify-send not found"));
}
