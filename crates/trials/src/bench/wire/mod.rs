//! The wire: latency and CPU cost of events, and the cost of viewers on `/api/v1/live`.

mod events;
mod interrupt;
mod redraw;
mod viewers;
mod websocket;

use super::report::Row;
use super::{Bench, BenchResult};

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let mut rows = events::measure(bench)?;
    rows.extend(interrupt::measure(bench)?);
    rows.extend(viewers::measure(bench)?);
    rows.extend(redraw::measure(bench)?);
    Ok(rows)
}
