//! `cargo xtask real-agents`: runs real agent programs through coven against a
//! stub model and prints a table of results.

mod acp;
mod activity;
mod choice;
mod coven;
mod death;
mod install;
mod mcp;
mod print;
mod process_table;
mod report;
mod stage;
mod stub;
mod terminal_row;
mod trial;
mod tried_agent;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use coven_harness::trial::TerminalTrial;
use serde::Serialize;

pub use print::turn::{PrintTurnArgs, run as print_turn};

use install::Installed;
use report::Row;
use stage::Cast;
use terminal_row::TerminalRow;
use tried_agent::{TriedAgent, tried};

type TerminalAgent = TriedAgent<TerminalTrial>;
type TrialResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Number of agents that must pass in a terminal; all of them if fewer were selected.
const MUST_PASS_IN_A_TERMINAL: usize = 6;
/// Number of agents that must pass over ACP. All installed agents must pass, too.
const MUST_PASS_OVER_ACP: usize = 8;

/// Number of agents that must pass in print mode.
const MUST_PASS_IN_PRINT_MODE: usize = 6;

/// Set when the run is interrupted, so that a trial that is still running starts no more commands.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Args)]
pub struct RealAgentsArgs {
    /// How coven communicates with the agents.
    #[arg(long, value_enum, default_value_t = Channel::Terminal)]
    channel: Channel,
    /// Agents to run, comma-separated, each as NAME or NAME@VERSION; all known ones if omitted.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    agents: Vec<String>,
    /// Folder to install agents in, outside the source tree [default: coven-real-agents in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The stub model's program [default: ../shared/stub-model/stub_model.py, relative to the project].
    #[arg(long, value_name = "FILE")]
    stub: Option<PathBuf>,
    /// The coven binary to test [default: the release build, built first].
    #[arg(long, value_name = "FILE")]
    coven: Option<PathBuf>,
    /// Keep the homes and repositories of the run and print their location.
    #[arg(long)]
    keep: bool,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Channel {
    Terminal,
    Acp,
    /// The reverse direction: clients and agents connect to `coven mcp`.
    Mcp,
    Print,
    /// What coven knows about an agent in a terminal.
    Activity,
}

/// Settings shared by all trials.
struct Bench {
    coven: PathBuf,
    stub: PathBuf,
    cache: PathBuf,
    /// Contains all folders of this run; its path identifies the run's processes.
    root: PathBuf,
}

pub fn run(args: RealAgentsArgs) -> ExitCode {
    match interruptible(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("real-agents: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the trials and kills their agents on Ctrl-C: agents run in their own process sessions and would survive it.
fn interruptible(args: RealAgentsArgs) -> TrialResult<ExitCode> {
    let folder = tempfile::Builder::new().prefix("cvr").tempdir()?;
    // Agents compare the working folder with paths in their settings, so it must not contain symbolic links.
    let root = folder.path().canonicalize()?;
    let is_kept = args.keep;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bench_root = root.clone();
    let outcome = runtime.block_on(async move {
        tokio::select! {
            done = tokio::task::spawn_blocking(move || all_trials(args, bench_root)) => done?,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        }
    });
    IS_INTERRUPTED.store(true, Ordering::SeqCst);
    process_table::sweep(&root);
    if is_kept {
        eprintln!("kept: {}", folder.keep().display());
    }
    // An interrupted trial may still be waiting for its agent; do not wait for it.
    runtime.shutdown_background();
    outcome
}

fn all_trials(args: RealAgentsArgs, root: PathBuf) -> TrialResult<ExitCode> {
    let is_json = args.json;
    match args.channel {
        Channel::Terminal => {
            let agents = choice::choose(|| tried(|trial| trial.terminal.as_ref()), &args.agents)?;
            let bench = Bench::new(args, root)?;
            let rows = agents.iter().map(|agent| terminal_trial(agent, &bench)).collect::<TrialResult<Vec<_>>>()?;
            verdict(&rows, MUST_PASS_IN_A_TERMINAL, is_json)
        }
        Channel::Acp => {
            let agents = acp::choose(&args.agents)?;
            let bench = Bench::new(args, root)?;
            let rows = agents.iter().map(|agent| acp::one_trial(agent, &bench)).collect::<TrialResult<Vec<_>>>()?;
            let tried = rows.iter().filter(|row| row.was_tried()).count();
            verdict(&rows, tried.max(MUST_PASS_OVER_ACP), is_json)
        }
        Channel::Mcp => {
            let subjects = mcp::choose(&args.agents)?;
            mcp::all_trials(&subjects, &Bench::new(args, root)?, is_json)
        }
        Channel::Activity => {
            let subjects = activity::choose(&args.agents)?;
            activity::all_trials(&subjects, &Bench::new(args, root)?, is_json)
        }
        Channel::Print => {
            let agents = print::choose(&args.agents)?;
            // Print mode does not need coven, so it is not built.
            let coven = args.coven.or(Some(std::env::current_exe()?));
            let bench = Bench::new(RealAgentsArgs { coven, ..args }, root)?;
            let rows = agents.iter().map(|agent| print::one_trial(agent, &bench)).collect::<TrialResult<Vec<_>>>()?;
            verdict(&rows, MUST_PASS_IN_PRINT_MODE, is_json)
        }
    }
}

fn verdict<R: Row + Serialize>(rows: &[R], must_pass: usize, is_json: bool) -> TrialResult<ExitCode> {
    let must_pass = must_pass.min(rows.len());
    let passed = rows.iter().filter(|row| row.has_passed()).count();
    if is_json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", report::table(rows));
        println!("{passed} of {} agents passed, {must_pass} required", rows.len());
    }
    Ok(if passed < must_pass { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs the trial of one agent. An agent that cannot be installed gets a row too, and the other trials continue.
fn terminal_trial(agent: &TerminalAgent, bench: &Bench) -> TrialResult<TerminalRow> {
    eprintln!("{}", agent.name);
    let installed = match Installed::ensure(&agent.packages, agent.program, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => return Ok(TerminalRow::not_installed(agent, error.to_string())),
    };
    let stage = stage::set(
        Cast { name: agent.name, settings: agent.settings, harness: None, prepare: None },
        installed,
        bench,
    )?;
    Ok(trial::run(agent, stage))
}

impl Bench {
    fn new(args: RealAgentsArgs, root: PathBuf) -> TrialResult<Self> {
        let stub = args.stub.unwrap_or_else(|| project_root().join("../shared/stub-model/stub_model.py"));
        if !stub.is_file() {
            return Err(format!("no stub model at {}; set its path with --stub", stub.display()).into());
        }
        let cache = args.cache.map_or_else(default_cache, Ok)?;
        Ok(Self { coven: coven_binary(args.coven)?, stub, cache, root })
    }
}

fn project_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is two folders below the project")
}

fn default_cache() -> TrialResult<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or("neither XDG_CACHE_HOME nor HOME is set; choose a folder with --cache")?;
    Ok(base.join("coven-real-agents"))
}

fn coven_binary(given: Option<PathBuf>) -> TrialResult<PathBuf> {
    if let Some(path) = given {
        return path.canonicalize().map_err(|error| format!("{}: {error}", path.display()).into());
    }
    eprintln!("building coven (release)");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--bin", "coven"])
        .current_dir(project_root())
        .status()?;
    if !status.success() {
        return Err("cannot build coven; choose a binary with --coven".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| project_root().join("target"), PathBuf::from);
    Ok(target.join("release/coven"))
}

/// Polls until `ask` returns a value or the time is over.
fn eventually<T>(within: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        sleep(Duration::from_millis(100));
    }
}

fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
