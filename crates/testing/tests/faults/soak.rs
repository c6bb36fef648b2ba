//! Repeated `kill -9` of the daemon during every kind of work. `cargo xtask soak` runs it with more kills.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use coven_api::inbox::InboxKind;
use coven_domain::agent::AgentState;
use coven_testing::agents::counted;
use coven_testing::pattern::assert_bytes;
use coven_testing::{TestHome, check_invariants, process, wait_until};
use rusqlite::Connection;
use serde_json::json;

use super::daemon_killed::{Random, after_bytes, expected_flood};

/// Enough for CI; a full run has a hundred.
const DEFAULT_KILLS: u64 = 10;
const KILLS_VARIABLE: &str = "COVEN_SOAK_KILLS";
const SEED_VARIABLE: &str = "COVEN_SOAK_SEED";
/// Number of rounds after which a flood is ended and compared, so that it does not fill the disk.
const ROUNDS_PER_FLOOD: u64 = 8;

fn setting(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("number"))
}

/// All work in progress, with the expected results.
struct Soak {
    home: TestHome,
    random: Random,
    flood: String,
    echo: String,
    typed: u64,
    acp: String,
    /// Expected text of the ACP agent.
    expected: String,
    prompts: Vec<String>,
    is_permission_pending: bool,
    tasks: Vec<(String, PathBuf)>,
    sets: Vec<String>,
    kills: u64,
    compared: usize,
}

impl Soak {
    fn new(seed: u64) -> Self {
        let home = TestHome::in_repository(json!({}));
        home.install("gemini");
        home.start();
        let repo = home.make_repo("app");
        let acp = home.open(&repo).id;
        let flood = home.launch("flood_until_told").id;
        let echo = home.launch("echo").id;
        home.wait_for_output(&echo, "ready");
        Self {
            home,
            random: Random(seed),
            flood,
            echo,
            typed: 0,
            acp,
            expected: String::new(),
            prompts: Vec::new(),
            is_permission_pending: false,
            tasks: Vec::new(),
            sets: Vec::new(),
            kills: 0,
            compared: 0,
        }
    }

    fn round(&mut self, round: u64) {
        self.type_a_line();
        self.ask();
        self.prompt(round);
        if round.is_multiple_of(3) {
            self.next_task(round);
        }
        if round % ROUNDS_PER_FLOOD == ROUNDS_PER_FLOOD - 1 {
            self.end_flood();
            self.flood = self.home.launch("flood_until_told").id;
        }
        self.kill(round);
    }

    fn type_a_line(&mut self) {
        self.home.type_in(&self.echo, &format!("line {}\r", self.typed));
        self.typed += 1;
    }

    /// Answers the question of the previous round and asks a new one.
    fn ask(&mut self) {
        if let Some(last) = self.sets.last() {
            self.answer(last);
        }
        let id = self
            .home
            .coven(&["ask", "--prompt", "Which?", "--option", "A", "--option", "B", "--no-wait"])
            .expect_success();
        self.sets.push(id.trim().to_owned());
    }

    fn answer(&self, id: &str) {
        let answers = json!({ "answers": [{ "questionIndex": 0, "selectedOption": "A" }] });
        let answer = self.home.answer_request(id, &answers);
        assert_eq!(answer.status, 200, "{id}: {}", String::from_utf8_lossy(&answer.body));
    }

    fn prompt(&mut self, round: u64) {
        self.allow_pending();
        let (prompt, response) = match round % 4 {
            0 => ("pace 60 200".to_owned(), counted(60)),
            3 => {
                self.is_permission_pending = true;
                ("permit touch x".to_owned(), "chose:o1-allow_once".to_owned())
            }
            _ => (format!("say r{round}."), format!("r{round}.")),
        };
        self.home.prompt(&self.acp, &prompt);
        self.prompts.push(prompt);
        self.expected.push_str(&response);
    }

