//! Benchmarks of the store with 100,000 sessions: `cargo bench -p coven-store`.

#[path = "../tests/samples/mod.rs"]
mod samples;

use std::time::{Duration, Instant};

use coven_domain::query::{SessionFilter, SessionQuery};
use coven_domain::session::{Channel, Session, SessionState};
use coven_store::{Change, SqliteStore, Store};
use samples::*;

const SESSIONS: u32 = 100_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir_in(".").expect("a folder on the measured disk");
    let store = SqliteStore::open(folder.path().join("coven.db"), render).expect("a new store");
    let started = Instant::now();
    record(&store, Change::RepoAdded(repo(1))).await.expect("a new repo");
    for batch in 0..100 {
        create(&store, (0..SESSIONS / 100).map(|nth| sample(batch * (SESSIONS / 100) + nth))).await;
    }
    println!("{SESSIONS} sessions created in {:.1?}", started.elapsed());

    reads(&store).await;
    pages(&store).await;
    writes(&store).await;
    ledger(&store).await;
}

/// Returns a session: one in ten is archived, one in a thousand matches the rare filters.
fn sample(nth: u32) -> Session {
    let rare = nth % 1000 == 7;
    let state = if rare { SessionState::Killed } else { SessionState::Completed };
    Session {
        state,
        exit_code: Some(0),
        harness: if rare { "codex" } else { "claude" }.into(),
        channel: if rare { Channel::Acp } else { Channel::Terminal },
        repo_id: rare.then_some(repo(1).id),
        archived_at: (nth % 10 == 3).then_some(NOW),
        ..running(nth)
    }
}

async fn reads(store: &SqliteStore) {
    let mut nth = 0;
    let mut next = || {
        nth = (nth + 7919) % SESSIONS;
        nth
    };
    measure("one session", 2000, async || drop(store.session(id(next())).await.expect("a read"))).await;
    measure("ids by prefix", 2000, async || {
        drop(store.session_ids_with_prefix(&id(next()).short(), 2).await.expect("a read"));
    })
    .await;
    measure("event range", 2000, async || _ = store.event_range().await.expect("a read")).await;
    measure("event number at", 2000, async || _ = store.event_number_at(NOW).await.expect("a read")).await;
    measure("100 events", 500, async || drop(store.events_after(u64::from(next()), 100).await.expect("a read"))).await;
    measure("sessions to recover", 500, async || drop(store.sessions_to_recover().await.expect("a read"))).await;
    measure("snapshot", 3, async || drop(store.state_page(None, usize::MAX).await.expect("a read"))).await;
}

async fn pages(store: &SqliteStore) {
    let first = SessionQuery { limit: 20, ..Default::default() };
    page(store, "page: first", first.clone()).await;
    for depth in [1000, 50_000, 99_000] {
        let after = Some((at(i64::from(SESSIONS - depth)), id(SESSIONS - depth)));
        page(store, &format!("page: cursor at {depth}"), SessionQuery { after, ..first.clone() }).await;
    }
    for offset in [1000, 20_000, 45_000, 89_000] {
        page(store, &format!("page: offset {offset}"), SessionQuery { offset, ..first.clone() }).await;
    }
    let all = SessionFilter { include_archived: true, ..Default::default() };
    page(store, "page: all", SessionQuery { filter: all.clone(), ..first.clone() }).await;
    page(store, "page: all, offset 50000", SessionQuery { filter: all.clone(), offset: 50_000, ..first.clone() }).await;
    page(store, "page: all, offset 99000", SessionQuery { filter: all, offset: 99_000, ..first.clone() }).await;
    let killed = SessionFilter { states: vec![SessionState::Killed], ..Default::default() };
    let two = SessionFilter { states: vec![SessionState::Killed, SessionState::Running], ..Default::default() };
    let filters = [
        ("killed (rare)", killed.clone()),
        ("killed or running, all", SessionFilter { include_archived: true, ..two }),
        ("none running", SessionFilter { states: vec![SessionState::Running], ..Default::default() }),
        ("harness (rare)", SessionFilter { harness: Some("codex".into()), ..Default::default() }),
        ("channel (rare)", SessionFilter { channel: Some(Channel::Acp), ..Default::default() }),
        ("repo", SessionFilter { repo: Some(repo(1).id), ..Default::default() }),
        ("killed, harness that has none", SessionFilter { harness: Some("claude".into()), ..killed }),
    ];
    for (name, filter) in filters {
        page(store, &format!("page: {name}"), SessionQuery { filter, ..first.clone() }).await;
    }
}

async fn page(store: &SqliteStore, name: &str, query: SessionQuery) {
    measure(name, 500, async || drop(store.sessions(&query).await.expect("a page"))).await;
}

async fn writes(store: &SqliteStore) {
    let mut nth = SESSIONS;
    measure("create, committed", 500, async || {
        nth += 1;
        record(store, Change::SessionCreated(session(nth))).await.expect("a new session");
    })
    .await;
    let mut it = running(SESSIONS + 1);
    measure("change, committed", 500, async || {
        it.state = if it.state == SessionState::Running { SessionState::Created } else { SessionState::Running };
        let change = Change::SessionChanged { session: it.clone(), event: "changed" };
        record(store, change).await.expect("a change");
    })
    .await;
}

async fn ledger(store: &SqliteStore) {
    const ENTRIES: u64 = 200_000;
    for batch in [1_u64, 16, 256] {
        let who = id(SESSIONS + 10 + batch as u32);
        let (mut seq, started) = (0, Instant::now());
        while started.elapsed() < Duration::from_millis(500) {
            let entries: Vec<_> = (seq + 1..=seq + batch).map(entry).collect();
            append(store, who, &entries).await.expect("a ledger");
            seq += batch;
        }
        println!(
            "{:<40} {:>9.0} entries/s",
            format!("append {batch} a commit"),
            seq as f64 / started.elapsed().as_secs_f64()
        );
    }
    let who = id(SESSIONS + 5);
    for start in (0..ENTRIES).step_by(1000) {
        append(store, who, &(start + 1..=start + 1000).map(entry).collect::<Vec<_>>()).await.expect("a ledger");
    }
    let mut after = 0;
    measure("1000 entries", 150, async || {
        after = (after + 1000) % (ENTRIES - 1000);
        drop(store.entries(who, after, 1000).await.expect("a read"));
    })
    .await;
    measure("last entry", 2000, async || _ = store.last_entry(who).await.expect("a read")).await;
    let started = Instant::now();
    record(store, Change::SessionSacrificed(who)).await.expect("a sacrifice");
    println!("{:<40} {:>9.1?}", format!("sacrifice with {ENTRIES} entries"), started.elapsed());
}

/// Prints median and 99th percentile in microseconds.
async fn measure(name: &str, rounds: usize, mut run: impl AsyncFnMut()) {
    run().await;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let started = Instant::now();
        run().await;
        times.push(started.elapsed().as_nanos() as f64 / 1000.0);
    }
    times.sort_by(f64::total_cmp);
    println!("{name:<40} p50 {:>9.1} µs   p99 {:>9.1} µs", times[rounds / 2], times[rounds * 99 / 100]);
}
