//! Activity: the cost of a hook, the way of an answer to the agent, many changes a second, signals in a flood.

use std::fs;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use coven_api::routes::{AnswerInboxItem, CreateSession, Endpoint, ListInbox};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use serde_json::{Value, json};

use super::coven::{Coven, Session};
use super::flood::Gate;
use super::pattern::Kind;
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, eventually, micros, proc};

const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// Changes of the activity per second and session.
const CHANGES_PER_SECOND: u32 = 10;
const PERMISSION: &str = r#"{"title":"wants to run: ls","options":[{"id":"yes","name":"Yes","kind":"allow_once"}]}"#;

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let mut rows = hook(bench)?;
    rows.extend(answer(bench)?);
    rows.extend(changes(bench)?);
    rows.extend(flood(bench)?);
    Ok(rows)
}

/// Starts a home with three harnesses that run this program: `hooked` calls hooks, `ruled` has rules for titles and the
/// screen, `plain` has neither.
fn home(bench: &Bench) -> BenchResult<Coven> {
    let program = bench.this.to_string_lossy();
    let title = |name: &str, means: &str| json!({ "name": name, "on": "title", "means": means, "starts": [name] });
    let screen = json!({ "name": "dialog", "on": "screen", "means": "permission", "all": ["Do you want to proceed?"] });
    let harnesses = json!({
        "hooked": { "program": program, "hooks": true },
        "ruled": { "program": program, "rules": [title("works", "working"), title("rests", "resting"), screen] },
        "plain": { "program": program },
    });
    let home = Coven::new(bench, json!({}))?;
    fs::write(home.home().join("config.json"), json!({ "harnesses": harnesses }).to_string())?;
    home.start()?;
    Ok(home)
}

fn launch(home: &Coven, harness: &str, args: &[String]) -> BenchResult<Session> {
    let folder = home.home().parent().ok_or("the home has no parent")?.to_owned();
    let request = json!({
        "harness": harness, "args": args, "cwd": folder, "project_root": folder, "env": std::env::vars().collect::<std::collections::BTreeMap<_, _>>(),
    });
    Session::from(&home.connect()?.post(CreateSession::ROUTE.path, &request)?)
}

fn words(words: &[&str], path: &Path) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).chain([path.to_string_lossy().into_owned()]).collect()
}

/// `coven hook` for an event without a decision, and `/bin/true`.
fn hook(bench: &Bench) -> BenchResult<Vec<Row>> {
    let home = home(bench)?;
    let report = home.home().join("times");
    let (rounds, calls) = (bench.rounds.to_string(), bench.scale(100, 10).to_string());
    launch(&home, "hooked", &words(&["hook-times", &rounds, &calls], &report))?;
    let times: Vec<(f64, f64)> = serde_json::from_str(&wait_for_file(&report)?)?;
    let (base, ours): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
    Ok(vec![
        Row::anchor("activity: /bin/true, µs", Spread::of(&base)),
        Row::anchor("activity: coven hook without a decision, µs", Spread::of(&ours)),
        Row::at_most("activity: coven hook / true", Spread::ratio(&ours, &base), 2.5),
    ])
}

/// From the answer in the inbox until the agent's tool starts, and the same with a hook that waits for a file.
fn answer(bench: &Bench) -> BenchResult<Vec<Row>> {
    let home = home(bench)?;
    let folder = home.home().join("answers");
    fs::create_dir(&folder)?;
    launch(&home, "hooked", &words(&["ask"], &folder))?;
    let (mut base, mut ours) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        let (mut by_file, mut by_inbox) = (Vec::new(), Vec::new());
        for turn in 0..bench.scale(20, 3) {
            let ask = |kind: &str| -> BenchResult<PathBuf> {
                let done = folder.join(format!("{kind}-{round}-{turn}"));
                write_whole(&folder.join("next"), &format!("{kind} {}", done.display()))?;
                Ok(done)
            };
            let done = ask("file")?;
            wait_for_file(&folder.join("asked"))?;
            let start = Instant::now();
            write_whole(&folder.join("answer"), "allow")?;
            wait_for_file(&done)?;
            by_file.push(micros(start.elapsed()));

            let done = ask("inbox")?;
            let item = wait_for_item(&home)?;
            let mut connection = home.connect()?;
            let route = AnswerInboxItem::of(&item).target().to_owned();
            let start = Instant::now();
            connection.post(&route, &json!({ "decision": "allow" }))?;
            wait_for_file(&done)?;
            by_inbox.push(micros(start.elapsed()));
        }
        base.push(median(&by_file));
        ours.push(median(&by_inbox));
    }
    Ok(vec![
        Row::anchor("activity: answer in a file until the tool starts, µs", Spread::of(&base)),
        Row::anchor("activity: answer in the inbox until the tool starts, µs", Spread::of(&ours)),
        Row::at_most("activity: answer in the inbox / in a file", Spread::ratio(&ours, &base), 1.5),
    ])
}

/// The daemon's CPU time while many sessions change their activity.
fn changes(bench: &Bench) -> BenchResult<Vec<Row>> {
    let home = home(bench)?;
    let daemon = home.daemon_pid()?;
    let sessions = bench.scale(100, 10);
    for _ in 0..sessions {
        launch(&home, "ruled", &["titles".to_owned(), CHANGES_PER_SECOND.to_string()])?;
    }
    let mut cores = Vec::new();
    for _ in 0..bench.rounds {
        // The first changes belong to the launches.
        sleep(Duration::from_secs(1));
        let (start, before) = (Instant::now(), proc::precise_cpu(daemon)?);
        sleep(Duration::from_secs(bench.scale(5, 1)));
        cores.push((proc::precise_cpu(daemon)? - before).as_secs_f64() / start.elapsed().as_secs_f64());
    }
    let figure = format!("activity: {sessions} sessions × {CHANGES_PER_SECOND} changes a second, cores of the daemon");
    Ok(vec![Row::at_most(figure, Spread::of(&cores), 0.3)])
}

