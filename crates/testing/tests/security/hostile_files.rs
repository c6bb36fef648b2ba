//! Fifos and huge files where other programs write: they break one entry of a list, hang nothing and cost no memory.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use coven_testing::{Ran, TestHome, program};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

const QUESTION: &str = r#"{"questions":[{"title":"T","prompt":"Which?","options":[{"label":"A"},{"label":"B"}]}]}"#;
/// In KiB. What is read whole here has more than this.
const MEMORY: u64 = 256 << 10;

/// Asks and returns the id of the set.
fn asked(home: &TestHome) -> String {
    let known = ids(home);
    home.coven(&["ask", QUESTION, "--no-wait"]).done();
    ids(home).into_iter().find(|id| !known.contains(id)).expect("a new set")
}

fn ids(home: &TestHome) -> Vec<String> {
    let sets: Vec<Value> = home.json(&["questions", "list", "--json"]);
    sets.iter().map(|set| set["id"].as_str().expect("an id").to_owned()).collect()
}

fn request(home: &TestHome, id: &str) -> PathBuf {
    home.user().join(".local/share/auq/sessions").join(id).join("request.json")
}

/// Runs a shell line in which `$0` is coven, with a bound on the memory of each process.
fn within_memory(home: &TestHome, line: &str) -> Ran {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("ulimit -d {MEMORY}; {line}")).arg(program::coven());
    command.env_clear().envs(home.variables()).current_dir(home.project()).stdin(Stdio::null());
    command.output().expect("a shell").into()
}

/// The most memory that the daemon has had so far, in KiB.
fn peak(home: &TestHome) -> u64 {
    let [pid] = home.daemons()[..] else { panic!("one daemon runs") };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_fifo_as_a_request_breaks_that_question_set_only() {
    let home = TestHome::started();
    let (sound, broken) = (asked(&home), asked(&home));
    fs::remove_file(request(&home, &broken)).expect("ours");
    mkfifoat(CWD, request(&home, &broken), Mode::from_raw_mode(0o600)).expect("a fifo");

    assert_eq!(ids(&home), std::slice::from_ref(&sound));
    let listed = home.coven(&["questions", "list", "--all", "--json"]).done();
    assert!(listed.contains("is a fifo, not a regular file"), "{listed}");
    let inbox = home.coven(&["inbox", "--json"]).done();
    assert!(inbox.contains(&sound) && inbox.contains("is a fifo, not a regular file"), "{inbox}");
    home.coven(&["answer", &sound, "--answers", r#"{"0":{"selectedOption":"A"}}"#]).done();
    home.coven(&["questions", "dismiss", &broken]).done();
}

#[test]
fn a_sparse_request_of_a_gigabyte_leaves_the_daemon_small() {
    let home = TestHome::started();
    let (sound, huge) = (asked(&home), asked(&home));
    let file = File::options().write(true).open(request(&home, &huge)).expect("ours");
    file.set_len(1 << 30).expect("a sparse file");
    drop(file);

    let inbox = home.coven(&["inbox", "--json"]).done();
    assert!(inbox.contains(&sound) && inbox.contains("is larger than 4 MiB"), "{inbox}");
    assert!(peak(&home) < MEMORY, "{} KiB", peak(&home));
    let listed = within_memory(&home, "exec \"$0\" questions list --all --json").done();
    assert!(listed.contains(&sound) && listed.contains("is larger than 4 MiB"), "{listed}");
}

#[test]
fn a_very_long_line_in_a_conversation_is_listed_and_exported_within_little_memory() {
    let home = TestHome::started();
    let folder = home.user().join(".aurora/spawn/sessions");
    fs::create_dir_all(&folder).expect("room");
    let at = "2026-01-14T10:00:00Z";
    let turn = format!(r#"{{"type":"turn","role":"user","content":"hello","timestamp":"{at}","tokens":1,"turns":1}}"#);
    for id in ["sound", "long"] {
        let metadata = format!(r#"{{"type":"metadata","session_id":"{id}","agent":null,"created_at":"{at}"}}"#);
        fs::write(folder.join(format!("{id}.jsonl")), format!("{metadata}\n{turn}\n")).expect("room");
    }
    let mut long = OpenOptions::new().append(true).open(folder.join("long.jsonl")).expect("ours");
    let length = long.metadata().expect("ours").len();
    long.set_len(length + (512 << 20)).and_then(|()| long.write_all(b"\n")).expect("a sparse file");

    for list in ["spawn --list-sessions", "sessions --all --plain"] {
        let listed = within_memory(&home, &format!("exec \"$0\" {list}"));
        assert!(listed.code == 0 && listed.stdout.contains("sound"), "{}{}", listed.stdout, listed.stderr);
        assert!(listed.stderr.contains("long.jsonl is larger than 64 MiB"), "{}", listed.stderr);
    }
    let exported = within_memory(&home, "exec \"$0\" export long");
    assert!(exported.stderr.contains("line 3: it is longer than 16 MiB"), "{}{}", exported.stdout, exported.stderr);
    let exported = within_memory(&home, "exec \"$0\" export sound");
    assert!(exported.stdout.contains("hello"), "{}{}", exported.stdout, exported.stderr);
}

#[test]
fn input_without_an_end_is_refused() {
    let home = TestHome::new();
    let ran = within_memory(&home, "yes | \"$0\" ask -");
    assert!(ran.stderr.contains("is larger than 16 MiB, the limit for input piped into a command"), "{}", ran.stderr);
}
