//! Echo: time from a keystroke in an attached client until the program's echo is on its screen.

use std::time::Instant;

use serde_json::json;

use super::coven::Coven;
use super::pattern::BANNER;
use super::peers::{self, Dtach, Tmux};
use super::pty::{self, Terminal};
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, micros};

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let argv = bench.program(&["echo"]);
    let keys = bench.scale(1000, 100);

    let raw = Terminal::spawn(pty::command(&argv))?;
    raw.read_until(BANNER.trim_ascii())?;

    let home = Coven::started(bench, json!({}))?;
    let session = home.launch(&argv)?;
    let coven = home.attach(&session)?;

    let dtach = peers::find("dtach").map(|_| Dtach::launch(&argv)).transpose()?;
    let dtach_client = dtach.as_ref().map(Dtach::attach).transpose()?;
    let tmux = peers::find("tmux").map(|_| Tmux::launch(&argv, 2000)).transpose()?;
    let tmux_client = tmux.as_ref().map(Tmux::attach).transpose()?;
    for client in [&dtach_client, &tmux_client].into_iter().flatten() {
        client.read_some()?;
    }

    let paths = [Some(&raw), Some(&coven), dtach_client.as_ref(), tmux_client.as_ref()];
    let mut p50: [Vec<f64>; 4] = Default::default();
    for _ in 0..bench.rounds + 2 {
        let mut times: [Vec<f64>; 4] = Default::default();
        // Short turns, so that other load on the machine affects all terminals equally.
        for turn in 0..keys / TURN {
            for place in (0..paths.len()).map(|place| (place + turn) % paths.len()) {
                if let Some(terminal) = paths[place] {
                    type_keys(terminal, TURN, &mut times[place])?;
                }
            }
        }
        for (p50, times) in p50.iter_mut().zip(&times).filter(|(_, times)| !times.is_empty()) {
            p50.push(median(times));
        }
    }

    let [raw, coven, dtach, tmux] = p50;
    let mut rows = Vec::new();
    for (name, times) in [("raw terminal", &raw), ("dtach", &dtach), ("tmux", &tmux), ("coven", &coven)] {
        if !times.is_empty() {
            rows.push(Row::anchor(format!("echo: {name}, p50 in µs"), Spread::of(times)));
        }
    }
    for (peer, times) in [("dtach", &dtach), ("tmux", &tmux)] {
        let name = format!("echo: coven / {peer}");
        rows.push(match times.is_empty() {
            true => Row::no_peer(name, peer),
            false => Row::at_most(name, Spread::ratio(&coven, times), 1.0),
        });
    }
    Ok(rows)
}

/// Number of keys typed into one terminal before the next one's turn.
const TURN: usize = 50;

/// Types keys, each after the echo of the previous one, and records the microseconds for each.
pub fn type_keys(terminal: &Terminal, keys: usize, times: &mut Vec<f64>) -> BenchResult<()> {
    // Letters that end no escape sequence of a multiplexer, and that no flood writes.
    let letters = b"vwyz";
    for key in 0..keys {
        let letter = [letters[key % letters.len()]];
        let start = Instant::now();
        terminal.write(&letter)?;
        terminal.read_until(&letter)?;
        times.push(micros(start.elapsed()));
    }
    Ok(())
}
