//! The terminal app: start with many sessions, cost while idle, echo beside floods, memory with a large store.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::coven::{Coven, Session};
use super::pty::{self, Terminal};
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, echo, ledger, micros, proc};

/// Output of each flooding session.
const FLOOD_BYTES_PER_SECOND: u64 = 5_000_000;
const FLOODS: usize = 3;
/// Keys typed into one terminal before the other one's turn.
const TURN: usize = 25;

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let mut rows = start(bench)?;
    rows.extend(idle(bench)?);
    rows.extend(echo_beside_floods(bench)?);
    rows.push(memory(bench)?);
    Ok(rows)
}

/// Time until the first rows are painted.
fn start(bench: &Bench) -> BenchResult<Vec<Row>> {
    let counts = [10, bench.scale(1000, 300)];
    let mut homes = Vec::new();
    for count in counts {
        let home = Coven::new(bench, json!({}))?;
        ledger::add_created_sessions(&home.home().join("coven.db"), count)?;
        home.start()?;
        homes.push(home);
    }
    let mut medians: [Vec<f64>; 2] = Default::default();
    for round in 0..bench.rounds + 1 {
        let mut times: [Vec<f64>; 2] = Default::default();
        for turn in 0..bench.scale(6, 2) {
            for place in [turn % 2, (turn + 1) % 2] {
                let begin = Instant::now();
                let app = Terminal::spawn(homes[place].command(&["sessions"]))?;
                app.read_until(b"idle ")?;
                times[place].push(micros(begin.elapsed()) / 1e3);
            }
        }
        // The first round warms up.
        if round > 0 {
            medians.iter_mut().zip(&times).for_each(|(medians, times)| medians.push(median(times)));
        }
    }
    let [few, many] = medians;
    Ok(vec![
        Row::anchor("app: start until painted, 10 sessions, ms", Spread::of(&few)),
        Row::anchor(format!("app: start until painted, {} sessions, ms", counts[1]), Spread::of(&many)),
        Row::at_most(format!("app: start with {} sessions / with 10", counts[1]), Spread::ratio(&many, &few), 2.0),
    ])
}

/// CPU of an app in which nothing changes.
fn idle(bench: &Bench) -> BenchResult<Vec<Row>> {
    let home = Coven::started(bench, json!({}))?;
    for _ in 0..10 {
        home.launch(&bench.program(&["echo"]))?;
    }
    let app = Terminal::spawn(home.command(&["sessions"]))?;
    app.read_until(b"working 10")?;
    let reader = pty::drain_clients(vec![app.master()?]);
    proc::settled_cpu(app.pid())?;
    let (before, begin) = (proc::precise_cpu(app.pid())?, Instant::now());
    sleep(Duration::from_secs(bench.scale(30, 5)));
    let used = proc::precise_cpu(app.pid())? - before;
    let percent = used.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0;
    drop(app);
    reader.join().map_err(|_| "the reader panicked")??;
    Ok(vec![Row::at_most("app: idle with 10 sessions, % of a core", Spread::of(&[percent]), 0.5)])
}

/// Echo in the focused pane while the other three panes flood, compared with attach and no flood.
fn echo_beside_floods(bench: &Bench) -> BenchResult<Vec<Row>> {
    let keys = bench.scale(500, 50);
    let alone = Coven::started(bench, json!({}))?;
    let attached = alone.attach(&alone.launch(&bench.program(&["echo"]))?)?;

    let home = Coven::started(bench, json!({}))?;
    let rate = FLOOD_BYTES_PER_SECOND.to_string();
    let mut floods = Vec::new();
    for _ in 0..FLOODS {
        floods.push(home.launch(&bench.program(&["paced", &rate]))?);
    }
    home.launch(&bench.program(&["echo"]))?;
    fs::write(home.home().join("app-layout.json"), layout(&floods).to_string())?;
    // The newest session is selected first.
    let app = Terminal::spawn(home.command(&["sessions"]))?;
    app.read_until(b"working 4")?;
    app.write(b"\r")?;

    let mut p50: [Vec<f64>; 2] = Default::default();
    for round in 0..bench.rounds + 1 {
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..keys / TURN {
            pause(&floods, Signal::STOP)?;
            echo::type_keys(&attached, TURN, &mut times[0])?;
            pause(&floods, Signal::CONT)?;
            echo::type_keys(&app, TURN, &mut times[1])?;
        }
        if round > 0 {
            p50.iter_mut().zip(&times).for_each(|(p50, times)| p50.push(median(times)));
        }
    }
    let [attach, app] = p50;
    Ok(vec![
        Row::anchor("app: echo of attach alone, p50 in µs", Spread::of(&attach)),
        Row::anchor("app: echo in a pane beside three of 5 MB/s, p50 in µs", Spread::of(&app)),
        Row::at_most("app: echo beside floods / attach alone", Spread::ratio(&app, &attach), 2.0),
    ])
}

/// Four panes: the first follows the selection, the others show the floods.
fn layout(floods: &[Session]) -> Value {
    let split = |direction: &str, first: Value, second: Value| json!({"split": {"direction": direction, "first": first, "second": second}});
    let pane = |pane: usize| json!({ "pane": pane });
    let panes: Vec<Value> = floods.iter().zip(1..).map(|(flood, pane)| json!([pane, {"session": flood.id}])).collect();
    let left = split("below", pane(0), pane(1));
    json!({"layout": split("right", left, split("below", pane(2), pane(3))), "panes": panes})
}

fn pause(floods: &[Session], signal: Signal) -> BenchResult<()> {
    for flood in floods {
        let pid = Pid::from_raw(flood.pid.cast_signed()).ok_or("the flood has no pid")?;
        kill_process(pid, signal)?;
    }
    Ok(())
}

/// Memory of the app with a large store.
fn memory(bench: &Bench) -> BenchResult<Row> {
    let count = bench.scale(100_000, 5000);
    let home = Coven::new(bench, json!({}))?;
    ledger::add_sessions(&home.home().join("coven.db"), count)?;
    home.start()?;
    let app = Terminal::spawn(home.command(&["sessions"]))?;
    app.read_until(b"finished ")?;
    let reader = pty::drain_clients(vec![app.master()?]);
    proc::settled_cpu(app.pid())?;
    let pss = proc::pss_kib(app.pid())? / 1024.0;
    drop(app);
    reader.join().map_err(|_| "the reader panicked")??;
    Ok(Row::at_most(format!("app: PSS with {count} sessions in the store, MiB"), Spread::of(&[pss]), 60.0))
}
