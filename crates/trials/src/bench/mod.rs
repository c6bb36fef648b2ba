//! `cargo xtask bench`: the project's benchmarks. Each figure is a ratio to a baseline measured in the same round.

mod acp_agent;
mod activity;
mod agents;
mod app;
mod attach;
mod capture;
mod cold_start;
mod contender;
mod conversations;
mod coven;
mod echo;
mod fanout;
mod flood;
mod http;
mod kills;
mod launch;
mod ledger;
mod list;
mod memory;
mod paging;
mod pattern;
mod peers;
mod proc;
mod program;
mod pty;
mod questions;
mod report;
mod sacrifice;
mod stats;
mod talking;
mod tasks;
mod wire;

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::ValueEnum;
pub use program::Program;
use report::Row;

/// The error is only printed, never matched.
type BenchResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure only these figures.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Figure>,
    /// Rounds per figure; ratios are computed within a round.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Use small volumes and three rounds, to check that the benchmarks run.
    #[arg(long)]
    quick: bool,
    /// Also write the rows to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The coven binary to measure; built in release mode if omitted.
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// An earlier coven binary, for the figures that compare with it.
    #[arg(long, value_name = "PATH")]
    baseline: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Figure {
    ColdStart,
    Echo,
    Attach,
    Launch,
    List,
    Paging,
    Memory,
    Capture,
    Fanout,
    Sacrifice,
    Kills,
    Agents,
    Questions,
    Conversations,
    Tasks,
    Wire,
    Activity,
    App,
}

/// Settings shared by all figures.
struct Bench {
    coven: PathBuf,
    baseline: Option<PathBuf>,
    rounds: usize,
    quick: bool,
    this: PathBuf,
}

impl Bench {
    /// Returns `whole`, or `quick` under `--quick`.
    fn scale<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// Returns the command line of one of the programs in `program.rs`.
    fn program(&self, words: &[&str]) -> Vec<String> {
        let this = self.this.to_string_lossy().into_owned();
        std::iter::once(this).chain(words.iter().map(|&word| word.to_owned())).collect()
    }
}

pub fn run(args: Args) -> ExitCode {
    if cfg!(debug_assertions) {
        eprintln!("bench: an unoptimised build gives meaningless figures; start it with: cargo xtask bench");
        return ExitCode::FAILURE;
    }
    match measure(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the figures one after another. Returns whether every bar was reached.
fn measure(args: &Args) -> BenchResult<bool> {
    let this = std::env::current_exe()?;
    let whole = |path: &PathBuf| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let coven = match &args.bin {
        Some(path) => whole(path)?,
        None => build_coven(&this)?,
    };
    let baseline = args.baseline.as_ref().map(whole).transpose()?;
    let bench = Bench { coven, baseline, rounds: if args.quick { 3 } else { args.rounds }, quick: args.quick, this };
    let figures = if args.only.is_empty() { Figure::value_variants() } else { &args.only };

    let mut rows = Vec::new();
    for &figure in figures {
        let (start, load) = (Instant::now(), proc::load());
        let taken = figure.take(&bench).unwrap_or_else(|error| vec![Row::missing(figure.name(), error.to_string())]);
        println!(
            "\n{}: {:.0} s, load {load} before, {} after",
            figure.name(),
            start.elapsed().as_secs_f64(),
            proc::load()
        );
        print!("{}{}", report::TABLE_HEAD, report::lines(&taken));
        rows.extend(taken);
    }
    if figures.len() > 1 {
        println!("\nAll figures, {} rounds, {} cores\n", bench.rounds, std::thread::available_parallelism()?);
        print!("{}{}", report::TABLE_HEAD, report::lines(&rows));
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&rows)?)?;
    }
    Ok(!rows.iter().any(|row| matches!(row.reached, report::Verdict::No | report::Verdict::Missing)))
}

/// Builds coven in release mode. Its binary is in the same folder as this one.
fn build_coven(this: &std::path::Path) -> BenchResult<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--release", "--package", "coven", "--bin", "coven"]).status()?;
    if !status.success() {
        return Err("cannot build coven".into());
    }
    Ok(this.with_file_name("coven"))
}

impl Figure {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn take(self, bench: &Bench) -> BenchResult<Vec<Row>> {
        match self {
            Figure::ColdStart => cold_start::measure(bench),
            Figure::Echo => echo::measure(bench),
            Figure::Attach => attach::measure(bench),
            Figure::Launch => launch::measure(bench),
            Figure::List => list::measure(bench),
            Figure::Paging => paging::measure(bench),
            Figure::Memory => memory::measure(bench),
            Figure::Capture => capture::measure(bench),
            Figure::Fanout => fanout::measure(bench),
            Figure::Sacrifice => sacrifice::measure(bench),
            Figure::Kills => kills::measure(bench),
            Figure::Agents => agents::measure(bench),
            Figure::Questions => questions::measure(bench),
            Figure::Conversations => conversations::measure(bench),
            Figure::Tasks => tasks::measure(bench),
            Figure::Wire => wire::measure(bench),
            Figure::Activity => activity::measure(bench),
            Figure::App => app::measure(bench),
        }
    }
}

/// Polls until `happened` returns true, or fails after the timeout.
fn eventually(timeout: Duration, what: &str, mut happened: impl FnMut() -> BenchResult<bool>) -> BenchResult<()> {
    let deadline = Instant::now() + timeout;
    while !happened()? {
        if Instant::now() > deadline {
            return Err(format!("timed out waiting for {what}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
