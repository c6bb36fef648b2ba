//! The environment of a step comes from the shell that started its task.

use std::fs;
use std::path::Path;

use coven_domain::task::TaskState;
use coven_testing::{TestHome, eventually, wait_until};
use serde_json::json;

const KEY: &str = "a value that is never stored";

/// Starts a home whose daemon does not have the variable of the shell.
fn home_with_key() -> TestHome {
    let mut home = TestHome::in_repository(json!({}));
    home.start();
    home.env.push(("MY_KEY".to_owned(), KEY.to_owned()));
    home
}

/// Returns the length of the variable that the newest step of a task printed.
fn printed(home: &TestHome, task: &str, step: &str) -> String {
    eventually(&format!("{step} has printed"), || {
        let agent = home.agents_of(task).pop().filter(|agent| agent.step.as_deref() == Some(step))?;
        let log = home.log_text(&agent.session_id?.to_string());
        Some(log.split_once("length=")?.1.split_once(';')?.0.to_owned())
    })
}

/// Returns whether a file in the folder contains the value.
fn is_stored_in(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").flatten().any(|entry| {
        let kind = entry.file_type().expect("file type");
        match (kind.is_dir(), kind.is_file()) {
            (true, _) => is_stored_in(&entry.path()),
            (_, true) => {
                fs::read(entry.path()).is_ok_and(|text| text.windows(KEY.len()).any(|it| it == KEY.as_bytes()))
            }
            _ => false,
        }
    })
}

#[test]
fn a_step_runs_in_the_environment_of_the_shell_that_started_its_task() {
    let home = home_with_key();
    let id = home.add_task_for(
        "one",
        "steps:\n  - { name: look, type: script, command: 'echo \"length=$(printf %s \"$MY_KEY\" | wc -c);\"' }\n",
    );
    home.start_task(&id);
    assert_eq!(printed(&home, &id, "look"), KEY.len().to_string());
    home.wait_for_task(&id, TaskState::Closed);
    // The daemon deletes the worktree, which must not happen while it is read.
    wait_until("the worktree is removed", || !home.worktree(&id).exists());
    assert!(!is_stored_in(&home.path()), "no environment value is stored");
}

#[test]
fn after_a_restart_a_step_runs_in_the_environment_of_the_daemon() {
    let mut home = home_with_key();
    let id = home.add_task_for(
        "two",
        "steps:
  - { name: first, type: script, command: 'echo \"length=$(printf %s \"$MY_KEY\" | wc -c);\"; until [ -e go ]; do sleep 0.05; done' }
  - { name: second, type: script, command: 'echo \"length=$(printf %s \"$MY_KEY\" | wc -c);\"' }\n",
    );
    home.start_task(&id);
    assert_eq!(printed(&home, &id, "first"), KEY.len().to_string());
    home.env.clear();
    home.restart();
    fs::write(home.worktree(&id).join("go"), "").expect("disk has space");
    assert_eq!(printed(&home, &id, "second"), "0");
    home.wait_for_task(&id, TaskState::Closed);
}
