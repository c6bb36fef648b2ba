//! A holder of its own for every test, and the ways to look at it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coven_domain::session::ExitStatus;
use coven_domain::session::RecordInput;
use coven_holder::client::HolderClient;
use coven_holder::journal::{JournalReader, Record, Stamped};
use coven_holder::log::LogReader;
use coven_holder::wire::{Reply, Request};
use coven_holder::{JOURNAL, Ready, Spec, Stage, process};

use crate::player;

pub const ROLE: &str = "COVEN_TEST_ROLE";
/// Far beyond what any step takes, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `look` finds something.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// What a holder is told, with defaults for everything but the program.
pub struct Given {
    pub spec: Spec,
    folder: tempfile::TempDir,
    ignored: Option<&'static str>,
}

impl Given {
    pub fn program(argv: &[&str]) -> Self {
        Self::program_in(argv, tempfile::tempdir().expect("a folder"))
    }

    /// The session's folder is made inside `folder`.
    pub fn program_in(argv: &[&str], folder: tempfile::TempDir) -> Self {
        let dir = folder.path().join("session");
        let spec = Spec {
            dir,
            stage: Stage::Terminal,
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()), ("TERM".into(), "dumb".into())],
            cwd: "/".into(),
            rows: 24,
            cols: 80,
            typed: String::new(),
            open_files: None,
            record_input: RecordInput::default(),
            max_output_bytes: 1 << 30,
            segment_bytes: 8 << 20,
        };
        Self { spec, folder, ignored: None }
    }

    pub fn shell(script: &str) -> Self {
        Self::program(&["/bin/sh", "-c", script])
    }

    /// A harness that follows a script of `player`.
    pub fn player(script: &str) -> Self {
        let exe = std::env::current_exe().expect("own path");
        // The test framework prints to standard output; what is played goes to descriptor 3.
        let mut given = Self::program(&[
            "/bin/sh",
            "-c",
            r#"exec "$0" --exact player_process --nocapture 3>&1 >/dev/null"#,
            exe.to_str().expect("a plain path"),
        ]);
        given.spec.env.push((player::SCRIPT.into(), script.into()));
        given
    }

    pub fn on_pipes(mut self) -> Self {
        self.spec.stage = Stage::Pipes;
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Spec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// The holder is started by a shell that ignores these signals.
    pub fn ignoring(mut self, signals: &'static str) -> Self {
        self.ignored = Some(signals);
        self
    }

    pub fn start(self) -> Holder {
        let (mut holder, ready) = self.try_start();
        match ready {
            Ready::Running { pid, .. } => holder.pid = pid,
            Ready::Failed { reason } => panic!("the holder did not start: {reason}"),
            Ready::Spawned { .. } => unreachable!("only the last answer is given"),
        }
        holder
    }

    pub fn try_start(self) -> (Holder, Ready) {
        if !self.spec.dir.exists() {
            fs::create_dir_all(&self.spec.dir).expect("room on disk");
        }
        let exe = std::env::current_exe().expect("own path");
        let mut command = match self.ignored {
            None => Command::new(exe),
            Some(signals) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!(r#"trap "" {signals}; exec "$0" "$@""#)]).arg(exe);
                shell
            }
        };
        let mut child = command
            .args(["--exact", "holder_process", "--nocapture"])
            .env(ROLE, "holder")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this binary runs");
        let text = serde_json::to_string(&self.spec).expect("plain data");
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
        let ready = BufReader::new(child.stdout.take().expect("piped"))
            .lines()
            .map(|line| line.expect("text"))
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(&line).expect("an answer that we know"))
            .find(|ready| !matches!(ready, Ready::Spawned { .. }))
            .expect("an answer");
        (Holder { child, spec: self.spec, folder: self.folder, pid: 0 }, ready)
    }
}

/// A holder's process. Dropped, it and its harness are gone.
pub struct Holder {
    child: Child,
    pub spec: Spec,
    pub folder: tempfile::TempDir,
    /// The harness's.
    pub pid: u32,
}

impl Holder {
    pub fn dir(&self) -> &Path {
        &self.spec.dir
    }

    pub fn holder_pid(&self) -> u32 {
        self.child.id()
    }

    pub fn client(&self) -> HolderClient {
        let client = HolderClient::connect(self.dir()).expect("the holder answers");
        client.stream().set_read_timeout(Some(DEADLINE)).expect("a socket");
        client
    }

    pub fn ask(&self, request: &Request) {
        self.client().request(request).expect("the holder takes it");
    }

    pub fn type_in(&self, text: &str) {
        self.ask(&Request::Input(text.as_bytes().to_vec()));
    }

    pub fn records(&self) -> Vec<Stamped> {
        records(&self.dir().join(JOURNAL))
    }

    pub fn log(&self) -> Vec<u8> {
        log_from(self.dir(), 0)
    }

    /// Waits until the log holds `text`.
    pub fn shows(&self, text: &str) {
        eventually(&format!("{text:?} in the log"), || memmem(&self.log(), text.as_bytes()).then_some(()));
    }

    /// Waits for the end of the holder and gives the recorded exit.
    pub fn ends(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let status = eventually("the holder ends", || child.try_wait().expect("our child"));
        assert!(status.success(), "the holder ended with {status}");
        let records = self.records();
        match records.last().map(|it| &it.record) {
            Some(Record::Exit(status)) => *status,
            other => panic!("the last record is {other:?}"),
        }
    }

