//! What holds for all sessions over ACP: environment variables, read once at start, over the config.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::Config;

use crate::Home;

pub const WORKSPACE_ROOT: &str = "AGENT_WORKSPACE_ROOT";
pub const IDLE_TIMEOUT: &str = "AGENT_SESSION_IDLE_TIMEOUT";
pub const MAX_SESSIONS: &str = "AGENT_MAX_SESSIONS";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// Repositories must lie in here; canonical.
    pub workspace_root: PathBuf,
    pub max_sessions: u64,
    /// None: sessions may be idle for ever.
    pub idle_timeout: Option<Duration>,
    pub handshake: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} is {value:?}: {problem}")]
pub struct BadVariable {
    name: &'static str,
    value: String,
    problem: &'static str,
}

impl AgentSettings {
    pub fn read(
        home: &Home,
        config: &Config,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, BadVariable> {
        let agents = &config.agents;
        let workspace_root = match variable(WORKSPACE_ROOT) {
            None => default_root(home, &variable),
            Some(value) => {
                let bad = |problem| BadVariable {
                    name: WORKSPACE_ROOT,
                    value: value.to_string_lossy().into_owned(),
                    problem,
                };
                let path = Path::new(&value);
                if !path.is_absolute() {
                    return Err(bad("give an absolute path"));
                }
                let canonical = std::fs::canonicalize(path).map_err(|_| bad("there is no such folder"))?;
                canonical.is_dir().then_some(canonical).ok_or_else(|| bad("it is not a folder"))?
            }
        };
        let minutes = number(IDLE_TIMEOUT, &variable, "give a number of minutes, 0 for never")?
            .unwrap_or(agents.idle_timeout_minutes);
        let idle_timeout = (minutes > 0.0).then(|| Duration::from_secs_f64(minutes * 60.0));
        let max_sessions = match number(MAX_SESSIONS, &variable, "give a whole number of 1 or more")? {
            None => agents.max_sessions,
            Some(count) if count >= 1.0 && count.fract() == 0.0 => count as u64,
            Some(count) => {
                let problem = "give a whole number of 1 or more";
                return Err(BadVariable { name: MAX_SESSIONS, value: count.to_string(), problem });
            }
        };
        let handshake = Duration::from_secs_f64(agents.handshake_seconds.max(0.1));
        Ok(Self { workspace_root, max_sessions, idle_timeout, handshake })
    }
}

/// The folder that holds a project's home; for the home of all projects everything of the user's.
fn default_root(home: &Home, variable: &impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let root = home
        .project_root()
        .or_else(|| variable("HOME").map(PathBuf::from))
        .or_else(|| home.path().parent().map(Path::to_owned))
        .unwrap_or_else(|| PathBuf::from("/"));
    std::fs::canonicalize(&root).unwrap_or(root)
}

fn number(
    name: &'static str,
    variable: &impl Fn(&str) -> Option<OsString>,
    problem: &'static str,
) -> Result<Option<f64>, BadVariable> {
    let Some(value) = variable(name) else { return Ok(None) };
    let text = value.to_string_lossy();
    match text.trim().parse::<f64>() {
        Ok(number) if (0.0..=1e9).contains(&number) => Ok(Some(number)),
        _ => Err(BadVariable { name, value: text.into_owned(), problem }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<AgentSettings, BadVariable> {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::at(folder.path()).expect("a home");
        AgentSettings::read(&home, &Config::default(), |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn agent_28_the_environment_stands_over_the_config() {
        let settings = read(&[("HOME", "/")]).expect("the defaults");
        assert_eq!((settings.max_sessions, settings.idle_timeout), (5, Some(Duration::from_secs(1800))));
        let settings = read(&[(IDLE_TIMEOUT, "0.5"), (MAX_SESSIONS, "7")]).expect("fractions are fine");
        assert_eq!((settings.max_sessions, settings.idle_timeout), (7, Some(Duration::from_secs(30))));
        assert_eq!(read(&[(IDLE_TIMEOUT, "0")]).expect("never").idle_timeout, None);
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
