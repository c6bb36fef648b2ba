//! The event feed: each event is encoded once, kept in a ring buffer, and sent to subscribers from their own cursors.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use coven_domain::event::Event;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// Size of the ring buffer; a subscriber that is further behind reads from the store.
const RING_BYTES: usize = 4 << 20;
/// Maximum bytes of one send to a subscriber.
pub const CHUNK_BYTES: usize = 64 << 10;
const BLOCK_EVENTS: usize = 256;
/// The time between two wake-ups for each subscriber. All of them together are sent at most 20,000 pieces a second, so
/// that a burst of events reaches many subscribers in few pieces rather than in one piece for each event.
const PAUSE_PER_SUBSCRIBER: Duration = Duration::from_micros(50);
/// Timers are not more precise than this; shorter pauses become zero.
const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Position of an encoded event in its block.
#[derive(Debug)]
struct Place {
    number: u64,
    start: usize,
    json: Range<usize>,
}

#[derive(Debug)]
struct Block {
    places: Vec<Place>,
    bytes: Bytes,
}

impl Block {
    fn last(&self) -> u64 {
        self.places.last().map_or(0, |place| place.number)
    }

    fn places_after(&self, cursor: u64) -> &[Place] {
        &self.places[self.places.partition_point(|place| place.number <= cursor)..]
    }
}

#[derive(Debug, Default)]
struct Ring {
    blocks: VecDeque<Block>,
    bytes: usize,
    /// The newest number that is not in the ring.
    left: u64,
    /// The newest published number.
    last: u64,
    /// When subscribers may be woken again; `None` if they never were.
    next_wake: Option<Instant>,
}

impl Ring {
    /// Returns the index of the first block with an event after `cursor`.
    fn position<T>(&self, cursor: u64) -> Result<usize, Next<T>> {
        match cursor {
            _ if cursor >= self.last => Err(Next::Nothing),
            _ if cursor < self.left => Err(Next::TooOld),
            _ => Ok(self.blocks.partition_point(|block| block.last() <= cursor)),
        }
    }
}

/// What a subscriber gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<T> {
    /// Encoded events, and the cursor after them.
    Events { events: T, cursor: u64 },
    /// The subscriber is up to date.
    Nothing,
    /// The ring no longer holds everything after the cursor.
    TooOld,
}

/// Appends an event in the form that a stream sends, and returns the position of its JSON in `out`.
pub type Encode = fn(&Event, out: &mut Vec<u8>) -> Range<usize>;

/// Notifies subscribers of the newest number; each reads from its own cursor, so a slow subscriber costs nothing.
#[derive(Debug)]
pub struct Hub {
    ring: Mutex<Ring>,
    encode: Encode,
    newest: watch::Sender<u64>,
    /// Something was published before subscribers may be woken again.
    postponed: Notify,
}

