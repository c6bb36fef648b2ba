//! Everyone in the process session of a turn's program: its group, and what made a group of its own.

use coven_holder::process;
use rustix::process::{Pid, Signal, kill_process_group};

/// `leader` must not have been waited for: until then its number cannot be anyone else's.
pub fn signal(leader: Pid, signal: Signal) {
    // It fails only if nobody is left in it.
    let _ = kill_process_group(leader, signal);
    let leader = leader.as_raw_nonzero().get().unsigned_abs();
    for seen in process::all().iter().filter(|it| it.session == leader && it.group != leader) {
        process::signal(seen, signal);
    }
}
