//! Compares a holder's output throughput with a bare reader of the same terminal: `throughput [MB] [rounds]`.
//! Also measures the memory of an idle holder (`throughput idle`) and the echo latency (`throughput echo`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use coven_holder::client::HolderClient;
use coven_holder::wire::{Reply, Request};
use coven_holder::{Spec, StdioMode};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hold"] => std::process::exit(i32::from(coven_holder::run() != std::process::ExitCode::SUCCESS)),
        ["flood", bytes, piece] => flood(number(bytes), number(piece)),
        ["drain", bytes, piece] => drain(bytes, piece),
        ["idle"] => idle(),
        ["echo"] => echo(),
        ["cat"] => cat(),
        [] => compare(200, 5),
        [megabytes] => compare(number(megabytes), 5),
        [megabytes, rounds] => compare(number(megabytes), number(rounds)),
        _ => panic!("throughput [MB] [rounds] | idle | echo"),
    }
}

fn number(word: &str) -> usize {
    word.parse().expect("a number")
}

fn make_raw() {
    let mut modes = rustix::termios::tcgetattr(std::io::stdout()).expect("a terminal");
    modes.make_raw();
    let now = rustix::termios::OptionalActions::Now;
    rustix::termios::tcsetattr(std::io::stdout(), now, &modes).expect("a terminal");
}

fn flood(bytes: usize, piece: usize) {
    make_raw();
    let text: Vec<u8> = (0..piece).map(|at| if at % 80 == 79 { b'\n' } else { b'a' + (at % 26) as u8 }).collect();
    let mut out = File::options().write(true).open("/dev/tty").expect("a terminal");
    for _ in 0..bytes / piece {
        out.write_all(&text).expect("the terminal accepts output");
    }
}

/// The baseline: reads and discards all output.
fn drain(bytes: &str, piece: &str) {
    let (pty, pts) = pty_process::blocking::open().expect("a terminal");
    let exe = std::env::current_exe().expect("own path");
    let mut child =
        pty_process::blocking::Command::new(exe).args(["flood", bytes, piece]).spawn(pts).expect("the program starts");
    let fd = OwnedFd::from(pty);
    let flags = rustix::fs::fcntl_getfl(&fd).expect("a descriptor");
    rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK).expect("a descriptor");
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        match rustix::io::read(&fd, &mut buffer[..]) {
            Ok(count) if count > 0 => total += count,
            Err(rustix::io::Errno::AGAIN) => {
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("a descriptor");
            }
            _ => break,
        }
    }
    child.wait().expect("a child process");
    assert_eq!(total, number(bytes) / number(piece) * number(piece));
}

struct Cost {
    seconds: f64,
    cpu_ms: u64,
}

/// Waits until the child exits and reads its CPU time before reaping it.
fn wait_and_measure(child: &mut Child, since: Instant) -> Cost {
    let pid = Pid::from_child(child);
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("a child process");
    let seconds = since.elapsed().as_secs_f64();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("a zombie");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
    child.wait().expect("a child process");
    Cost { seconds, cpu_ms: 10 * (number(fields[11]) + number(fields[12])) as u64 }
}

fn hold(dir: &Path, argv: Vec<String>) -> Child {
    let spec = Spec {
        dir: dir.to_owned(),
        stdio: StdioMode::Terminal,
        argv,
        env: Vec::new(),
        cwd: "/".into(),
        rows: 24,
        cols: 80,
        typed: String::new(),
        open_files: None,
        record_input: Default::default(),
        max_output_bytes: 1 << 30,
        segment_bytes: 8 << 20,
    };
    let exe = std::env::current_exe().expect("own path");
    let mut child =
        Command::new(exe).arg("hold").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let text = serde_json::to_vec(&spec).expect("plain data");
    child.stdin.take().expect("piped").write_all(&text).expect("the child reads its input");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a launch report");
    assert!(line.contains("running"), "{line}");
    child
}

