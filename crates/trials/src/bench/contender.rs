//! Whoever holds the terminal of a flooding program: coven in several settings, its peers, and the bare drain.

use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use super::coven::{Coven, Session, holder_of};
use super::flood::{Flood, Gate};
use super::pattern::Kind;
use super::peers::{self, Dtach, Tmux};
use super::pty::{self, Terminal};
use super::{Bench, Outcome, proc};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// Read and drop: the limit.
    Raw,
    Coven {
        screen_model: bool,
        clients: usize,
        /// Further clients that never read.
        stalled: usize,
    },
    Script,
    Dtach {
        clients: usize,
    },
    Tmux,
}

impl Contender {
    /// The program it needs.
    pub fn peer(self) -> Option<&'static str> {
        match self {
            Contender::Raw | Contender::Coven { .. } => None,
            Contender::Script => Some("script"),
            Contender::Dtach { .. } => Some("dtach"),
            Contender::Tmux => Some("tmux"),
        }
    }
}

/// One flood: megabytes a second, and milliseconds of CPU for each.
pub struct Sample {
    pub speed: f64,
    pub holder_cpu: f64,
    pub daemon_cpu: f64,
}

/// What the contenders of one kind of flood share.
pub struct Arena<'a> {
    bench: &'a Bench,
    kind: Kind,
    bytes: u64,
    plain_home: Coven,
    model_home: Coven,
}

impl<'a> Arena<'a> {
    pub fn new(bench: &'a Bench, kind: Kind, bytes: u64) -> Outcome<Self> {
        // Compressing a finished log would run into the next contender's time.
        let home = |model: bool| Coven::started(bench, json!({ "screenModel": model, "compressFinished": false }));
        Ok(Self { bench, kind, bytes, plain_home: home(false)?, model_home: home(true)? })
    }

    /// Brings a contender to the point where its program waits for the flood to begin.
    pub fn enter(&'a self, contender: Contender) -> Outcome<Entrant<'a>> {
        let gate = Gate::open()?;
        // A fifth is enough to know the pace of the slowest.
        let bytes = if contender == Contender::Tmux { self.bytes / 5 } else { self.bytes };
        let argv = gate.argv(self.bench, self.kind, bytes);
        let mut stand = Stand::default();
        let mut daemon = None;
        let flood = match contender {
            Contender::Raw => {
                let words: Vec<&str> = ["drain", "--"].into_iter().chain(argv.iter().map(String::as_str)).collect();
                stand.drain = Some(pty::command(&self.bench.program(&words)).stdin(Stdio::null()).spawn()?);
                gate.accept()?
            }
            Contender::Coven { screen_model, clients, stalled } => {
                let home = if screen_model { &self.model_home } else { &self.plain_home };
                let session = home.launch(&argv)?;
                let flood = gate.accept()?;
                let attach = |_| home.attach(&session);
                stand.attach((0..clients).map(attach).collect::<Outcome<_>>()?)?;
                stand.stalled = (0..stalled).map(attach).collect::<Outcome<_>>()?;
                daemon = Some(home.daemon_pid()?);
                stand.session = Some((home, session));
                flood
            }
            Contender::Script => {
                let folder = tempfile::tempdir()?;
                stand.stalled.push(peers::script(folder.path(), &argv)?);
                stand.folder = Some(folder);
                gate.accept()?
            }
            Contender::Dtach { clients } => {
                let dtach = Dtach::launch(&argv)?;
                let flood = gate.accept()?;
                let attached = (0..clients).map(|_| dtach.attach()).collect::<Outcome<Vec<_>>>()?;
                attached.iter().try_for_each(Terminal::read_some)?;
                // It says no word between clearing the screen and being attached.
                std::thread::sleep(Duration::from_millis(50));
                stand.attach(attached)?;
                stand.dtach = Some(dtach);
                flood
            }
            Contender::Tmux => {
                stand.tmux = Some(Tmux::launch(&argv, 2000)?);
                gate.accept()?
            }
        };
        let holder = holder_of(flood.pid)?;
        Ok(Entrant { arena: self, bytes, flood, holder, daemon, took: Duration::ZERO, cpu: Cpu::default(), stand })
    }
}

/// What must stay alive around a flood.
#[derive(Default)]
struct Stand<'a> {
    session: Option<(&'a Coven, Session)>,
    clients: Vec<Terminal>,
    reading: Option<JoinHandle<Outcome<()>>>,
    stalled: Vec<Terminal>,
    drain: Option<Child>,
    dtach: Option<Dtach>,
    tmux: Option<Tmux>,
    folder: Option<tempfile::TempDir>,
}

impl Stand<'_> {
    /// Keeps the terminals of clients empty.
    fn attach(&mut self, clients: Vec<Terminal>) -> Outcome<()> {
        self.reading = Some(pty::drain_clients(clients.iter().map(Terminal::master).collect::<Outcome<_>>()?));
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
    stand: Stand<'a>,
}

impl Entrant<'_> {
    /// Floods up to `part` of the whole, then waits until everybody behind it has come to rest.
    pub fn run_to(&mut self, part: f64) -> Outcome<()> {
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

    /// Ends the program; a log that coven kept must hold every byte.
    pub fn leave(self) -> Outcome<Sample> {
        let Self { arena, bytes, took, cpu, stand, .. } = self;
        drop((self.flood, stand.clients, stand.stalled, stand.dtach, stand.tmux));
        if let Some(reading) = stand.reading {
            reading.join().expect("the reader does not panic")?;
        }
        if let Some(mut drain) = stand.drain {
            drain.wait()?;
        }
        if let Some((home, session)) = stand.session {
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
