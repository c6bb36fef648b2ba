//! Capture: how fast a flooding program runs while every byte is kept, and what that costs the holder.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use super::coven::{Coven, Session, holder_of};
use super::flood::{Flood, Gate};
use super::pattern::Kind;
use super::peers::{self, Dtach, Tmux};
use super::pty::{self, Terminal};
use super::report::Row;
use super::stats::{Spread, short};
use super::{Bench, Outcome, proc};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contender {
    /// Read and drop: the limit.
    Raw,
    Coven {
        screen_model: bool,
        clients: usize,
        /// Clients beyond those that never read.
        stalled: usize,
    },
    Script,
    Dtach {
        clients: usize,
    },
    Tmux,
}
use Contender::{Raw, Script, Tmux as TmuxAlone};

const fn coven(screen_model: bool, clients: usize, stalled: usize) -> Contender {
    Contender::Coven { screen_model, clients, stalled }
}
const RECORDED: Contender = coven(false, 0, 0);
const MODELLED: Contender = coven(true, 0, 0);
const ONE_CLIENT: Contender = coven(true, 1, 0);
const ONE_AND_STALLED: Contender = coven(true, 1, 1);
const TEN_CLIENTS: Contender = coven(true, 10, 0);
const TEN_ONE_STALLED: Contender = coven(true, 9, 1);
const DTACH: Contender = Contender::Dtach { clients: 0 };
const DTACH_ONE: Contender = Contender::Dtach { clients: 1 };

const ALL: [Contender; 11] = [
    Raw,
    RECORDED,
    MODELLED,
    Script,
    DTACH,
    ONE_CLIENT,
    DTACH_ONE,
    ONE_AND_STALLED,
    TEN_CLIENTS,
    TEN_ONE_STALLED,
    TmuxAlone,
];

/// One flood, by megabyte.
struct Sample {
    speed: f64,
    holder_cpu: f64,
    daemon_cpu: f64,
}

struct Setting<'a> {
    bench: &'a Bench,
    kind: Kind,
    bytes: u64,
    plain_home: Coven,
    model_home: Coven,
}

pub fn measure(bench: &Bench) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (kind, megabytes) in [(Kind::Plain, bench.scale(200, 20)), (Kind::Ansi, bench.scale(100, 10))] {
        rows.extend(measure_kind(bench, kind, megabytes * 1_000_000)?);
    }
    Ok(rows)
}

fn measure_kind(bench: &Bench, kind: Kind, bytes: u64) -> Outcome<Vec<Row>> {
    // Compressing a finished log would run into the next contender's time.
    let home = |model: bool| Coven::started(bench, json!({ "screenModel": model, "compressFinished": false }));
    let setting = Setting { bench, kind, bytes, plain_home: home(false)?, model_home: home(true)? };

    let missing =
        ["script", "dtach", "tmux"].into_iter().filter(|peer| peers::find(peer).is_none()).collect::<Vec<_>>();
    let runs = |contender: &Contender| contender.peer().is_none_or(|peer| !missing.contains(&peer));
    let contenders: Vec<Contender> = ALL.into_iter().filter(runs).collect();

    let mut results = Results { samples: contenders.iter().map(|_| Vec::new()).collect(), contenders };
    for round in 0..bench.rounds {
        let count = results.contenders.len();
        // Each round begins with another contender, so that none always follows the same one.
        for place in (0..count).map(|place| (place + round) % count) {
            let sample = setting
                .run(results.contenders[place])
                .map_err(|error| format!("{:?}: {error}", results.contenders[place]))?;
            results.samples[place].push(sample);
        }
    }
    let mut rows = results.rows(kind, bytes);
    rows.extend(missing.into_iter().map(|peer| Row::no_peer(format!("capture {}: beside {peer}", kind.name()), peer)));
    Ok(rows)
}

