//! Conversations: the binaries `coven spawn` and `aur spawn`, with small scripts as agents. No daemon is running.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use coven_testing::{CommandOutput, TestHome, TestTerminal, eventually, wait_until};
use serde_json::{Value, json};

/// Prints the length of its input and the last word.
pub const ECHO: &str = "p=$(cat); printf 'read %s: %s' \"$(printf %s \"$p\" | wc -c)\" \"${p##* }\"";

/// Creates a home with a script as the agent of conversations.
pub fn home_with(script: &str) -> TestHome {
    let mut home = TestHome::new();
    let tool = home.agents().join("tool");
    fs::write(&tool, format!("#!/bin/sh\n{script}\n")).expect("disk has space");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("writable");
    home.env.push(("AURORA_SPAWN_TOOL".to_owned(), tool.display().to_string()));
    home
}

pub fn file(home: &TestHome, id: &str) -> PathBuf {
    home.user().join(format!(".aurora/spawn/sessions/{id}.jsonl"))
}

pub fn lines(home: &TestHome, id: &str) -> Vec<Value> {
    let text = fs::read_to_string(file(home, id)).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

pub fn spawn(home: &TestHome, args: &[&str], typed: &str) -> CommandOutput {
    home.coven_with_input(&[&["spawn"], args].concat(), typed.as_bytes())
}

fn listed(home: &TestHome, args: &[&str]) -> Vec<Value> {
    home.json(&[&["spawn", "--list-sessions", "--json"], args].concat())
}

#[test]
fn chat_01_a_new_conversation_has_an_id_and_a_file_with_its_metadata() {
    let home = home_with(ECHO);
    spawn(&home, &["--interactive"], "").expect_success();
    let id = listed(&home, &[])[0]["session_id"].as_str().expect("an id").to_owned();
    let first = &lines(&home, &id)[0];
    assert_eq!(
        (&first["type"], &first["session_id"], &first["status"]),
        (&json!("metadata"), &json!(id), &json!("active"))
    );
    assert!(first["created_at"].as_str().is_some_and(|at| at.ends_with('Z')) && first["agent"].is_null(), "{first}");
    assert_eq!(fs::metadata(file(&home, &id)).expect("there").permissions().mode() & 0o777, 0o600);
}

#[test]
fn chat_02_chat_10_an_exchange_is_appended_as_two_lines() {
    let home = home_with(ECHO);
    let ran = spawn(&home, &["-i", "--session", "s"], "hello world\n");
    assert_eq!(ran.stdout, "read 11: world\n");
    let lines = lines(&home, "s");
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["metadata", "turn", "turn", "status"]);
    assert_eq!((&lines[1]["role"], &lines[1]["content"]), (&json!("user"), &json!("hello world")));
    assert_eq!((&lines[2]["role"], &lines[2]["content"]), (&json!("assistant"), &json!("read 11: world")));
    assert!(lines[2]["timestamp"].is_string() && lines[2]["tokens"].is_u64(), "{}", lines[2]);
}

