//! Attach: time from starting the client to a painted screen, with a short and with a long history.

use std::time::{Duration, Instant};

use serde_json::json;

use super::coven::Coven;
use super::peers::{self, Dtach, Tmux};
use super::program::PAINTED;
use super::pty::Terminal;
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, micros};

/// Attaches to a session; `None` if the peer is not installed.
type Opening<'a> = Box<dyn Fn() -> Option<BenchResult<Terminal>> + 'a>;

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let long = bench.scale(100_000, 20_000);
    let program = |lines: u64| bench.program(&["page", &lines.to_string()]);

    let home = Coven::started(bench, json!({}))?;
    let (few, many) = (home.launch(&program(10))?, home.launch(&program(long))?);
    let dtach = peers::find("dtach").map(|_| Dtach::launch(&program(10))).transpose()?;
    let tmux = peers::find("tmux").map(|_| Tmux::launch(&program(long), long as u32)).transpose()?;

    let coven = |id: &str| Terminal::spawn(home.command(&["attach", id]));
    let paths: [(&str, Opening<'_>); 4] = [
        ("dtach", Box::new(|| dtach.as_ref().map(Dtach::attach))),
        ("tmux", Box::new(|| tmux.as_ref().map(Tmux::attach))),
        ("coven, 10 lines", Box::new(|| Some(coven(&few.id)))),
        ("coven, many lines", Box::new(|| Some(coven(&many.id)))),
    ];

    // Warm-up: wait until each program has painted its screen.
    for (_, attach) in &paths {
        attach().map(|client| client?.read_until(PAINTED)).transpose()?;
    }
    let mut medians: [Vec<f64>; 4] = Default::default();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 4] = Default::default();
        for turn in 0..bench.scale(12, 4) {
            for place in (0..paths.len()).map(|place| (place + turn) % paths.len()) {
                let start = Instant::now();
                let Some(client) = paths[place].1() else { continue };
                let client = client?;
                client.read_until(PAINTED)?;
                times[place].push(micros(start.elapsed()) / 1e3);
                drop(client);
                // Let the server notice the disconnect before the next measurement.
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        for (medians, times) in medians.iter_mut().zip(&times).filter(|(_, times)| !times.is_empty()) {
            medians.push(median(times));
        }
    }

    let mut rows: Vec<Row> = paths
        .iter()
        .zip(&medians)
        .filter(|(_, medians)| !medians.is_empty())
        .map(|((name, _), medians)| Row::anchor(format!("attach: {name}, ms"), Spread::of(medians)))
        .collect();
    let [dtach, tmux, few, many] = medians;
    match dtach.is_empty() {
        true => rows.push(Row::no_peer("attach: coven / dtach", "dtach")),
        false => {
            rows.push(Row::at_most("attach: coven with 10 lines / dtach", Spread::ratio(&few, &dtach), 1.5));
            rows.push(Row::at_most(
                format!("attach: coven with {long} lines / dtach"),
                Spread::ratio(&many, &dtach),
                1.5,
            ));
        }
    }
    if tmux.is_empty() {
        rows.push(Row::no_peer("attach: comparison with tmux", "tmux"));
    }
    rows.push(Row::at_most(format!("attach: {long} lines / 10 lines"), Spread::ratio(&many, &few), 1.1));
    Ok(rows)
}
