//! CPU use of a holder that has nothing to do.

use coven_holder::journal::Record;
use coven_holder::wire::Request;

use crate::fixture::{Given, Holder, eventually};

/// Returns the number of voluntary context switches of each holder thread. Each one means that the thread had woken up.
fn wake_ups(holder: u32) -> Vec<(String, u64)> {
    let mut wake_ups: Vec<(String, u64)> = std::fs::read_dir(format!("/proc/{holder}/task"))
        .expect("the holder is running")
        .filter_map(|task| {
            let path = task.ok()?.path();
            let text = std::fs::read_to_string(path.join("status")).ok()?;
            let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            Some((name, line.split_ascii_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    wake_ups.sort();
    wake_ups
}

/// Waits for a second without contacting the holder.
fn wait_a_second() {
    let status = std::process::Command::new("sleep").arg("1").status().expect("the program starts");
    assert!(status.success());
}

#[test]
fn an_idle_holder_does_not_wake_up() {
    let holder = Given::shell("echo ready; read x").start();
    holder.shows("ready");
    let mut watcher = holder.client();
    watcher.request(&Request::Sync).expect("the holder replies");
    // The syncs of the start are finished once the count stays the same.
    let before = eventually("the holder is idle", || {
        let before = wake_ups(holder.holder_pid());
        wait_a_second();
        (wake_ups(holder.holder_pid()) == before).then_some(before)
    });
    wait_a_second();
    assert_eq!(wake_ups(holder.holder_pid()), before, "with a connected client");
}

fn nanoseconds_of_cpu(holder: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{holder}/task")).expect("the holder is running");
    let one = |text: String| text.split(' ').next()?.parse::<u64>().ok();
    tasks.filter_map(|task| one(std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?)).sum()
}

fn assert_idle(what: &str, holder: &Holder) {
    let before = nanoseconds_of_cpu(holder.holder_pid());
    wait_a_second();
    let spent = nanoseconds_of_cpu(holder.holder_pid()) - before;
    assert!(spent < 100_000_000, "{what}: {spent} ns in a second");
}

#[test]
fn never_spins_in_unusual_states() {
    let closed = Given::shell("exec <&- >&- 2>&-; exec sleep 1000").on_pipes().start();
    assert_idle("all pipes closed", &closed);

    let closed_terminal = Given::shell("trap '' HUP; exec <&- >&- 2>&-; exec sleep 1000").start();
    eventually("the harness has closed its terminal", || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", closed_terminal.pid)).ok()?.count();
        (open == 0).then_some(())
    });
    closed_terminal.type_in("into the void");
    assert_idle("the terminal is closed", &closed_terminal);

    // The harness does not read its input; one client waits, another has disconnected.
    let not_reading = Given::player("raw; say ready; wait /nowhere").start();
    not_reading.shows("ready");
    let paste = Request::Input(vec![b'x'; coven_holder::wire::MAX_BODY]);
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let client = not_reading.client();
            let stream = client.stream().try_clone().expect("a descriptor");
            let (mut client, paste) = (client, paste.clone());
            std::thread::spawn(move || while client.send(&paste).is_ok() {});
            stream
        })
        .collect();
    let inputs = || not_reading.records().iter().filter(|it| matches!(it.record, Record::Input(_))).count();
    eventually("the queue is full", || (inputs() >= 2).then_some(()));
    clients[0].shutdown(std::net::Shutdown::Both).expect("a socket");
    assert_idle("a harness that does not read", &not_reading);
    clients[1].shutdown(std::net::Shutdown::Both).expect("a socket");

    // The viewer is far behind and reads nothing.
    let loud = Given::player("raw; flood 1 4000000; say end; wait /nowhere").start();
    let mut stalled = loud.client();
    stalled.send(&Request::Follow { from: 0 }).expect("the holder accepts requests");
    loud.shows("end");
    assert_idle("a viewer that reads nothing", &loud);
}

#[test]
fn orphans_that_exit_leave_no_zombies() {
    let script =
        "for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 0' &); (setsid sleep 0.01 &); done; echo ready; read x";
    let mut holder = Given::shell(script).start();
    holder.shows("ready");
    let (own, harness) = (holder.holder_pid(), holder.pid);
    eventually("only the harness is left", || (crate::fixture::descendants(own) == [harness]).then_some(()));
    holder.type_in("\n");
    holder.ends();
    holder.check_files();
}
