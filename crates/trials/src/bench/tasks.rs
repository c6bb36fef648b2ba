//! Tasks: cost of a scheduler poll, a claim and a list compared with plain SQLite, a restart with a hundred agents, and
//! the effect of snapshots on writers.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coven_api::routes::{CreateTask, Endpoint, ListAgents, StartTask};
use coven_domain::task::{Task, TaskFact};
use coven_domain::workflow::WorkflowFact;
use coven_domain::{TaskId, Timestamp};
use coven_engine::workflow::claim::{Plan, claim};
use coven_store::{Change, SqliteStore, Store};
use coven_workflow::{BUILT_IN, WorkflowDefinition};
use rusqlite::{Connection, params};
use serde_json::json;
use tokio::runtime::Runtime;

use super::coven::Coven;
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, eventually, micros};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const FEW: usize = 10;

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut rows = claims(bench, &runtime)?;
    rows.extend(snapshots(bench, &runtime)?);
    rows.extend(list(bench, &runtime)?);
    rows.extend(recovery(bench)?);
    Ok(rows)
}

fn new_task(nth: u128, title: &str) -> Task {
    let id = format!("{:08x}-0000-4000-a000-{:012x}", nth >> 32, nth & 0xffff_ffff_ffff);
    let mut task = Task::new(id.parse().expect("valid id"), title, NOW).expect("valid title");
    task.body = "A description of the work in a sentence or two, as people write it.".to_owned();
    task
}

