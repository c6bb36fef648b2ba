//! What a holder costs when nothing happens.

use coven_holder::journal::Record;
use coven_holder::wire::Request;

use crate::stand::{Given, Holder, eventually};

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

fn nanoseconds_of_cpu(holder: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{holder}/task")).expect("it lives");
    let one = |text: String| text.split(' ').next()?.parse::<u64>().ok();
    tasks.filter_map(|task| one(std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?)).sum()
}

fn assert_rests(what: &str, holder: &Holder) {
    let before = nanoseconds_of_cpu(holder.holder_pid());
    a_second_passes();
    let spent = nanoseconds_of_cpu(holder.holder_pid()) - before;
    assert!(spent < 100_000_000, "{what}: {spent} ns in a second");
}

#[test]
fn no_odd_state_makes_it_spin() {
    let closed = Given::shell("exec <&- >&- 2>&-; exec sleep 1000").on_pipes().start();
    assert_rests("all pipes closed", &closed);

    let let_go = Given::shell("trap '' HUP; exec <&- >&- 2>&-; exec sleep 1000").start();
    eventually("it has let go", || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", let_go.pid)).ok()?.count();
        (open == 0).then_some(())
    });
    let_go.type_in("into the void");
    assert_rests("the terminal is closed", &let_go);

    // Nobody reads what is typed; one typist waits, another has left.
    let deaf = Given::player("raw; say ready; wait /nowhere").start();
    deaf.shows("ready");
    let paste = Request::Input(vec![b'x'; coven_holder::wire::MAX_BODY]);
    let typists: Vec<_> = (0..2)
        .map(|_| {
            let client = deaf.client();
            let stream = client.stream().try_clone().expect("a descriptor");
            let (mut client, paste) = (client, paste.clone());
            std::thread::spawn(move || while client.send(&paste).is_ok() {});
            stream
        })
        .collect();
    let inputs = || deaf.records().iter().filter(|it| matches!(it.record, Record::Input(_))).count();
    eventually("the queue is full", || (inputs() >= 2).then_some(()));
    typists[0].shutdown(std::net::Shutdown::Both).expect("a socket");
    assert_rests("a harness that does not read", &deaf);
    typists[1].shutdown(std::net::Shutdown::Both).expect("a socket");

    // A viewer that is far behind and reads nothing.
    let loud = Given::player("raw; flood 1 4000000; say end; wait /nowhere").start();
    let mut stalled = loud.client();
    stalled.send(&Request::Follow { from: 0 }).expect("the holder listens");
    loud.shows("end");
    assert_rests("a viewer that reads nothing", &loud);
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
