//! Repositories whose Git config starts programs.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};

use coven_domain::task::TaskState;
use coven_testing::program::{is_root, skip};
use coven_testing::{TestHome, wait_until};
use serde_json::json;

const OTHER_UID: u32 = 65534;

/// Creates a program that copies its input and creates a marker file. Returns the paths of both.
fn marking_program(home: &TestHome, name: &str) -> (String, PathBuf) {
    let mark = home.folder().join(format!("{name}-was-run"));
    home.write_agent(name, &format!("#!/bin/sh\ntouch {}\nexec cat\n", mark.display()));
    (home.agents().join(name).display().to_string(), mark)
}

#[test]
fn programs_in_the_config_of_a_repository_do_not_run() {
    let home = TestHome::in_repository(json!({}));
    let (monitor, monitored) = marking_program(&home, "monitor");
    let (convert, converted) = marking_program(&home, "convert");
    let (external, ran_external) = marking_program(&home, "external");
    home.start();
    let task = home.add_task("x", "append b.txt two", &[]);
    home.start_task(&task);
    home.wait_for_task(&task, TaskState::PendingMerge);
    home.git(&format!(
        "git config core.fsmonitor {monitor}; git config diff.x.textconv {convert}; git config diff.external {external}; \
         mkdir -p .git/info; echo '* diff=x' > .git/info/attributes"
    ));
    let shown = home.coven(&["task", "diff", &task]).expect_success();
    assert!(shown.contains("+two"), "the diff is not empty: {shown}");
    home.coven(&["task", "approve", &task]).expect_success();
    home.wait_for_task(&task, TaskState::Closed);
    for mark in [&monitored, &converted, &ran_external] {
        assert!(!mark.exists(), "{}", mark.display());
    }
}

#[test]
fn hooks_of_a_repository_do_not_run() {
    let home = TestHome::in_repository(json!({}));
    let (program, ran) = marking_program(&home, "hook");
    let hooks = home.project().join(".git/hooks");
    fs::create_dir_all(&hooks).expect("disk has space");
    for name in
        ["post-checkout", "pre-commit", "post-commit", "post-merge", "post-index-change", "reference-transaction"]
    {
        let _ = fs::remove_file(hooks.join(name));
        symlink(&program, hooks.join(name)).expect("disk has space");
    }
    home.start();
    // The agent does not commit its work, so that only coven runs git.
    let task = home.add_task("x", "append b.txt two", &[]);
    home.start_task(&task);
    home.wait_for_task(&task, TaskState::PendingMerge);
    home.coven(&["task", "diff", &task]).expect_success();
    home.coven(&["task", "approve", &task]).expect_success();
    home.wait_for_task(&task, TaskState::Closed);
    assert!(!ran.exists(), "a hook has run");
    home.git("git commit -q --allow-empty -m later");
    assert!(ran.exists(), "hooks run when the user runs git");
}

#[test]
fn filters_of_a_repository_run_once_it_is_trusted() {
    let home = TestHome::in_repository(json!({}));
    let (filter, filtered) = marking_program(&home, "filter");
    home.git("echo '* filter=x' > .gitattributes; git add -A; git commit -qm attributes");
    home.git(&format!(
        "git config filter.x.clean {filter}; git config filter.x.smudge {filter}; git config filter.x.required true"
    ));
    home.start();
    let task = home.add_task("x", "append b.txt two", &[]);
    let message = home.coven(&["task", "start", &task]).expect_failure(4);
    assert!(message.contains("filter.x.clean") && message.contains("`coven trust"), "{message}");
    assert!(!filtered.exists());

    home.coven(&["trust", "--yes"]).expect_success();
    home.start_task(&task);
    wait_until("the filter has run", || filtered.exists());
    home.wait_for_task(&task, TaskState::PendingMerge);
}

#[test]
fn a_repository_of_another_user_is_refused() {
    if !is_root() {
        return skip("a_repository_of_another_user_is_refused", "changing the owner requires root");
    }
    let home = TestHome::in_repository(json!({}));
    let (monitor, monitored) = marking_program(&home, "monitor");
    home.git(&format!("git config core.fsmonitor {monitor}"));
    home.start();
    let task = home.add_task("x", "say hi", &[]);
    chown_to_other_user(&home.project().join(".git"));
    chown(home.project(), Some(OTHER_UID), Some(OTHER_UID)).expect("permitted for root");
    let message = home.coven(&["task", "start", &task, "--home", &home.path().display().to_string()]).expect_failure(4);
    assert!(message.contains("another user"), "{message}");
    assert!(!monitored.exists());
    chown(home.project(), Some(0), Some(0)).expect("permitted for root");
}

fn chown_to_other_user(path: &Path) {
    lchown(path, Some(OTHER_UID), Some(OTHER_UID)).expect("permitted for root");
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => chown_to_other_user(&entry.path()),
            false => lchown(entry.path(), Some(OTHER_UID), Some(OTHER_UID)).expect("permitted for root"),
        }
    }
}
