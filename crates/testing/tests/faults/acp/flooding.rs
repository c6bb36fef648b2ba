//! Agents that send very many or very large messages.

use std::thread;

use coven_domain::message::Activity;
use coven_testing::agents::{counted, numbers};
use coven_testing::pattern::assert_bytes;
use coven_testing::{check_invariants, eventually};

use super::Fixture;

#[test]
fn a_hundred_thousand_chunks_become_one_message_in_order() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.prompt(&id, "chunks 100000");
    fixture.home.wait_for_text(&id, "0 1 2 ");
    // The other session and the lists answer meanwhile.
    fixture.home.turn(&fixture.bystander, "say in between");
    assert_eq!(fixture.home.agent_sessions("").total, 2);
    let state = eventually("the flood is over", || {
        Some(fixture.home.agent_state(&id)).filter(|it| it.activity == Activity::Idle && it.queued == 0)
    });

    assert_eq!(state.stop_reason.as_deref(), Some("end_turn"));
    let messages = fixture.home.messages(&id);
    assert_eq!(messages.len(), 2, "one prompt and one answer");
    assert_bytes("the answer", messages[1].text().as_bytes(), counted(100_000).as_bytes());
    fixture.assert_others_unaffected();
}

#[test]
fn a_message_over_the_limit_is_dropped_and_reported() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.prompt(&id, "say before ;; big 50000000 ;; say after");
    fixture.home.turn(&fixture.bystander, "say in between");
    fixture.home.wait_for_rest(&id);

    assert_eq!(fixture.home.agent_text(&id), "beforeafter");
    let error = fixture.system_messages(&id, "error").pop().expect("message");
    assert!(error.content.to_string().contains("larger than 16 MiB"), "{:?}", error.content);
    fixture.assert_others_unaffected();
}

#[test]
fn text_that_exceeds_one_message_continues_in_the_next() {
    const CHUNK: usize = 9_000_000;
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.prompt(&id, &format!("big {CHUNK} ;; big {CHUNK} ;; big {CHUNK}"));
    fixture.home.wait_for_rest(&id);

    let lengths: Vec<usize> = fixture.home.messages(&id).iter().skip(1).map(|it| it.text().len()).collect();
    assert_eq!(lengths, [2 * CHUNK, CHUNK]);
    fixture.assert_others_unaffected();
}

#[test]
fn a_message_of_fifteen_megabytes_is_stored_completely() {
    const LENGTH: usize = 15_000_000;
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.prompt(&id, &format!("big {LENGTH} ;; say the end"));
    fixture.home.turn(&fixture.bystander, "say in between");
    fixture.home.wait_for_rest(&id);

    let messages = fixture.home.messages(&id);
    assert_eq!(messages.len(), 2);
    let text = messages[1].text();
    assert_eq!(text.len(), LENGTH + "the end".len());
    assert!(text.ends_with("xthe end") && text.trim_start_matches('x') == "the end");
    fixture.assert_others_unaffected();
}

#[test]
fn twenty_concurrent_streams_lose_nothing() {
    let fixture = Fixture::with(&[], serde_json::json!({ "maxSessions": 30 }));
    let ids: Vec<String> = (0..20).map(|_| fixture.open()).collect();

    thread::scope(|scope| {
        ids.iter().for_each(|id| drop(scope.spawn(|| fixture.home.prompt(id, "pace 300 200"))));
    });
    fixture.home.turn(&fixture.bystander, "say in between");

    for id in &ids {
        fixture.home.wait_for_rest(id);
        let messages = fixture.home.messages(id);
        assert_eq!(messages.len(), 2);
        assert_eq!(numbers(messages[1].text()), (0..300).collect::<Vec<_>>(), "{id}");
    }
    check_invariants(&fixture.home);
}
