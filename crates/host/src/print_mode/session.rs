//! Signals all processes in the process session of a turn's program, including those in other process groups.

use coven_holder::process;
use rustix::process::{Pid, Signal, kill_process_group};

/// Sends a signal to the session of `leader`, which must not have been reaped: until then its pid cannot be reused.
pub fn signal(leader: Pid, signal: Signal) {
    // This fails only if the group has no processes left.
    let _ = kill_process_group(leader, signal);
    let leader = leader.as_raw_nonzero().get().unsigned_abs();
    for seen in process::all().iter().filter(|it| it.session == leader && it.group != leader) {
        process::signal(seen, signal);
    }
}
