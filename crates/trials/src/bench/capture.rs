//! Capture: throughput of a flooding program while every byte is recorded, and the CPU time of the holder.

use super::contender::Contender::{Raw, Script, Tmux};
use super::contender::{Arena, Contender, Sample};
use super::pattern::Kind;
use super::peers;
use super::report::Row;
use super::stats::{Spread, short};
use super::{Bench, BenchResult};

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
    Tmux,
];

/// Number of turns per flood. All contenders finish a turn before the next one starts, so that other load on the
/// machine affects all of them equally.
const TURNS: u32 = 10;

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let mut rows = Vec::new();
    for (kind, megabytes) in [(Kind::Plain, bench.scale(200, 20)), (Kind::Ansi, bench.scale(100, 10))] {
        rows.extend(measure_kind(bench, kind, megabytes * 1_000_000)?);
    }
    Ok(rows)
}

fn measure_kind(bench: &Bench, kind: Kind, bytes: u64) -> BenchResult<Vec<Row>> {
    let arena = Arena::new(bench, kind, bytes)?;
    let missing: Vec<&str> =
        ["script", "dtach", "tmux"].into_iter().filter(|peer| peers::find(peer).is_none()).collect();
    let is_here = |contender: &Contender| contender.peer().is_none_or(|peer| !missing.contains(&peer));
    let contenders: Vec<Contender> = ALL.into_iter().filter(is_here).collect();

    let mut results = Results { samples: contenders.iter().map(|_| Vec::new()).collect(), contenders };
    for _ in 0..bench.rounds {
        let mut entrants = Vec::new();
        for &contender in &results.contenders {
            entrants.push(arena.enter(contender).map_err(|error| format!("{contender:?}: {error}"))?);
        }
        for turn in 1..=TURNS {
            let count = entrants.len();
            // Rotate the order, so that no contender always follows the same one.
            for place in (0..count).map(|place| (place + turn as usize) % count) {
                entrants[place].run_to(f64::from(turn) / f64::from(TURNS))?;
            }
        }
        for (samples, entrant) in results.samples.iter_mut().zip(entrants) {
            samples.push(entrant.leave()?);
        }
    }
    let mut rows = results.rows(kind, bytes);
    rows.extend(
        missing.into_iter().map(|peer| Row::no_peer(format!("capture {}: comparison with {peer}", kind.name()), peer)),
    );
    Ok(rows)
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
        let lossless =
            Row::judged(name("bytes lost, changed or repeated"), format!("0 of {runs} × {bytes}"), "0", true);
        [
            anchor("raw drain", Raw),
            anchor("script -q", Script),
            anchor("dtach", DTACH),
            anchor("dtach, 1 client", DTACH_ONE),
            anchor("tmux", Tmux),
            anchor("coven, no screen model", RECORDED),
            anchor("coven, screen model", MODELLED),
            at_least("coven / raw drain", RECORDED, Raw, 0.90),
            cpu_ratio(RECORDED, &holder, Raw).map(|ratio| Row::at_most(name("holder CPU / drain CPU"), ratio, 1.5)),
            cpu_ratio(RECORDED, &daemon, Raw).map(|ratio| Row::anchor(name("daemon CPU / drain CPU"), ratio)),
            at_least("screen model on / raw drain", MODELLED, Raw, 0.80),
            (kind == Kind::Ansi)
                .then(|| cpu_ratio(MODELLED, &both, Tmux))
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
