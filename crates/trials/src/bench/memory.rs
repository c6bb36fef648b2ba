//! Memory: the cost of an idle session and of its history.

use std::time::Duration;

use serde_json::json;

use super::coven::{Coven, Session, holder_of};
use super::flood::Gate;
use super::pattern::Kind;
use super::peers::{self, Dtach};
use super::report::Row;
use super::stats::Spread;
use super::{Bench, BenchResult, pattern, proc};

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let mut rows = idle(bench)?;
    rows.extend(history(bench)?);
    Ok(rows)
}

/// Measures the holders of 100 idle sessions, running at the same time so that they share pages as on a real machine.
fn idle(bench: &Bench) -> BenchResult<Vec<Row>> {
    let count = bench.scale(100, 10);
    let argv = ["/bin/cat".to_owned()];
    let home = Coven::started(bench, json!({}))?;
    let sessions = (0..count).map(|_| home.launch(&argv)).collect::<BenchResult<Vec<Session>>>()?;
    std::thread::sleep(Duration::from_secs(1));
    let pss =
        sessions.iter().map(|session| proc::pss_kib(holder_of(session.pid)?)).collect::<BenchResult<Vec<f64>>>()?;

    let daemon = proc::pss_kib(home.daemon_pid()?)?;
    let mut rows = vec![
        Row::anchor(format!("memory: daemon with {count} idle sessions, PSS in KiB"), daemon.round()),
        Row::at_most(format!("memory: holder of an idle session, one of {count}, PSS in KiB"), Spread::of(&pss), 512.0),
    ];
    rows.push(match peers::find("dtach") {
        None => Row::no_peer("memory: dtach, idle", "dtach"),
        Some(_) => Row::anchor(format!("memory: dtach, idle, one of {count}, PSS in KiB"), dtach_idle(bench, count)?),
    });
    Ok(rows)
}

fn dtach_idle(bench: &Bench, count: usize) -> BenchResult<Spread> {
    let mut held = Vec::new();
    for _ in 0..count {
        let gate = Gate::open()?;
        let dtach = Dtach::launch(&gate.argv(bench, Kind::Plain, 0))?;
        held.push((gate.accept()?, dtach));
    }
    let pss = held.iter().map(|(flood, _)| proc::pss_kib(holder_of(flood.pid)?)).collect::<BenchResult<Vec<f64>>>()?;
    Ok(Spread::of(&pss))
}

/// Measures daemon and holder before and after a program writes 100,000 lines.
fn history(bench: &Bench) -> BenchResult<Vec<Row>> {
    let lines = bench.scale(100_000, 20_000);
    let home = Coven::started(bench, json!({}))?;
    let daemon = home.daemon_pid()?;
    let growth = |lines: u64| -> BenchResult<f64> {
        let gate = Gate::open()?;
        let session = home.launch(&gate.argv(bench, Kind::Plain, lines * pattern::LINE_BYTES))?;
        let mut flood = gate.accept()?;
        let holder = holder_of(flood.pid)?;
        let before = settled_pss(daemon)? + settled_pss(holder)?;
        flood.run()?;
        let after = settled_pss(daemon)? + settled_pss(holder)?;
        drop(flood);
        home.wait(&session)?;
        home.sacrifice(&session)?;
        Ok(after - before)
    };
    // Warm-up: the first flood loads code and fills pools that the daemon keeps.
    growth(lines)?;
    let growths = (0..bench.rounds).map(|_| growth(lines)).collect::<BenchResult<Vec<f64>>>()?;
    let name = format!("memory: {lines} lines of history, growth of daemon + holder in KiB");
    Ok(vec![Row::at_most(name, Spread::of(&growths), 256.0)])
}

/// Returns the memory after the process is idle and has freed temporary buffers.
fn settled_pss(pid: u32) -> BenchResult<f64> {
    proc::settled_cpu(pid)?;
    std::thread::sleep(Duration::from_millis(500));
    proc::pss_kib(pid)
}
