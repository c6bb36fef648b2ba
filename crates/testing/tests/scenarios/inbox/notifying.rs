//! Desktop notifications: `notify-send` is a script that writes down what it was told.

use std::fs;

use coven_domain::task::TaskState;
use coven_testing::agents::behaving;
use coven_testing::process::is_alive;
use coven_testing::{TestHome, eventually, wait_until};
use serde_json::json;

use super::{ask, choosing, nth_id, put_set, wait_for_event};

/// One line per notification, each argument in brackets.
const RECORDER: &str =
    "#!/bin/sh\n{ for word in \"$@\"; do printf '[%s]' \"$word\"; done; echo; } >> \"$HOME/notified\"\n";

/// Returns the complete lines: the script may still be writing the last one.
fn notified(home: &TestHome) -> Vec<String> {
    let text = fs::read_to_string(home.user().join("notified")).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

/// Waits for so many notifications.
#[track_caller]
fn wait_for(home: &TestHome, count: usize) -> Vec<String> {
    eventually(&format!("{count} notifications"), || Some(notified(home)).filter(|lines| lines.len() >= count))
}

#[test]
fn a_new_question_is_shown_and_what_waited_at_start_is_not() {
    let home = TestHome::new();
    home.write_agent("notify-send", RECORDER);
    let before = ask(&home, "Before?");
    home.start();
    wait_for_event(&home, &before, "question_set.asked");
    let long = format!("--Which\u{7} \u{1b}[31mone\n{}", "x".repeat(300));
    put_set(&home, &nth_id(1), &long);

    let shown = wait_for(&home, 1);

    let expected = format!(
        "[--app-name=coven][--][An agent asks][--Which [31mone {}…]",
        "x".repeat(199 - "--Which [31mone ".len())
    );
    assert_eq!(shown, [expected]);
}

#[test]
fn what_comes_within_a_second_is_summed_up() {
    let home = TestHome::new();
    home.write_agent("notify-send", RECORDER);
    home.start();
    let first = ask(&home, "First?");
    wait_for_event(&home, &first, "question_set.asked");
    wait_for(&home, 1);
    for nth in 0..4 {
        put_set(&home, &nth_id(nth), "More?");
        // One by one, so that none is found together with another.
        wait_for_event(&home, &nth_id(nth), "question_set.asked");
    }
    let told = |line: &str| -> usize {
        let words = line.split_once(" things wait for you").map(|(start, _)| start.rsplit('[').next());
        words.flatten().map_or(1, |count| count.parse().expect("a number"))
    };

    wait_until("all are told of", || notified(&home).iter().map(|line| told(line)).sum::<usize>() >= 5);

    let lines = notified(&home);
    assert_eq!(lines.iter().map(|line| told(line)).sum::<usize>(), 5, "{lines:?}");
    assert!(lines.len() < 5, "one for each: {lines:?}");
}

#[test]
fn a_permission_is_shown_with_who_asks_and_one_that_a_rule_decides_is_not() {
    let home = TestHome::with_agent(json!({
        "harnesses": { "trusted": behaving("") },
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

    assert_eq!(shown, [format!("[--app-name=coven][--][gemini asks: {title}][touch y]")]);
}

#[test]
fn a_task_that_waits_for_a_human_is_shown_also_when_a_restart_finds_it() {
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
    wait_until("it has written", || home.worktree(&dies).join("left.txt").exists());
    home.kill_daemon_and(&session.to_string());
    home.start();

    let shown = wait_for(&home, 2);
    assert!(shown[1].contains("blocked: Dies: daemon restarted with uncommitted work"), "{shown:?}");
}

#[test]
fn a_program_that_hangs_holds_nothing_up_and_is_ended() {
    let home = TestHome::new();
    let script = format!("{RECORDER}echo $$ >> \"$HOME/pids\"\nexec tail -f /dev/null\n");
    home.write_agent("notify-send", &script);
    home.start();
    let first = ask(&home, "First?");
    wait_for(&home, 1);
    let second = ask(&home, "Second?");

    assert_eq!(wait_for(&home, 2).len(), 2, "the second does not wait for the first");
    for id in [&first, &second] {
        assert_eq!(home.answer_request(id, &choosing("A")).status, 200);
    }
    let pids: Vec<u32> = eventually("both have begun", || {
        let text = fs::read_to_string(home.user().join("pids")).unwrap_or_default();
        let pids: Vec<u32> = text.lines().filter_map(|pid| pid.parse().ok()).collect();
        Some(pids).filter(|pids| pids.len() == 2)
    });
    wait_until("both are ended", || !pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn nothing_is_shown_where_it_is_switched_off_or_cannot_be() {
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
    fs::remove_file(home.agents().join("notify-send")).expect("ours");
    assert!(doctor(&home).contains("note  desktop   notify-send not found"));
}
