//! Agents that say more than anybody can read.

use std::thread;

use coven_testing::agents::{counted, numbers};
use coven_testing::pattern::assert_bytes;
use coven_testing::{check_invariants, eventually};

use super::Scene;

#[test]
fn a_hundred_thousand_chunks_are_one_message_in_their_order() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.prompt(&id, "chunks 100000");
    scene.home.wait_for_text(&id, "0 1 2 ");
    // The other session and the lists answer meanwhile.
    scene.home.turn(&scene.bystander, "say in between");
    assert_eq!(scene.home.agent_sessions("").total, 2);
    let state = eventually("the flood is over", || {
        Some(scene.home.agent_state(&id)).filter(|it| it.activity == "idle" && it.queued == 0)
    });

    assert_eq!(state.stop_reason.as_deref(), Some("end_turn"));
    let said = scene.home.said(&id);
    assert_eq!(said.len(), 2, "one prompt and one answer");
    assert_bytes("the answer", said[1].text().as_bytes(), counted(100_000).as_bytes());
    scene.is_sound();
}

#[test]
fn a_message_beyond_the_limit_is_left_out_and_the_conversation_says_so() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.prompt(&id, "say before ;; big 50000000 ;; say after");
    scene.home.turn(&scene.bystander, "say in between");
    scene.home.wait_for_rest(&id);

    assert_eq!(scene.home.agent_text(&id), "beforeafter");
    let told = scene.of_system(&id, "error").pop().expect("a message");
    assert!(told.content.to_string().contains("larger than 16 MiB"), "{:?}", told.content);
    scene.is_sound();
}

#[test]
fn what_one_message_cannot_hold_goes_on_in_the_next() {
    const PIECE: usize = 9_000_000;
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.prompt(&id, &format!("big {PIECE} ;; big {PIECE} ;; big {PIECE}"));
    scene.home.wait_for_rest(&id);

    let lengths: Vec<usize> = scene.home.said(&id).iter().skip(1).map(|it| it.text().len()).collect();
    assert_eq!(lengths, [2 * PIECE, PIECE]);
    scene.is_sound();
}

#[test]
fn a_message_of_fifteen_megabytes_is_kept_whole() {
    const LENGTH: usize = 15_000_000;
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.prompt(&id, &format!("big {LENGTH} ;; say the end"));
    scene.home.turn(&scene.bystander, "say in between");
    scene.home.wait_for_rest(&id);

    let said = scene.home.said(&id);
    assert_eq!(said.len(), 2);
    let text = said[1].text();
    assert_eq!(text.len(), LENGTH + "the end".len());
    assert!(text.ends_with("xthe end") && text.trim_start_matches('x') == "the end");
    scene.is_sound();
}

#[test]
fn twenty_agents_that_stream_at_once_lose_nothing() {
    let scene = Scene::with(&[], serde_json::json!({ "maxSessions": 30 }));
    let ids: Vec<String> = (0..20).map(|_| scene.open()).collect();

    thread::scope(|scope| {
        ids.iter().for_each(|id| drop(scope.spawn(|| scene.home.prompt(id, "pace 300 200"))));
    });
    scene.home.turn(&scene.bystander, "say in between");

    for id in &ids {
        scene.home.wait_for_rest(id);
        let said = scene.home.said(id);
        assert_eq!(said.len(), 2);
        assert_eq!(numbers(said[1].text()), (0..300).collect::<Vec<_>>(), "{id}");
    }
    check_invariants(&scene.home);
}
