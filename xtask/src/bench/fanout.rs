//! Fan-out: one producer of events, a hundred SSE clients.

use super::report::Row;
use super::{Bench, Outcome};

pub fn measure(_bench: &Bench) -> Outcome<Vec<Row>> {
    Ok(vec![Row::missing("fanout", "not written yet")])
}
