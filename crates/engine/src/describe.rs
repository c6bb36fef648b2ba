//! What the daemon can tell about itself and its harnesses.

use std::path::PathBuf;
use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::query::SessionQuery;
use coven_domain::text::Prompt;
use coven_harness::Program;
use coven_host::program;

use super::Engine;
use crate::error::EngineError;

/// Some agents need seconds to say their version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// How the daemon is.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    pub started_at: Timestamp,
    pub home: PathBuf,
    pub sessions_live: u64,
    pub sessions_total: u64,
    pub last_event: u64,
    /// What needs a person's attention; empty when all is well.
    pub problems: Vec<String>,
}

/// A harness, and whether and how it would be started.
#[derive(Debug, Clone, PartialEq)]
pub struct HarnessInfo {
    pub id: String,
    pub label: String,
    pub program: String,
    /// `{prompt}` stands for the prompt.
    pub argv: Vec<String>,
    pub identity: String,
    pub is_builtin: bool,
    pub is_installed: bool,
    pub path: Option<String>,
    pub version: Option<String>,
    /// What to do if it is not installed, else what to know about it.
    pub note: String,
}

impl Engine {
    /// Never fails: a daemon whose store is damaged can still be asked for its pid, and stopped.
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
            last_event: self.hub.last(),
            problems,
        }
    }

    /// Every harness, whether it is installed, and how it would be started; with versions if asked for.
    /// Looked for in `path`, the PATH of whoever asks, else in the daemon's own.
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
                probes.spawn_blocking(move || (index, program::version(&file, &args, &env, VERSION_LIMIT)));
            }
            let program = match &harness.program {
                Program::Named(name) => name.clone(),
                Program::UserShell => "$SHELL".to_owned(),
                Program::Coven(_) => "coven".to_owned(),
            };
            let mut argv = found.clone().unwrap_or_else(|| vec![program.clone()]);
            match harness.terminal_args(&placeholder, &[]) {
                Ok((args, _)) => argv.extend(args),
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