fn compare(megabytes: usize, rounds: usize) {
    let exe = std::env::current_exe().expect("own path").to_str().expect("plain").to_owned();
    // In the working directory: /tmp may be a tmpfs, where a sync costs nothing.
    let home = tempfile::tempdir_in(".").expect("a folder");
    for (name, piece) in [("64 KiB writes", 64 << 10), ("1.2 KB writes", 1200), ("10 B writes", 10)] {
        let bytes = megabytes * 1_000_000 / if piece == 10 { 20 } else { 1 };
        let flood = [exe.clone(), "flood".into(), bytes.to_string(), piece.to_string()];
        println!("{name}, {} MB", bytes / 1_000_000);
        for round in 0..rounds {
            let since = Instant::now();
            let mut child =
                Command::new(&exe).args(["drain", &flood[2], &flood[3]]).spawn().expect("the program starts");
            let limit = wait_and_measure(&mut child, since);
            let mut line = format!("  drain {:5.1} MB/s {:4} ms", bytes as f64 / 1e6 / limit.seconds, limit.cpu_ms);
            for viewers in [0, 1] {
                let dir = home.path().join(format!("{piece}-{round}-{viewers}"));
                std::fs::create_dir(&dir).expect("the folder can be created");
                let since = Instant::now();
                let mut child = hold(&dir, flood.to_vec());
                let followers: Vec<_> = (0..viewers)
                    .map(|_| {
                        let mut client = HolderClient::connect(&dir).expect("the holder replies");
                        client.send(&Request::Follow { from: 0 }).expect("the holder accepts requests");
                        std::thread::spawn(move || while !matches!(client.next(), Ok(Reply::Exited { .. }) | Err(_)) {})
                    })
                    .collect();
                let cost = wait_and_measure(&mut child, since);
                followers.into_iter().for_each(|it| it.join().expect("the follower does not panic"));
                line += &format!(
                    " | +{viewers} {:5.1} MB/s = {:.2}, cpu {:4} ms = {:.2}",
                    bytes as f64 / 1e6 / cost.seconds,
                    limit.seconds / cost.seconds,
                    cost.cpu_ms,
                    cost.cpu_ms as f64 / limit.cpu_ms.max(1) as f64
                );
                std::fs::remove_dir_all(&dir).expect("the folder can be deleted");
            }
            println!("{line}");
        }
    }
}

/// Prints the memory of an idle holder, with one and with ten of them running.
fn idle() {
    let home = tempfile::tempdir_in(".").expect("a folder");
    let mut children = Vec::new();
    for index in 0..10 {
        let dir = home.path().join(index.to_string());
        std::fs::create_dir(&dir).expect("the folder can be created");
        children.push(hold(&dir, vec!["/bin/cat".into()]));
        let pid = children[0].id();
        if index == 0 || index == 9 {
            let mut text = String::new();
            let mut file = File::open(format!("/proc/{pid}/smaps_rollup")).expect("the holder is running");
            file.read_to_string(&mut text).expect("the holder is running");
            let lines: Vec<&str> = text
                .lines()
                .filter(|it| ["Rss", "Pss:", "Private_D", "Anon"].iter().any(|word| it.starts_with(word)))
                .collect();
            println!("{} holders: {}", index + 1, lines.join(", "));
        }
    }
    for mut child in children {
        child.kill().expect("a child process");
        child.wait().expect("a child process");
    }
}

/// Echoes every byte immediately.
fn cat() {
    make_raw();
    print!("ready");
    std::io::stdout().flush().expect("the terminal accepts output");
    let mut buffer = [0; 64];
    while let Ok(count @ 1..) = std::io::stdin().read(&mut buffer) {
        std::io::stdout().write_all(&buffer[..count]).expect("the terminal accepts output");
        std::io::stdout().flush().expect("the terminal accepts output");
    }
}

fn quantiles(mut times: Vec<u128>) -> String {
    times.sort_unstable();
    format!("p50 {:4} us, p99 {:5} us", times[times.len() / 2] / 1000, times[times.len() * 99 / 100] / 1000)
}

/// Measures a thousand keystrokes and their echoes, without and with a holder in between.
fn echo() {
    let exe = std::env::current_exe().expect("own path").to_str().expect("plain").to_owned();
    let home = tempfile::tempdir_in(".").expect("a folder");
    for round in 0..5 {
        let (mut pty, pts) = pty_process::blocking::open().expect("a terminal");
        let mut child = pty_process::blocking::Command::new(&exe).arg("cat").spawn(pts).expect("the program starts");
        let mut buffer = [0; 64];
        pty.read_exact(&mut buffer[..5]).expect("the child is ready");
        let bare = (0..1000).map(|_| {
            let since = Instant::now();
            pty.write_all(b"x").expect("the child reads its input");
            pty.read_exact(&mut buffer[..1]).expect("the child echoes its input");
            since.elapsed().as_nanos()
        });
        let bare = quantiles(bare.collect());
        child.kill().expect("a child process");
        child.wait().expect("a child process");

        let dir = home.path().join(round.to_string());
        std::fs::create_dir(&dir).expect("the folder can be created");
        let mut holder = hold(&dir, vec![exe.clone(), "cat".into()]);
        let mut client = HolderClient::connect(&dir).expect("the holder replies");
        client.send(&Request::Follow { from: 0 }).expect("the holder accepts requests");
        let mut seen = 0;
        let mut until = |client: &mut HolderClient, end: u64| {
            while seen < end {
                if let Reply::Data { offset, bytes, .. } = client.next().expect("the holder replies") {
                    seen = offset + bytes.len() as u64;
                }
            }
        };
        until(&mut client, 5);
        let held = (0..1000).map(|key| {
            let since = Instant::now();
            client.send(&Request::Input(b"x".to_vec())).expect("the holder accepts requests");
            until(&mut client, 6 + key);
            since.elapsed().as_nanos()
        });
        println!("bare {bare} | held {}", quantiles(held.collect()));
        holder.kill().expect("a child process");
        holder.wait().expect("a child process");
    }
}