impl Contender {
    /// The program it needs.
    fn peer(self) -> Option<&'static str> {
        match self {
            Raw | Contender::Coven { .. } => None,
            Script => Some("script"),
            Contender::Dtach { .. } => Some("dtach"),
            TmuxAlone => Some("tmux"),
        }
    }
}

impl Setting<'_> {
    fn run(&self, contender: Contender) -> Outcome<Sample> {
        let gate = Gate::open()?;
        let argv = gate.argv(self.bench, self.kind, self.bytes);
        match contender {
            Raw => {
                let words: Vec<&str> = ["drain", "--"].into_iter().chain(argv.iter().map(String::as_str)).collect();
                let mut drain = pty::command(&self.bench.program(&words)).stdin(Stdio::null()).spawn()?;
                let sample = self.held(gate.accept()?, self.bytes);
                drain.wait()?;
                sample
            }
            Contender::Coven { screen_model, clients, stalled } => self.coven(&gate, screen_model, clients, stalled),
            Script => {
                let folder = tempfile::tempdir()?;
                let _script = peers::script(folder.path(), &argv)?;
                self.held(gate.accept()?, self.bytes)
            }
            Contender::Dtach { clients } => {
                let dtach = Dtach::launch(&argv)?;
                let flood = gate.accept()?;
                let attach = || -> Outcome<Terminal> {
                    let client = dtach.attach()?;
                    client.read_some()?;
                    Ok(client)
                };
                let clients = (0..clients).map(|_| attach()).collect::<Outcome<Vec<_>>>()?;
                // It says no word between clearing the screen and being attached.
                std::thread::sleep(Duration::from_millis(50));
                pty::drain_clients(clients.iter().map(Terminal::master).collect::<Outcome<_>>()?);
                self.held(flood, self.bytes)
            }
            TmuxAlone => {
                // A fifth is enough to know its pace.
                let bytes = self.bytes / 5;
                let _tmux = Tmux::launch(&gate.argv(self.bench, self.kind, bytes), 2000)?;
                self.held(gate.accept()?, bytes)
            }
        }
    }

    /// A flood into whatever process is the program's parent.
    fn held(&self, mut flood: Flood, bytes: u64) -> Outcome<Sample> {
        let holder = holder_of(flood.pid)?;
        let before = proc::cpu(holder)?;
        let took = flood.run()?;
        let cpu = proc::settled_cpu(holder)? - before;
        Ok(sample(bytes, took, cpu, Duration::ZERO))
    }

    fn coven(&self, gate: &Gate, screen_model: bool, clients: usize, stalled: usize) -> Outcome<Sample> {
        let home = if screen_model { &self.model_home } else { &self.plain_home };
        let session = home.launch(&gate.argv(self.bench, self.kind, self.bytes))?;
        let mut flood = gate.accept()?;
        let attach = |count: usize| (0..count).map(|_| home.attach(&session)).collect::<Outcome<Vec<_>>>();
        let (clients, stalled) = (attach(clients)?, attach(stalled)?);
        let drain = pty::drain_clients(clients.iter().map(Terminal::master).collect::<Outcome<_>>()?);

        let (holder, daemon) = (holder_of(flood.pid)?, home.daemon_pid()?);
        let before = (proc::cpu(holder)?, proc::cpu(daemon)?);
        let took = flood.run()?;
        let after = (proc::settled_cpu(holder)?, proc::settled_cpu(daemon)?);

        drop((flood, clients, stalled));
        drain.join().expect("the drain does not panic")?;
        self.check_and_sacrifice(home, &session)?;
        Ok(sample(self.bytes, took, after.0 - before.0, after.1 - before.1))
    }

    fn check_and_sacrifice(&self, home: &Coven, session: &Session) -> Outcome<()> {
        home.wait(session)?;
        home.check_log(session, self.kind, self.bytes)?;
        home.sacrifice(session)
    }
}

