//! Health of the daemon and information about its harnesses.

use std::path::PathBuf;
use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::query::SessionQuery;
use coven_domain::text::Prompt;
use coven_harness::Program;
use coven_host::program;

use super::Engine;
use crate::error::EngineError;

/// Timeout of `--version`; some agents need seconds.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Health of the daemon.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    pub started_at: Timestamp,
    pub home: PathBuf,
    pub sessions_live: u64,
    pub sessions_total: u64,
    /// Sessions that wait for their launch.
    pub launches_queued: u64,
    pub last_event: u64,
    /// Problems that need a person's attention.
    pub problems: Vec<String>,
}

/// A harness, whether it is installed, and its command line.
#[derive(Debug, Clone, PartialEq)]
pub struct HarnessInfo {
    pub id: String,
    pub label: String,
    pub program: String,
    /// Contains `{prompt}` as a placeholder.
    pub argv: Vec<String>,
    pub identity: String,
    pub is_builtin: bool,
    pub is_installed: bool,
    pub path: Option<String>,
    pub version: Option<String>,
    /// How to install the harness, or a note about it if it is installed.
    pub note: String,
}

impl Engine {
    /// Never fails, so that a daemon with a damaged store can still report its pid and be stopped.
    pub async fn health(&self) -> Health {
        let mut query = SessionQuery { limit: 1, ..SessionQuery::default() };
        query.filter.include_archived = true;
        let mut problems = self.problems();
        let total = match self.store.sessions(&query).await {
            Ok(page) => page.total,
            Err(problem) => {
                problems.push(EngineError::from(problem).to_string());
                0
            }
        };
        Health {
            started_at: self.started_at,
            home: self.home.path().to_owned(),
            sessions_live: self.live_sessions().len() as u64,
            sessions_total: total,
            launches_queued: self.launch_queue.len() as u64,
            last_event: self.hub.last(),
            problems,
        }
    }

    /// Describes every harness. Searches `path`, the client's PATH, or else the daemon's.
    pub async fn describe_harnesses(&self, with_versions: bool, path: Option<String>) -> Vec<HarnessInfo> {
        let mut env = self.environment(None);
        if let Some(path) = path {
            env.insert("PATH".to_owned(), path);
        }
        let mut probes = tokio::task::JoinSet::new();
        let mut records = Vec::new();
        let placeholder = Prompt::parse("{prompt}").expect("a short text");
        for (index, harness) in self.harnesses.iter().enumerate() {
            let found = self.harness_program(harness, &env);
            if let (true, Some(argv), false) = (with_versions, &found, matches!(harness.program, Program::UserShell)) {
                let (file, args) = (std::path::PathBuf::from(&argv[0]), harness.version_args.clone());
                let mut env = env.clone();
                env.extend(harness.env.clone());
                probes.spawn_blocking(move || (index, program::version(&file, &args, &env, VERSION_TIMEOUT)));
            }
            let program = match &harness.program {
                Program::Named(name) => name.clone(),
                Program::UserShell => "$SHELL".to_owned(),
                Program::Coven(_) => "coven".to_owned(),
            };
            let mut argv = found.clone().unwrap_or_else(|| vec![program.clone()]);
            match harness.terminal_args(&placeholder, &[]) {
                Ok(args) => argv.extend(args.all()),
                Err(_) => argv.extend(harness.acp_args.iter().flatten().cloned()),
            }
            records.push(HarnessInfo {
                id: harness.id.clone(),
                label: harness.label.clone(),
                program,
                argv,
                identity: harness.identity.clone(),
                is_builtin: harness.is_builtin,
                is_installed: found.is_some(),
                path: found.as_ref().map(|argv| argv[0].clone()),
                version: None,
                note: if found.is_some() { harness.note.clone() } else { harness.install_hint.clone() },
            });
        }
        while let Some(probed) = probes.join_next().await {
            if let Ok((index, version)) = probed {
                records[index].version = version;
            }
        }
        records
    }
}
