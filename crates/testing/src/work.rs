//! Tasks that are worked on: a project that is a Git repository, and what became of its tasks.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use coven_api::list::PageQuery;
use coven_api::routes::{
    Endpoint, GetTask, GetWorkflow, ListAgents, ListSteps, ListTaskRuns, ReadDefinition, ReadTaskReadiness,
};
use coven_api::task::{TaskReadiness, TaskRecord};
use coven_api::workflow::{AgentRecord, ListAgentsQuery, StepRecord, WorkflowRecord};
use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use serde_json::{Value, json};

use crate::{TestHome, eventually, process, wait_until};

/// A task with its siblings.
#[derive(Debug)]
pub struct TaskView {
    pub task: TaskRecord,
    pub readiness: TaskReadiness,
    /// Its newest run.
    pub run: Option<WorkflowRecord>,
}

/// A run with its siblings.
#[derive(Debug)]
pub struct RunView {
    pub workflow: WorkflowRecord,
    pub steps: Vec<StepRecord>,
    pub agents: Vec<AgentRecord>,
    pub definition: String,
}

impl TestHome {
    /// A home in a repository with one commit on `main`, without a daemon.
    pub fn in_repository(config: Value) -> Self {
        let home = Self::new();
        // The same agent under a name that prints nothing but its words.
        let mut whole = json!({
            "sessions": { "killGraceSeconds": 2.0 },
            "harnesses": { "plain": { "program": "claude", "identity": "claude", "print": { "args": ["-p"] } } },
        });
        if let (Some(whole), Some(more)) = (whole.as_object_mut(), config.as_object()) {
            whole.extend(more.clone());
        }
        home.configure(whole);
        home.git("git init -q -b main; git config user.name me; git config user.email me@here");
        home.git(
            "printf '1\\n2\\n3\\n' > a.txt; echo '/.coven/' > .git/info/exclude; git add -A; git commit -qm first",
        );
        home
    }

    /// Runs a script in the project; gives what it printed.
    #[track_caller]
    pub fn git(&self, script: &str) -> String {
        let output = Command::new("sh")
            .args(["-ec", script])
            .current_dir(self.project())
            .env("HOME", self.user())
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// A workflow's file.
    pub fn write_workflow(&self, name: &str, text: &str) {
        let folder = self.path().join("grimoires");
        fs::create_dir_all(&folder).expect("room on disk");
        fs::write(folder.join(format!("{name}.yaml")), text).expect("room on disk");
    }

    /// Adds a task for the scripted agent; gives its id.
    #[track_caller]
    pub fn add_task(&self, title: &str, script: &str, more: &[&str]) -> String {
        // The title stands before it in the prompt.
        let script = format!(";; {script}");
        let harness: &[&str] = if more.contains(&"--harness") { &[] } else { &["--harness", "claude"] };
        let args = [&["task", "add", title, "--body", &script, "--json"], harness, more].concat();
        self.json::<TaskRecord>(&args).id.to_string()
    }

    /// Adds a task that goes through a workflow of this text; gives its id.
    #[track_caller]
    pub fn add_task_for(&self, workflow: &str, text: &str) -> String {
        self.write_workflow(workflow, text);
        self.add_task("A task", "", &["--workflow", workflow])
    }

    #[track_caller]
    pub fn start_task(&self, id: &str) {
        self.coven(&["task", "start", id]).done();
    }

    #[track_caller]
    pub fn task(&self, id: &str) -> TaskView {
        let newest = PageQuery { limit: Some(1), cursor: None };
        TaskView {
            task: self.call(GetTask::of(id)),
            readiness: self.call(ReadTaskReadiness::of(id)),
            run: self.call(ListTaskRuns::of(id).query(&newest)).items.pop(),
        }
    }

    /// Waits until a task is what it is to become.
    #[track_caller]
    pub fn wait_for_task(&self, id: &str, status: TaskState) -> TaskView {
        eventually(&format!("task {id} is {status}"), || {
            let task = self.task(id);
            let is_at_rest =
                matches!(task.task.status, TaskState::Blocked | TaskState::Closed | TaskState::PendingMerge);
            // What rests elsewhere will not get there any more, except over its review.
            let may_go_on = task.task.status == TaskState::PendingMerge && status == TaskState::Closed;
            assert!(!is_at_rest || may_go_on || task.task.status == status, "waits for {status}: {task:?}");
            Some(task).filter(|task| task.task.status == status)
        })
    }

    /// A task's newest run.
    #[track_caller]
    pub fn run_of(&self, task: &str) -> RunView {
        let agents = ListAgentsQuery { workflow: Some(task.to_owned()), ..Default::default() };
        RunView {
            workflow: self.call(GetWorkflow::of(task)),
            steps: self.call(ListSteps::of(task)).items,
            agents: self.call(ListAgents::request().query(&agents)).items,
            definition: self.call(ReadDefinition::of(task)).definition,
        }
    }

    /// Everyone who worked on a task, oldest first.
    #[track_caller]
    pub fn agents_of(&self, task: &str) -> Vec<AgentRecord> {
        self.call(ListAgents::request().query(&ListAgentsQuery { task: Some(task.to_owned()), ..Default::default() }))
            .items
    }

    /// Waits until the task's newest agent runs; gives it.
    #[track_caller]
    pub fn wait_for_agent(&self, task: &str) -> AgentRecord {
        eventually(&format!("an agent of {task} runs"), || {
            self.agents_of(task).pop().filter(|agent| agent.status == AgentState::Running)
        })
    }

    pub fn worktree(&self, task: &str) -> PathBuf {
        self.path().join("worktrees").join(task)
    }

    /// `kill -9` of the daemon, then of a session's holder and everything it held.
    #[track_caller]
    pub fn kill_daemon_and(&self, session: &str) {
        let (holder, harness) = (self.holder_of(session), self.harness_processes(session));
        self.kill_daemon();
        holder.iter().chain(&harness).for_each(|pid| process::kill_hard(*pid));
        wait_until("all of the session is gone", || {
            self.holder_of(session).is_none() && self.harness_processes(session).is_empty()
        });
    }
}
