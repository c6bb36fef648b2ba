//! Programs that hold the terminal of a flooding program: coven in several settings, its peers, and a raw drain.

use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use super::coven::{Coven, Session, holder_of};
use super::flood::{Flood, Gate};
use super::pattern::Kind;
use super::peers::{self, Dtach, Tmux};
use super::pty::{self, Terminal};
use super::{Bench, BenchResult, proc};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// Reads and discards: the upper limit.
    Raw,
    Coven {
        screen_model: bool,
        clients: usize,
        /// Additional clients that never read.
        stalled: usize,
    },
    Script,
    Dtach {
        clients: usize,
    },
    Tmux,
}

impl Contender {
    /// Returns the program that the contender requires.
    pub fn peer(self) -> Option<&'static str> {
        match self {
            Contender::Raw | Contender::Coven { .. } => None,
            Contender::Script => Some("script"),
            Contender::Dtach { .. } => Some("dtach"),
            Contender::Tmux => Some("tmux"),
        }
    }
}

/// Result of one flood: MB/s, and CPU milliseconds per MB.
pub struct Sample {
    pub speed: f64,
    pub holder_cpu: f64,
    pub daemon_cpu: f64,
}

/// Settings and homes shared by the contenders of one kind of flood.
pub struct Arena<'a> {
    bench: &'a Bench,
    kind: Kind,
    bytes: u64,
    plain_home: Coven,
    model_home: Coven,
}

impl<'a> Arena<'a> {
    pub fn new(bench: &'a Bench, kind: Kind, bytes: u64) -> BenchResult<Self> {
        // Compression of a finished log would run during the next contender's turn.
        let home = |model: bool| Coven::started(bench, json!({ "screenModel": model, "compressFinished": false }));
        Ok(Self { bench, kind, bytes, plain_home: home(false)?, model_home: home(true)? })
    }

    /// Starts a contender; its program then waits for the start of the flood.
    pub fn enter(&'a self, contender: Contender) -> BenchResult<Entrant<'a>> {
        let gate = Gate::open()?;
        // tmux is the slowest; a fifth is enough to measure it.
        let bytes = if contender == Contender::Tmux { self.bytes / 5 } else { self.bytes };
        let argv = gate.argv(self.bench, self.kind, bytes);
        let mut guards = FloodGuards::default();
        let mut daemon = None;
        let flood = match contender {
            Contender::Raw => {
                let words: Vec<&str> = ["drain", "--"].into_iter().chain(argv.iter().map(String::as_str)).collect();
                guards.drain = Some(pty::command(&self.bench.program(&words)).stdin(Stdio::null()).spawn()?);
                gate.accept()?
            }
            Contender::Coven { screen_model, clients, stalled } => {
                let home = if screen_model { &self.model_home } else { &self.plain_home };
                let session = home.launch(&argv)?;
                let flood = gate.accept()?;
                let attach = |_| home.attach(&session);
                guards.attach((0..clients).map(attach).collect::<BenchResult<_>>()?)?;
                guards.stalled = (0..stalled).map(attach).collect::<BenchResult<_>>()?;
                daemon = Some(home.daemon_pid()?);
                guards.session = Some((home, session));
                flood
            }
            Contender::Script => {
                let folder = tempfile::tempdir()?;
                guards.stalled.push(peers::script(folder.path(), &argv)?);
                guards.folder = Some(folder);
                gate.accept()?
            }
            Contender::Dtach { clients } => {
                let dtach = Dtach::launch(&argv)?;
                let flood = gate.accept()?;
                let attached = (0..clients).map(|_| dtach.attach()).collect::<BenchResult<Vec<_>>>()?;
                attached.iter().try_for_each(Terminal::read_some)?;
                // dtach prints nothing between clearing the screen and being attached.
                std::thread::sleep(Duration::from_millis(50));
                guards.attach(attached)?;
                guards.dtach = Some(dtach);
                flood
            }
            Contender::Tmux => {
                guards.tmux = Some(Tmux::launch(&argv, 2000)?);
                gate.accept()?
            }
        };
        let holder = holder_of(flood.pid)?;
        Ok(Entrant { arena: self, bytes, flood, holder, daemon, took: Duration::ZERO, cpu: Cpu::default(), guards })
    }
}

/// Processes and folders that must live as long as the flood.
#[derive(Default)]
struct FloodGuards<'a> {
    session: Option<(&'a Coven, Session)>,
    clients: Vec<Terminal>,
    reading: Option<JoinHandle<BenchResult<()>>>,
    stalled: Vec<Terminal>,
    drain: Option<Child>,
    dtach: Option<Dtach>,
    tmux: Option<Tmux>,
    folder: Option<tempfile::TempDir>,
}

impl FloodGuards<'_> {
    /// Drains the terminals of the clients in the background.
    fn attach(&mut self, clients: Vec<Terminal>) -> BenchResult<()> {
        self.reading = Some(pty::drain_clients(clients.iter().map(Terminal::master).collect::<BenchResult<_>>()?));
        self.clients = clients;
        Ok(())
    }
}

#[derive(Default)]
struct Cpu {
    holder: Duration,
    daemon: Duration,
}

/// A contender whose program has started.
pub struct Entrant<'a> {
    arena: &'a Arena<'a>,
    bytes: u64,
    flood: Flood,
    holder: u32,
    daemon: Option<u32>,
    took: Duration,
    cpu: Cpu,
    guards: FloodGuards<'a>,
}

impl Entrant<'_> {
    /// Floods up to `part` of all bytes, then waits until holder and daemon are idle.
    pub fn run_to(&mut self, part: f64) -> BenchResult<()> {
        let daemon_cpu = |settled: bool| match self.daemon {
            Some(pid) if settled => proc::settled_cpu(pid),
            Some(pid) => proc::cpu(pid),
            None => Ok(Duration::ZERO),
        };
        let before = (proc::cpu(self.holder)?, daemon_cpu(false)?);
        self.took += self.flood.run_to((self.bytes as f64 * part) as u64)?;
        self.cpu.holder += proc::settled_cpu(self.holder)? - before.0;
        self.cpu.daemon += daemon_cpu(true)? - before.1;
        Ok(())
    }

    /// Ends the program and checks that coven's log contains every byte.
    pub fn leave(self) -> BenchResult<Sample> {
        let Self { arena, bytes, took, cpu, guards, .. } = self;
        drop((self.flood, guards.clients, guards.stalled, guards.dtach, guards.tmux));
        if let Some(reading) = guards.reading {
            reading.join().expect("the reader does not panic")?;
        }
        if let Some(mut drain) = guards.drain {
            drain.wait()?;
        }
        if let Some((home, session)) = guards.session {
            home.wait(&session)?;
            home.check_log(&session, arena.kind, bytes)?;
            home.sacrifice(&session)?;
        }
        let megabytes = bytes as f64 / 1e6;
        let per_megabyte = |cpu: Duration| cpu.as_secs_f64() * 1e3 / megabytes;
        Ok(Sample {
            speed: megabytes / took.as_secs_f64(),
            holder_cpu: per_megabyte(cpu.holder),
            daemon_cpu: per_megabyte(cpu.daemon),
        })
    }
}
