//! A separate folder of conversations for each test, and other processes that act on them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use coven_domain::Timestamp;
use coven_domain::conversation::{ConversationId, Line, Turn, TurnRole};
use coven_holder::clock;
use coven_interop::conversations::{ConversationError, Conversations, Loaded, NewConversation, Notice, Wait};

use crate::{concurrency, hostile};

pub const ROLE: &str = "COVEN_TEST_ROLE";
const FOLDER: &str = "COVEN_TEST_FOLDER";
const ID: &str = "COVEN_TEST_ID";
/// 14 January 2026, 10:00:00.123.
pub const NOW: Timestamp = Timestamp::from_millis(1_768_384_800_123);

pub struct Fixture {
    pub all: Conversations,
    root: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("temporary folder");
        Self { all: Conversations::at(root.path().join("spawn/sessions")), root }
    }

    pub fn root(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    pub fn create(&self, name: &str) -> ConversationId {
        let new = NewConversation { id: Some(id(name)), ..NewConversation::default() };
        self.all.create(&new, NOW).expect("created")
    }

    /// Creates a conversation with `count` exchanges.
    pub fn with_exchanges(&self, name: &str, count: usize) -> ConversationId {
        let id = self.create(name);
        for number in 0..count {
            self.exchange(&id, &format!("question {number}"), &format!("answer {number}"));
        }
        id
    }

    pub fn exchange(&self, id: &ConversationId, asked: &str, answered: &str) -> Vec<Notice> {
        self.append(id, &mut exchange(asked, answered)).expect("saved")
    }

    pub fn append(&self, id: &ConversationId, lines: &mut [Line]) -> Result<Vec<Notice>, ConversationError> {
        self.all.writer(id, Wait::NoWait)?.append(lines)
    }

    pub fn load(&self, id: &ConversationId) -> Loaded {
        self.all.load(id).expect("sound file")
    }

    /// Returns the texts of all turns.
    pub fn texts(&self, id: &ConversationId) -> Vec<String> {
        self.load(id).transcript.turns.into_iter().map(|turn| turn.content).collect()
    }

    pub fn bytes(&self, id: &ConversationId) -> Vec<u8> {
        fs::read(self.all.file(id)).expect("exists")
    }

    /// Writes the file directly, as another tool or a crash would leave it.
    pub fn put(&self, id: &ConversationId, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.all.path()).expect("disk has space");
        fs::write(self.all.file(id), bytes).expect("disk has space");
    }

    /// Returns the names of all files in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.all.path()).into_iter().flatten().map(|entry| entry.expect("entry"));
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().expect("valid UTF-8")).collect();
        names.sort();
        names
    }

    /// Returns a command that starts another process with this role.
    pub fn other(&self, role: &str, id: &ConversationId) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("path of the test binary"));
        command.args(["--exact", "other_process", "--nocapture"]);
        self.configure(&mut command, role, id);
        command
    }

    /// Like `other`, but runs a shell command first to set limits, the umask or ignored signals.
    pub fn other_after(&self, shell: &str, role: &str, id: &ConversationId) -> Command {
        let mut command = Command::new("/bin/sh");
        let exe = std::env::current_exe().expect("path of the test binary");
        command.arg("-c").arg(format!("{shell}; exec \"$0\" --exact other_process --nocapture")).arg(exe);
        self.configure(&mut command, role, id);
        command
    }

    fn configure(&self, command: &mut Command, role: &str, id: &ConversationId) {
        command.env(ROLE, role).env(FOLDER, self.all.path()).env(ID, id.as_str());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }

    /// Starts another process with this role and waits until it is ready. It runs until its stdin closes.
    pub fn holder(&self, role: &str, id: &ConversationId) -> Holder {
        let mut child = self.other(role, id).stdin(Stdio::piped()).spawn().expect("test binary starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("report: ") {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("open pipe"), 0, "the process reports that it is ready");
        }
        Holder { child, _output: output }
    }
}

pub struct Holder {
    pub child: Child,
    _output: BufReader<ChildStdout>,
}

impl Holder {
    /// Closes its stdin, so that it exits normally.
    pub fn release(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("child process");
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("child process");
        self.child.wait().expect("child process");
    }
}

pub fn id(name: &str) -> ConversationId {
    name.parse().expect("valid id")
}

pub fn exchange(asked: &str, answered: &str) -> [Line; 2] {
    [Line::Turn(Turn::new(TurnRole::User, asked, NOW)), Line::Turn(Turn::new(TurnRole::Assistant, answered, NOW))]
}

/// Returns the text after `report: ` in the output of an exited process.
pub fn parse_report(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_once("report: ").map(|(_, rest)| rest.lines().next().unwrap_or_default().to_owned())
}

pub fn report_of(child: Child) -> String {
    let output = child.wait_with_output().expect("child process");
    parse_report(&output).unwrap_or_else(|| panic!("the process reported nothing: {output:?}"))
}

/// Runs the role of another process and prints its result in one line.
pub fn run_role(role: &str) {
    let all = Conversations::at(std::env::var_os(FOLDER).expect("set by the parent"));
    let id: ConversationId = std::env::var(ID).expect("set by the parent").parse().expect("valid id");
    let (action, argument) = role.split_once(' ').unwrap_or((role, ""));
    let done = match action {
        "create" => {
            let new = NewConversation { id: Some(id), ..NewConversation::default() };
            all.create(&new, clock::now()).map(|id| id.to_string())
        }
        "append" => append_once(&all, &id, argument),
        "append-many" => concurrency::append(&all, &id, argument),
        "recover" => all.recover(&id, NOW).map(|recovered| format!("kept {}", recovered.kept_lines)),
        "hostile" => hostile::act(&all, &id, argument),
        "open" => all.writer(&id, Wait::NoWait).map(|_open| hold("open")),
        "lock" => {
            let file = File::open(all.file(&id)).expect("exists");
            file.lock().expect("lock is free");
            Ok(hold("locked"))
        }
        other => panic!("unknown role: {other}"),
    };
    println!("report: {}", done.unwrap_or_else(|error| error_with_cause(&error)));
}

fn append_once(all: &Conversations, id: &ConversationId, text: &str) -> Result<String, ConversationError> {
    let count: usize = text.parse().unwrap_or(10);
    all.writer(id, Wait::NoWait)?.append(&mut exchange("asked", &"x".repeat(count)))?;
    Ok("saved".to_owned())
}

/// Reports that the process is ready and blocks until its stdin closes.
fn hold(state: &str) -> String {
    println!("report: {state}");
    std::io::stdout().flush().expect("open pipe");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    "finished".to_owned()
}

pub fn error_with_cause(error: &ConversationError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
