//! Fifos and huge files in folders that other programs write to. They break one list entry and neither block nor
//! exhaust memory.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use coven_testing::{CommandOutput, TestHome, program};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

const QUESTION: &str = r#"{"questions":[{"title":"T","prompt":"Which?","options":[{"label":"A"},{"label":"B"}]}]}"#;
/// In KiB. The files in these tests are larger than this.
const MEMORY: u64 = 256 << 10;

/// Asks a question and returns the id of the set.
fn ask(home: &TestHome) -> String {
    let known = ids(home);
    home.coven(&["ask", QUESTION, "--no-wait"]).expect_success();
    ids(home).into_iter().find(|id| !known.contains(id)).expect("new set")
}

fn ids(home: &TestHome) -> Vec<String> {
    let sets: Vec<Value> = home.items(&["questions", "list", "--json"]);
    sets.iter().map(|set| set["id"].as_str().expect("id").to_owned()).collect()
}

fn request(home: &TestHome, id: &str) -> PathBuf {
    home.user().join(".local/share/auq/sessions").join(id).join("request.json")
}

/// Runs a shell command in which `$0` is coven, with a memory limit per process.
fn with_memory_limit(home: &TestHome, line: &str) -> CommandOutput {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("ulimit -d {MEMORY}; {line}")).arg(program::coven());
    command.env_clear().envs(home.variables()).current_dir(home.project()).stdin(Stdio::null());
    command.output().expect("shell starts").into()
}

/// Returns the peak memory use of the daemon in KiB.
fn peak_memory(home: &TestHome) -> u64 {
    let [pid] = home.daemons()[..] else { panic!("one daemon runs") };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("is running");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM line");
    line.trim().trim_end_matches(" kB").parse().expect("number")
}

#[test]
fn a_fifo_as_request_file_breaks_only_its_question_set() {
    let home = TestHome::started();
    let (sound, broken) = (ask(&home), ask(&home));
    fs::remove_file(request(&home, &broken)).expect("writable");
    mkfifoat(CWD, request(&home, &broken), Mode::from_raw_mode(0o600)).expect("fifo");

    assert_eq!(ids(&home), std::slice::from_ref(&sound));
    let listed = home.coven(&["questions", "list", "--all", "--json"]).expect_success();
    assert!(listed.contains("is a fifo, not a regular file"), "{listed}");
    let inbox = home.coven(&["inbox", "--json"]).expect_success();
    assert!(inbox.contains(&sound) && inbox.contains("is a fifo, not a regular file"), "{inbox}");
    home.coven(&["answer", &sound, "--answers", r#"{"0":{"selectedOption":"A"}}"#]).expect_success();
    home.coven(&["questions", "dismiss", &broken]).expect_success();
}

#[test]
fn a_sparse_request_file_of_a_gigabyte_takes_little_memory() {
    let home = TestHome::started();
    let (sound, huge) = (ask(&home), ask(&home));
    let file = File::options().write(true).open(request(&home, &huge)).expect("writable");
    file.set_len(1 << 30).expect("sparse file");
    drop(file);

    let inbox = home.coven(&["inbox", "--json"]).expect_success();
    assert!(inbox.contains(&sound) && inbox.contains("is larger than 4 MiB"), "{inbox}");
    assert!(peak_memory(&home) < MEMORY, "{} KiB", peak_memory(&home));
    let listed = with_memory_limit(&home, "exec \"$0\" questions list --all --json").expect_success();
    assert!(listed.contains(&sound) && listed.contains("is larger than 4 MiB"), "{listed}");
}

#[test]
fn listing_and_exporting_a_very_long_line_takes_little_memory() {
    let home = TestHome::started();
    let folder = home.user().join(".aurora/spawn/sessions");
    fs::create_dir_all(&folder).expect("disk has space");
    let at = "2026-01-14T10:00:00Z";
    let turn = format!(r#"{{"type":"turn","role":"user","content":"hello","timestamp":"{at}","tokens":1,"turns":1}}"#);
    for id in ["sound", "long"] {
        let metadata = format!(r#"{{"type":"metadata","session_id":"{id}","agent":null,"created_at":"{at}"}}"#);
        fs::write(folder.join(format!("{id}.jsonl")), format!("{metadata}\n{turn}\n")).expect("disk has space");
    }
    let mut long = OpenOptions::new().append(true).open(folder.join("long.jsonl")).expect("writable");
    let length = long.metadata().expect("writable").len();
    long.set_len(length + (512 << 20)).and_then(|()| long.write_all(b"\n")).expect("sparse file");

    for list in ["spawn --list-sessions", "sessions --all --plain"] {
        let listed = with_memory_limit(&home, &format!("exec \"$0\" {list}"));
        assert!(listed.code == 0 && listed.stdout.contains("sound"), "{}{}", listed.stdout, listed.stderr);
        assert!(listed.stderr.contains("long.jsonl is larger than 64 MiB"), "{}", listed.stderr);
    }
    let exported = with_memory_limit(&home, "exec \"$0\" export long");
    assert!(exported.stderr.contains("line 3: longer than 16 MiB"), "{}{}", exported.stdout, exported.stderr);
    let exported = with_memory_limit(&home, "exec \"$0\" export sound");
    assert!(exported.stdout.contains("hello"), "{}{}", exported.stdout, exported.stderr);
}

#[test]
fn endless_input_is_refused() {
    let home = TestHome::new();
    let ran = with_memory_limit(&home, "yes | \"$0\" ask -");
    assert!(ran.stderr.contains("is larger than 16 MiB, the limit for input piped into a command"), "{}", ran.stderr);
}