    fn allow_pending(&mut self) {
        if std::mem::take(&mut self.is_permission_pending) {
            let asked = self.home.wait_for_request(&self.acp);
            assert_eq!(self.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
        }
    }

    /// Lets the agent of the last task finish and starts another task.
    fn next_task(&mut self, round: u64) {
        self.wait_for_reviews();
        let gate = self.home.folder().join(format!("gate-{round}"));
        let script = format!("say at work ;; until {} ;; commit done-{round}.txt ;; say done", gate.display());
        let id = self.home.add_task(&format!("task {round}"), &script, &[]);
        self.home.start_task(&id);
        self.tasks.push((id, gate));
    }

    /// Waits until all tasks are ready for review. Restarts a task whose agent was starting when the daemon died.
    fn wait_for_reviews(&self) {
        for (id, gate) in &self.tasks {
            fs::write(gate, "").expect("disk has space");
            wait_until("the task is ready for review", || {
                let task = self.home.task(id).task;
                match task.status.as_str() {
                    "pending_merge" => return true,
                    "open" => self.home.start_task(id),
                    "in_progress" => {}
                    other => panic!("task {id} is {other}: {task:?}"),
                }
                false
            });
        }
    }

    fn end_flood(&mut self) {
        self.home.type_in(&self.flood, "stop\n");
        let session = self.home.wait_for_end(&self.flood);
        assert_eq!((session.status.as_str(), session.exit_code), ("completed", Some(0)));
        let log = self.home.log(&self.flood);
        assert_bytes("the log of the flood", &log, &expected_flood(&log));
        self.compared += log.len();
    }

    fn kill(&mut self, round: u64) {
        match round % 4 {
            // Right after the requests were accepted.
            0 => self.home.kill_daemon(),
            // During its start and recovery.
            1 => {
                let mut starter = self.home.command(&["daemon", "restart"]);
                let mut starter = starter.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("coven starts");
                wait_until("a daemon starts", || {
                    let daemons = self.home.daemons();
                    daemons.iter().for_each(|pid| process::kill_hard(*pid));
                    !daemons.is_empty()
                });
                starter.wait().expect("child process");
                self.home.end_daemons();
            }
            _ => {
                let bytes = self.random.below(100_000);
                after_bytes(&self.home, &self.flood, bytes);
                self.home.kill_daemon();
            }
        }
        self.kills += 1;
        self.home.start();
        for id in [&self.flood, &self.echo, &self.acp] {
            assert_eq!(self.home.session(id).status, "running", "round {round}: {id}");
        }
    }

    /// Ends all work and checks that nothing is lost, repeated or stuck.
    fn finish(mut self) {
        self.allow_pending();
        if let Some(last) = self.sets.last() {
            self.answer(last);
        }
        self.wait_for_reviews();
        self.end_flood();
        self.check_echo();
        self.check_conversation();
        self.check_questions();
        for (id, _) in &self.tasks {
            wait_until("the task's agents have ended", || {
                self.home.agents_of(id).iter().all(|it| it.status != AgentState::Running)
            });
        }
        check_invariants(&self.home);
        self.home.coven(&["daemon", "stop", "--kill-sessions"]).expect_success();
        wait_until("all processes have exited", || self.home.processes().is_empty());
        let database = Connection::open(self.home.path().join("coven.db")).expect("database");
        let verdict: String =
            database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("readable database");
        assert_eq!(verdict, "ok");
        eprintln!(
            "soak: {} kills; compared: {} bytes of terminal output, {} typed lines, {} prompts, {} tasks, {} question sets",
            self.kills,
            self.compared,
            self.typed,
            self.prompts.len(),
            self.tasks.len(),
            self.sets.len()
        );
    }

    fn check_echo(&self) {
        let last = format!("got:line {}", self.typed - 1);
        let log = self.home.wait_for_output(&self.echo, &last);
        let got: Vec<&str> = log.lines().filter_map(|line| line.trim_end().strip_prefix("got:")).collect();
        let expected: Vec<String> = (0..self.typed).map(|nth| format!("line {nth}")).collect();
        assert_eq!(got, expected, "every accepted line reaches the agent once");
    }

    fn check_conversation(&self) {
        self.home.wait_for_rest(&self.acp);
        assert_eq!(self.home.agent_text(&self.acp), self.expected);
        assert_eq!(self.home.received_prompts(&self.acp), self.prompts, "each prompt once and in order");
    }

    fn check_questions(&self) {
        let is_answered = |kind: InboxKind| !matches!(kind, InboxKind::QuestionSet | InboxKind::Permission);
        wait_until("only reviews are pending", || self.home.inbox("").iter().all(|item| is_answered(item.kind)));
        for id in &self.sets {
            let set: serde_json::Value = self.home.json(&["questions", "show", id, "--json"]);
            assert_eq!(set["status"], "completed", "{set}");
        }
    }
}

#[test]
fn kills_of_the_daemon_amid_all_kinds_of_work_lose_nothing() {
    let kills = setting(KILLS_VARIABLE, DEFAULT_KILLS);
    let mut soak = Soak::new(setting(SEED_VARIABLE, 1));
    for round in 0..kills {
        soak.round(round);
        if round % 10 == 9 {
            eprintln!("soak: {} of {kills} kills", soak.kills);
        }
    }
    soak.finish();
}
