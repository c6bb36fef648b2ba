//! Launch: time from the request until the session is running, and until its first output can be read.

use std::io::Read;
use std::process::Command;
use std::time::Instant;

use coven_api::routes::{CreateSession, Endpoint, Health};
use serde_json::json;

use super::coven::{Coven, Session};
use super::pty::Terminal;
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, micros, proc};

/// Prints immediately and keeps running.
const PROGRAM: [&str; 3] = ["/bin/sh", "-c", "echo ready; read line"];

/// Microseconds until the program is running and until its first output is readable.
struct Sample {
    running: f64,
    readable: f64,
}

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let home = Coven::started(bench, json!({}))?;
    let daemon = home.daemon_pid()?;
    coven(&home)?;

    let mut rounds: Vec<(Sample, Sample)> = Vec::new();
    for _ in 0..bench.rounds {
        let (mut base, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..bench.scale(40, 5) {
            // Work of the daemon for the previous session must not affect the next sample.
            proc::settled_cpu(daemon)?;
            base.push(bare()?);
            ours.push(coven(&home)?);
        }
        rounds.push((middle(&base), middle(&ours)));
    }

    let column = |value: &dyn Fn(&(Sample, Sample)) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
    let (base_running, base_readable) = (column(&|round| round.0.running), column(&|round| round.0.readable));
    let (running, readable) = (column(&|round| round.1.running), column(&|round| round.1.readable));
    Ok(vec![
        Row::anchor("launch: plain PTY and spawn, µs", Spread::of(&base_running)),
        Row::anchor("launch: plain, first output, µs", Spread::of(&base_readable)),
        Row::anchor("launch: coven, running, µs", Spread::of(&running)),
        Row::anchor("launch: coven, first output, µs", Spread::of(&readable)),
        Row::at_most("launch: response with status running / plain spawn", Spread::ratio(&running, &base_running), 5.0),
        Row::at_most(
            "launch: first output readable / plain first output",
            Spread::ratio(&readable, &base_readable),
            8.0,
        ),
    ])
}

fn middle(samples: &[Sample]) -> Sample {
    let of = |value: fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<_>>());
    Sample { running: of(|sample| sample.running), readable: of(|sample| sample.readable) }
}

fn bare() -> BenchResult<Sample> {
    let mut command = Command::new(PROGRAM[0]);
    command.args(&PROGRAM[1..]);
    let start = Instant::now();
    let terminal = Terminal::spawn(command)?;
    let running = micros(start.elapsed());
    terminal.read_some()?;
    Ok(Sample { running, readable: micros(start.elapsed()) })
}

fn coven(home: &Coven) -> BenchResult<Sample> {
    let request = home.request(&PROGRAM.map(str::to_owned));
    let (mut control, mut log) = (home.connect()?, home.connect()?);
    // The daemon accepts both connections before the measurement starts.
    control.get(Health::ROUTE.path)?;
    log.get(Health::ROUTE.path)?;

    let start = Instant::now();
    let record = control.post(CreateSession::ROUTE.path, &request)?;
    let running = micros(start.elapsed());
    let session = Session::from(&record)?;
    log.stream("GET", &session.path("/log?from=0&follow=true"), None)?.read_exact(&mut [0])?;
    let readable = micros(start.elapsed());

    if record["status"] != "running" {
        return Err(format!("the response has status {} instead of running", record["status"]).into());
    }
    home.kill(&session)?;
    home.sacrifice(&session)?;
    Ok(Sample { running, readable })
}
