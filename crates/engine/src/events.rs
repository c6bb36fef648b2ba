//! The feed: events are encoded once, kept in a ring, and sent to each subscriber from its own cursor.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use coven_domain::event::Event;
use coven_store::{Store, StoreError};
use tokio::sync::watch;

/// How much of the feed is kept ready; who is further behind reads from the store.
const RING_BYTES: usize = 4 << 20;
/// The most a subscriber is sent at once.
pub const CHUNK_BYTES: usize = 64 << 10;
const PAGE: usize = 1000;
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
struct Block {
    first: u64,
    last: u64,
    bytes: Bytes,
}

#[derive(Debug, Default)]
struct Ring {
    blocks: VecDeque<Block>,
    bytes: usize,
    /// The last number that is in the ring or was before.
    last: u64,
}

/// What a subscriber gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Encoded events, and the cursor after them.
    Events { bytes: Bytes, cursor: u64 },
    /// It has everything.
    Nothing,
    /// The ring no longer holds what follows the cursor.
    TooOld,
}

/// Adds one event, as subscribers get it: it begins with `id: ` and ends with an empty line. Who speaks to them gives it.
pub type Encode = fn(&Event, &mut Vec<u8>);

/// Subscribers only learn that something is new and read after their own cursor: a slow one costs nothing.
#[derive(Debug)]
pub struct Hub {
    ring: Mutex<Ring>,
    encode: Encode,
    newest: watch::Sender<u64>,
}

impl Hub {
    pub fn new(last: u64, encode: Encode) -> Self {
        Self { ring: Mutex::new(Ring { last, ..Ring::default() }), encode, newest: watch::Sender::new(last) }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds events that follow the last one, in order, and wakes whoever waits.
    pub fn publish(&self, events: &[Event]) {
        let Some(last) = events.last().map(|event| event.number) else { return };
        let mut ring = self.lock();
        for piece in events.chunks(256) {
            let mut text = Vec::with_capacity(piece.len() * 320);
            for event in piece {
                (self.encode)(event, &mut text);
            }
            let (first, last) = (piece[0].number, piece[piece.len() - 1].number);
            ring.bytes += text.len();
            ring.last = last;
            ring.blocks.push_back(Block { first, last, bytes: Bytes::from(text) });
        }
        while ring.bytes > RING_BYTES && ring.blocks.len() > 1 {
            let oldest = ring.blocks.pop_front().expect("there is more than one");
            ring.bytes -= oldest.bytes.len();
        }
        drop(ring);
        self.newest.send_replace(last);
    }

    /// Told with every new number that can be read.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    pub fn last(&self) -> u64 {
        self.lock().last
    }

    /// What follows `cursor`, as much as fits one send.
    pub fn after(&self, cursor: u64) -> Next {
        let ring = self.lock();
        if cursor >= ring.last {
            return Next::Nothing;
        }
        // Blocks are in order: find the first that has something new.
        let index = ring.blocks.partition_point(|block| block.last <= cursor);
        let Some(block) = ring.blocks.get(index) else { return Next::TooOld };
        if block.first > cursor + 1 {
            return Next::TooOld;
        }
        if block.first <= cursor {
            // In the middle of a block: send the part of it that is new.
            return Next::Events { bytes: part_after(block, cursor), cursor: block.last };
        }
        let mut total = block.bytes.len();
        let count = 1 + ring
            .blocks
            .range(index + 1..)
            .take_while(|next| {
                total += next.bytes.len();
                total <= CHUNK_BYTES
            })
            .count();
        if count == 1 {
            return Next::Events { bytes: block.bytes.clone(), cursor: block.last };
        }
        let blocks: Vec<Block> = ring.blocks.range(index..index + count).cloned().collect();
        drop(ring);
        let cursor = blocks[count - 1].last;
        let mut joined = Vec::with_capacity(blocks.iter().map(|block| block.bytes.len()).sum());
        blocks.iter().for_each(|block| joined.extend_from_slice(&block.bytes));
        Next::Events { bytes: Bytes::from(joined), cursor }
    }
}

/// The events of a block behind `cursor`: each begins with `id: `, at the start of the block or after an empty line.
fn part_after(block: &Block, cursor: u64) -> Bytes {
    let skip = cursor + 1 - block.first;
    let mut at = 0;
    for _ in 0..skip {
        match block.bytes[at..].windows(2).position(|pair| pair == b"\n\n") {
            Some(end) => at += end + 2,
            None => break,
        }
    }
    block.bytes.slice(at..)
}

/// Brings what was committed into the ring; the one reader of the store behind the feed.
pub async fn pump(hub: Arc<Hub>, store: Arc<dyn Store>, mut committed: watch::Receiver<u64>) {
    while committed.changed().await.is_ok() {
        let newest = *committed.borrow_and_update();
        while hub.last() < newest {
            // Asked for by number, a few are read on the spot.
            let missing = usize::try_from(newest - hub.last()).unwrap_or(PAGE);
            match store.events_after(hub.last(), missing.min(PAGE)).await {
                Ok(events) if events.is_empty() => break,
                Ok(events) => hub.publish(&events),
                Err(error) => {
                    log_failure(&error);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

fn log_failure(error: &StoreError) {
    tracing::error!(%error, "events could not be read; it is tried again");
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::Timestamp;
    use coven_domain::event::NewEvent;
    use serde_json::json;

    fn encode(event: &Event, out: &mut Vec<u8>) {
        let data = json!({ "payload": event.event.payload });
        out.extend_from_slice(format!("id: {}\ndata: {data}\n\n", event.number).as_bytes());
    }

    fn event(number: u64) -> Event {
        let payload = json!({"text": "with\n\nan empty line"});
        let at = Timestamp::from_millis(1);
        Event { number, event: NewEvent { kind: "session.created".into(), subject: "s".into(), at, payload } }
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
        while let Next::Events { bytes, cursor: next } = hub.after(cursor) {
            got.extend(numbers(&bytes));
            cursor = next;
        }
        got
    }

    #[test]
    fn every_cursor_gets_exactly_what_follows_it() {
        let hub = Hub::new(10, encode);
        hub.publish(&(11..=700).map(event).collect::<Vec<_>>());
        hub.publish(&[event(701)]);
        hub.publish(&(702..=705).map(event).collect::<Vec<_>>());
        for cursor in [10, 11, 265, 266, 267, 700, 701, 703, 705, 900] {
            assert_eq!(read_all(&hub, cursor), (cursor + 1..=705).collect::<Vec<_>>(), "after {cursor}");
        }
        assert_eq!(hub.after(3), Next::TooOld);
    }

    #[test]
    fn an_old_cursor_is_told_so_and_memory_is_bounded() {
        let hub = Hub::new(0, encode);
        for number in 1..=120_000 {
            hub.publish(&[event(number)]);
        }
        assert!(hub.lock().bytes <= RING_BYTES);
        assert!(matches!(hub.after(1), Next::TooOld));
        assert_eq!(read_all(&hub, 119_000).len(), 1000);
    }
}