    /// Everything that must hold of a finished session's files.
    pub fn check_files(&self) {
        check_files(self.dir());
    }

    pub fn kill_hard(&mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }

    pub fn status_field(&self, name: &str) -> u64 {
        status_field(self.holder_pid(), name)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // While the holder is stopped its descendants cannot get away from it.
            for victim in descendants(self.holder_pid()) {
                kill(victim, "-KILL");
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub fn memmem(hay: &[u8], needle: &[u8]) -> bool {
    hay.windows(needle.len()).any(|window| window == needle)
}

pub fn records(path: &Path) -> Vec<Stamped> {
    let mut reader = JournalReader::open(path).expect("a journal");
    let mut all = Vec::new();
    loop {
        let more = reader.read_more(1 << 20).expect("readable");
        if more.is_empty() {
            return all;
        }
        for (seq, record) in more {
            all.push(record);
            assert_eq!(seq, all.len() as u64, "records are numbered without a gap");
        }
    }
}

pub fn log_from(dir: &Path, from: u64) -> Vec<u8> {
    let mut reader = LogReader::new(dir);
    let (mut out, mut buffer) = (Vec::new(), vec![0; 256 << 10]);
    loop {
        match reader.read_at(from + out.len() as u64, &mut buffer).expect("readable") {
            0 => return out,
            count => out.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Output records tile the log without a gap or an overlap, times never go back, the exit is the last word.
pub fn check_files(dir: &Path) {
    let records = records(&dir.join(JOURNAL));
    let kept = LogReader::new(dir).range().expect("a log");
    let (log, end) = (log_from(dir, kept.start), kept.end);
    let mut next = 0;
    let mut last_at = None;
    for (index, it) in records.iter().enumerate() {
        assert!(last_at <= Some(it.at), "time goes back at record {}", index + 1);
        last_at = Some(it.at);
        match it.record {
            Record::Output { length, crc } => {
                assert_eq!(it.offset, next, "output records tile the log");
                assert!(length > 0, "an empty output record");
                if it.offset >= kept.start {
                    let bytes = &log[usize::try_from(it.offset - kept.start).expect("it fits")..];
                    let bytes = &bytes[..usize::try_from(length).expect("it fits")];
                    assert_eq!(crc, Some(crc32fast::hash(bytes)), "the checksum of record {}", index + 1);
                }
                next += length;
            }
            _ => assert_eq!(it.offset, next, "record {} stands where the log stood: {it:?}", index + 1),
        }
        let is_exit = matches!(it.record, Record::Exit(_));
        assert_eq!(is_exit, index + 1 == records.len(), "the exit is the last record, once");
    }
    assert!(matches!(records[0].record, Record::Start { .. }), "the start is the first record");
    assert_eq!(next, end, "the journal reaches the end of the log");
    assert!(!dir.join(coven_holder::SOCKET).exists(), "the socket is gone");
}

/// One who follows until the exit, on a thread of its own.
pub struct Follower(std::thread::JoinHandle<(u64, Vec<u8>, ExitStatus)>);

impl Follower {
    /// Its wish is with the holder before anything that is asked later.
    pub fn from(offset: u64, holder: &Holder) -> Self {
        let mut client = holder.client();
        client.send(&Request::Follow { from: offset }).expect("the holder listens");
        Self(std::thread::spawn(move || follow(client)))
    }

    /// The first byte's offset, the bytes, and the exit.
    pub fn got(self) -> (u64, Vec<u8>, ExitStatus) {
        self.0.join().expect("it followed to the end")
    }
}

fn follow(mut client: HolderClient) -> (u64, Vec<u8>, ExitStatus) {
    let (mut first, mut got) = (None, Vec::new());
    loop {
        match client.next().expect("the holder answers") {
            Reply::Data { offset, bytes, .. } => {
                let first = *first.get_or_insert(offset);
                assert_eq!(offset, first + got.len() as u64, "data frames follow each other");
                got.extend_from_slice(&bytes);
            }
            Reply::Exited { status, end } => {
                let first = first.unwrap_or(end);
                assert_eq!(end, first + got.len() as u64, "the exit comes after every byte");
                return (first, got, status);
            }
            Reply::Welcome(_) | Reply::Progress { .. } | Reply::Resized { .. } | Reply::Accepted => {}
            Reply::Refused(why) => panic!("refused: {why}"),
        }
    }
}

pub fn status_field(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = text.lines().find(|line| line.starts_with(name)).expect("a field of the kernel's");
    line.split_ascii_whitespace().nth(1).expect("a value").parse().expect("a number")
}

/// Every living process below `ancestor`.
pub fn descendants(ancestor: u32) -> Vec<u32> {
    let all = process::all();
    let mut found = vec![ancestor];
    loop {
        let more: Vec<u32> =
            all.iter().filter(|it| found.contains(&it.parent) && !found.contains(&it.pid)).map(|it| it.pid).collect();
        if more.is_empty() {
            found.remove(0);
            return found;
        }
        found.extend(more);
    }
}

pub fn is_alive(pid: u32) -> bool {
    process::stat(pid).is_ok_and(|it| !it.is_zombie())
}

pub fn kill(pid: u32, signal: &str) {
    let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says by name what was not tested here.
pub fn skip(test: &str, why: &str) {
    println!("SKIPPED {test}: {why}");
}

pub fn read_pid(path: &PathBuf) -> u32 {
    eventually("a pid file", || fs::read_to_string(path).ok()?.trim().parse().ok())
}
