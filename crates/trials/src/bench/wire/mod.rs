//! The wire: how soon and how cheaply events arrive, and what viewers on `/api/v1/live` cost.

mod events;
mod interrupt;
mod redraw;
mod viewers;
mod websocket;

use super::report::Row;
use super::{Bench, Outcome};

pub fn measure(bench: &Bench) -> Outcome<Vec<Row>> {
    let mut rows = events::measure(bench)?;
    rows.extend(interrupt::measure(bench)?);
    rows.extend(viewers::measure(bench)?);
    rows.extend(redraw::measure(bench)?);
    Ok(rows)
}