async fn write(store: &dyn Store, tasks: Vec<Task>) -> BenchResult<()> {
    let mut tx = store.begin().await?;
    for task in tasks {
        let changes = task.first_fields();
        tx.record(Change::TaskChanged { task, event: "created", changes, by: "bench".into() }, NOW).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// A store with `count` open tasks.
struct Fixture {
    _folder: tempfile::TempDir,
    store: Arc<dyn Store>,
    next: u128,
}

impl Fixture {
    async fn with(count: usize) -> BenchResult<Self> {
        let folder = tempfile::tempdir()?;
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(folder.path().join("coven.db"), coven_server::event::render)?);
        let tasks = (0..count as u128).map(|nth| new_task(nth + 1, &format!("task {nth}"))).collect();
        write(store.as_ref(), tasks).await?;
        Ok(Self { _folder: folder, store, next: 1 << 40 })
    }

    /// Adds a task with the highest priority and claims it. Returns the duration of the claim in µs.
    async fn claim(&mut self, plan: &Plan) -> BenchResult<f64> {
        self.next += 1;
        let mut first = new_task(self.next, "the first");
        first.priority = 0.try_into()?;
        let id = first.id;
        write(self.store.as_ref(), vec![first]).await?;
        let start = Instant::now();
        let mut tx = self.store.begin().await?;
        let claimed = claim(&mut tx, id, plan, NOW).await?;
        tx.commit().await?;
        let taken = micros(start.elapsed());
        // Close it, so that the next claim finds the same state.
        let (mut task, mut agent, mut workflow) = (claimed.task, claimed.agent, claimed.workflow);
        let changes = task.apply(TaskFact::Closed, None, NOW)?;
        agent.apply(coven_domain::agent::AgentFact::Failed, None, NOW)?;
        workflow.apply(WorkflowFact::Failed, None, NOW)?;
        let mut tx = self.store.begin().await?;
        tx.record(Change::TaskChanged { task, event: "closed", changes, by: "bench".into() }, NOW).await?;
        tx.record(Change::AgentChanged { agent, event: "failed" }, NOW).await?;
        tx.record(Change::RunChanged { workflow, event: "failed" }, NOW).await?;
        tx.commit().await?;
        Ok(taken)
    }

    /// Runs the queries of one scheduler poll. Returns their duration in µs.
    async fn poll_ready(&self) -> BenchResult<f64> {
        let start = Instant::now();
        let mut tx = self.store.begin().await?;
        tx.tasks_in_progress().await?;
        let ready = tx.ready_tasks(1).await?;
        drop(tx);
        let taken = micros(start.elapsed());
        if ready.len() == 1 { Ok(taken) } else { Err("no task is ready".into()) }
    }
}

/// Inserts three rows of similar size in a database with the same settings. Returns the duration in µs.
fn bare(connection: &Connection, nth: i64) -> BenchResult<f64> {
    let start = Instant::now();
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    for table in ["tasks", "agents", "workflows"] {
        connection.prepare_cached(&format!("INSERT INTO {table} VALUES (?1, ?2, ?3)"))?.execute(params![
            format!("{nth:036}"),
            "in_progress",
            "x".repeat(400)
        ])?;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(micros(start.elapsed()))
}

fn bare_database(path: &Path) -> BenchResult<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    for table in ["tasks", "agents", "workflows"] {
        connection
            .execute_batch(&format!("CREATE TABLE {table} (id TEXT PRIMARY KEY, state TEXT, data TEXT) STRICT"))?;
    }
    Ok(connection)
}

fn claims(bench: &Bench, runtime: &Runtime) -> BenchResult<Vec<Row>> {
    let many = bench.scale(10_000, 500);
    let plan = Plan {
        definition: WorkflowDefinition::built_in(),
        text: BUILT_IN.1.to_owned(),
        base: ("main".to_owned(), "0".repeat(40)),
        worktree: "/somewhere/.coven/worktrees/x".to_owned(),
        branch: "coven/x".to_owned(),
        lease: Duration::from_secs(1800),
        limit: 1000,
        by: "bench".to_owned(),
    };
    let folder = tempfile::tempdir()?;
    let connection = bare_database(&folder.path().join("bare.db"))?;
    let (mut small, mut large) =
        runtime.block_on(async { BenchResult::Ok((Fixture::with(FEW).await?, Fixture::with(many).await?)) })?;
    let mut medians: [Vec<f64>; 5] = Default::default();
    let mut nth = 0;
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 5] = Default::default();
        for _ in 0..bench.scale(200, 20) {
            nth += 1;
            times[0].push(bare(&connection, nth)?);
            runtime.block_on(async {
                times[1].push(small.claim(&plan).await?);
                times[2].push(large.claim(&plan).await?);
                times[3].push(small.poll_ready().await?);
                times[4].push(large.poll_ready().await?);
                BenchResult::Ok(())
            })?;
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
    }
    let [bare, few_claim, many_claim, few_poll, many_poll] = medians;
    Ok(vec![
        Row::anchor("tasks: a plain transaction of three rows, p50 in µs", Spread::of(&bare)),
        Row::anchor(format!("tasks: a claim with {many} tasks, p50 in µs"), Spread::of(&many_claim)),
        Row::at_most("tasks: a claim / three plain rows, equally durable", Spread::ratio(&few_claim, &bare), 2.0),
        Row::at_most(format!("tasks: a claim with {many} / with {FEW}"), Spread::ratio(&many_claim, &few_claim), 2.0),
        Row::anchor(format!("tasks: a scheduler poll with {many}, p50 in µs"), Spread::of(&many_poll)),
        Row::at_most(
            format!("tasks: a scheduler poll with {many} / with {FEW}"),
            Spread::ratio(&many_poll, &few_poll),
            2.0,
        ),
    ])
}

/// Writes pairs of tasks, a thousand rows per second, while a reader takes snapshots without pause.
fn snapshots(bench: &Bench, runtime: &Runtime) -> BenchResult<Vec<Row>> {
    let count = bench.scale(10_000, 500);
    let fixture = runtime.block_on(Fixture::with(count))?;
    let (mut alone, mut with_reader, mut pace) = (Vec::new(), Vec::new(), Vec::new());
    let taken = AtomicUsize::new(0);
    for _ in 0..bench.rounds {
        for has_reader in [false, true] {
            let is_over = Arc::new(AtomicBool::new(false));
            let reader = has_reader.then(|| {
                let (store, is_over) = (fixture.store.clone(), is_over.clone());
                runtime.spawn(async move { torn_snapshots(store.as_ref(), &is_over).await })
            });
            let writes = bench.scale(1000, 100);
            let started = Instant::now();
            let times = runtime.block_on(write_pairs(fixture.store.as_ref(), writes))?;
            let second = started.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            if let Some(reader) = reader {
                let (snapshots, torn) = runtime.block_on(reader)??;
                if torn > 0 {
                    return Err(format!("{torn} of {snapshots} snapshots were torn").into());
                }
                taken.fetch_add(snapshots, Ordering::Relaxed);
                pace.push(2.0 * writes as f64 / second);
            }
            if has_reader { &mut with_reader } else { &mut alone }.push(median(&times));
        }
    }
    let snapshots = taken.load(Ordering::Relaxed);
    Ok(vec![
        Row::anchor(format!("tasks: rows written per second during snapshots of {count}"), Spread::of(&pace)),
        Row::judged("tasks: torn snapshots", format!("0 of {snapshots}"), "0", snapshots > 0),
        Row::at_most("tasks: a write during snapshots / alone, p50", Spread::ratio(&with_reader, &alone), 2.0),
    ])
}

