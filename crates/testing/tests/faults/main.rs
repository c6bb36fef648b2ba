//! What goes wrong on real machines: processes killed at any moment, disks full, files torn, agents that misbehave.
//! After each fault `check_invariants` says what must still hold.

mod acp;
mod daemon_killed;
mod disk;
mod ending;
mod harness;
mod holder_attacked;
mod holder_killed;
mod launch_cut_off;
mod many;
mod many_processes;
mod nested;
mod soak;
mod starting;
mod store_lost;
mod torn_files;
mod upgrade;
