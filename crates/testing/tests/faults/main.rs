//! Faults of real machines: killed processes, full disks, torn files and misbehaving agents. After each fault,
//! `check_invariants` verifies what must still hold.

mod acp;
mod daemon_killed;
mod disk;
mod ending;
mod harness;
mod holder_attacked;
mod holder_killed;
mod hooks;
mod launch_cut_off;
mod many;
mod many_processes;
mod nested;
mod soak;
mod starting;
mod store_lost;
mod torn_files;
mod upgrade;
