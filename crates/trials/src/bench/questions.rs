//! Questions to a human: latency of an answer, start-up cost of the MCP server, and cost of waiting.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use coven_domain::question::{Choice, Question};
use coven_holder::clock;
use coven_interop::questions::{Limits, NewQuestionSet, QuestionFolder, Waited};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use serde_json::{Value, json};

use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, eventually, micros, proc};

/// Time for the waiter to start waiting.
const WAITER_START: Duration = Duration::from_millis(3);
/// Poll interval of the tool that introduced the format.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let mut rows = seen(bench)?;
    rows.extend(server(bench)?);
    rows.extend(waiting(bench)?);
    Ok(rows)
}

/// A new set whose answers are ready to be renamed into place.
struct AskedSet {
    folder: QuestionFolder,
    dir: PathBuf,
    id: coven_domain::QuestionSetId,
}

impl AskedSet {
    fn new(folder: &QuestionFolder) -> BenchResult<Self> {
        let options = ["A", "B"].map(|label| Choice { description: None, label: label.into() }).to_vec();
        let question = Question { options, prompt: "Which?".into(), title: "Choice".into(), multi_select: false };
        let new = NewQuestionSet { questions: vec![question], ..NewQuestionSet::default() };
        let id = folder.create(&new, &Limits { max_sessions: u32::MAX }, clock::now())?;
        let dir = folder.path().join(id.to_string());
        let at = clock::now();
        let answers = json!({"sessionId": id, "timestamp": at, "answers": [{"questionIndex": 0, "selectedOption": "A", "timestamp": at}]});
        fs::write(dir.join("ready.tmp"), answers.to_string())?;
        Ok(Self { folder: folder.clone(), dir, id })
    }

    /// Returns the time from the rename of the answers until `wait` returns, in µs.
    fn until_seen(
        &self,
        pause: Duration,
        wait: impl FnOnce(&Self, Sender<()>) -> BenchResult<()> + Send,
    ) -> BenchResult<f64> {
        let (ready, is_ready) = channel();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wait(self, ready).map(|()| Instant::now()));
            is_ready.recv()?;
            std::thread::sleep(pause);
            let written = Instant::now();
            fs::rename(self.dir.join("ready.tmp"), self.dir.join("answers.json"))?;
            let seen = waits.join().map_err(|_| "the waiter panicked")??;
            Ok(micros(seen.duration_since(written)))
        })
    }
}

fn by_coven(set: &AskedSet, ready: Sender<()>) -> BenchResult<()> {
    ready.send(())?;
    match set.folder.wait(&set.id, None, None)? {
        Waited::Answered(_) => Ok(()),
        other => Err(format!("waited for answers and got {other:?}").into()),
    }
}

fn by_inotify(set: &AskedSet, ready: Sender<()>) -> BenchResult<()> {
    let watch = inotify::init(CreateFlags::CLOEXEC)?;
    inotify::add_watch(&watch, &set.dir, WatchFlags::MOVED_TO)?;
    ready.send(())?;
    poll(&mut [PollFd::new(&watch, PollFlags::IN)], None)?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    Reader::new(&watch, &mut buffer).next()?;
    Ok(())
}

