//! The process that runs one target: it mutates inputs until the deadline. [`crate::supervisor`] monitors it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::{Dice, Target, corpus, mutated, outcomes_of};

/// A target that needs more memory than this for one input of at most 256 KiB is a finding.
pub const MAX_MEMORY: u64 = 256 << 20;
/// Includes reserved address space, so it is far above `MAX_MEMORY`.
const MAX_ADDRESS_SPACE: u64 = 1 << 30;
/// Stack size of a runtime thread in the daemon.
const STACK_BYTES: usize = 2 << 20;
/// Exit code of a worker whose last input used too much memory.
pub const TOO_MUCH_MEMORY: i32 = 3;
const MAX_KEPT: usize = 4096;
const MAX_KEPT_BYTES: usize = 64 << 10;
/// Size of the number of runs, which precedes the current input in the state file.
pub const RUNS_BYTES: usize = 8;

/// Runs `target` for `time` and keeps the number of runs and the current input in the file `state`.
pub fn work(target: &'static Target, seed: u64, time: Duration, state: &Path) -> io::Result<()> {
    let limit = Rlimit { current: Some(MAX_ADDRESS_SPACE), maximum: Some(MAX_ADDRESS_SPACE) };
    setrlimit(Resource::As, limit)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let state = File::create(state)?;
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        // Abort, because a panic in a thread or task of the target would be lost.
        std::process::abort();
    }));
    let run = move || mutate_until(Instant::now() + time, target, seed, &state);
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run)?.join().expect("a panic aborts")
}

fn mutate_until(deadline: Instant, target: &Target, seed: u64, state: &File) -> io::Result<()> {
    let mut dice = Dice::new(seed);
    let mut inputs: Vec<Vec<u8>> = corpus::inputs(target.name).into_iter().map(|(_, input)| input).collect();
    inputs.push(Vec::new());
    // Run the unchanged corpus first.
    let mut unchanged = inputs.clone().into_iter();
    let (mut known, mut runs) = (BTreeSet::new(), 0u64);
    while Instant::now() < deadline {
        let input = unchanged.next().unwrap_or_else(|| {
            let base = dice.pick(&inputs).cloned().unwrap_or_default();
            mutated(&base, &inputs, target.words, &mut dice)
        });
        runs += 1;
        write_state(state, runs, &input)?;
        let outcomes = outcomes_of(target.run, &input);
        if peak_memory().is_some_and(|bytes| bytes > MAX_MEMORY) {
            std::process::exit(TOO_MUCH_MEMORY);
        }
        let mut is_new = false;
        for outcome in &outcomes {
            is_new |= known.insert(*outcome);
        }
        if is_new && inputs.len() < MAX_KEPT && input.len() <= MAX_KEPT_BYTES {
            inputs.push(input);
        }
    }
    write_state(state, runs, &[])
}

fn write_state(state: &File, runs: u64, input: &[u8]) -> io::Result<()> {
    state.set_len((RUNS_BYTES + input.len()) as u64)?;
    state.write_all_at(&[&runs.to_le_bytes(), input].concat(), 0)
}

/// Returns the peak memory of this process; `None` if the kernel does not report it.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
