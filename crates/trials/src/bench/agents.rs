//! ACP sessions: accepting prompts, streaming, reading history, and the memory left after a thousand sessions.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use coven_api::routes::{
    AddRepo, CancelCompatSession, CreateCompatSession, Endpoint, Health, ListCompatMessages, ListSessions,
    PromptCompatSession, ReadAcpState, WaitSession,
};
use rusqlite::OpenFlags;
use serde_json::{Value, json};

use super::acp_agent::chunk_text;
use super::coven::Coven;
use super::http::Connection;
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, eventually, micros, proc};

const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let mut rows = prompts(bench)?;
    rows.extend(streaming(bench)?);
    rows.extend(reading(bench)?);
    rows.extend(growth(bench)?);
    Ok(rows)
}

/// A home with a repository and the benchmark's agent.
struct Fixture {
    home: Coven,
    repo: String,
}

impl Fixture {
    fn new(bench: &Bench) -> BenchResult<Self> {
        let home = Coven::new(bench, json!({}))?;
        let this = bench.this.to_string_lossy();
        let config = json!({
            "agents": { "maxSessions": 1000, "harness": "bench" },
            "harnesses": { "bench": { "program": this, "acpArgs": ["acp-agent"] } },
        });
        fs::write(home.home().join("config.json"), config.to_string())?;
        let folder = home.home().parent().ok_or("the home has no parent folder")?.join("repo");
        let made = Command::new("git").args(["init", "-q"]).arg(&folder).status()?;
        if !made.success() {
            return Err("git init failed".into());
        }
        home.start()?;
        let repo = home.connect()?.post(AddRepo::ROUTE.path, &json!({ "path": folder }))?;
        let repo = repo["id"].as_str().ok_or("the repository record has no id")?.to_owned();
        Ok(Self { home, repo })
    }

    fn open(&self, connection: &mut Connection) -> BenchResult<String> {
        let session = connection.post(CreateCompatSession::ROUTE.path, &json!({ "repoId": self.repo }))?;
        Ok(session["id"].as_str().ok_or("the session record has no id")?.to_owned())
    }
}

fn prompt(connection: &mut Connection, id: &str, text: &str) -> BenchResult<()> {
    connection.post(PromptCompatSession::of(id).target(), &json!({ "text": text })).map(drop)
}

fn wait_until_idle(connection: &mut Connection, id: &str) -> BenchResult<()> {
    eventually(IDLE_TIMEOUT, "the agent to be idle", || {
        let state = connection.get_json(ReadAcpState::of(id).target())?;
        Ok(state["activity"] == "idle" && state["queued"] == 0)
    })
}

/// Measures the time until a prompt is accepted, compared with a health request.
fn prompts(bench: &Bench) -> BenchResult<Vec<Row>> {
    let fixture = Fixture::new(bench)?;
    let mut connection = fixture.home.connect()?;
    let id = fixture.open(&mut connection)?;
    wait_until_idle(&mut connection, &id)?;
    let (mut taken, mut health) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..bench.scale(200, 20) {
            let start = Instant::now();
            connection.get(Health::ROUTE.path)?;
            times[0].push(micros(start.elapsed()));
            let start = Instant::now();
            prompt(&mut connection, &id, "ok")?;
            times[1].push(micros(start.elapsed()));
            wait_until_idle(&mut connection, &id)?;
        }
        health.push(median(&times[0]));
        taken.push(median(&times[1]));
    }
    Ok(vec![
        Row::anchor("agents: a health request, p50 in µs", Spread::of(&health)),
        Row::anchor("agents: a prompt until it is accepted, p50 in µs", Spread::of(&taken)),
        Row::at_most("agents: prompt accepted / health request", Spread::ratio(&taken, &health), 4.0),
    ])
}

/// Measures list requests while twenty agents stream.
fn streaming(bench: &Bench) -> BenchResult<Vec<Row>> {
    const AGENTS: usize = 20;
    const RATE: u64 = 1000;
    const BYTES: usize = 24;
    let seconds: u64 = bench.scale(30, 3);
    let fixture = Fixture::new(bench)?;
    let mut connection = fixture.home.connect()?;
    let ids: Vec<String> = (0..AGENTS).map(|_| fixture.open(&mut connection)).collect::<BenchResult<_>>()?;
    for id in &ids {
        wait_until_idle(&mut connection, id)?;
    }
    let list = &format!("{}?limit=20", ListSessions::ROUTE.path);
    // Measured half before and half after the streaming, for the same total time: the load of a shared machine varies.
    let half = Duration::from_secs(seconds) / 2;
    let mut idle = list_times(&mut connection, list, half)?;
    let pid = fixture.home.daemon_pid()?;
    let before = (proc::cpu(pid)?, Instant::now());
    for id in &ids {
        prompt(&mut connection, id, &format!("chunks {} {RATE} {BYTES}", RATE * seconds))?;
    }
    let busy = p99(list_times(&mut connection, list, Duration::from_secs(seconds))?);
    for id in &ids {
        wait_until_idle(&mut connection, id)?;
    }
    let cores = (proc::cpu(pid)? - before.0).as_secs_f64() / before.1.elapsed().as_secs_f64();
    idle.extend(list_times(&mut connection, list, half)?);
    let idle = p99(idle);
    let expected: String = (0..RATE * seconds).map(|number| chunk_text(number, BYTES)).collect();
    let mut wrong = 0;
    for id in &ids {
        let messages = connection.get_json(ListCompatMessages::of(id).target())?;
        let texts: Vec<&Value> = messages.as_array().ok_or("no messages")?.iter().map(|it| &it["content"]).collect();
        let is_right = texts.len() == 2 && texts[1]["text"] == expected.as_str() && texts[1]["partial"] == false;
        wrong += usize::from(!is_right);
    }
    let what = format!("agents: {AGENTS} stream {RATE} chunks/s for {seconds} s");
    Ok(vec![
        Row::judged(format!("{what}: incomplete or reordered answers"), wrong.to_string(), "0", wrong == 0),
        Row::judged(format!("{what}: daemon, cores"), format!("{cores:.2}"), "≤ 1.00", cores <= 1.0),
        Row::anchor("agents: list page of an idle daemon, p99 in µs", format!("{idle:.0}")),
        Row::anchor("agents: list page while streaming, p99 in µs", format!("{busy:.0}")),
        Row::judged(
            "agents: list page while streaming / idle, p99",
            format!("{:.1}", busy / idle),
            "≤ 10.00",
            busy / idle <= 10.0,
        ),
    ])
}

