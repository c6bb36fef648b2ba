//! The size of a task's changes, and tasks without changes.

use coven_domain::task::TaskState;
use coven_testing::{TestHome, check_invariants};
use serde_json::{Value, json};

/// Runs a task until it is ready for review.
fn task_in_review(script: &str) -> (TestHome, String) {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task("Do it", script, &[]);
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    (home, id)
}

/// Asserts that every list with tasks in review shows `text`.
#[track_caller]
fn assert_shown(home: &TestHome, id: &str, text: &str) {
    for line in [&["task", "show", id][..], &["task", "list"], &["inbox"], &["board", "--once"]] {
        let shown = home.coven(line).expect_success();
        assert!(shown.contains(text), "{line:?}: {shown}");
    }
}

#[test]
fn a_task_without_changes_is_closed_without_a_merge() {
    let (home, id) = task_in_review("say hello");
    assert_shown(&home, &id, "no changes");
    let before = home.git("git rev-parse main");
    let output = home.coven(&["task", "approve", &id]).expect_success();
    assert!(output.contains("closed without a merge, no changes"), "{output}");
    assert_eq!(home.git("git rev-parse main"), before);
    let task = home.task(&id).task;
    assert_eq!((task.status.as_str(), task.reason.as_deref()), ("closed", Some("no changes")));
    assert!(home.coven(&["task", "diff", &id]).expect_success().contains("no changes"));
    check_invariants(&home);
}

#[test]
fn the_size_of_the_changes_is_shown_in_every_list() {
    let (home, id) = task_in_review("commit new.txt ;; append a.txt 4");
    assert_shown(&home, &id, "+2 −0 in 2 files");
    let changes = home.json::<Value>(&["task", "show", &id, "--json"])["changes"].clone();
    assert_eq!(changes, json!({ "files": 2, "additions": 2, "deletions": 0 }));
}

#[test]
fn the_diff_of_a_closed_task_shows_the_merged_changes() {
    let (home, id) = task_in_review("commit new.txt");
    // A later commit on the base is not part of the merge.
    home.git("echo x > other.txt; git add other.txt; git commit -qm other");
    home.coven(&["task", "approve", &id]).expect_success();
    home.git("git commit -q --allow-empty -m later");
    let shown = home.coven(&["task", "diff", &id]).expect_success();
    assert!(shown.contains("1 file changed, 1 added, 0 deleted: merged into main by "), "{shown}");
    assert!(shown.contains("+new.txt") && !shown.contains("other.txt"), "{shown}");
}
