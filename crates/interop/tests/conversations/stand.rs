//! A folder of its own for every test, conversations in it, and other processes that act on them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use coven_domain::Timestamp;
use coven_domain::conversation::{ConversationId, Line, Role, Turn};
use coven_holder::clock;
use coven_interop::conversations::{ConversationError, Conversations, Loaded, NewConversation, Notice, Wait};

use crate::{crowd, hostile};

pub const ROLE: &str = "COVEN_TEST_ROLE";
const FOLDER: &str = "COVEN_TEST_FOLDER";
const ID: &str = "COVEN_TEST_ID";
/// 14 January 2026, 10:00:00.123.
pub const NOW: Timestamp = Timestamp::from_millis(1_768_384_800_123);

pub struct Stand {
    pub all: Conversations,
    root: tempfile::TempDir,
}

impl Stand {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        Self { all: Conversations::at(root.path().join("spawn/sessions")), root }
    }

    pub fn root(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    pub fn create(&self, name: &str) -> ConversationId {
        let new = NewConversation { id: Some(id(name)), ..NewConversation::default() };
        self.all.create(&new, NOW).expect("made")
    }

    /// A conversation with so many exchanges.
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
        self.all.load(id).expect("a sound file")
    }

    /// The texts of all turns.
    pub fn texts(&self, id: &ConversationId) -> Vec<String> {
        self.load(id).transcript.turns.into_iter().map(|turn| turn.content).collect()
    }

    pub fn bytes(&self, id: &ConversationId) -> Vec<u8> {
        fs::read(self.all.file(id)).expect("it is there")
    }

    /// As another tool or a crash would leave it.
    pub fn put(&self, id: &ConversationId, bytes: impl AsRef<[u8]>) {
        fs::create_dir_all(self.all.path()).expect("room");
        fs::write(self.all.file(id), bytes).expect("room");
    }

    /// The names of everything in the folder.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.all.path()).into_iter().flatten().map(|entry| entry.expect("an entry"));
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    /// Another process that does `role`.
    pub fn other(&self, role: &str, id: &ConversationId) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.args(["--exact", "other_process", "--nocapture"]);
        self.tell(&mut command, role, id);
        command
    }

    /// The same after some words of a shell: limits, masks, ignored signals.
    pub fn other_after(&self, shell: &str, role: &str, id: &ConversationId) -> Command {
        let mut command = Command::new("/bin/sh");
        let exe = std::env::current_exe().expect("own path");
        command.arg("-c").arg(format!("{shell}; exec \"$0\" --exact other_process --nocapture")).arg(exe);
        self.tell(&mut command, role, id);
        command
    }

    fn tell(&self, command: &mut Command, role: &str, id: &ConversationId) {
        command.env(ROLE, role).env(FOLDER, self.all.path()).env(ID, id.as_str());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }

    /// Another process that does `role` until its input ends; it has begun when this returns.
    pub fn holder(&self, role: &str, id: &ConversationId) -> Holder {
        let mut child = self.other(role, id).stdin(Stdio::piped()).spawn().expect("own binary");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("says: ") {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("a pipe"), 0, "it says that it has begun");
        }
        Holder { child, _output: output }
    }
}

pub struct Holder {
    pub child: Child,
    _output: BufReader<ChildStdout>,
}

impl Holder {
    /// Lets it end by itself.
    pub fn release(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("own child");
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().expect("own child");
        self.child.wait().expect("own child");
    }
}

pub fn id(name: &str) -> ConversationId {
    name.parse().expect("an id")
}

pub fn exchange(asked: &str, answered: &str) -> [Line; 2] {
    [Line::Turn(Turn::new(Role::User, asked, NOW)), Line::Turn(Turn::new(Role::Assistant, answered, NOW))]
}

/// What an ended process said after `says: `.
pub fn said(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_once("says: ").map(|(_, rest)| rest.lines().next().unwrap_or_default().to_owned())
}

pub fn said_by(child: Child) -> String {
    let output = child.wait_with_output().expect("own child");
    said(&output).unwrap_or_else(|| panic!("it said nothing: {output:?}"))
}

/// The part of another process. It says in one line how that went.
pub fn play(role: &str) {
    let all = Conversations::at(std::env::var_os(FOLDER).expect("told"));
    let id: ConversationId = std::env::var(ID).expect("told").parse().expect("an id");
    let (part, word) = role.split_once(' ').unwrap_or((role, ""));
    let done = match part {
        "create" => {
            let new = NewConversation { id: Some(id), ..NewConversation::default() };
            all.create(&new, clock::now()).map(|id| id.to_string())
        }
        "append" => append_once(&all, &id, word),
        "crowd" => crowd::append(&all, &id, word),
        "recover" => all.recover(&id, NOW).map(|recovered| format!("kept {}", recovered.kept_lines)),
        "hostile" => hostile::act(&all, &id, word),
        "open" => all.writer(&id, Wait::NoWait).map(|_open| hold("open")),
        "lock" => {
            let file = File::open(all.file(&id)).expect("there");
            file.lock().expect("free");
            Ok(hold("locked"))
        }
        other => panic!("no such part: {other}"),
    };
    println!("says: {}", done.unwrap_or_else(|error| tell(&error)));
}

fn append_once(all: &Conversations, id: &ConversationId, text: &str) -> Result<String, ConversationError> {
    let count: usize = text.parse().unwrap_or(10);
    all.writer(id, Wait::NoWait)?.append(&mut exchange("asked", &"x".repeat(count)))?;
    Ok("saved".to_owned())
}

/// Says that it has begun and goes on until its input ends.
fn hold(word: &str) -> String {
    println!("says: {word}");
    std::io::stdout().flush().expect("a pipe");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    "over".to_owned()
}

pub fn tell(error: &ConversationError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
