//! A folder of its own for every test, sets in it, and other processes that act on them.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use coven_domain::question::{Answer, Choice, Question};
use coven_domain::{QuestionSetId, Timestamp};
use coven_holder::clock;
use coven_interop::questions::{Limits, NewQuestionSet, QuestionError, QuestionFolder, QuestionSet};

use crate::{crowd, hostile};

pub const ROLE: &str = "COVEN_TEST_ROLE";
pub const FOLDER: &str = "COVEN_TEST_FOLDER";
pub const SET: &str = "COVEN_TEST_SET";
pub const LIMITS: Limits = Limits { max_sessions: 100 };
/// 15 November 2026, 17:51:13.705.
pub const NOW: Timestamp = Timestamp::from_millis(1_794_765_073_705);

pub struct Stand {
    pub folder: QuestionFolder,
    root: tempfile::TempDir,
}

impl Stand {
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        Self { folder: QuestionFolder::at(root.path().join("sessions")), root }
    }

    pub fn root(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    pub fn ask(&self) -> QuestionSetId {
        self.folder.create(&new_set(), &LIMITS, NOW).expect("asked")
    }

    pub fn ask_for_call(&self, call_id: &str) -> QuestionSetId {
        let new = NewQuestionSet { call_id: Some(call_id.into()), ..new_set() };
        self.folder.create(&new, &LIMITS, NOW).expect("asked")
    }

    pub fn path(&self, id: &QuestionSetId, file: &str) -> PathBuf {
        self.folder.path().join(id.to_string()).join(file)
    }

    pub fn text(&self, id: &QuestionSetId, file: &str) -> String {
        fs::read_to_string(self.path(id, file)).expect("the file is there")
    }

    pub fn json(&self, id: &QuestionSetId, file: &str) -> serde_json::Value {
        serde_json::from_str(&self.text(id, file)).expect("JSON")
    }

    /// As another tool would, without asking us.
    pub fn put(&self, id: &QuestionSetId, file: &str, text: &str) {
        let aside = self.path(id, "aside");
        fs::create_dir_all(aside.parent().expect("in a folder")).expect("room");
        fs::write(&aside, text).expect("room");
        fs::rename(&aside, self.path(id, file)).expect("same folder");
    }

    pub fn read(&self, id: &QuestionSetId) -> QuestionSet {
        self.folder.read(id).expect("a sound set")
    }

    /// The names of everything in the folder, or in one of its sets.
    pub fn names(&self, id: Option<&QuestionSetId>) -> Vec<String> {
        let dir = id.map_or(self.folder.path().to_owned(), |id| self.folder.path().join(id.to_string()));
        let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.expect("an entry"));
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    /// Another process that does `role`.
    pub fn other(&self, role: &str, id: Option<&QuestionSetId>) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.args(["--exact", "other_process", "--nocapture"]);
        self.tell(&mut command, role, id);
        command
    }

    /// The same after some words of a shell: limits, masks, ignored signals.
    pub fn other_after(&self, shell: &str, role: &str, id: Option<&QuestionSetId>) -> Command {
        let mut command = Command::new("/bin/sh");
        let exe = std::env::current_exe().expect("own path");
        command.arg("-c").arg(format!("{shell}; exec \"$0\" --exact other_process --nocapture")).arg(exe);
        self.tell(&mut command, role, id);
        command
    }

    fn tell(&self, command: &mut Command, role: &str, id: Option<&QuestionSetId>) {
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

pub fn choose(label: &str) -> Vec<Answer> {
    vec![Answer { selected_option: Some(label.into()), ..Answer::default() }]
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
    let folder = QuestionFolder::at(std::env::var_os(FOLDER).expect("told"));
    let id = || std::env::var(SET).expect("told").parse::<QuestionSetId>().expect("an id");
    let (part, word) = role.split_once(' ').unwrap_or((role, ""));
    let done = match part {
        "create" => folder.create(&new_set(), &LIMITS, clock::now()).map(|id| id.to_string()),
        "ask-and-die" => {
            let new = NewQuestionSet { call_id: Some("call".into()), ..new_set() };
            folder.create(&new, &LIMITS, clock::now()).map(|id| id.to_string())
        }
        "answer" => folder.answer(&id(), choose(word), clock::now()).map(|()| "answered".to_owned()),
        "reject" => folder.reject(&id(), Some(word), clock::now()).map(|()| "rejected".to_owned()),
        "wait" => folder.wait(&id(), None, None).map(|waited| format!("{waited:?}")),
        "list" => hostile::list(&folder),
        "askers" => crowd::ask(&folder, word.parse().expect("a number")),
        "answerers" => crowd::answer(&folder, word.parse().expect("a number")),
        other => panic!("no such part: {other}"),
    };
    println!("says: {}", done.unwrap_or_else(|error| tell(&error)));
}

fn tell(error: &QuestionError) -> String {
    match error {
        QuestionError::AtomicWrite(error) => format!("atomic write failed at {}: {}", error.step, error.source),
        error => error.to_string(),
    }
}