impl Hub {
    pub fn new(last: u64, encode: Encode) -> Self {
        let ring = Ring { left: last, last, ..Ring::default() };
        Self { ring: Mutex::new(ring), encode, newest: watch::Sender::new(last), postponed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the events of a commit and wakes the subscribers. If they were woken too recently, [`Hub::wake_later`] wakes
    /// them.
    pub fn publish(&self, events: &[Event]) {
        let Some(last) = events.last().map(|event| event.number) else { return };
        let blocks: Vec<Block> = events.chunks(BLOCK_EVENTS).map(|piece| self.block(piece)).collect();
        let mut ring = self.lock();
        for block in blocks {
            ring.bytes += block.bytes.len();
            ring.blocks.push_back(block);
        }
        ring.last = last;
        while ring.bytes > RING_BYTES && ring.blocks.len() > 1 {
            let oldest = ring.blocks.pop_front().expect("there is more than one");
            ring.bytes -= oldest.bytes.len();
            ring.left = oldest.last();
        }
        let now = Instant::now();
        let is_due = ring.next_wake.is_none_or(|next_wake| next_wake <= now);
        if is_due {
            ring.next_wake = Some(now + self.pause());
        }
        drop(ring);
        if is_due {
            self.newest.send_replace(last);
        } else {
            self.postponed.notify_one();
        }
    }

    /// Returns the time between two wake-ups for the current number of subscribers.
    fn pause(&self) -> Duration {
        let subscribers = u32::try_from(self.newest.receiver_count()).unwrap_or(u32::MAX);
        match PAUSE_PER_SUBSCRIBER.saturating_mul(subscribers).min(MAX_PAUSE) {
            pause if pause < MIN_PAUSE => Duration::ZERO,
            pause => pause,
        }
    }

    /// Wakes the subscribers for events that were published too soon after others. Runs until it is dropped.
    pub async fn wake_later(&self) {
        loop {
            self.postponed.notified().await;
            let next_wake = self.lock().next_wake;
            if let Some(next_wake) = next_wake {
                sleep_until(next_wake).await;
            }
            let mut ring = self.lock();
            ring.next_wake = Some(Instant::now() + self.pause());
            let last = ring.last;
            drop(ring);
            self.newest.send_replace(last);
        }
    }

    fn block(&self, events: &[Event]) -> Block {
        /// Approximate length of number, kind, time and subject with their keys.
        const ENVELOPE_BYTES: usize = 224;
        let mut text = Vec::with_capacity(events.iter().map(|event| event.payload.len() + ENVELOPE_BYTES).sum());
        let place = |event: &Event| {
            let start = text.len();
            Place { number: event.number, start, json: (self.encode)(event, &mut text) }
        };
        let places = events.iter().map(place).collect();
        Block { places, bytes: Bytes::from(text) }
    }

    /// Receives every new number.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Returns the number of the newest event.
    pub fn last(&self) -> u64 {
        self.lock().last
    }

    /// Returns the events after `cursor` as a stream sends them, as much as fits one send.
    pub fn after(&self, cursor: u64) -> Next<Bytes> {
        let ring = self.lock();
        let index = match ring.position(cursor) {
            Ok(index) => index,
            Err(next) => return next,
        };
        let block = &ring.blocks[index];
        let start = block.places_after(cursor)[0].start;
        let mut total = block.bytes.len() - start;
        let count = ring
            .blocks
            .range(index + 1..)
            .take_while(|next| {
                total += next.bytes.len();
                total <= CHUNK_BYTES
            })
            .count();
        let cursor = ring.blocks[index + count].last();
        let first = block.bytes.slice(start..);
        if count == 0 {
            return Next::Events { events: first, cursor };
        }
        let rest: Vec<Bytes> = ring.blocks.range(index + 1..=index + count).map(|block| block.bytes.clone()).collect();
        drop(ring);
        let mut joined = Vec::with_capacity(first.len() + rest.iter().map(Bytes::len).sum::<usize>());
        joined.extend_from_slice(&first);
        rest.iter().for_each(|bytes| joined.extend_from_slice(bytes));
        Next::Events { events: Bytes::from(joined), cursor }
    }

    /// Returns the number and the JSON of each event after `cursor`, about as much as fits one send.
    pub fn json_after(&self, cursor: u64) -> Next<Vec<(u64, Bytes)>> {
        let ring = self.lock();
        let index = match ring.position(cursor) {
            Ok(index) => index,
            Err(next) => return next,
        };
        let mut total = 0;
        let places = ring.blocks.range(index..).flat_map(|block| {
            block.places_after(cursor).iter().map(move |place| (place.number, block.bytes.slice(place.json.clone())))
        });
        let events: Vec<_> = places
            .take_while(|(_, json)| {
                let is_wanted = total < CHUNK_BYTES;
                total += json.len();
                is_wanted
            })
            .collect();
        let cursor = events.last().map_or(cursor, |(number, _)| *number);
        Next::Events { events, cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::Timestamp;

    fn encode(event: &Event, out: &mut Vec<u8>) -> Range<usize> {
        out.extend_from_slice(format!("id: {}\ndata: ", event.number).as_bytes());
        let start = out.len();
        out.extend_from_slice(event.payload.as_bytes());
        let json = start..out.len();
        out.extend_from_slice(b"\n\n");
        json
    }

    fn event(number: u64) -> Event {
        let payload = format!("{{\"number\":{number},\"text\":\"with\\n\\nan empty line\"}}");
        let at = Timestamp::from_millis(1);
        Event { number, kind: "session.created".into(), subject: "s".into(), at, payload }
    }

    fn publish(hub: &Hub, numbers: impl IntoIterator<Item = u64>) {
        hub.publish(&numbers.into_iter().map(event).collect::<Vec<_>>());
    }

    fn numbers(bytes: &[u8]) -> Vec<u64> {
        String::from_utf8_lossy(bytes)
            .lines()
            .filter_map(|line| line.strip_prefix("id: "))
            .map(|number| number.parse().expect("a number"))
            .collect()
    }

    fn read_all(hub: &Hub, mut cursor: u64) -> Vec<u64> {
        let mut got = Vec::new();
        while let Next::Events { events, cursor: next } = hub.after(cursor) {
            got.extend(numbers(&events));
            cursor = next;
        }
        got
    }

    fn read_json(hub: &Hub, mut cursor: u64) -> Vec<u64> {
        let mut got = Vec::new();
        while let Next::Events { events, cursor: next } = hub.json_after(cursor) {
            for (number, json) in events {
                assert_eq!(String::from_utf8_lossy(&json), event(number).payload);
                got.push(number);
            }
            cursor = next;
        }
        got
    }

    #[test]
    fn every_cursor_gets_exactly_the_events_after_it() {
        let hub = Hub::new(10, encode);
        publish(&hub, 11..=700);
        publish(&hub, [701]);
        publish(&hub, 702..=705);
        for cursor in [10, 11, 265, 266, 267, 700, 701, 703, 705, 900] {
            let expected = (cursor + 1..=705).collect::<Vec<_>>();
            assert_eq!(read_all(&hub, cursor), expected, "after {cursor}");
            assert_eq!(read_json(&hub, cursor), expected, "after {cursor}");
        }
        assert_eq!(hub.after(3), Next::TooOld);
        assert_eq!(hub.json_after(3), Next::TooOld);
    }

    #[test]
    fn a_hole_in_the_numbers_is_not_a_gap() {
        let hub = Hub::new(10, encode);
        publish(&hub, [13, 14, 20]);
        publish(&hub, [22]);
        for (cursor, expected) in [(10, &[13, 14, 20, 22][..]), (12, &[13, 14, 20, 22]), (15, &[20, 22]), (21, &[22])] {
            assert_eq!(read_all(&hub, cursor), expected, "after {cursor}");
            assert_eq!(read_json(&hub, cursor), expected, "after {cursor}");
        }
        assert_eq!(hub.after(9), Next::TooOld);
    }

    #[tokio::test]
    async fn events_that_follow_closely_wake_the_subscribers_once() {
        let hub = Hub::new(0, encode);
        let mut subscriber = hub.subscribe();
        publish(&hub, [1]);
        assert_eq!(*subscriber.borrow_and_update(), 1, "the first event does not wait");
        hub.lock().next_wake = Some(Instant::now() + Duration::from_secs(3600));
        publish(&hub, [2]);
        publish(&hub, [3]);
        assert!(!subscriber.has_changed().expect("the hub exists"));
        hub.lock().next_wake = Some(Instant::now());
        tokio::select! {
            () = hub.wake_later() => {}
            changed = subscriber.changed() => changed.expect("the hub exists"),
        }
        assert_eq!(*subscriber.borrow_and_update(), 3);
    }

    #[test]
    fn the_pause_grows_with_the_subscribers_and_is_zero_for_few() {
        let hub = Hub::new(0, encode);
        let mut subscribers = Vec::new();
        for (count, pause) in [(0, 0), (19, 0), (20, 1), (100, 5), (5000, 100)] {
            subscribers.resize_with(count, || hub.subscribe());
            assert_eq!(hub.pause(), Duration::from_millis(pause), "{count} subscribers");
        }
    }

    #[test]
    fn an_old_cursor_is_too_old_and_memory_is_bounded() {
        let hub = Hub::new(0, encode);
        for number in 1..=120_000 {
            publish(&hub, [number]);
        }
        assert!(hub.lock().bytes <= RING_BYTES);
        assert_eq!(hub.after(1), Next::TooOld);
        assert_eq!(read_all(&hub, 119_000).len(), 1000);
        assert_eq!(read_json(&hub, 119_000).len(), 1000);
    }
}
