//! Question sets: what is remembered of each, and the events that tell of them.

use std::sync::Arc;

use coven_domain::event::EventBody;
use coven_domain::question_set::{QuestionSetState, QuestionSetSummary};
use coven_store::{Change, Store, StoreError};
use serde_json::json;

use super::samples::*;

fn set(nth: u8) -> QuestionSetSummary {
    QuestionSetSummary {
        id: coven_domain::QuestionSetId::from_random_bytes([nth; 16]),
        state: QuestionSetState::Pending,
        session: (nth == 1).then(|| id(1)),
        title: format!("Which 'one'? {nth}"),
        question_count: 2,
        created_at: at(i64::from(nth)),
        modified_at: at(i64::from(nth) + 1),
    }
}

async fn told(store: &dyn Store, set: QuestionSetSummary) {
    let event = set.state.event();
    record(store, Change::QuestionSetChanged { set, event }).await.expect("a change");
}

pub async fn question_sets_are_remembered_oldest_first_and_every_change_is_told(store: Arc<dyn Store>) {
    told(&*store, set(2)).await;
    told(&*store, set(1)).await;
    assert_eq!(store.question_sets().await.expect("a read"), [set(1), set(2)]);

    let answered = QuestionSetSummary { state: QuestionSetState::Completed, modified_at: at(9), ..set(1) };
    told(&*store, answered.clone()).await;
    assert_eq!(store.question_sets().await.expect("a read"), [answered.clone(), set(2)]);
    record(&*store, Change::QuestionSetRemoved(answered.id)).await.expect("a removal");

    assert_eq!(store.question_sets().await.expect("a read"), [set(2)]);
    let events = store.events_after(0, 10).await.expect("a read");
    let told: Vec<(&str, &str)> = events.iter().map(|it| (it.kind.as_str(), it.subject.as_str())).collect();
    let (first, second) = (set(1).id.to_string(), set(2).id.to_string());
    let expected = [
        ("question_set.asked", second.as_str()),
        ("question_set.asked", first.as_str()),
        ("question_set.completed", first.as_str()),
        ("question_set.dismissed", first.as_str()),
    ];
    assert_eq!(told, expected);
    assert_eq!(events[2].payload, render(EventBody::QuestionSet(&answered)));
}

pub async fn a_question_set_that_was_never_told_of_cannot_be_removed(store: Arc<dyn Store>) {
    told(&*store, set(1)).await;

    let refused = record(&*store, Change::QuestionSetRemoved(set(2).id)).await;

    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
    assert_eq!(store.question_sets().await.expect("a read"), [set(1)]);
    assert_eq!(store.event_range().await.expect("a read"), 1..2);
}

pub async fn question_sets_are_in_the_snapshot(store: Arc<dyn Store>) {
    told(&*store, set(1)).await;

    let snapshot = store.snapshot().await.expect("a read");

    let expected = json!({
        "id": set(1).id, "kind": "question_set", "session_id": id(1), "status": "pending", "title": "Which 'one'? 1",
        "question_count": 2, "created_at": at(1), "updated_at": at(2),
    });
    assert_eq!((snapshot.event_number, snapshot.questions), (1, vec![expected]));
}
