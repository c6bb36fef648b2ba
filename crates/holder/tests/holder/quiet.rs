//! What a holder costs when nothing happens.

use coven_holder::wire::Request;

use crate::stand::{Given, eventually};

/// How often a thread of the holder went to sleep by itself: each is a wake-up that something caused.
fn naps(holder: u32) -> Vec<(String, u64)> {
    let mut naps: Vec<(String, u64)> = std::fs::read_dir(format!("/proc/{holder}/task"))
        .expect("it lives")
        .filter_map(|task| {
            let path = task.ok()?.path();
            let text = std::fs::read_to_string(path.join("status")).ok()?;
            let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            Some((name, line.split_ascii_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    naps.sort();
    naps
}

/// Waits a known time without looking at the holder: until another program has done its waiting.
fn a_second_passes() {
    let status = std::process::Command::new("sleep").arg("1").status().expect("it runs");
    assert!(status.success());
}

#[test]
fn an_idle_holder_does_not_wake_up() {
    let holder = Given::shell("echo ready; read x").start();
    holder.shows("ready");
    let mut watcher = holder.client();
    watcher.request(&Request::Sync).expect("it answers");
    // The last sync of the start is over once nothing moves any more.
    let before = eventually("it comes to rest", || {
        let before = naps(holder.holder_pid());
        a_second_passes();
        (naps(holder.holder_pid()) == before).then_some(before)
    });
    a_second_passes();
    assert_eq!(naps(holder.holder_pid()), before, "with one who is connected");
}

#[test]
fn orphans_that_end_leave_no_zombies() {
    let script =
        "for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 0' &); (setsid sleep 0.01 &); done; echo ready; read x";
    let mut holder = Given::shell(script).start();
    holder.shows("ready");
    let (own, harness) = (holder.holder_pid(), holder.pid);
    eventually("only the harness is left", || (crate::stand::descendants(own) == [harness]).then_some(()));
    holder.type_in("\n");
    holder.ends();
    holder.check_files();
}
