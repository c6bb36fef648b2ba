//! Capture with twenty viewers on `/api/v1/live`, ten of which never acknowledge.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::json;

use super::websocket::{Frame, LiveClient};
use crate::bench::coven::{Coven, Session};
use crate::bench::flood::Gate;
use crate::bench::pattern::Kind;
use crate::bench::report::Row;
use crate::bench::stats::Spread;
use crate::bench::{Bench, BenchResult};

const PAINTING: usize = 10;
const SILENT: usize = 10;
/// A viewer paints and acknowledges at the refresh rate of a screen.
const FRAME_TIME: Duration = Duration::from_millis(16);

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let bytes = bench.scale(200_000_000, 20_000_000);
    let home = Coven::started(bench, json!({ "compressFinished": false }))?;
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        alone.push(speed(bench, &home, bytes, 0, 0)?);
        watched.push(speed(bench, &home, bytes, PAINTING, SILENT)?);
    }
    Ok(vec![
        Row::anchor("wire: capture, no viewer, MB/s", Spread::of(&alone)),
        Row::anchor("wire: capture, 20 viewers, 10 of them never acknowledge, MB/s", Spread::of(&watched)),
        Row::at_least("wire: capture with 20 viewers / none", Spread::ratio(&watched, &alone), 0.95),
    ])
}

/// Returns the throughput of the flood in MB/s, after checking the log.
fn speed(bench: &Bench, home: &Coven, bytes: u64, painting: usize, silent: usize) -> BenchResult<f64> {
    let gate = Gate::open()?;
    let session = home.launch(&gate.argv(bench, Kind::Plain, bytes))?;
    let mut flood = gate.accept()?;
    let painters = (0..painting).map(|_| watching(home, &session)).collect::<BenchResult<Vec<_>>>()?;
    // They stay connected and never acknowledge.
    let _silent = (0..silent).map(|_| watching(home, &session)).collect::<BenchResult<Vec<_>>>()?;
    let closers = painters.iter().map(LiveClient::closer).collect::<BenchResult<Vec<_>>>()?;
    let threads: Vec<_> = painters.into_iter().map(|viewer| std::thread::spawn(move || paint(viewer))).collect();
    let took = flood.run()?;
    for closer in closers {
        closer.shutdown(Shutdown::Both)?;
    }
    for thread in threads {
        thread.join().expect("a viewer does not panic");
    }
    drop(flood);
    home.wait(&session)?;
    home.check_log(&session, Kind::Plain, bytes)?;
    home.sacrifice(&session)?;
    Ok(bytes as f64 / 1e6 / took.as_secs_f64())
}

fn watching(home: &Coven, session: &Session) -> BenchResult<LiveClient> {
    let mut viewer = LiveClient::open(home)?;
    viewer.watch(session, "bytes")?;
    Ok(viewer)
}

/// Reads everything; acknowledges once per frame time.
fn paint(mut viewer: LiveClient) {
    let (mut painted_at, mut waiting) = (Instant::now(), 0);
    while let Ok(frame) = viewer.next() {
        let is_lagging = match frame {
            Frame::Output { end, .. } => {
                waiting = end;
                false
            }
            Frame::Control { message, .. } => {
                waiting = message["offset"].as_u64().unwrap_or(waiting).max(waiting);
                message["type"] == "lagging"
            }
        };
        let since = painted_at.elapsed();
        if is_lagging && since < FRAME_TIME {
            std::thread::sleep(FRAME_TIME - since);
        }
        if is_lagging || since >= FRAME_TIME {
            painted_at = Instant::now();
            if viewer.ack(waiting).is_err() {
                return;
            }
        }
    }
}
