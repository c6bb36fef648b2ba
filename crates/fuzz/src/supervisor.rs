//! Starts and monitors a worker for each target. Panics, hangs and excessive memory use are findings, saved with their
//! input.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Target;
use crate::worker::{MAX_MEMORY, RUNS_BYTES, TOO_MUCH_MEMORY};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of progress lines if the output is not a terminal.
const QUIET_PROGRESS_INTERVAL: Duration = Duration::from_secs(20);
/// A target stops after this many findings.
const MAX_FINDINGS: usize = 3;

pub struct Plan<'a> {
    pub targets: Vec<&'static Target>,
    pub time: Duration,
    pub seed: u64,
    /// Maximum time for one input.
    pub hang: Duration,
    /// Folder for findings.
    pub findings: &'a Path,
}

/// Result of fuzzing a target.
#[derive(Debug, Default)]
pub struct Outcome {
    pub runs: u64,
    pub findings: Vec<Finding>,
}

#[derive(Debug)]
pub struct Finding {
    pub what: String,
    pub input: PathBuf,
}

/// Runs every target and prints progress and findings. Returns true without findings.
pub fn run(plan: &Plan<'_>) -> io::Result<bool> {
    let mut is_clean = true;
    for target in &plan.targets {
        let outcome = fuzz(target, plan)?;
        let (runs, seconds) = (outcome.runs, plan.time.as_secs());
        println!("{}: {runs} inputs in {seconds} s, findings: {}", target.name, outcome.findings.len());
        for finding in &outcome.findings {
            is_clean = false;
            println!("{}: {}\n  input: {}", target.name, finding.what, finding.input.display());
        }
    }
    if !is_clean {
        println!("Fix each defect at its source, and copy its input to crates/fuzz/corpus/<target>/.");
    }
    Ok(is_clean)
}

fn fuzz(target: &Target, plan: &Plan<'_>) -> io::Result<Outcome> {
    let (started, mut seed, mut outcome) = (Instant::now(), plan.seed, Outcome::default());
    loop {
        let left = plan.time.saturating_sub(started.elapsed());
        if left.is_zero() || outcome.findings.len() == MAX_FINDINGS {
            return Ok(outcome);
        }
        // In memory if possible, because many targets write files.
        let parent = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir()).unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::Builder::new().prefix("coven-fuzz-").tempdir_in(parent)?;
        let watched = watch(target, seed, left, plan.hang, folder.path(), outcome.runs)?;
        outcome.runs += watched.runs;
        match watched.defect {
            Some(what) => {
                let input = save(plan.findings, target.name, &watched.input)?;
                outcome.findings.push(Finding { what, input });
            }
            None => return Ok(outcome),
        }
        // The same seed would find the same defect again.
        seed = seed.wrapping_add(1);
    }
}

struct Watched {
    runs: u64,
    input: Vec<u8>,
    defect: Option<String>,
}

fn watch(target: &Target, seed: u64, time: Duration, hang: Duration, dir: &Path, before: u64) -> io::Result<Watched> {
    let (state, messages) = (dir.join("state"), dir.join("stderr"));
    let mut worker = spawn(target, seed, time, dir, &state, &messages)?;
    let mut progress = Progress::new(target.name, before);
    let (mut runs, mut since) = (0, Instant::now());
    let defect = loop {
        if let Some(status) = worker.try_wait()? {
            break defect(status, &messages);
        }
        let (now, _) = current(&state);
        if now != runs {
            (runs, since) = (now, Instant::now());
            progress.show(runs);
        } else if since.elapsed() > hang {
            worker.kill()?;
            worker.wait()?;
            break Some(format!("hang: one input took more than {} s", hang.as_secs_f64()));
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    progress.clear();
    let (runs, input) = current(&state);
    Ok(Watched { runs, input, defect })
}

fn spawn(target: &Target, seed: u64, time: Duration, dir: &Path, state: &Path, messages: &Path) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["worker", target.name, &seed.to_string(), &time.as_millis().to_string()])
        .arg(state)
        .env("TMPDIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(messages)?)
        .spawn()
}

fn current(state: &Path) -> (u64, Vec<u8>) {
    let bytes = fs::read(state).unwrap_or_default();
    match bytes.split_first_chunk::<RUNS_BYTES>() {
        Some((runs, input)) => (u64::from_le_bytes(*runs), input.to_vec()),
        None => (0, Vec::new()),
    }
}

fn defect(status: ExitStatus, messages: &Path) -> Option<String> {
    match status.code() {
        Some(0) => None,
        Some(TOO_MUCH_MEMORY) => Some(format!("memory: more than {} MB", MAX_MEMORY >> 20)),
        _ => {
            let text = String::from_utf8_lossy(&fs::read(messages).unwrap_or_default()).into_owned();
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(6).collect();
            Some(format!("{status}\n  {}", lines.join("\n  ")))
        }
    }
}

/// Saves an input under a name derived from its content.
fn save(folder: &Path, target: &str, input: &[u8]) -> io::Result<PathBuf> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{:08x}", crc32fast::hash(input)));
    fs::write(&path, input)?;
    Ok(path)
}

struct Progress {
    name: &'static str,
    before: u64,
    started: Instant,
    shown: Instant,
    is_terminal: bool,
}

impl Progress {
    fn new(name: &'static str, before: u64) -> Self {
        let now = Instant::now();
        Self { name, before, started: now, shown: now, is_terminal: io::stderr().is_terminal() }
    }

    fn show(&mut self, runs: u64) {
        if self.shown.elapsed() < if self.is_terminal { Duration::from_secs(1) } else { QUIET_PROGRESS_INTERVAL } {
            return;
        }
        self.shown = Instant::now();
        let seconds = self.started.elapsed().as_secs().max(1);
        let text = format!("{}: {} inputs, {} per second", self.name, self.before + runs, runs / seconds);
        match self.is_terminal {
            true => eprint!("\r{text}\x1b[K"),
            false => eprintln!("{text}"),
        }
        let _ = io::stderr().flush();
    }

    fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}
