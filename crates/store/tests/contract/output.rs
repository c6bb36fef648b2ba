//! `session.output`: one event per session, replaced by the next one.

use std::sync::Arc;

use coven_domain::event::EventBody;
use coven_domain::retention::Cutoffs;
use coven_store::{Change, Store};

use super::samples::*;

async fn output(store: &dyn Store, session: u32, offset: u64) -> u64 {
    record(store, Change::OutputAdded { session: id(session), offset }).await.expect("an event")
}

async fn kept(store: &dyn Store) -> Vec<(u64, String)> {
    let events = store.events_after(0, 100).await.expect("a read");
    events.into_iter().map(|it| (it.number, it.payload)).collect()
}

pub async fn new_output_replaces_only_the_previous_output_event(store: Arc<dyn Store>) {
    create(&*store, [running(1), running(2)]).await;
    let first = kept(&*store).await;
    assert_eq!(output(&*store, 1, 10).await, 3);
    assert_eq!(output(&*store, 2, 7).await, 4);
    assert_eq!(output(&*store, 1, 20).await, 5);

    let of = |session, offset| render(EventBody::Output { session: id(session), offset });
    assert_eq!(kept(&*store).await, [first, vec![(4, of(2, 7)), (5, of(1, 20))]].concat());
    // A gap does not count as expired: a reader from before it gets all remaining events.
    assert_eq!(store.event_range().await.expect("a read"), 1..6);

    let mut tx = store.begin().await.expect("a transaction");
    tx.record(Change::OutputAdded { session: id(1), offset: 30 }, NOW).await.expect("an event");
    drop(tx);
    assert_eq!(kept(&*store).await.last(), Some(&(5, of(1, 20))), "a dropped transaction replaces nothing");
}

pub async fn the_range_starts_after_the_expired_events(store: Arc<dyn Store>) {
    create(&*store, [running(1)]).await;
    for offset in [10, 20] {
        output(&*store, 1, offset).await;
    }
    // Event 1 expires; event 2 was replaced earlier.
    let mut tx = store.begin().await.expect("a transaction");
    tx.record(Change::OutputAdded { session: id(1), offset: 30 }, at(10)).await.expect("an event");
    tx.commit().await.expect("a commit");
    let swept = store.sweep(&Cutoffs { events: Some(at(5)), ..NEVER }, at(20)).await.expect("a sweep");
    assert_eq!((swept.events_deleted, swept.event_number), (1, Some(5)));
    assert_eq!(store.event_range().await.expect("a read"), 2..6);
    // The first remaining event is replaced: the range still starts at the same number.
    output(&*store, 1, 40).await;
    assert_eq!(store.event_range().await.expect("a read"), 2..7);
}