#[test]
fn chat_03_a_resumed_conversation_includes_the_earlier_turns() {
    let home = home_with("cat");
    spawn(&home, &["-i", "--session", "s"], "one\n").expect_success();
    let ran = spawn(&home, &["--resume", "s"], "two\n");
    assert!(ran.stderr.contains("Resuming completed session"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "User: one\n\nAssistant: one\n\nUser: two\n");
    let missing = spawn(&home, &["--resume", "nope"], "").expect_failure(1);
    assert!(missing.contains("Session not found: nope") && missing.contains('s'), "{missing}");
}

#[test]
fn chat_04_chat_05_chat_06_the_list_shows_the_most_recent_first_and_can_be_filtered() {
    let home = home_with(ECHO);
    let agents = home.user().join(".claude/agents");
    fs::create_dir_all(&agents).expect("disk has space");
    fs::write(agents.join("qa.md"), "---\nname: qa-test\ndescription: Tests\n---\nYou test.\n")
        .expect("disk has space");
    spawn(&home, &["-i", "--session", "first"], "a\n").expect_success();
    spawn(&home, &["-i", "--session", "second", "--agent", "qa-test"], "/exit\n").expect_success();
    let ids: Vec<Value> = listed(&home, &[]).into_iter().map(|mut it| it["session_id"].take()).collect();
    assert_eq!(ids, ["second", "first"]);
    let of_agent = listed(&home, &["--agent", "qa-test"]);
    assert_eq!((of_agent.len(), &of_agent[0]["turn_count"]), (1, &json!(0)));
    assert_eq!(listed(&home, &["--status", "completed"]).len(), 2);
    assert_eq!(listed(&home, &["--status", "active"]).len(), 0);
    let table = home.coven(&["spawn", "--list-sessions"]).expect_success();
    assert!(table.starts_with("SESSION_ID") && table.contains("qa-test"), "{table}");
    let unknown = spawn(&home, &["-i", "--agent", "qa-tets"], "").expect_failure(1);
    assert!(unknown.contains("qa-test"), "{unknown}");
}

#[test]
fn chat_07_a_conversation_is_deleted_and_the_deletion_confirmed() {
    let home = home_with(ECHO);
    for id in ["piped", "typed"] {
        spawn(&home, &["-i", "--session", id], "a\n").expect_success();
    }
    assert_eq!(spawn(&home, &["--delete-session", "piped"], "").expect_success(), "Session 'piped' deleted\n");
    let mut terminal = TestTerminal::open(&home, &["spawn", "--delete-session", "typed"]);
    terminal.wait_for_text("Session 'typed' deleted");
    assert_eq!((terminal.wait(), listed(&home, &[]).len()), (0, 0));
}

#[test]
fn chat_07_a_conversation_is_deleted_after_a_confirmation_if_requested() {
    let home = home_with(ECHO);
    spawn(&home, &["-i", "--session", "s"], "a\n").expect_success();
    spawn(&home, &["--delete-session", "s", "--interactive-confirm"], "").expect_failure(2);
    spawn(&home, &["--clean-sessions", "0", "--interactive-confirm"], "").expect_failure(2);
    let mut terminal = TestTerminal::open(&home, &["spawn", "--delete-session", "s", "--interactive-confirm"]);
    terminal.wait_for_text("Delete session 's'? [y/N]");
    terminal.type_keys("y\n");
    terminal.wait_for_text("Session 's' deleted");
    assert_eq!(terminal.wait(), 0);
    assert_eq!(listed(&home, &[]).len(), 0);
    spawn(&home, &["--delete-session", "s", "--yes"], "").expect_failure(1);
}

#[test]
fn chat_08_chat_09_old_conversations_are_deleted_by_a_command_and_at_start() {
    let home = home_with(ECHO);
    for id in ["old", "new"] {
        spawn(&home, &["-i", "--session", id], "a\n").expect_success();
    }
    let age = |id: &str| {
        let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(40 * 86_400);
        fs::File::options()
            .append(true)
            .open(file(&home, id))
            .and_then(|it| it.set_modified(long_ago))
            .expect("writable");
    };
    age("old");
    assert_eq!(spawn(&home, &["--clean-sessions", "30"], "").expect_success(), "1 session deleted\n");
    assert!(!file(&home, "old").exists() && file(&home, "new").exists());
    age("new");
    // Keeps running until the cleanup in its background is done.
    let mut asker = PipedConversation::start(&home, &["-i", "--session", "next"]);
    let log = home.user().join(".aurora/spawn/cleanup.log");
    // The log line is written after the deletion, so the program must not exit before.
    wait_until("the deletion is logged", || fs::read_to_string(&log).is_ok_and(|log| log.contains("deleted new")));
    assert!(!file(&home, "new").exists());
    asker.leave();
    let log = fs::read_to_string(&log).expect("a log");
    assert!(log.contains("deleted old"), "{log}");
}

#[test]
fn chat_11_chat_12_damage_is_explained_and_can_be_recovered_or_deleted() {
    let home = home_with(ECHO);
    spawn(&home, &["-i", "--session", "s"], "a\n").expect_success();
    let whole = fs::read_to_string(file(&home, "s")).expect("a file");
    let damaged = whole.replacen("{\"type\":\"turn\"", "{\"type\":turn\"", 1);
    fs::write(file(&home, "s"), &damaged).expect("disk has space");
    let refusal = spawn(&home, &["--resume", "s"], "").expect_failure(1);
    assert!(refusal.contains("line 2") && refusal.contains("--recover"), "{refusal}");
    let ran = spawn(&home, &["--resume", "s", "--recover"], "");
    assert!(ran.code == 0 && ran.stderr.contains("1 lost"), "{ran:?}");
    fs::write(file(&home, "s"), &damaged).expect("disk has space");
    spawn(&home, &["--resume", "s", "--delete-damaged"], "").expect_failure(1);
    assert!(!file(&home, "s").exists());
    // A partial last line, as after a crash, is not damage.
    fs::write(file(&home, "s"), &whole[..whole.len() - 20]).expect("disk has space");
    let ran = spawn(&home, &["--resume", "s"], "b\n");
    assert!(ran.code == 0 && ran.stderr.contains("last turn is incomplete"), "{ran:?}");
}

#[test]
fn chat_13_a_second_writer_with_no_wait_is_refused() {
    let home = home_with(ECHO);
    spawn(&home, &["-i", "--session", "s"], "a\n").expect_success();
    let held = fs::File::options().append(true).open(file(&home, "s")).expect("a file");
    held.lock().expect("not locked");
    let refusal = spawn(&home, &["--resume", "s", "--no-wait"], "b\n");
    assert!(refusal.code == 4 && refusal.stderr.contains("another process is writing"), "{refusal:?}");
    let mut waits = PipedConversation::start(&home, &["--resume", "s"]);
    waits.type_keys("c\n");
    wait_until("the turn waits to be saved", || waits.stderr().contains("waiting"));
    held.unlock().expect("writable");
    waits.leave();
    assert!(lines(&home, "s").iter().any(|line| line["content"] == "c"));
}

#[test]
fn chat_14_a_conversation_in_use_can_be_read_but_not_deleted() {
    let home = home_with(ECHO);
    let mut open = PipedConversation::start(&home, &["-i", "--session", "s"]);
    open.type_keys("hello\n");
    wait_until("the turn is saved", || lines(&home, "s").len() == 3);
    assert_eq!(listed(&home, &["--status", "active"])[0]["turn_count"], 2);
    let refusal = spawn(&home, &["--delete-session", "s", "--yes"], "").expect_failure(4);
    assert!(refusal.contains("open in another process"), "{refusal}");
    open.leave();
}

#[test]
fn a_turn_that_fails_is_not_added_and_can_be_repeated() {
    let home = home_with("cat > /dev/null; test -e \"$HOME/ok\" || { echo 'forbidden' >&2; exit 3; }; echo fine");
    let ran = spawn(&home, &["-i", "--session", "s"], "hello\n/exit\n");
    assert!(ran.stderr.contains("exit status: 3") && ran.stderr.contains("/retry"), "{}", ran.stderr);
    assert_eq!(lines(&home, "s").len(), 2, "metadata and status");
    let mut typist = PipedConversation::start(&home, &["--resume", "s"]);
    typist.type_keys("hello\n");
    wait_until("the turn has failed", || typist.stderr().contains("/retry"));
    fs::write(home.user().join("ok"), "").expect("disk has space");
    typist.type_keys("/retry\n");
    wait_until("the turn is saved", || lines(&home, "s").iter().any(|line| line["content"] == "fine"));
    typist.leave();
}

#[test]
fn an_agent_that_lost_its_session_gets_the_full_history_with_retry_all() {
    let mut home = home_with("");
    let tool = home.agents().join("tool");
    fs::write(
        &tool,
        "#!/bin/sh\np=$(cat)\ncase $1 in --go-on) echo 'no such session' >&2; exit 4;; esac\nprintf 'read: %s' \"$p\"\n",
    )
    .expect("disk has space");
    let print = json!({"args": ["--id", "{session}"], "resume": ["--go-on", "{session}"], "prompt": "stdin"});
    home.configure(json!({"harnesses": {"forgetful": {"program": tool.display().to_string(), "print": print}}}));
    home.env.retain(|(name, _)| name != "AURORA_SPAWN_TOOL");
    home.env.push(("AURORA_SPAWN_TOOL".to_owned(), "forgetful".to_owned()));
    let ran = spawn(&home, &["-i", "--session", "s"], "first\nsecond\n/retry\n/retry all\n");
    assert!(ran.stderr.contains("no such session") && ran.stderr.contains("/retry all"), "{}", ran.stderr);
    let turns: Vec<Value> = lines(&home, "s").into_iter().filter(|line| line["type"] == "turn").collect();
    let contents: Vec<&str> = turns.iter().filter_map(|turn| turn["content"].as_str()).collect();
    assert_eq!((contents.len(), &contents[..3]), (4, &["first", "read: first", "second"][..]));
    assert!(contents[3].contains("first") && contents[3].ends_with("second"), "{contents:?}");
    let sessions: Vec<&Value> = turns.iter().map(|turn| &turn["harness_session"]).filter(|it| !it.is_null()).collect();
    assert!(sessions.len() == 2 && sessions[0] != sessions[1], "{sessions:?}");
}

#[test]
fn ctrl_c_ends_the_turn_and_keeps_the_partial_answer() {
    let home = home_with("cat > /dev/null; echo partial; sleep 1000");
    let mut terminal = TestTerminal::open(&home, &["spawn", "-i", "--session", "s"]);
    terminal.wait_for_text("spawn>");
    terminal.type_keys("go\r");
    terminal.wait_for_text("partial");
    terminal.type_keys("\x03");
    terminal.wait_for_text("Interrupted. Returning to prompt.");
    terminal.type_keys("/exit\r");
    assert_eq!(terminal.wait(), 0);
    let answer = &lines(&home, "s")[2];
    assert_eq!((&answer["content"], &answer["interrupted"]), (&json!("partial"), &json!(true)));
}

/// Sets the modification time of a conversation to this many days ago.
fn age(home: &TestHome, id: &str, days: u64) {
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(days * 86_400);
    fs::File::options().append(true).open(file(home, id)).and_then(|it| it.set_modified(long_ago)).expect("writable");
}

#[test]
fn chat_09_a_resumed_conversation_is_never_deleted_regardless_of_its_age() {
    let home = home_with(ECHO);
    let many: String = (0..200).map(|nth| format!("message {nth}\n")).collect();
    spawn(&home, &["-i", "--session", "old"], &many).expect_success();
    for _ in 0..5 {
        age(&home, "old", 40);
        spawn(&home, &["--resume", "old"], "").expect_success();
    }
    assert_eq!(listed(&home, &[])[0]["turn_count"], 400);
}

#[test]
fn turns_that_cannot_be_saved_are_kept_in_memory_and_saved_later() {
    let home = home_with(ECHO);
    let mut typist = PipedConversation::start(&home, &["-i", "--session", "s"]);
    let (path, aside) = (file(&home, "s"), file(&home, "aside"));
    fs::rename(&path, &aside).expect("writable");
    typist.type_keys("one\n");
    wait_until("the failed save is reported", || typist.stderr().contains("kept in memory"));
    fs::rename(&aside, &path).expect("writable");
    typist.type_keys("two\n");
    wait_until("both turns are saved", || lines(&home, "s").iter().any(|line| line["content"] == "two"));
    typist.leave();
    let turns: Vec<Value> = lines(&home, "s").into_iter().filter(|line| line["role"] == "user").collect();
    assert_eq!(turns.iter().map(|turn| &turn["content"]).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(turns.iter().map(|turn| &turn["turns"]).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn turns_that_were_never_saved_are_reported_at_exit() {
    let home = home_with(ECHO);
    let mut typist = PipedConversation::start(&home, &["-i", "--session", "s"]);
    fs::remove_file(file(&home, "s")).expect("writable");
    typist.type_keys("one\n");
    wait_until("the failed save is reported", || typist.stderr().contains("kept in memory"));
    drop(typist.child.stdin.take());
    assert_eq!(typist.child.wait().expect("child process").code(), Some(1));
    assert!(typist.stderr().contains("was not saved completely"), "{}", typist.stderr());
}

#[test]
fn chat_13_two_processes_in_one_conversation_see_the_turns_of_each_other() {
    let home = home_with(ECHO);
    let mut first = PipedConversation::start(&home, &["-i", "--session", "s"]);
    first.type_keys("one\n");
    wait_until("a turn is saved", || lines(&home, "s").len() == 3);
    let message = spawn(&home, &["--resume", "s", "--no-wait"], "x\n").expect_failure(4);
    assert!(message.contains("open in another process"), "{message}");
    let second = spawn(&home, &["--resume", "s"], "two\n");
    assert!(second.stderr.contains("also open in another process"), "{}", second.stderr);
    first.type_keys("three\n");
    wait_until("the first process has read the turns of the second", || {
        first.stderr().contains("2 turns of another process")
    });
    wait_until("the third turn is saved", || lines(&home, "s").iter().any(|line| line["content"] == "three"));
    first.leave();
    let numbers: Vec<Value> =
        lines(&home, "s").into_iter().map(|line| line["turns"].clone()).filter(|it| !it.is_null()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_task_file_becomes_one_turn() {
    let home = home_with(ECHO);
    fs::write(home.project().join("task.md"), "Fix the\nparser\n").expect("disk has space");
    let ran = spawn(&home, &["task.md", "--session", "s"], "");
    assert_eq!(ran.stdout, "read 14: the\nparser\n", "{ran:?}");
    assert_eq!(ran.code, 0);
    let contents: Vec<Value> = lines(&home, "s").into_iter().map(|line| line["content"].clone()).collect();
    assert_eq!(contents[1], "Fix the\nparser");
    assert_eq!(listed(&home, &["--status", "completed"]).len(), 1);
    spawn(&home, &["nosuch.md"], "").expect_failure(3);
    spawn(&home, &[], "").expect_failure(2);
}

#[test]
fn chat_07_a_prefix_of_a_name_does_not_delete_a_conversation() {
    let home = home_with(ECHO);
    spawn(&home, &["-i", "--session", "proj-important"], "a\n").expect_success();
    let message = spawn(&home, &["--delete-session", "proj", "--yes"], "").expect_failure(1);
    assert!(message.contains("Session not found: proj") && message.contains("proj-important"), "{message}");
    assert!(file(&home, "proj-important").exists());
}

#[test]
fn a_conversation_can_be_resumed_after_its_agent_definition_was_deleted() {
    let home = home_with(ECHO);
    let agents = home.user().join(".claude/agents");
    fs::create_dir_all(&agents).expect("disk has space");
    fs::write(agents.join("qa.md"), "---\nname: qa\ndescription: strict\n---\nBe strict.\n").expect("disk has space");
    spawn(&home, &["-i", "--session", "s", "--agent", "qa"], "a\n").expect_success();
    fs::remove_file(agents.join("qa.md")).expect("writable");
    let ran = spawn(&home, &["--resume", "s"], "b\n");
    assert!(ran.stderr.contains("'qa' no longer exists"), "{}", ran.stderr);
    assert_eq!(lines(&home, "s").iter().filter(|line| line["type"] == "turn").count(), 4);
}

#[test]
fn an_empty_answer_is_not_saved_and_an_answered_message_is_not_sent_again() {
    let home = home_with("p=$(cat); case $p in *nothing) exit 0;; esac; echo fine");
    let ran = spawn(&home, &["-i", "--session", "s"], "say nothing\nhello\n/retry\n");
    assert!(ran.stderr.contains("without an answer") && ran.stderr.contains("no failed message"), "{}", ran.stderr);
    let turns: Vec<Value> = lines(&home, "s").into_iter().filter(|line| line["type"] == "turn").collect();
    assert_eq!(turns.iter().map(|turn| &turn["content"]).collect::<Vec<_>>(), ["hello", "fine"]);
}

#[test]
fn save_does_not_overwrite_an_existing_file() {
    let home = home_with(ECHO);
    let notes = home.user().join("notes.md");
    fs::write(&notes, "mine").expect("disk has space");
    let ran = spawn(&home, &["-i", "--session", "s"], "a\n/save ~/notes.md\n/save ~/other.md\n");
    assert!(ran.stderr.contains("notes.md exists"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&notes).expect("a file"), "mine");
    assert!(fs::read_to_string(home.user().join("other.md")).expect("a file").contains("- session: s"));
}

#[test]
fn a_title_is_shown_in_every_list() {
    let home = home_with(ECHO);
    spawn(&home, &["-i", "--session", "s"], "a\n/rename Release notes\nb\n").expect_success();
    assert_eq!(listed(&home, &[])[0]["title"], "Release notes");
    let all: Vec<Value> = home.items(&["sessions", "--json", "--kind", "conversation"]);
    assert_eq!(all[0]["title"], "Release notes");
}

/// Runs one turn and returns the terminal at the prompt.
fn after_a_turn(home: &TestHome) -> TestTerminal {
    let mut terminal = TestTerminal::open(home, &["spawn", "-i", "--session", "s"]);
    terminal.wait_for_text("spawn>");
    terminal.type_keys("hello\r");
    terminal.wait_for_text("read 5: hello\nspawn>");
    terminal
}

#[test]
fn a_closed_terminal_interrupts_the_conversation() {
    let home = home_with(ECHO);
    assert_eq!(after_a_turn(&home).hang_up(), 128 + 1);
    assert_eq!(listed(&home, &[])[0]["status"], "interrupted");
    assert_eq!(lines(&home, "s").len(), 4);
}

#[test]
fn a_signal_at_the_prompt_interrupts_the_conversation_and_restores_the_terminal() {
    let home = home_with(ECHO);
    let mut terminal = after_a_turn(&home);
    rustix::process::kill_process(pid_of(&terminal), rustix::process::Signal::TERM).expect("child process");
    assert_eq!(terminal.wait(), 128 + 15);
    terminal.assert_settings_restored();
    assert_eq!(listed(&home, &[])[0]["status"], "interrupted");
    // The same without a terminal.
    let mut typist = PipedConversation::start(&home, &["--resume", "s"]);
    typist.type_keys("again\n");
    wait_until("the turn is saved", || lines(&home, "s").iter().any(|line| line["content"] == "again"));
    let pid = rustix::process::Pid::from_child(&typist.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("child process");
    // `Child::wait` would close the input, which ends the process too.
    wait_until("the process has exited", || typist.child.try_wait().expect("child process").is_some());
    assert_eq!(listed(&home, &[])[0]["status"], "interrupted");
}

fn pid_of(terminal: &TestTerminal) -> rustix::process::Pid {
    i32::try_from(terminal.pid()).ok().and_then(rustix::process::Pid::from_raw).expect("a pid")
}

#[test]
fn aur_is_another_name_for_coven_spawn() {
    let home = home_with(ECHO);
    let coven = home.command(&["--version"]).get_program().to_owned();
    let aur = PathBuf::from(coven).with_file_name("aur");
    let run = |args: &[&str]| {
        let mut command = Command::new(&aur);
        command
            .args(args)
            .env_clear()
            .envs(home.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
        CommandOutput::from(command.stdin(Stdio::null()).output().expect("aur runs"))
    };
    run(&["spawn", "-i", "--session", "s"]).expect_success();
    assert!(run(&["spawn", "--list-sessions"]).expect_success().contains('s'));
    assert_eq!(run(&["dance"]).code, 2);
}

/// A conversation with a pipe as its input.
struct PipedConversation {
    child: Child,
    stderr: PathBuf,
}

impl PipedConversation {
    fn start(home: &TestHome, args: &[&str]) -> Self {
        let stderr = home.folder().join("stderr");
        let out = fs::File::create(&stderr).expect("disk has space");
        let mut command = home.command(&[&["spawn"], args].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(out);
        let mut this = Self { child: command.spawn().expect("coven starts"), stderr };
        eventually("the greeting is printed", || this.stderr().contains("/help").then_some(()));
        this.type_keys("");
        this
    }

    fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    fn type_keys(&mut self, text: &str) {
        self.child.stdin.as_mut().expect("open").write_all(text.as_bytes()).expect("conversation reads");
    }

    fn leave(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("child process").success());
    }
}

impl Drop for PipedConversation {
    fn drop(&mut self) {
        // No effect on a process that has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
