//! Memory: what an idle session costs, and what its history adds.

use serde_json::json;

use super::coven::{Coven, Session, holder_of};
use super::peers::{self, Dtach};
use super::program::PAINTED;
use super::pty::Terminal;
use super::report::Row;
use super::stats::Spread;
use super::{Bench, Outcome, proc};

pub fn measure(bench: &Bench) -> Outcome<Vec<Row>> {
    let mut rows = idle(bench)?;
    rows.extend(history(bench)?);
    Ok(rows)
}

/// The holders of 100 sessions that do nothing, side by side, as they would share pages on a real machine.
fn idle(bench: &Bench) -> Outcome<Vec<Row>> {
    let count = bench.scale(100, 10);
    let argv = ["/bin/cat".to_owned()];
    let home = Coven::started(bench, json!({}))?;
    let sessions = (0..count).map(|_| home.launch(&argv)).collect::<Outcome<Vec<Session>>>()?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    let pss = sessions.iter().map(|session| proc::pss_kib(holder_of(session.pid)?)).collect::<Outcome<Vec<f64>>>()?;

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

fn dtach_idle(bench: &Bench, count: usize) -> Outcome<Spread> {
    let mut held = Vec::new();
    for _ in 0..count {
        let gate = super::flood::Gate::open()?;
        let dtach = Dtach::launch(&gate.argv(bench, super::pattern::Kind::Plain, 0))?;
        held.push((gate.accept()?, dtach));
    }
    let pss = held.iter().map(|(flood, _)| proc::pss_kib(holder_of(flood.pid)?)).collect::<Outcome<Vec<f64>>>()?;
    Ok(Spread::of(&pss))
}

/// Daemon and holder after 100,000 lines against daemon and holder after 10, session by session.
fn history(bench: &Bench) -> Outcome<Vec<Row>> {
    let lines = bench.scale(100_000, 20_000);
    let home = Coven::started(bench, json!({}))?;
    let daemon = home.daemon_pid()?;
    // What one `page` session adds to the daemon, and what its holder takes.
    let cost = |lines: u64| -> Outcome<(f64, Session)> {
        let before = proc::pss_kib(daemon)?;
        let session = home.launch(&bench.program(&["page", &lines.to_string()]))?;
        Terminal::spawn(home.command(&["attach", &session.id]))?.read_until(PAINTED)?;
        // Let both put away what they needed only for the flood.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        Ok((proc::pss_kib(daemon)? - before + proc::pss_kib(holder_of(session.pid)?)?, session))
    };
    let end = |session: Session| -> Outcome<()> {
        home.kill(&session)?;
        home.sacrifice(&session)
    };
    // The first session makes the daemon touch code and pools it keeps for good.
    end(cost(10)?.1)?;
    let mut growth = Vec::new();
    for _ in 0..bench.rounds {
        let (few, first) = cost(10)?;
        let (many, second) = cost(lines)?;
        growth.push(many - few);
        end(first)?;
        end(second)?;
    }
    let name = format!("memory: {lines} lines of history, daemon + holder, KiB more");
    Ok(vec![Row::at_most(name, Spread::of(&growth), 256.0)])
}
