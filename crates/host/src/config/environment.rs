//! Environment variables that override the config of a daemon.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::AgentsConfig;

const WORKSPACE_ROOT: &str = "AGENT_WORKSPACE_ROOT";
const IDLE_TIMEOUT: &str = "AGENT_SESSION_IDLE_TIMEOUT";
const MAX_SESSIONS: &str = "AGENT_MAX_SESSIONS";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} is {value:?}: {problem}")]
pub struct BadVariable {
    name: &'static str,
    value: String,
    problem: &'static str,
}

impl AgentsConfig {
    /// Replaces every setting whose variable is set.
    pub(super) fn overlay(&mut self, variable: impl Fn(&str) -> Option<OsString>) -> Result<(), BadVariable> {
        if let Some(value) = variable(WORKSPACE_ROOT) {
            self.workspace_root = Some(folder(WORKSPACE_ROOT, &value)?);
        }
        if let Some(value) = variable(IDLE_TIMEOUT) {
            self.idle_timeout_minutes = number(IDLE_TIMEOUT, &value, "give a number of minutes, 0 for never")?;
        }
        if let Some(value) = variable(MAX_SESSIONS) {
            let problem = "give a whole number of 1 or more";
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
        return Err(bad("give an absolute path"));
    }
    let canonical = std::fs::canonicalize(path).map_err(|_| bad("there is no such folder"))?;
    canonical.is_dir().then_some(canonical).ok_or_else(|| bad("it is not a folder"))
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
    fn agent_28_the_environment_stands_over_the_config() {
        let agents = read(&[]).expect("the defaults");
        assert_eq!(agents, AgentsConfig::default());
        assert_eq!((agents.max_sessions, agents.idle_timeout()), (5, Some(Duration::from_secs(1800))));
        let agents = read(&[(IDLE_TIMEOUT, "0.5"), (MAX_SESSIONS, "7"), (WORKSPACE_ROOT, "/.")]).expect("sound values");
        assert_eq!((agents.max_sessions, agents.idle_timeout()), (7, Some(Duration::from_secs(30))));
        assert_eq!(agents.workspace_root, Some(PathBuf::from("/")));
        assert_eq!(read(&[(IDLE_TIMEOUT, "0")]).expect("never").idle_timeout(), None);
    }

    #[test]
    fn a_bad_value_is_refused_by_name() {
        for (name, value) in [
            (IDLE_TIMEOUT, "soon"),
            (IDLE_TIMEOUT, "-1"),
            (MAX_SESSIONS, "0"),
            (MAX_SESSIONS, "2.5"),
            (WORKSPACE_ROOT, "relative"),
            (WORKSPACE_ROOT, "/no/such/folder"),
        ] {
            let refused = read(&[(name, value)]).expect_err("a bad value");
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }
}
