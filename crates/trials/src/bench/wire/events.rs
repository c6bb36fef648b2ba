//! Events: latency from the commit to an SSE client, and the daemon's CPU time per event with a hundred subscribers.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use coven_api::routes::{CreateTask, EditTask, Endpoint, ListEvents};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use serde_json::{Value, json};

use crate::bench::coven::Coven;
use crate::bench::http::Connection;
use crate::bench::report::Row;
use crate::bench::stats::{Spread, median};
use crate::bench::{Bench, BenchResult, micros, proc};

const SUBSCRIBERS: usize = 100;
/// Memory file system: waiting for a disk would hide the time after the commit.
const MEMORY: &str = "/dev/shm";

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let names = [
        "wire: commit until an SSE client has the event / baseline",
        "wire: daemon CPU per event, 100 subscribers / baseline",
    ];
    let Some(baseline) = &bench.baseline else {
        let how = "needs --baseline PATH, a release binary of commit c49db7f";
        return Ok(names.iter().map(|name| Row::missing(*name, how)).collect());
    };
    let (mut delays, mut costs): ([Vec<f64>; 2], [Vec<f64>; 2]) = Default::default();
    for _ in 0..bench.rounds {
        for (place, program) in [baseline, &bench.coven].into_iter().enumerate() {
            let home = Coven::started_in(program, Path::new(MEMORY), json!({}))?;
            delays[place].push(delay(&home, bench.scale(500, 50))?);
            costs[place].push(cost(&home, bench.scale(2000, 200))?);
        }
    }
    let [old_delay, delay] = delays;
    let [old_cost, cost] = costs;
    Ok(vec![
        Row::anchor("wire: commit until an SSE client has the event, baseline, p50 in µs", Spread::of(&old_delay)),
        Row::anchor("wire: commit until an SSE client has the event, p50 in µs", Spread::of(&delay)),
        Row::at_most(names[0], Spread::ratio(&delay, &old_delay), 0.8),
        Row::anchor("wire: daemon CPU per event, 100 subscribers, baseline, µs", Spread::of(&old_cost)),
        Row::anchor("wire: daemon CPU per event, 100 subscribers, µs", Spread::of(&cost)),
        Row::at_most(names[1], Spread::ratio(&cost, &old_cost), 0.8),
    ])
}

/// Returns the median time from the last write to the write-ahead log until the client has the event, in µs.
fn delay(home: &Coven, count: usize) -> BenchResult<f64> {
    let (mut requests, task) = task(home)?;
    let mut subscriber = Subscriber::open(home)?;
    let log = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&log, home.home().join("coven.db-wal"), inotify::WatchFlags::MODIFY)?;
    let mut delays = Vec::with_capacity(count);
    for round in 0..count {
        let title = format!("title number {round}");
        drain(&log)?;
        requests.send("PATCH", &task, Some(&json!({ "title": title })))?;
        delays.push(delivery(&log, &mut subscriber, title.as_bytes())?);
        requests.receive()?;
    }
    Ok(median(&delays))
}

/// Waits for the event that contains `wanted`. Returns the microseconds since the commit. It polls without sleeping,
/// because a sleeping process takes longer to wake up than the time to measure.
fn delivery(log: &OwnedFd, subscriber: &mut Subscriber, wanted: &[u8]) -> BenchResult<f64> {
    let mut committed = None;
    loop {
        let looked = Instant::now();
        if drain(log)? {
            committed = Some(looked);
        }
        if subscriber.has_received(wanted)? {
            // The commit may have happened between the two reads.
            let committed = if drain(log)? { looked } else { committed.ok_or("an event arrived before its commit")? };
            return Ok(micros(committed.elapsed()));
        }
    }
}

/// Reads the pending notifications. Returns whether there were any.
fn drain(log: &OwnedFd) -> BenchResult<bool> {
    match rustix::io::read(log, &mut [0; 4096]) {
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the daemon's CPU time for one change that a hundred subscribers receive, in µs.
fn cost(home: &Coven, count: usize) -> BenchResult<f64> {
    let (mut requests, task) = task(home)?;
    let subscribers = (0..SUBSCRIBERS).map(|_| Subscriber::open(home)).collect::<BenchResult<Vec<_>>>()?;
    let last = format!("title number {count}");
    let wanted = last.clone();
    let receiving = std::thread::spawn(move || receive(subscribers, wanted.as_bytes()));
    let daemon = home.daemon_pid()?;
    let before = proc::precise_cpu(daemon)?;
    for round in 1..=count {
        requests.send("PATCH", &task, Some(&json!({ "title": format!("title number {round}") })))?;
        requests.receive()?;
    }
    receiving.join().expect("the receiver does not panic")?;
    Ok(micros(proc::precise_cpu(daemon)? - before) / count as f64)
}

/// Reads until every subscriber has received the last event.
fn receive(mut subscribers: Vec<Subscriber>, last: &[u8]) -> BenchResult<()> {
    while !subscribers.is_empty() {
        let mut waiting: Vec<PollFd<'_>> =
            subscribers.iter().map(|it| PollFd::new(&it.stream, PollFlags::IN)).collect();
        rustix::io::retry_on_intr(|| poll(&mut waiting, None))?;
        let ready: Vec<bool> = waiting.iter().map(|fd| !fd.revents().is_empty()).collect();
        for place in (0..ready.len()).rev().filter(|place| ready[*place]) {
            if subscribers[place].has_received(last)? {
                subscribers.swap_remove(place);
            }
        }
    }
    Ok(())
}

/// Returns a connection for requests and the path of a task to change.
fn task(home: &Coven) -> BenchResult<(Connection, String)> {
    let mut requests = home.connect()?;
    let body = "A description of the task in a few words. ".repeat(10);
    let record: Value = requests.post(CreateTask::ROUTE.path, &json!({ "title": "a task", "body": body }))?;
    let id = record["id"].as_str().ok_or("the task record has no id")?;
    Ok((requests, EditTask::ROUTE.path.replace("{id}", id)))
}

/// A client of `/events` that searches the stream for text.
struct Subscriber {
    stream: UnixStream,
    tail: Vec<u8>,
    buffer: Vec<u8>,
}

impl Subscriber {
    fn open(home: &Coven) -> BenchResult<Self> {
        let mut stream = UnixStream::connect(home.home().join("coven.sock"))?;
        let path = ListEvents::ROUTE.path;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")?;
        let mut subscriber = Self { stream, tail: Vec::new(), buffer: vec![0; 1 << 16] };
        // The first comment confirms the subscription.
        while !subscriber.has_received(b": connected")? {}
        subscriber.stream.set_nonblocking(true)?;
        Ok(subscriber)
    }

    /// Reads once and reports whether the stream contains `wanted`.
    fn has_received(&mut self, wanted: &[u8]) -> BenchResult<bool> {
        const TAIL: usize = 256;
        let count = match self.stream.read(&mut self.buffer) {
            Ok(0) => return Err("the daemon closed a subscription".into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        self.tail.extend_from_slice(&self.buffer[..count]);
        // Must not be followed by a digit: `title number 1` is not `title number 10`.
        let ends = |rest: &[u8]| rest.first().is_none_or(|byte| !byte.is_ascii_digit());
        let found = self
            .tail
            .windows(wanted.len())
            .enumerate()
            .any(|(at, it)| it == wanted && ends(&self.tail[at + wanted.len()..]));
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        Ok(found)
    }
}