/// The speed of a flood with and without rules for its signals and its screen.
fn flood(bench: &Bench) -> BenchResult<Vec<Row>> {
    let home = home(bench)?;
    let bytes = bench.scale(100, 10) * 1_000_000;
    let (mut plain, mut ruled) = (Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        // The order changes, so that neither always follows the other.
        let order = if round % 2 == 0 { ["plain", "ruled"] } else { ["ruled", "plain"] };
        for harness in order {
            let gate = Gate::open()?;
            let argv = gate.argv(bench, Kind::Ansi, bytes);
            let session = launch(&home, harness, &argv[1..])?;
            let seconds = gate.accept()?.run()?.as_secs_f64();
            home.wait(&session)?;
            home.sacrifice(&session)?;
            if harness == "plain" { plain.push(1.0 / seconds) } else { ruled.push(1.0 / seconds) }
        }
    }
    Ok(vec![Row::at_least("activity: capture of a flood with rules / without", Spread::ratio(&ruled, &plain), 0.97)])
}

fn wait_for_item(home: &Coven) -> BenchResult<String> {
    let mut found = None;
    eventually(STEP_TIMEOUT, "a request in the inbox", || {
        let page: Value = home.connect()?.get_json(ListInbox::ROUTE.path)?;
        found = page["items"][0]["id"].as_str().map(str::to_owned);
        Ok(found.is_some())
    })?;
    found.ok_or_else(|| "the inbox is empty".into())
}

/// Waits until a file appears, and removes it.
fn wait_for_file(path: &Path) -> BenchResult<String> {
    let deadline = Instant::now() + STEP_TIMEOUT;
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            fs::remove_file(path)?;
            return Ok(text);
        }
        if Instant::now() > deadline {
            return Err(format!("{} did not appear", path.display()).into());
        }
        sleep(Duration::from_micros(100));
    }
}

/// Writes a file so that readers see it only as a whole; it is on the disk when the function returns.
fn write_whole(path: &Path, text: &str) -> BenchResult<()> {
    let unfinished = path.with_extension("unfinished");
    let mut file = fs::File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(fs::rename(unfinished, path)?)
}

/// Inside a session: times `/bin/true` and `coven hook` in turn, and writes the median of each round.
pub fn hook_times(rounds: usize, calls: usize, report: &Path) -> BenchResult<()> {
    let coven = std::env::var("COVEN_PROGRAM")?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let (mut base, mut ours) = (Vec::new(), Vec::new());
        for call in 0..calls {
            let event = if call % 2 == 0 { "working" } else { "idle" };
            base.push(timed(Command::new("/bin/true"))?);
            let mut command = Command::new(&coven);
            command.args(["hook", "hooked", event]);
            ours.push(timed(command)?);
        }
        times.push((median(&base), median(&ours)));
    }
    write_whole(report, &serde_json::to_string(&times)?)
}

fn timed(mut command: Command) -> BenchResult<f64> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // `true` may exit before it reads.
        let _ = input.write_all(br#"{"detail":"runs the tests"}"#);
    }
    child.wait()?;
    Ok(micros(start.elapsed()))
}

/// Inside a session: asks through a hook or a file whenever the folder has an order, and starts a tool when answered.
pub fn ask(folder: &Path) -> BenchResult<()> {
    let coven = std::env::var("COVEN_PROGRAM")?;
    loop {
        let order = wait_for_file(&folder.join("next"))?;
        let (kind, done) = order.split_once(' ').ok_or("an order has two words")?;
        let mut hook = match kind {
            "inbox" => start(Command::new(&coven).args(["hook", "hooked", "permission", "wait"]), PERMISSION)?,
            _ => start(Command::new(std::env::current_exe()?).arg("file-hook").arg(folder), "{}")?,
        };
        let mut answer = String::new();
        hook.stdout.take().ok_or("the hook has no output")?.read_to_string(&mut answer)?;
        hook.wait()?;
        if !answer.contains("allow") {
            return Err(format!("unexpected answer: {answer:?}").into());
        }
        Command::new("touch").arg(done).status()?;
    }
}

fn start(command: &mut Command, input: &str) -> BenchResult<Child> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("the hook has no input")?.write_all(input.as_bytes())?;
    Ok(child)
}

/// A hook without coven: prints the answer that appears in a file.
pub fn file_hook(folder: &Path) -> BenchResult<()> {
    let answer = folder.join("answer");
    // The kernel wakes it like a hook that waits for a socket: a poll would add its interval to the time.
    let changes = inotify::init(CreateFlags::CLOEXEC)?;
    inotify::add_watch(&changes, folder, WatchFlags::MOVED_TO)?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(&changes, &mut buffer);
    fs::write(folder.join("asked"), "")?;
    while !answer.exists() {
        reader.next()?;
    }
    println!("{}", wait_for_file(&answer)?);
    Ok(())
}

/// Inside a session: changes the title so many times a second.
pub fn titles(per_second: u32) -> BenchResult<()> {
    let mut stdout = std::io::stdout();
    for name in ["works", "rests"].iter().cycle() {
        write!(stdout, "\x1b]0;{name}\x07")?;
        stdout.flush()?;
        sleep(Duration::from_secs(1) / per_second);
    }
    Ok(())
}
