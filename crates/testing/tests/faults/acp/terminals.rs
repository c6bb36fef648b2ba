//! Terminals of agents that want too many of them, or ask about them too often.

use std::fs;

use coven_testing::wait_until;
use serde_json::json;

use super::{Scene, answers, gate, kill_and_start, let_through};

/// Beside the ones that are allowed, as many as are opened at once may slip in.
const ALLOWED: std::ops::RangeInclusive<usize> = 32..=40;

fn threads_of_daemon(scene: &Scene) -> usize {
    fs::read_dir(format!("/proc/{}/task", scene.home.health().pid)).expect("it runs").count()
}

#[test]
fn hundreds_of_terminals_are_not_opened_and_nobody_waits_for_those_that_are() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.prompt(&id, "terminals 600 sleep 1000");
    let text = scene.home.wait_for_text(&id, "opened:");

    let mut answers = answers(&text, "opened");
    let opened = answers.remove("ok ").unwrap_or_default();
    assert!(ALLOWED.contains(&opened), "{opened} {answers:?}");
    assert_eq!(answers.values().sum::<usize>(), 600 - opened);
    assert!(answers.keys().all(|why| why.contains("terminals are open")), "{answers:?}");
    let threads = threads_of_daemon(&scene);
    assert!(threads < 100, "{threads} threads for {opened} terminals");
    scene.home.make_repo("written-meanwhile");
    scene.home.turn(&scene.bystander, "say in between");
    kill_and_start(&scene.home);
    assert_eq!(scene.home.cancel_session(&id).status, 200);
    scene.home.wait_for_end(&id);
    wait_until("none of them is left", || scene.home.harness_processes(&id).is_empty());
    scene.is_sound();
}

#[test]
fn one_that_lets_its_terminals_go_may_open_as_many_as_it_likes() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.turn(&id, &["terminal true"; 40].join(" ;; "));

    let text = scene.home.agent_text(&id);
    assert_eq!(text.matches("terminal:exit=0").count(), 40, "{text}");
    scene.is_sound();
}

#[test]
fn everybody_who_waits_for_a_terminal_hears_how_it_ended_and_not_before() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");

    // More than a holder has room for.
    scene.home.prompt(&id, &format!("waits 300 until test -e {}; do sleep 0.05; done; exit 7", gate.display()));
    scene.home.wait_for_text(&id, "waiting ");
    scene.home.turn(&scene.bystander, "say in between");
    let_through(&gate);
    scene.home.wait_for_rest(&id);

    let waited = answers(&scene.home.agent_text(&id), "waited");
    assert_eq!(waited.into_iter().collect::<Vec<_>>(), [("ok 7/null".to_owned(), 300)]);
    scene.is_sound();
}

#[test]
fn a_terminal_that_is_killed_says_so_as_people_write_it() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.turn(&id, "terminal_kill sleep 1000");
    scene.home.turn(&id, "shell kill -9 $$");

    let text = scene.home.agent_text(&id);
    assert!(text.contains(r#"exit=null signal="SIGTERM""#), "{text}");
    assert!(text.contains(r#"exit=null signal="SIGKILL""#), "{text}");
    scene.is_sound();
}

#[test]
fn a_terminal_that_was_let_go_is_not_there_any_more() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.turn(&id, "released sleep 1000");

    let text = scene.home.agent_text(&id);
    for method in ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"] {
        assert!(text.contains(&format!("{method} error -32602: there is no terminal")), "{method}: {text}");
    }
    scene.is_sound();
}

#[test]
fn an_agent_in_a_folder_of_its_repository_may_work_in_all_of_it() {
    let scene = Scene::new(&[]);
    let (repo, outside) = (&scene.repo.path, scene.home.project().join("secret.txt"));
    fs::create_dir(format!("{repo}/sub")).expect("room on disk");
    fs::write(format!("{repo}/top.txt"), "at the top").expect("room on disk");
    fs::write(&outside, "secret").expect("room on disk");
    let cwd = format!("{repo}/sub");
    let request = json!({ "harness": "gemini", "channel": "acp", "repo_id": scene.repo.id, "cwd": cwd });
    let id = scene.home.launch_with(request).id;

    let outside = outside.display();
    scene.home.turn(&id, &format!("read {repo}/top.txt ;; write {repo}/new.txt x ;; shell pwd ;; read {outside}"));

    let text = scene.home.agent_text(&id);
    assert!(text.contains("read:at the top"), "{text}");
    assert!(text.contains(&format!("wrote:{repo}/new.txt")), "{text}");
    assert!(text.contains(&format!("output={:?}", format!("{cwd}\n"))), "it works where it was started: {text}");
    assert!(text.contains(&format!("{outside} is outside the repository {repo}")), "{text}");
    scene.is_sound();
}

#[test]
fn an_agent_gets_the_end_of_a_terminals_output_and_hears_that_there_was_more() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.turn(&id, r"shown 100000000 head -c 5000000 /dev/zero | tr '\0' x");
    scene.home.turn(&id, "shown 3 printf abcdef");

    let said = scene.home.agent_text(&id);
    assert_eq!(said, format!("shown:{} trueshown:3 true", 1 << 20));
    scene.is_sound();
}
