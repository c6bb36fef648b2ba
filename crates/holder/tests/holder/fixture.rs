//! Test fixture: starts a separate holder for each test and inspects it.

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
use coven_holder::{JOURNAL, LaunchReport, Spec, StdioMode, process};

use crate::player;

pub const ROLE: &str = "COVEN_TEST_ROLE";
/// Much longer than any step takes, even on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Polls until `poll` returns a value.
pub fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < until, "timed out waiting for: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A holder's spec with defaults for everything but the program.
pub struct Given {
    pub spec: Spec,
    folder: tempfile::TempDir,
    ignored: Option<&'static str>,
}

impl Given {
    pub fn program(argv: &[&str]) -> Self {
        Self::program_in(argv, tempfile::tempdir().expect("a folder"))
    }

    /// Creates the session's folder inside `folder`.
    pub fn program_in(argv: &[&str], folder: tempfile::TempDir) -> Self {
        let dir = folder.path().join("session");
        let spec = Spec {
            dir,
            stdio: StdioMode::Terminal,
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

    /// Runs a `player` script as the harness.
    pub fn player(script: &str) -> Self {
        let exe = std::env::current_exe().expect("own path");
        // The test framework prints to standard output, so the script writes to descriptor 3.
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
        self.spec.stdio = StdioMode::Pipes;
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Spec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Starts the holder from a shell that ignores these signals.
    pub fn ignoring(mut self, signals: &'static str) -> Self {
        self.ignored = Some(signals);
        self
    }

    pub fn start(self) -> Holder {
        let (mut holder, ready) = self.try_start();
        match ready {
            LaunchReport::Running { pid, .. } => holder.pid = pid,
            LaunchReport::Failed { reason } => panic!("the holder did not start: {reason}"),
            LaunchReport::Spawned { .. } => unreachable!("try_start skips this report"),
        }
        holder
    }

    pub fn try_start(self) -> (Holder, LaunchReport) {
        if !self.spec.dir.exists() {
            fs::create_dir_all(&self.spec.dir).expect("enough disk space");
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
            .expect("this binary starts");
        let text = serde_json::to_string(&self.spec).expect("plain data");
        child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("the holder reads its spec");
        let ready = BufReader::new(child.stdout.take().expect("piped"))
            .lines()
            .map(|line| line.expect("text"))
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(&line).expect("a valid launch report"))
            .find(|ready| !matches!(ready, LaunchReport::Spawned { .. }))
            .expect("a launch report");
        (Holder { child, spec: self.spec, folder: self.folder, pid: 0 }, ready)
    }
}

/// A holder's process. Dropping it kills the holder and its harness.
pub struct Holder {
    child: Child,
    pub spec: Spec,
    pub folder: tempfile::TempDir,
    /// The harness's pid.
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
        let client = HolderClient::connect(self.dir()).expect("the holder replies");
        client.stream().set_read_timeout(Some(DEADLINE)).expect("a socket");
        client
    }

    pub fn ask(&self, request: &Request) {
        self.client().request(request).expect("the holder accepts the request");
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

    /// Waits until the log contains `text`.
    pub fn shows(&self, text: &str) {
        eventually(&format!("{text:?} in the log"), || memmem(&self.log(), text.as_bytes()).then_some(()));
    }

    /// Waits until the holder exits and returns the recorded exit status.
    pub fn ends(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let status = eventually("the holder exits", || child.try_wait().expect("a child process"));
        assert!(status.success(), "the holder exited with {status}");
        let records = self.records();
        match records.last().map(|it| &it.record) {
            Some(Record::Exit(status)) => *status,
            other => panic!("the last record is {other:?}"),
        }
    }

    /// Checks the files of a finished session.
    pub fn check_files(&self) {
        check_files(self.dir());
    }

    pub fn kill_hard(&mut self) {
        self.child.kill().expect("a child process");
        self.child.wait().expect("a child process");
    }

    pub fn status_field(&self, name: &str) -> u64 {
        status_field(self.holder_pid(), name)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Kill the descendants while the holder still exists, so that none is reparented away from it.
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
            assert_eq!(seq, all.len() as u64, "records are numbered consecutively");
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

/// Checks that output records cover the log without gaps or overlaps, that times never decrease and that the exit is
/// the last record.
pub fn check_files(dir: &Path) {
    let records = records(&dir.join(JOURNAL));
    let kept = LogReader::new(dir).range().expect("a log");
    let (log, end) = (log_from(dir, kept.start), kept.end);
    let mut next = 0;
    let mut last_at = None;
    for (index, it) in records.iter().enumerate() {
        assert!(last_at <= Some(it.at), "the time decreases at record {}", index + 1);
        last_at = Some(it.at);
        match it.record {
            Record::Output { length, crc } => {
                assert_eq!(it.offset, next, "output records cover the log");
                assert!(length > 0, "an empty output record");
                if it.offset >= kept.start {
                    let bytes = &log[usize::try_from(it.offset - kept.start).expect("the value fits")..];
                    let bytes = &bytes[..usize::try_from(length).expect("the value fits")];
                    assert_eq!(crc, Some(crc32fast::hash(bytes)), "the checksum of record {}", index + 1);
                }
                next += length;
            }
            _ => assert_eq!(it.offset, next, "record {} has the log's end as its offset: {it:?}", index + 1),
        }
        let is_exit = matches!(it.record, Record::Exit(_));
        assert_eq!(is_exit, index + 1 == records.len(), "the last record, and only it, is the exit");
    }
    assert!(matches!(records[0].record, Record::Start { .. }), "the start is the first record");
    assert_eq!(next, end, "the journal reaches the end of the log");
    assert!(!dir.join(coven_holder::SOCKET).exists(), "the socket is deleted");
}

/// A client that follows the session on a separate thread until the exit.
pub struct Follower(std::thread::JoinHandle<(u64, Vec<u8>, ExitStatus)>);

impl Follower {
    /// Sends the request before it returns, so that the holder handles it before later requests.
    pub fn from(offset: u64, holder: &Holder) -> Self {
        let mut client = holder.client();
        client.send(&Request::Follow { from: offset }).expect("the holder accepts requests");
        Self(std::thread::spawn(move || follow(client)))
    }

    /// Returns the offset of the first byte, the bytes and the exit status.
    pub fn got(self) -> (u64, Vec<u8>, ExitStatus) {
        self.0.join().expect("the follower does not panic")
    }
}

fn follow(mut client: HolderClient) -> (u64, Vec<u8>, ExitStatus) {
    let (mut first, mut got) = (None, Vec::new());
    loop {
        match client.next().expect("the holder replies") {
            Reply::Data { offset, bytes, .. } => {
                let first = *first.get_or_insert(offset);
                assert_eq!(offset, first + got.len() as u64, "data frames are contiguous");
                got.extend_from_slice(&bytes);
            }
            Reply::Exited { status, end } => {
                let first = first.unwrap_or(end);
                assert_eq!(end, first + got.len() as u64, "the exit comes after all bytes");
                return (first, got, status);
            }
            Reply::Welcome(_) | Reply::Progress { .. } | Reply::Resized { .. } | Reply::Accepted => {}
            Reply::Refused(why) => panic!("refused: {why}"),
        }
    }
}

pub fn status_field(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is running");
    let line = text.lines().find(|line| line.starts_with(name)).expect("a field of /proc/<pid>/status");
    line.split_ascii_whitespace().nth(1).expect("a value").parse().expect("a number")
}

/// Returns all descendants of `ancestor`.
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

/// Reports a skipped test by name.
pub fn skip(test: &str, why: &str) {
    println!("SKIPPED {test}: {why}");
}

pub fn read_pid(path: &PathBuf) -> u32 {
    eventually("a pid file", || fs::read_to_string(path).ok()?.trim().parse().ok())
}
