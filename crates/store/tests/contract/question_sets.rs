//! Question sets: their stored summaries and events.

use std::sync::Arc;

use coven_domain::event::EventBody;
use coven_domain::question::{Choice, Question};
use coven_domain::question_set::{QuestionSet, QuestionSetState};
use coven_store::{Change, Store, StoreError};

use super::samples::*;

fn set(nth: u8) -> QuestionSet {
    let question = Question {
        options: vec![Choice { label: "A".into(), description: None }, Choice { label: "B".into(), description: None }],
        prompt: format!("Which 'one'? {nth}"),
        title: "One".into(),
        multi_select: false,
    };
    QuestionSet {
        id: coven_domain::QuestionSetId::from_random_bytes([nth; 16]),
        questions: vec![question.clone(), question],
        state: QuestionSetState::Pending,
        created_at: at(i64::from(nth)),
        modified_at: at(i64::from(nth) + 1),
        call_id: Some("call".into()),
        working_directory: None,
        session: (nth == 1).then(|| id(1).to_string()),
        answered_by: None,
        rejection_reason: None,
        abandon_reason: None,
        answers: None,
    }
}

async fn publish(store: &dyn Store, set: QuestionSet) {
    let event = set.state.event();
    record(store, Change::QuestionSetChanged { set, event }).await.expect("a change");
}

pub async fn question_sets_are_listed_oldest_first_and_every_change_has_an_event(store: Arc<dyn Store>) {
    publish(&*store, set(2)).await;
    publish(&*store, set(1)).await;
    assert_eq!(store.question_sets().await.expect("a read"), [set(1).summary(), set(2).summary()]);

    let answered = QuestionSet { state: QuestionSetState::Completed, modified_at: at(9), ..set(1) };
    publish(&*store, answered.clone()).await;
    assert_eq!(store.question_sets().await.expect("a read"), [answered.summary(), set(2).summary()]);
    record(&*store, Change::QuestionSetRemoved(answered.id)).await.expect("a removal");

    assert_eq!(store.question_sets().await.expect("a read"), [set(2).summary()]);
    let events = store.events_after(0, 10).await.expect("a read");
    let published: Vec<(&str, &str)> = events.iter().map(|it| (it.kind.as_str(), it.subject.as_str())).collect();
    let (first, second) = (set(1).id.to_string(), set(2).id.to_string());
    let expected = [
        ("question_set.asked", second.as_str()),
        ("question_set.asked", first.as_str()),
        ("question_set.completed", first.as_str()),
        ("question_set.dismissed", first.as_str()),
    ];
    assert_eq!(published, expected);
    assert_eq!(events[2].payload, render(EventBody::QuestionSet(&answered)));
}

pub async fn an_unknown_question_set_cannot_be_removed(store: Arc<dyn Store>) {
    publish(&*store, set(1)).await;

    let refused = record(&*store, Change::QuestionSetRemoved(set(2).id)).await;

    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
    assert_eq!(store.question_sets().await.expect("a read"), [set(1).summary()]);
    assert_eq!(store.event_range().await.expect("a read"), 1..2);
}

pub async fn question_sets_are_in_the_snapshot(store: Arc<dyn Store>) {
    publish(&*store, set(1)).await;

    let state = store.state_page(None, 10).await.expect("a read");

    assert_eq!((state.event_number, state.question_sets, state.next), (1, vec![set(1)], None));
}
