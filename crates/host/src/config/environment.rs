//! Environment variables that override the config of a daemon.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::AgentsConfig;

const WORKSPACE_ROOT: &str = "AGENT_WORKSPACE_ROOT";
const IDLE_TIMEOUT: &str = "AGENT_SESSION_IDLE_TIMEOUT";
const MAX_SESSIONS: &str = "AGENT_MAX_SESSIONS";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid value {value:?} for environment variable {name}: {problem}")]
pub struct BadVariable {
    name: &'static str,
    value: String,
    problem: &'static str,
}

impl AgentsConfig {
    /// Overrides every setting whose variable is set.
    pub(super) fn overlay(&mut self, variable: impl Fn(&str) -> Option<OsString>) -> Result<(), BadVariable> {
        if let Some(value) = variable(WORKSPACE_ROOT) {
            self.workspace_root = Some(folder(WORKSPACE_ROOT, &value)?);
        }
        if let Some(value) = variable(IDLE_TIMEOUT) {
            self.idle_timeout_minutes = number(IDLE_TIMEOUT, &value, "use a number of minutes, or 0 for no timeout")?;
        }
        if let Some(value) = variable(MAX_SESSIONS) {
            let problem = "use an integer of at least 1";
            let count = number(MAX_SESSIONS, &value, problem)?;
            if count < 1.0 || count.fract() != 0.0 {
                return Err(BadVariable { name: MAX_SESSIONS, value: count.to_string(), problem });
            }
            self.max_sessions = count as u64;
        }
        Ok(())
    }
}

fn folder(name: &'static str, value: &OsStr) -> Result<PathBuf, BadVariable> {
    let bad = |problem| BadVariable { name, value: value.to_string_lossy().into_owned(), problem };
    let path = Path::new(value);
    if !path.is_absolute() {
        return Err(bad("use an absolute path"));
    }
    let canonical = std::fs::canonicalize(path).map_err(|_| bad("the folder does not exist"))?;
    canonical.is_dir().then_some(canonical).ok_or_else(|| bad("not a folder"))
}

fn number(name: &'static str, value: &OsStr, problem: &'static str) -> Result<f64, BadVariable> {
    let text = value.to_string_lossy();
    match text.trim().parse::<f64>() {
        Ok(number) if (0.0..=1e9).contains(&number) => Ok(number),
        _ => Err(BadVariable { name, value: text.into_owned(), problem }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<AgentsConfig, BadVariable> {
        let mut agents = AgentsConfig::default();
        agents.overlay(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })?;
        Ok(agents)
    }

    #[test]
    fn agent_28_the_environment_overrides_the_config() {
        let agents = read(&[]).expect("the defaults");
        assert_eq!(agents, AgentsConfig::default());
        assert_eq!((agents.max_sessions, agents.idle_timeout()), (5, Some(Duration::from_secs(1800))));
        let agents = read(&[(IDLE_TIMEOUT, "0.5"), (MAX_SESSIONS, "7"), (WORKSPACE_ROOT, "/.")]).expect("valid values");
        assert_eq!((agents.max_sessions, agents.idle_timeout()), (7, Some(Duration::from_secs(30))));
        assert_eq!(agents.workspace_root, Some(PathBuf::from("/")));
        assert_eq!(read(&[(IDLE_TIMEOUT, "0")]).expect("no timeout").idle_timeout(), None);
    }

    #[test]
    fn an_invalid_value_is_reported_with_its_variable() {
        for (name, value) in [
            (IDLE_TIMEOUT, "soon"),
            (IDLE_TIMEOUT, "-1"),
            (MAX_SESSIONS, "0"),
            (MAX_SESSIONS, "2.5"),
            (WORKSPACE_ROOT, "relative"),
            (WORKSPACE_ROOT, "/no/such/folder"),
        ] {
            let error = read(&[(name, value)]).expect_err("an invalid value");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