fn by_polling(set: &AskedSet, ready: Sender<()>) -> BenchResult<()> {
    ready.send(())?;
    while !set.dir.join("answers.json").exists() {
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn seen(bench: &Bench) -> BenchResult<Vec<Row>> {
    let root = tempfile::tempdir()?;
    let folder = QuestionFolder::at(root.path().join("sessions"));
    let mut medians: [Vec<f64>; 3] = Default::default();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 3] = Default::default();
        for number in 0..bench.scale(60, 5) {
            times[0].push(AskedSet::new(&folder)?.until_seen(WAITER_START, by_inotify)?);
            times[1].push(AskedSet::new(&folder)?.until_seen(WAITER_START, by_coven)?);
            if number % 10 == 0 {
                // At varying points of the poll interval.
                let pause = POLL_INTERVAL.mul_f64(1.0 + f64::from(number + 5) / 61.0);
                times[2].push(AskedSet::new(&folder)?.until_seen(pause, by_polling)?);
            }
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
        fs::remove_dir_all(folder.path())?;
    }
    let [raw, ours, polled] = medians;
    Ok(vec![
        Row::anchor(
            "questions: answers in place until a plain inotify watch reports them, p50 in µs",
            Spread::of(&raw),
        ),
        Row::anchor("questions: until coven's waiter has read and checked them, p50 in µs", Spread::of(&ours)),
        Row::anchor("questions: until a poll every 200 ms finds them, p50 in µs", Spread::of(&polled)),
        Row::at_most("questions: coven's waiter / plain inotify", Spread::ratio(&ours, &raw), 1.5),
        Row::anchor("questions: poll / coven's waiter", Spread::ratio(&polled, &ours)),
    ])
}

/// An initialized `coven mcp` process.
struct Server {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(bench: &Bench, root: &Path) -> BenchResult<Self> {
        let mut command = Command::new(&bench.coven);
        command.arg("mcp").env("COVEN_HOME", root.join("home")).env("AUQ_SESSION_DIR", root.join("sessions"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut server = Self { child, output };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}});
        server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}))?;
        server.line()?;
        Ok(server)
    }

    fn send(&mut self, message: &Value) -> BenchResult<()> {
        Ok(writeln!(self.child.stdin.as_mut().ok_or("no input")?, "{message}")?)
    }

    fn line(&mut self) -> BenchResult<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

fn server(bench: &Bench) -> BenchResult<Vec<Row>> {
    let root = tempfile::tempdir()?;
    let mut medians: [Vec<f64>; 2] = Default::default();
    let mut memory = Vec::new();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..bench.scale(50, 5) {
            let start = Instant::now();
            let status = Command::new("/bin/true").stdin(Stdio::null()).status()?;
            times[0].push(micros(start.elapsed()));
            if !status.success() {
                return Err("/bin/true failed".into());
            }
            let start = Instant::now();
            let server = Server::start(bench, root.path())?;
            times[1].push(micros(start.elapsed()));
            memory.push(proc::rss_kib(server.child.id())? / 1024.0);
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
    }
    let [base, greeted] = medians;
    let memory = Spread::of(&memory);
    Ok(vec![
        Row::anchor("mcp: /bin/true, µs", Spread::of(&base)),
        Row::anchor("mcp: start until initialize is answered, µs", Spread::of(&greeted)),
        Row::at_most("mcp: start until initialize is answered / true", Spread::ratio(&greeted, &base), 10.0),
        Row::at_most("mcp: memory when initialize is answered, MiB", memory, 15.0 * 1e6 / f64::from(1 << 20)),
    ])
}

/// Measures the cost of many calls that wait for a human.
fn waiting(bench: &Bench) -> BenchResult<Vec<Row>> {
    const CALLS: u64 = 100;
    let root = tempfile::tempdir()?;
    let mut server = Server::start(bench, root.path())?;
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    let question = json!({"prompt": "Which?", "title": "T", "options": [{"label": "A"}, {"label": "B"}]});
    for id in 2..CALLS + 2 {
        // With a progress token, so that progress notifications are part of the cost.
        let params = json!({"name": "ask_user_questions", "arguments": {"questions": [question]}, "_meta": {"progressToken": id}});
        server.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))?;
        server.line()?;
    }
    let pid = server.child.id();
    // Wait until the worker threads exit: the CPU time of a thread disappears with it.
    eventually(Duration::from_secs(30), "all but one thread to exit", || Ok(proc::threads(pid)? == 1))?;
    proc::settled_cpu(pid)?;
    let (before, start) = (proc::precise_cpu(pid)?, Instant::now());
    std::thread::sleep(Duration::from_secs(bench.scale(50, 3)));
    let share = (proc::precise_cpu(pid)? - before).as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    let memory = proc::rss_kib(pid)? / 1024.0;
    Ok(vec![
        Row::judged(
            format!("mcp: {CALLS} waiting calls, with a progress notification every 25 s, CPU in %"),
            format!("{share:.3}"),
            "≤ 0.100",
            share <= 0.1,
        ),
        Row::anchor(format!("mcp: memory with {CALLS} waiting calls, MiB"), format!("{memory:.1}")),
    ])
}