fn sample(bytes: u64, took: Duration, holder_cpu: Duration, daemon_cpu: Duration) -> Sample {
    let megabytes = bytes as f64 / 1e6;
    let per_megabyte = |cpu: Duration| cpu.as_secs_f64() * 1e3 / megabytes;
    Sample {
        speed: megabytes / took.as_secs_f64(),
        holder_cpu: per_megabyte(holder_cpu),
        daemon_cpu: per_megabyte(daemon_cpu),
    }
}

struct Results {
    contenders: Vec<Contender>,
    /// By contender, then by round.
    samples: Vec<Vec<Sample>>,
}

impl Results {
    fn of(&self, contender: Contender, value: impl Fn(&Sample) -> f64) -> Option<Vec<f64>> {
        let place = self.contenders.iter().position(|&one| one == contender)?;
        Some(self.samples[place].iter().map(value).collect())
    }

    fn speed(&self, contender: Contender) -> Option<Vec<f64>> {
        self.of(contender, |sample| sample.speed)
    }

    fn speed_ratio(&self, ours: Contender, base: Contender) -> Option<Spread> {
        Some(Spread::ratio(&self.speed(ours)?, &self.speed(base)?))
    }

    fn rows(&self, kind: Kind, bytes: u64) -> Vec<Row> {
        let name = |what: &str| format!("capture {}: {what}", kind.name());
        let holder = |sample: &Sample| sample.holder_cpu;
        let daemon = |sample: &Sample| sample.daemon_cpu;
        let both = |sample: &Sample| sample.holder_cpu + sample.daemon_cpu;
        let cpu_ratio = |ours, value: &dyn Fn(&Sample) -> f64, base| {
            Some(Spread::ratio(&self.of(ours, value)?, &self.of(base, holder)?))
        };
        let at_least =
            |what: &str, ours, base, bar| Some(Row::at_least(name(what), self.speed_ratio(ours, base)?, bar));
        let anchor = |what: &str, ours| {
            let speed = Spread::of(&self.speed(ours)?);
            let ratio = self.speed_ratio(ours, Raw)?;
            let cpu = short(Spread::of(&self.of(ours, both)?).median);
            Some(Row::anchor(name(what), format!("{ratio}; {} MB/s, {cpu} ms CPU/MB", short(speed.median))))
        };
        let runs: usize = self
            .contenders
            .iter()
            .zip(&self.samples)
            .filter(|(contender, _)| matches!(contender, Contender::Coven { .. }))
            .map(|(_, samples)| samples.len())
            .sum();
        let lossless = Row::judged(name("bytes lost, changed or doubled"), format!("0 of {runs} × {bytes}"), "0", true);
        [
            anchor("raw drain", Raw),
            anchor("script -q", Script),
            anchor("dtach", DTACH),
            anchor("dtach, 1 client", DTACH_ONE),
            anchor("tmux", TmuxAlone),
            anchor("coven, no screen model", RECORDED),
            anchor("coven, screen model", MODELLED),
            at_least("coven / raw drain", RECORDED, Raw, 0.90),
            cpu_ratio(RECORDED, &holder, Raw).map(|ratio| Row::at_most(name("holder CPU / drain CPU"), ratio, 1.5)),
            cpu_ratio(RECORDED, &daemon, Raw).map(|ratio| Row::anchor(name("daemon CPU / drain CPU"), ratio)),
            at_least("screen model on / raw drain", MODELLED, Raw, 0.80),
            (kind == Kind::Ansi)
                .then(|| cpu_ratio(MODELLED, &both, TmuxAlone))
                .flatten()
                .map(|ratio| Row::at_most(name("screen model on, holder + daemon CPU / tmux CPU"), ratio, 0.25)),
            at_least("1 client / dtach with 1", ONE_CLIENT, DTACH_ONE, 1.0),
            at_least("10 clients / raw drain", TEN_CLIENTS, Raw, 0.5),
            at_least("10 clients, one stalled / raw drain", TEN_ONE_STALLED, Raw, 0.5),
            at_least("1 client and a stalled one / 1 client", ONE_AND_STALLED, ONE_CLIENT, 0.98),
            Some(lossless),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
