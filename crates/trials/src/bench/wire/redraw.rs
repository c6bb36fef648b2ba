//! Bytes on the wire when a full-screen program repaints its whole screen and three rows have changed.

use serde_json::json;

use super::websocket::{Frame, LiveClient};
use crate::bench::coven::Coven;
use crate::bench::program::redrawn;
use crate::bench::report::Row;
use crate::bench::stats::Spread;
use crate::bench::{Bench, BenchResult};

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let home = Coven::started(bench, json!({}))?;
    let redraws = bench.scale(100, 10);
    let (mut bytes, mut rows) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        bytes.push(per_redraw(bench, &home, "bytes", redraws)?);
        rows.push(per_redraw(bench, &home, "rows", redraws)?);
    }
    Ok(vec![
        Row::anchor("wire: a full-screen redraw as bytes, bytes", Spread::of(&bytes)),
        Row::anchor("wire: a full-screen redraw as rows, bytes", Spread::of(&rows)),
        Row::at_most("wire: redraw as rows / as bytes", Spread::ratio(&rows, &bytes), 0.3),
    ])
}

/// Returns the bytes that a viewer receives for one redraw. Frames contain the offset they reach and every redraw has
/// the same size, so the next redraw is requested when the previous one is complete.
fn per_redraw(bench: &Bench, home: &Coven, mode: &str, redraws: usize) -> BenchResult<f64> {
    let session = home.launch(&bench.program(&["redraw"]))?;
    let mut viewer = LiveClient::open(home)?;
    let size = redrawn(0).len() as u64;
    if viewer.watch(&session, mode)? < size {
        reach(&mut viewer, size)?;
    }
    let mut total = 0;
    for number in 1..=redraws {
        viewer.input(&session, "r")?;
        total += reach(&mut viewer, (number as u64 + 1) * size)?;
    }
    home.kill(&session)?;
    Ok(total as f64 / redraws as f64)
}

/// Reads until offset `end` of the log. Returns the number of bytes on the wire.
fn reach(viewer: &mut LiveClient, end: u64) -> BenchResult<usize> {
    let (mut reached, mut total) = (0, 0);
    while reached < end {
        let (offset, size) = match viewer.next()? {
            Frame::Output { end, size } => (end, size),
            Frame::Control { message, size } => (message["offset"].as_u64().unwrap_or(reached), size),
        };
        reached = offset.max(reached);
        total += size;
        viewer.ack(reached)?;
    }
    Ok(total)
}
