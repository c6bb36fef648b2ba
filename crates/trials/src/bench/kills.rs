//! Checks that no bytes are lost when the daemon is killed or restarted during floods.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::coven::{Coven, Session};
use super::flood::Gate;
use super::pattern::{BANNER, Kind, Random};
use super::pty::STEP_TIMEOUT;
use super::report::Row;
use super::{Bench, BenchResult, proc};

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    Ok(vec![
        over_floods(bench, "kill -9 of the daemon", bench.scale(500, 20), kill_and_start)?,
        over_floods(bench, "restarts of the daemon", bench.scale(200, 10), |home| {
            home.call(&["daemon", "restart"]).map(drop)
        })?,
    ])
}

fn kill_and_start(home: &Coven) -> BenchResult<()> {
    let pid = home.daemon_pid()?;
    kill_process(Pid::from_raw(pid as i32).ok_or("the daemon has pid 0")?, Signal::KILL)?;
    super::eventually(STEP_TIMEOUT, "the killed daemon to exit", || Ok(proc::is_gone(pid)))?;
    home.start()
}

/// Calls `disturb` at random moments during one flood after another, until `count` calls happened during a flood.
fn over_floods(
    bench: &Bench,
    what: &str,
    count: usize,
    disturb: impl Fn(&Coven) -> BenchResult<()>,
) -> BenchResult<Row> {
    let bytes = bench.scale(100_000_000, 20_000_000);
    let home = Coven::started(bench, json!({ "compressFinished": false }))?;
    let mut random = Random::new(count as u64);
    let (mut hit, mut floods, mut failures) = (0, 0, Vec::new());
    while hit < count {
        let kind = if floods % 2 == 0 { Kind::Plain } else { Kind::Ansi };
        let gate = Gate::open()?;
        let session = home.launch(&gate.argv(bench, kind, bytes))?;
        let mut flood = gate.accept()?;
        let running = std::thread::spawn(move || flood.run().map(|took| (took, Instant::now())));
        let mut moments = Vec::new();
        while !running.is_finished() && hit + moments.len() < count {
            std::thread::sleep(Duration::from_millis(random.below(80)));
            moments.push(Instant::now());
            disturb(&home)?;
        }
        let (_, end) = running.join().expect("the flood's thread does not panic")?;
        hit += moments.iter().filter(|&&moment| moment < end).count();
        floods += 1;
        home.wait(&session)?;
        if let Err(error) = home.check_log(&session, kind, bytes).and_then(|()| check_ledger(&home, &session, bytes)) {
            failures.push(format!("{}: {error}", session.id));
        }
        home.sacrifice(&session)?;
    }
    let measured = match failures.first() {
        None => format!("0 bytes ({hit} in {floods} floods of {} MB)", bytes / 1_000_000),
        Some(first) => format!("{} of {floods} floods damaged; first: {first}", failures.len()),
    };
    Ok(Row::judged(format!("bytes lost: {what} during a flood"), measured, "0", failures.is_empty()))
}

/// Checks that the ledger's output entries cover every byte of the log exactly once.
fn check_ledger(home: &Coven, session: &Session, bytes: u64) -> BenchResult<()> {
    let mut connection = home.connect()?;
    let (mut after, mut covered) = (0, 0);
    loop {
        let page = connection.get_json(&session.path(&format!("/entries?after={after}&limit=1000")))?;
        let entries = page["entries"].as_array().ok_or("the page has no entries")?;
        if entries.is_empty() {
            break;
        }
        for entry in entries.iter().filter(|entry| entry["kind"] == "output") {
            let (offset, length) =
                (entry["offset"].as_u64().unwrap_or_default(), entry["length"].as_u64().unwrap_or_default());
            if offset != covered {
                return Err(format!(
                    "gap or overlap in the ledger: it covers {covered} bytes, and the next entry starts at {offset}"
                )
                .into());
            }
            covered = offset + length;
        }
        after = page["next"].as_u64().ok_or("the page has no next")?;
    }
    let wanted = bytes + BANNER.len() as u64;
    match covered == wanted {
        true => Ok(()),
        false => Err(format!("the ledger covers {covered} of {wanted} bytes").into()),
    }
}
