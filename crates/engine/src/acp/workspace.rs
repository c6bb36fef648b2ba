//! Command line of an agent over ACP, with the flag for its workspace if it has one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use coven_harness::Harness;
use coven_host::program;
use tokio::process::Command;

use super::super::Engine;
use crate::error::EngineError;

/// Timeout of `--help`.
const HELP_TIMEOUT: Duration = Duration::from_secs(20);

/// Caches whether a program file lists its workspace flag in `--help`.
#[derive(Default)]
pub(crate) struct HelpFlagCache(Mutex<HashMap<(PathBuf, SystemTime, u64), bool>>);

impl Engine {
    /// Returns program and arguments for an ACP session in a folder.
    pub(crate) async fn acp_argv(
        &self,
        harness: &Harness,
        env: &std::collections::BTreeMap<String, String>,
        cwd: &Path,
    ) -> Result<Vec<String>, EngineError> {
        let Some(args) = &harness.acp_args else { return Err(EngineError::NoAcp(harness.id.clone())) };
        let path = env.get("PATH").map(OsStr::new);
        let mut argv = match &harness.acp_program {
            Some(name) => {
                let found = program::find(name, path).ok_or_else(|| EngineError::NotInstalled {
                    id: harness.id.clone(),
                    program: name.clone(),
                    hint: format!("{} needs it for ACP; install its package", harness.label),
                })?;
                vec![found.to_string_lossy().into_owned()]
            }
            None => self.installed_program(harness, env)?,
        };
        let program = PathBuf::from(&argv[0]);
        argv.extend(args.iter().cloned());
        if let Some(flag) = &harness.workspace_flag
            && self.help_lists_flag(&program, flag, env).await
        {
            argv.extend([flag.clone(), cwd.to_string_lossy().into_owned()]);
        }
        Ok(argv)
    }

    /// Reports whether `--help` of the program lists the flag.
    async fn help_lists_flag(
        &self,
        program: &Path,
        flag: &str,
        env: &std::collections::BTreeMap<String, String>,
    ) -> bool {
        let Ok(metadata) = std::fs::metadata(program) else { return false };
        let key = (program.to_owned(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len());
        if let Some(known) = self.help_flags.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return *known;
        }
        let output = Command::new(program)
            .arg("--help")
            .env_clear()
            .envs(env)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output();
        let lists = match tokio::time::timeout(HELP_TIMEOUT, output).await {
            Ok(Ok(output)) => {
                let text = [output.stdout, output.stderr].concat();
                String::from_utf8_lossy(&text)
                    .split(|c: char| c.is_whitespace() || matches!(c, '=' | ',' | '[' | ']' | '<' | '('))
                    .any(|word| word == flag)
            }
            Ok(Err(_)) | Err(_) => false,
        };
        self.help_flags.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, lists);
        lists
    }
}