/// Sends a request every few milliseconds and returns the response times in µs.
fn list_times(connection: &mut Connection, path: &str, during: Duration) -> BenchResult<Vec<f64>> {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < during {
        let sent = Instant::now();
        connection.get(path)?;
        times.push(micros(sent.elapsed()));
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(times)
}

/// Returns the 99th percentile.
fn p99(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

/// Compares reading a long history with a plain SELECT of its rows, and a history of many chunks with one of few.
fn reading(bench: &Bench) -> BenchResult<Vec<Row>> {
    let fixture = Fixture::new(bench)?;
    let mut connection = fixture.home.connect()?;
    let count: u64 = bench.scale(10_000, 1_000);
    let chunks: u64 = bench.scale(100_000, 10_000);
    let made = |connection: &mut Connection, text: String| -> BenchResult<String> {
        let id = fixture.open(connection)?;
        prompt(connection, &id, &text)?;
        wait_until_idle(connection, &id)?;
        Ok(id)
    };
    let long = made(&mut connection, format!("talk {count}"))?;
    // The same amount of text in chunks of different sizes.
    let total = 24 * chunks;
    let many = made(&mut connection, format!("chunks {chunks} 0 24"))?;
    let few = made(&mut connection, format!("chunks 100 0 {}", total / 100))?;
    let db = fixture.home.home().join("coven.db");
    let path = |id: &str| ListCompatMessages::of(id).target().to_owned();
    let read = connection.get_json(&path(&long))?.as_array().map_or(0, Vec::len) as u64;
    if read != count + 1 {
        return Err(format!("read {read} of {} messages", count + 1).into());
    }
    let mut medians: [Vec<f64>; 4] = Default::default();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 4] = Default::default();
        for _ in 0..bench.scale(15, 3) {
            for (place, id) in [(0, &long), (2, &many), (3, &few)] {
                let start = Instant::now();
                connection.get(&path(id))?;
                times[place].push(micros(start.elapsed()));
            }
            let start = Instant::now();
            bare(&db, &long)?;
            times[1].push(micros(start.elapsed()));
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
    }
    let [long, bare, many, few] = medians;
    Ok(vec![
        Row::anchor(format!("agents: reading {count} messages, µs"), Spread::of(&long)),
        Row::anchor("agents: plain SELECT of the same rows, µs", Spread::of(&bare)),
        Row::at_most("agents: reading / plain SELECT", Spread::ratio(&long, &bare), 4.0),
        Row::anchor(format!("agents: history of {chunks} chunks, µs"), Spread::of(&many)),
        Row::at_most(format!("agents: history of {chunks} chunks / of 100 chunks"), Spread::ratio(&many, &few), 1.5),
    ])
}

fn bare(db: &Path, id: &str) -> BenchResult<usize> {
    let db = rusqlite::Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut rows =
        db.prepare("SELECT id, sessionId, role, content, timestamp FROM AgentMessage WHERE sessionId = ?")?;
    let rows = rows.query_map([id], |row| {
        let texts: [String; 5] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        Ok(texts.iter().map(String::len).sum::<usize>())
    })?;
    Ok(rows.collect::<Result<Vec<_>, _>>()?.len())
}

/// Measures how much memory the daemon keeps after sessions have ended.
fn growth(bench: &Bench) -> BenchResult<Vec<Row>> {
    let fixture = Fixture::new(bench)?;
    let mut connection = fixture.home.connect()?;
    let mut open_and_close = |count: usize| -> BenchResult<()> {
        for _ in 0..count {
            let id = fixture.open(&mut connection)?;
            connection.delete(CancelCompatSession::of(&id).target())?;
            connection.get(WaitSession::of(&id).target())?;
        }
        Ok(())
    };
    // Warm-up: one-time allocations and caches do not count as growth.
    open_and_close(bench.scale(200, 20))?;
    let pid = fixture.home.daemon_pid()?;
    let before = proc::rss_kib(pid)?;
    let count = bench.scale(1000, 50);
    open_and_close(count)?;
    let grown = (proc::rss_kib(pid)? - before) / 1024.0;
    Ok(vec![Row::judged(
        format!("agents: {count} sessions opened and closed, growth of the daemon's RSS in MiB"),
        format!("{grown:.1}"),
        "≤ 5.00",
        grown <= 5.0,
    )])
}
