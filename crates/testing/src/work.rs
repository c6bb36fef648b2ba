//! Tasks with agents: a project that is a Git repository, and the states of its tasks.

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

/// A task with its readiness and newest run.
#[derive(Debug)]
pub struct TaskView {
    pub task: TaskRecord,
    pub readiness: TaskReadiness,
    /// The newest run.
    pub run: Option<WorkflowRecord>,
}

/// A run with its steps, agents and definition.
#[derive(Debug)]
pub struct RunView {
    pub workflow: WorkflowRecord,
    pub steps: Vec<StepRecord>,
    pub agents: Vec<AgentRecord>,
    pub definition: String,
}

impl TestHome {
    /// Creates a home without a daemon in a repository with one commit on `main`.
    pub fn in_repository(config: Value) -> Self {
        let home = Self::new();
        // The same agent as a harness whose print mode has plain output.
        let mut settings = json!({
            "sessions": { "killGraceSeconds": 2.0 },
            "harnesses": { "plain": { "program": "claude", "identity": "claude", "print": { "args": ["-p"] } } },
        });
        if let (Some(settings), Some(more)) = (settings.as_object_mut(), config.as_object()) {
            settings.extend(more.clone());
        }
        home.configure(settings);
        home.git("git init -q -b main; git config user.name me; git config user.email me@here");
        home.git(
            "printf '1\\n2\\n3\\n' > a.txt; echo '/.coven/' > .git/info/exclude; git add -A; git commit -qm first",
        );
        home
    }

    /// Runs a script in the project and returns its output.
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

    /// Writes a workflow file.
    pub fn write_workflow(&self, name: &str, text: &str) {
        let folder = self.path().join("grimoires");
        fs::create_dir_all(&folder).expect("disk has space");
        fs::write(folder.join(format!("{name}.yaml")), text).expect("disk has space");
    }

    /// Adds a task for the scripted agent and returns its id.
    #[track_caller]
    pub fn add_task(&self, title: &str, script: &str, more: &[&str]) -> String {
        // In the prompt, the title precedes the script.
        let script = format!(";; {script}");
        let harness: &[&str] = if more.contains(&"--harness") { &[] } else { &["--harness", "claude"] };
        let args = [&["task", "add", title, "--body", &script, "--json"], harness, more].concat();
        self.json::<TaskRecord>(&args).id.to_string()
    }

    /// Adds a task with a workflow of this text and returns its id.
    #[track_caller]
    pub fn add_task_for(&self, workflow: &str, text: &str) -> String {
        self.write_workflow(workflow, text);
        self.add_task("A task", "", &["--workflow", workflow])
    }

    #[track_caller]
    pub fn start_task(&self, id: &str) {
        self.coven(&["task", "start", id]).expect_success();
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

    /// Waits until a task has this status. Panics if it stops at another status.
    #[track_caller]
    pub fn wait_for_task(&self, id: &str, status: TaskState) -> TaskView {
        eventually(&format!("task {id} is {status}"), || {
            let task = self.task(id);
            let is_final = matches!(task.task.status, TaskState::Blocked | TaskState::Closed | TaskState::PendingMerge);
            // Only a task in review can still change.
            let may_change = task.task.status == TaskState::PendingMerge && status == TaskState::Closed;
            assert!(!is_final || may_change || task.task.status == status, "expected {status}: {task:?}");
            Some(task).filter(|task| task.task.status == status)
        })
    }

    /// Returns the newest run of a task.
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

    /// Returns all agents of a task, oldest first.
    #[track_caller]
    pub fn agents_of(&self, task: &str) -> Vec<AgentRecord> {
        self.call(ListAgents::request().query(&ListAgentsQuery { task: Some(task.to_owned()), ..Default::default() }))
            .items
    }

    /// Waits until the newest agent of the task is running, and returns it.
    #[track_caller]
    pub fn wait_for_agent(&self, task: &str) -> AgentRecord {
        eventually(&format!("an agent of {task} is running"), || {
            self.agents_of(task).pop().filter(|agent| agent.status == AgentState::Running)
        })
    }

    pub fn worktree(&self, task: &str) -> PathBuf {
        self.path().join("worktrees").join(task)
    }

    /// Kills the daemon with SIGKILL, then the holder and the harness of a session.
    #[track_caller]
    pub fn kill_daemon_and(&self, session: &str) {
        let (holder, harness) = (self.holder_of(session), self.harness_processes(session));
        self.kill_daemon();
        holder.iter().chain(&harness).for_each(|pid| process::kill_hard(*pid));
        wait_until("the session's processes have exited", || {
            self.holder_of(session).is_none() && self.harness_processes(session).is_empty()
        });
    }
}
