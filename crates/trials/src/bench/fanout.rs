//! Fan-out: one producer and a hundred SSE clients; coven's feed compared with the framework's stream of single events.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::sse::{self, Sse};
use axum::routing::get;
use coven_api::routes::{Endpoint, ListEvents};
use coven_domain::Timestamp;
use coven_domain::event::Event;
use coven_engine::events::{Hub, Next};
use coven_server::event::{append_json, append_sse};
use futures_util::stream::{self, Stream};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{broadcast, oneshot};

use super::report::Row;
use super::stats::Spread;
use super::{Bench, BenchResult};

const CLIENTS: usize = 100;
/// Kind of the last event; a client that has received it has received all.
const LAST: &str = "bench.last";

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    // All events fit into the feed's ring buffer, so no client falls behind it.
    let events: Vec<Event> = events(bench.scale(20_000, 2000));
    let (mut ours, mut base) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        base.push(per_event(&events)?);
        ours.push(by_cursor(&events)?);
    }
    Ok(vec![
        Row::anchor(format!("fan-out: axum Sse, {CLIENTS} clients, deliveries/s"), Spread::of(&base)),
        Row::anchor(format!("fan-out: coven, {CLIENTS} clients, deliveries/s"), Spread::of(&ours)),
        Row::at_least("fan-out: coven / axum Sse per event", Spread::ratio(&ours, &base), 8.0),
    ])
}

/// Creates events of about 220 bytes each on the wire.
fn events(count: u64) -> Vec<Event> {
    let event = |number: u64| Event {
        number,
        kind: if number == count { LAST } else { "session.changed" }.to_owned(),
        subject: "7f3c1c52-6f0e-4c0e-9a56-0d8a5f1b7c11".to_owned(),
        at: Timestamp::from_millis(1_763_238_189_007 + number as i64),
        payload: r#"{"status":"running"}"#.to_owned(),
    };
    (1..=count).map(event).collect()
}

/// The framework's way: every client gets every event as a separate stream item.
fn per_event(events: &[Event]) -> BenchResult<f64> {
    type Item = Arc<(u64, String, String)>;
    let (sender, _) = broadcast::channel::<Item>(events.len());
    let subscribe = sender.clone();
    let stream = move || -> Sse<_> { Sse::new(one_by_one(subscribe.subscribe())) };
    fn one_by_one(receiver: broadcast::Receiver<Item>) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        stream::unfold(receiver, |mut receiver| async move {
            let item = receiver.recv().await.ok()?;
            let event = sse::Event::default().id(item.0.to_string()).event(&item.1).data(&item.2);
            Some((Ok(event), receiver))
        })
    }
    let item = |event: &Event| -> BenchResult<Item> {
        let mut json = Vec::new();
        append_json(event, &mut json);
        Ok(Arc::new((event.number, event.kind.clone(), String::from_utf8(json)?)))
    };
    let items: Vec<Item> = events.iter().map(item).collect::<BenchResult<_>>()?;
    let router = Router::new().route(ListEvents::ROUTE.path, get(async move || stream()));
    deliver(router, std::future::pending(), items, move |item| drop(sender.send(item)))
}

/// coven's way: events are encoded once, and each client gets everything after its cursor.
fn by_cursor(events: &[Event]) -> BenchResult<f64> {
    let hub = Arc::new(Hub::new(0, append_sse));
    let feed = Arc::clone(&hub);
    let body = move || Body::from_stream(from_cursor(Arc::clone(&feed)));
    fn from_cursor(hub: Arc<Hub>) -> impl Stream<Item = Result<Bytes, Infallible>> {
        let newest = hub.subscribe();
        stream::unfold((hub, newest, 0), |(hub, mut newest, cursor)| async move {
            loop {
                newest.borrow_and_update();
                match hub.after(cursor) {
                    Next::Events { events, cursor } => return Some((Ok(events), (hub, newest, cursor))),
                    Next::Nothing => newest.changed().await.ok()?,
                    Next::TooOld => return None,
                }
            }
        })
    }
    let router = Router::new().route(ListEvents::ROUTE.path, get(async move || body()));
    let waking = Arc::clone(&hub);
    let wake_later = async move { waking.wake_later().await };
    deliver(router, wake_later, events.to_vec(), move |event| hub.publish(&[event]))
}

/// Serves `router` on one thread, with `background` beside it, publishes everything from another, and returns the
/// deliveries per second.
fn deliver<T: Send + 'static>(
    router: Router,
    background: impl Future<Output = ()> + Send + 'static,
    events: Vec<T>,
    mut publish: impl FnMut(T) + Send + 'static,
) -> BenchResult<f64> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("socket");
    let (stop, stopped) = oneshot::channel::<()>();
    let address = socket.clone();
    let server = std::thread::spawn(move || serve(&address, router, background, stopped));
    let count = events.len();
    // Publish without pauses: the server is the bottleneck to measure.
    let taken = receive(&socket, count, move || events.into_iter().for_each(&mut publish));
    drop(stop);
    server.join().expect("the server does not panic")?;
    taken
}

#[tokio::main(flavor = "current_thread")]
async fn serve(
    socket: &Path,
    router: Router,
    background: impl Future<Output = ()> + Send + 'static,
    stopped: oneshot::Receiver<()>,
) -> BenchResult<()> {
    let listener = tokio::net::UnixListener::bind(socket)?;
    let background = tokio::spawn(background);
    let serving = tokio::spawn(axum::serve(listener, router).into_future());
    // Dropping the sender is the stop signal, so an error is expected.
    let _ = stopped.await;
    serving.abort();
    background.abort();
    Ok(())
}

/// Connects the clients, starts publishing and reads until each client has the last event.
fn receive(socket: &Path, count: usize, publish_all: impl FnOnce() + Send + 'static) -> BenchResult<f64> {
    super::eventually(Duration::from_secs(10), "the server's socket", || Ok(UnixStream::connect(socket).is_ok()))?;
    let mut clients = (0..CLIENTS).map(|_| Client::subscribe(socket)).collect::<BenchResult<Vec<_>>>()?;
    let start = Instant::now();
    let producer = std::thread::spawn(publish_all);
    let mut buffer = vec![0; 1 << 16];
    while !clients.is_empty() {
        let mut waiting: Vec<PollFd<'_>> =
            clients.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN)).collect();
        rustix::io::retry_on_intr(|| poll(&mut waiting, None))?;
        let mut ready = waiting.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
        let mut failure = None;
        clients.retain_mut(|client| match ready.next() {
            Some(true) => client.read(&mut buffer).unwrap_or_else(|error| {
                failure = Some(error);
                false
            }),
            Some(false) | None => true,
        });
        if let Some(error) = failure {
            return Err(error);
        }
    }
    let took = start.elapsed();
    producer.join().expect("the producer does not panic");
    Ok((CLIENTS * count) as f64 / took.as_secs_f64())
}

struct Client {
    stream: UnixStream,
    /// The end of the data read so far: the last event may be split between two reads.
    tail: Vec<u8>,
}

impl Client {
    fn subscribe(socket: &Path) -> BenchResult<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(b"GET /events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")?;
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        stream.set_nonblocking(true)?;
        Ok(Self { stream, tail: Vec::new() })
    }

    /// Reads once. Returns false after the last event.
    fn read(&mut self, buffer: &mut [u8]) -> BenchResult<bool> {
        const TAIL: usize = 512;
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err("a client was disconnected before the last event".into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        self.tail.extend_from_slice(&buffer[count.saturating_sub(TAIL)..count]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        Ok(!self.tail.windows(LAST.len()).any(|window| window == LAST.as_bytes()))
    }
}
