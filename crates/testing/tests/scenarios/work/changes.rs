//! How much a task changed, and what becomes of one that changed nothing.

use coven_domain::task::TaskState;
use coven_testing::{TestHome, check_invariants};
use serde_json::{Value, json};

/// A task whose work waits for a review.
fn done(script: &str) -> (TestHome, String) {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task("Do it", script, &[]);
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    (home, id)
}

/// Everywhere a task that waits for its review is shown, `text` is said.
#[track_caller]
fn says(home: &TestHome, id: &str, text: &str) {
    for line in [&["task", "show", id][..], &["task", "list"], &["inbox"], &["board", "--once"]] {
        let shown = home.coven(line).done();
        assert!(shown.contains(text), "{line:?}: {shown}");
    }
}

#[test]
fn a_task_that_changed_nothing_says_so_and_is_closed_without_a_merge() {
    let (home, id) = done("say hello");
    says(&home, &id, "no changes");
    let before = home.git("git rev-parse main");
    let told = home.coven(&["task", "approve", &id]).done();
    assert!(told.contains("closed without a merge, no changes"), "{told}");
    assert_eq!(home.git("git rev-parse main"), before);
    let task = home.task(&id).task;
    assert_eq!((task.status.as_str(), task.reason.as_deref()), ("closed", Some("no changes")));
    assert!(home.coven(&["task", "diff", &id]).done().contains("no changes"));
    check_invariants(&home);
}

#[test]
fn how_much_a_task_changed_is_shown_wherever_it_waits() {
    let (home, id) = done("commit new.txt ;; append a.txt 4");
    says(&home, &id, "+2 −0 in 2 files");
    let changes = home.json::<Value>(&["task", "show", &id, "--json"])["changes"].clone();
    assert_eq!(changes, json!({ "files": 2, "additions": 2, "deletions": 0 }));
}

#[test]
fn the_diff_of_a_closed_task_shows_what_was_merged() {
    let (home, id) = done("commit new.txt");
    // The base goes on: that is not part of what is merged.
    home.git("echo x > other.txt; git add other.txt; git commit -qm other");
    home.coven(&["task", "approve", &id]).done();
    home.git("git commit -q --allow-empty -m later");
    let shown = home.coven(&["task", "diff", &id]).done();
    assert!(shown.contains("1 file changed, 1 added, 0 deleted: merged into main by "), "{shown}");
    assert!(shown.contains("+new.txt") && !shown.contains("other.txt"), "{shown}");
}