/// Writes a pair every two milliseconds, that is a thousand rows per second. Returns the duration of each in µs.
async fn write_pairs(store: &dyn Store, writes: usize) -> BenchResult<Vec<f64>> {
    let mut times = Vec::with_capacity(writes);
    let started = Instant::now();
    for nth in 0..writes {
        let due = started + Duration::from_millis(2 * nth as u64);
        tokio::time::sleep_until(due.into()).await;
        let start = Instant::now();
        let mut tx = store.begin().await?;
        for id in [1, 2] {
            let id: TaskId = new_task(id, "x").id;
            let mut task = tx.task(id).await?.ok_or("a task is gone")?;
            task.title = format!("written {nth}");
            tx.record(Change::TaskChanged { task, event: "updated", changes: vec![], by: "bench".into() }, NOW).await?;
        }
        tx.commit().await?;
        times.push(micros(start.elapsed()));
    }
    Ok(times)
}

/// Returns the number of snapshots, and how many of them contained only half of a pair.
async fn torn_snapshots(store: &dyn Store, is_over: &AtomicBool) -> BenchResult<(usize, usize)> {
    let (mut snapshots, mut torn) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let snapshot = store.state_page(None, usize::MAX).await?;
        let title = |nth: u128| {
            let id = new_task(nth, "x").id;
            snapshot.tasks.iter().find(|task| task.id == id).map(|task| task.title.clone())
        };
        snapshots += 1;
        torn += usize::from(title(1) != title(2) && title(1) != Some("task 0".into()));
    }
    Ok((snapshots, torn))
}

/// Compares `coven task list` with a plain SELECT of the same rows.
fn list(bench: &Bench, runtime: &Runtime) -> BenchResult<Vec<Row>> {
    let count = bench.scale(10_000, 500);
    let home = Coven::new(bench, json!({}))?;
    let database = home.home().join("coven.db");
    runtime.block_on(async {
        let store = SqliteStore::open(&database, coven_server::event::render)?;
        write(&store, (0..count as u128).map(|nth| new_task(nth + 1, &format!("task {nth}"))).collect()).await
    })?;
    home.start()?;
    let connection = Connection::open(&database)?;
    let (mut tables, mut records, mut base) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let (mut shown, mut listed, mut selected) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..bench.scale(5, 2) {
            let start = Instant::now();
            let text = home.call(&["task", "list"])?;
            shown.push(micros(start.elapsed()));
            if text.lines().count() != count + 1 {
                return Err("`coven task list` does not show all tasks".into());
            }
            let start = Instant::now();
            let text = home.call(&["task", "list", "--json"])?;
            listed.push(micros(start.elapsed()));
            if serde_json::from_str::<serde_json::Value>(&text)?["items"].as_array().map(Vec::len) != Some(count) {
                return Err("`coven task list --json` does not list all tasks".into());
            }
            selected.push(select(&connection, count)?);
        }
        tables.push(median(&shown));
        records.push(median(&listed));
        base.push(median(&selected));
    }
    Ok(vec![
        Row::anchor(format!("tasks: plain SELECT of {count}, in µs"), Spread::of(&base)),
        Row::anchor(format!("tasks: `coven task list` of {count}, in µs"), Spread::of(&tables)),
        Row::anchor(format!("tasks: `coven task list --json` of {count}, in µs"), Spread::of(&records)),
        Row::at_most("tasks: `coven task list` / selecting the same rows", Spread::ratio(&tables, &base), 4.0),
        Row::at_most("tasks: `coven task list --json` / selecting the same rows", Spread::ratio(&records, &base), 4.0),
    ])
}

