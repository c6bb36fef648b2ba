//! Lines to an agent that does not read: each byte reaches it once, whatever dies in between.

use coven_holder::journal::Record;
use coven_testing::sessions::path;
use coven_testing::{journal, wait_until};
use serde_json::{Value, json};

use super::{Scene, gate, kill_and_start, let_through};

/// Past this much that was typed and not read, a holder lets others wait.
const FULL: usize = 1 << 20;

/// How many bytes the holder took for the agent.
fn typed(scene: &Scene, id: &str) -> usize {
    let length = |record| if let Record::Input(bytes) = record { bytes.len() } else { 0 };
    journal::records(&scene.home.session_dir(id)).into_iter().map(|it| length(it.record)).sum()
}

/// Asks for modes with ids of these lengths while the agent reads nothing; gives the ids.
#[track_caller]
fn ask_for_modes(scene: &Scene, id: &str, lengths: &[usize]) -> Vec<String> {
    let ask = |(nth, length): (usize, &usize)| {
        let mode = format!("{nth}-{}", "m".repeat(*length));
        let answer = scene.home.post(&path(id, "/mode"), &json!({ "mode_id": mode }));
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
        mode
    };
    lengths.iter().enumerate().map(ask).collect()
}

/// Every line is whole, every mode was asked for once and in order, and nothing was made up on the way.
#[track_caller]
fn each_arrived_once(scene: &Scene, id: &str, modes: &[String]) {
    let received = scene.home.received_text(id);
    let lines: Vec<Value> = received
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: a line of {}", line.len())))
        .collect();
    let asked = lines.iter().filter(|it| it["method"] == "session/set_mode");
    let asked: Vec<&str> = asked.filter_map(|it| it["params"]["modeId"].as_str()).collect();
    let names = |modes: &[&str]| modes.iter().map(|it| (it[..2].to_owned(), it.len())).collect::<Vec<_>>();
    assert_eq!(names(&asked), names(&modes.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(typed(scene, id), received.len(), "the journal has what the agent got");
}

#[test]
fn lines_that_wait_for_an_agent_are_not_sent_again_by_the_next_daemon() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");
    scene.home.turn(&id, &format!("say deaf ;; deaf {}", gate.display()));

    // Short ones too: they are in the holder's hands, or in a socket nobody reads, when the daemon dies.
    let modes = ask_for_modes(&scene, &id, &[900_000, 900_000, 20_000, 900_000, 10]);
    for _ in 0..3 {
        wait_until("the holder takes no more", || typed(&scene, &id) > FULL);
        kill_and_start(&scene.home);
        assert_eq!(scene.home.agent_state(&id).activity, "idle");
    }
    let_through(&gate);
    scene.home.turn(&id, "say heard");

    each_arrived_once(&scene, &id, &modes);
    assert_eq!(scene.home.agent_text(&id), "deafheard");
    scene.is_sound();
}

#[test]
fn a_line_that_goes_in_pieces_stays_one_line_over_a_kill_and_a_restart() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");
    scene.home.turn(&id, &format!("say deaf ;; deaf {}", gate.display()));

    let modes = ask_for_modes(&scene, &id, &[2_500_000, 3_500_000, 1_200_000]);
    wait_until("the holder takes no more", || typed(&scene, &id) > FULL);
    kill_and_start(&scene.home);
    scene.home.turn(&scene.bystander, "say in between");
    scene.home.restart();
    scene.home.turn(&scene.bystander, "say in between");
    kill_and_start(&scene.home);
    let_through(&gate);
    scene.home.turn(&id, "say heard");

    each_arrived_once(&scene, &id, &modes);
    scene.is_sound();
}
