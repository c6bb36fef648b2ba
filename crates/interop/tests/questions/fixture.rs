//! A separate folder of question sets for each test, and other processes that act on them.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use coven_domain::question::{Choice, Question, QuestionAnswer};
use coven_domain::{QuestionSetId, Timestamp};
use coven_holder::clock;
use coven_interop::questions::{Limits, NewQuestionSet, QuestionError, QuestionFolder, QuestionSet};

use crate::{concurrency, hostile};

pub const ROLE: &str = "COVEN_TEST_ROLE";
pub const FOLDER: &str = "COVEN_TEST_FOLDER";
pub const SET: &str = "COVEN_TEST_SET";
pub const LIMITS: Limits = Limits { max_sessions: 100 };
/// 15 November 2026, 17:51:13.705.
pub const NOW: Timestamp = Timestamp::from_millis(1_794_765_073_705);

pub struct Fixture {
    pub folder: QuestionFolder,
    root: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("temporary folder");
        Self { folder: QuestionFolder::at(root.path().join("sessions")), root }
    }

    pub fn root(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    pub fn ask(&self) -> QuestionSetId {
        self.folder.create(&new_set(), &LIMITS, NOW).expect("created")
    }

    pub fn ask_for_call(&self, call_id: &str) -> QuestionSetId {
        let new = NewQuestionSet { call_id: Some(call_id.into()), ..new_set() };
        self.folder.create(&new, &LIMITS, NOW).expect("created")
    }

    pub fn path(&self, id: &QuestionSetId, file: &str) -> PathBuf {
        self.folder.path().join(id.to_string()).join(file)
    }

    pub fn text(&self, id: &QuestionSetId, file: &str) -> String {
        fs::read_to_string(self.path(id, file)).expect("exists")
    }

    pub fn json(&self, id: &QuestionSetId, file: &str) -> serde_json::Value {
        serde_json::from_str(&self.text(id, file)).expect("valid JSON")
    }

    /// Replaces a file directly, as another tool would.
    pub fn put(&self, id: &QuestionSetId, file: &str, text: &str) {
        let temp = self.path(id, "temp");
        fs::create_dir_all(temp.parent().expect("has a parent")).expect("disk has space");
        fs::write(&temp, text).expect("disk has space");
        fs::rename(&temp, self.path(id, file)).expect("rename in one folder");
    }

    pub fn read(&self, id: &QuestionSetId) -> QuestionSet {
        self.folder.read(id).expect("sound set")
    }

    /// Returns the names of all entries in the folder, or in one of its sets.
    pub fn names(&self, id: Option<&QuestionSetId>) -> Vec<String> {
        let dir = id.map_or(self.folder.path().to_owned(), |id| self.folder.path().join(id.to_string()));
        let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.expect("entry"));
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().expect("valid UTF-8")).collect();
        names.sort();
        names
    }

    /// Returns a command that starts another process with this role.
    pub fn other(&self, role: &str, id: Option<&QuestionSetId>) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("path of the test binary"));
        command.args(["--exact", "other_process", "--nocapture"]);
        self.configure(&mut command, role, id);
        command
    }

    /// Like `other`, but runs a shell command first to set limits, the umask or ignored signals.
    pub fn other_after(&self, shell: &str, role: &str, id: Option<&QuestionSetId>) -> Command {
        let mut command = Command::new("/bin/sh");
        let exe = std::env::current_exe().expect("path of the test binary");
        command.arg("-c").arg(format!("{shell}; exec \"$0\" --exact other_process --nocapture")).arg(exe);
        self.configure(&mut command, role, id);
        command
    }

    fn configure(&self, command: &mut Command, role: &str, id: Option<&QuestionSetId>) {
        command.env(ROLE, role).env(FOLDER, self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(id) = id {
            command.env(SET, id.to_string());
        }
    }
}

pub fn new_set() -> NewQuestionSet {
    NewQuestionSet { questions: vec![question()], ..NewQuestionSet::default() }
}

pub fn question() -> Question {
    let postgres = Choice { description: Some("Relational, mature".into()), label: "PostgreSQL".into() };
    let sqlite = Choice { description: None, label: "SQLite".into() };
    let options = vec![postgres, sqlite];
    Question { options, prompt: "Which database?".into(), title: "Database".into(), multi_select: false }
}

pub fn choose(label: &str) -> Vec<QuestionAnswer> {
    vec![QuestionAnswer { selected_option: Some(label.into()), ..QuestionAnswer::default() }]
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
    let folder = QuestionFolder::at(std::env::var_os(FOLDER).expect("set by the parent"));
    let id = || std::env::var(SET).expect("set by the parent").parse::<QuestionSetId>().expect("valid id");
    let (action, argument) = role.split_once(' ').unwrap_or((role, ""));
    let done = match action {
        "create" => folder.create(&new_set(), &LIMITS, clock::now()).map(|id| id.to_string()),
        "ask-and-die" => {
            let new = NewQuestionSet { call_id: Some("call".into()), ..new_set() };
            folder.create(&new, &LIMITS, clock::now()).map(|id| id.to_string())
        }
        "answer" => folder.answer(&id(), choose(argument), clock::now()).map(|()| "answered".to_owned()),
        "reject" => folder.reject(&id(), Some(argument), clock::now()).map(|()| "rejected".to_owned()),
        "wait" => folder.wait(&id(), None, None).map(|waited| format!("{waited:?}")),
        "list" => hostile::list(&folder),
        "askers" => concurrency::ask(&folder, argument.parse().expect("number")),
        "answerers" => concurrency::answer(&folder, argument.parse().expect("number")),
        other => panic!("unknown role: {other}"),
    };
    println!("report: {}", done.unwrap_or_else(|error| describe(&error)));
}

fn describe(error: &QuestionError) -> String {
    match error {
        QuestionError::AtomicWrite(error) => format!("atomic write failed at {}: {}", error.step, error.source),
        error => error.to_string(),
    }
}