fn select(connection: &Connection, count: usize) -> BenchResult<f64> {
    let start = Instant::now();
    let mut statement = connection.prepare_cached(
        "SELECT *, (SELECT json_group_array(depends_on) FROM task_dependencies WHERE task_id = tasks.id)
         FROM tasks WHERE deleted_at IS NULL ORDER BY priority, created_at, rowid",
    )?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut values = 0;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            let value: rusqlite::types::Value = row.get(column)?;
            values += usize::from(value != rusqlite::types::Value::Integer(-1));
        }
    }
    if values != columns * count {
        return Err("rows are missing".into());
    }
    Ok(micros(start.elapsed()))
}

/// Measures a start after `kill -9`, without agents and with a hundred agents that keep running.
fn recovery(bench: &Bench) -> BenchResult<Vec<Row>> {
    let agents = bench.scale(100, 5);
    let home = Coven::new(bench, json!({}))?;
    let config = json!({ "scheduler": { "maxConcurrentAgents": agents } });
    fs::write(home.home().join("config.json"), config.to_string())?;
    let folder = home.home().parent().ok_or("the home has no parent folder")?.to_owned();
    let script = "git init -q -b main; git config user.name b; git config user.email b@b; echo x > x; git add x; git commit -qm x";
    if !Command::new("sh").args(["-ec", script]).current_dir(&folder).status()?.success() {
        return Err("cannot create a git repository".into());
    }
    fs::create_dir_all(home.home().join("grimoires"))?;
    fs::write(
        home.home().join("grimoires/hang.yaml"),
        "steps:\n  - { name: hang, type: script, command: exec sleep 600 }\n",
    )?;
    let mut empty = Vec::new();
    for _ in 0..bench.rounds {
        empty.push(restart(&home)?);
    }
    for nth in 0..agents {
        let task =
            home.connect()?.post(CreateTask::ROUTE.path, &json!({ "title": format!("{nth}"), "workflow": "hang" }))?;
        let id = task["id"].as_str().ok_or("the task record has no id")?.to_owned();
        home.connect()?.post(StartTask::of(&id).target(), &json!({}))?;
    }
    let running = |home: &Coven| -> BenchResult<usize> {
        let found = home.connect()?.get_json(ListAgents::ROUTE.path)?;
        let all = found["items"]
            .as_array()
            .ok_or("the response has no items")?
            .iter()
            .filter(|it| it["status"] == "running")
            .count();
        Ok(all)
    };
    eventually(Duration::from_secs(120), "all agents", || Ok(running(&home)? == agents))?;
    let mut full = Vec::new();
    for _ in 0..bench.rounds {
        full.push(restart(&home)?);
        if running(&home)? != agents {
            return Err("an agent was lost".into());
        }
    }
    home.call(&["daemon", "stop", "--kill-sessions"])?;
    let allowed: Vec<f64> = empty.iter().map(|none| 2.0 * none + 10_000.0 * agents as f64).collect();
    Ok(vec![
        Row::anchor("tasks: a start after kill -9 without agents, µs", Spread::of(&empty)),
        Row::anchor(format!("tasks: the same with {agents} running agents, µs"), Spread::of(&full)),
        Row::at_most(
            "tasks: that / (twice the start without agents + 10 ms per agent)",
            Spread::ratio(&full, &allowed),
            1.0,
        ),
    ])
}

/// Kills the daemon with `kill -9` and returns the time until the next one is ready, in µs.
fn restart(home: &Coven) -> BenchResult<f64> {
    if home.connect().is_err() {
        home.start()?;
    }
    let pid = home.daemon_pid()?;
    let target = rustix::process::Pid::from_raw(pid.cast_signed()).ok_or("the daemon has pid 0")?;
    rustix::process::kill_process(target, rustix::process::Signal::KILL)?;
    eventually(Duration::from_secs(10), "the daemon to exit", || Ok(!Path::new(&format!("/proc/{pid}")).exists()))?;
    let start = Instant::now();
    home.start()?;
    Ok(micros(start.elapsed()))
}
