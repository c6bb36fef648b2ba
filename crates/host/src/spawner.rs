//! Settings of `coven spawn`, read from the config of Aurora, whose conversation format it uses. A mistake causes a
//! warning, not an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coven_files::{Limit, Links, ReadError};
use coven_interop::conversations::aurora_home;
use serde_json::Value;

use crate::trust::{Part, TrustStore};

/// Config file of `coven spawn`.
pub const SPAWN_CONFIG: Limit = Limit::new("the config file of `coven spawn`", 1 << 20);
const DAY: f64 = 86_400.0;
const TOOL: &str = "spawner.tool";
const EXPIRY: &str = "spawner.interactive.session_expiry_days";
const AGENT_FOLDERS: &str = "agents.discovery_paths";

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Conversations are deleted after this time without a turn; `None` keeps them.
    pub session_expiry: Option<Duration>,
    pub max_tokens: u64,
    /// Program that runs the turns.
    pub tool: Option<String>,
    /// Folders with agent definitions, instead of the default ones.
    pub agent_folders: Option<Vec<PathBuf>>,
}

impl Default for Settings {
    fn default() -> Self {
        let session_expiry = Some(Duration::from_secs(30 * 86_400));
        Self { session_expiry, max_tokens: 100_000, tool: None, agent_folders: None }
    }
}

impl Settings {
    /// Loads `.aurora/config.json` from this folder if it has a `.aurora`, or else from the user's home. Also returns
    /// warnings.
    pub fn load(current: &Path) -> (Self, Vec<String>) {
        let home = aurora_home(|name| std::env::var_os(name), std::env::home_dir());
        let file = config_file(current, &home);
        let (mut settings, mut warnings) = Self::read(&file);
        let withheld = settings.untrusted_parts(&home, &file);
        if !withheld.is_empty() {
            let usual = Self::default();
            (settings.tool, settings.agent_folders) = (None, None);
            settings.session_expiry =
                settings.session_expiry.map(|time| usual.session_expiry.unwrap_or(time).max(time));
            let keys: Vec<&str> = withheld.iter().map(|part| part.key.as_str()).collect();
            let (keys, file) = (keys.join(", "), file.display());
            warnings.push(format!("not in force until you agree with `coven trust`: {keys} in {file}"));
        }
        (settings, warnings)
    }

    /// Returns the project's settings that still need the user's agreement, and their folder.
    pub fn untrusted(current: &Path) -> (PathBuf, Vec<Part>) {
        let home = aurora_home(|name| std::env::var_os(name), std::env::home_dir());
        let file = config_file(current, &home);
        let parts = Self::read(&file).0.untrusted_parts(&home, &file);
        (file.parent().unwrap_or(current).to_owned(), parts)
    }

    /// A project's config can set the program that runs the turns and an agent's instructions, so it needs the user's
    /// agreement. The user's own config does not.
    fn untrusted_parts(&self, home: &Path, file: &Path) -> Vec<Part> {
        if file.parent() == Some(home) {
            return Vec::new();
        }
        let tool = self.tool.iter().map(|tool| Part::new(TOOL, format!("runs {tool} for every turn"), tool.as_bytes()));
        let folders = self.agent_folders.iter().map(|folders| {
            let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            let effect = format!("reads agent definitions from {}", shown.join(", "));
            Part::new(AGENT_FOLDERS, effect, shown.join("\0").as_bytes())
        });
        // The conversations of all projects are in one folder.
        let is_sooner =
            self.session_expiry.is_some_and(|time| Self::default().session_expiry.is_none_or(|usual| time < usual));
        let expiry = is_sooner.then(|| {
            let days = self.session_expiry.unwrap_or_default().as_secs_f64() / DAY;
            let effect = format!("deletes conversations of all projects after {days} days");
            Part::new(EXPIRY, effect, days.to_string().as_bytes())
        });
        let agreement = TrustStore::locate().map(|store| store.agreement(file.parent().unwrap_or(file)));
        let agreement = agreement.unwrap_or_default();
        tool.chain(folders).chain(expiry).filter(|part| !agreement.covers(part)).collect()
    }

    fn read(path: &Path) -> (Self, Vec<String>) {
        let defaults = |problem: String| {
            (Self::default(), vec![format!("the config {} {problem}; using the defaults", path.display())])
        };
        match coven_files::read(path, SPAWN_CONFIG, Links::Follow) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(config) => Self::from_config(&config, path),
                Err(error) => defaults(format!("is not valid JSON: {error}")),
            },
            Err(error) if error.is_not_found() => (Self::default(), Vec::new()),
            Err(ReadError::Io { source, .. }) => defaults(format!("cannot be read: {source}")),
            Err(error) => (Self::default(), vec![format!("{error}; using the defaults")]),
        }
    }

    fn from_config(config: &Value, path: &Path) -> (Self, Vec<String>) {
        let mut keys = Keys { config, path, warnings: Vec::new() };
        let usual = Self::default();
        let days = |value: &Value| match value {
            Value::Null => Some(None),
            value => Duration::try_from_secs_f64(value.as_f64()? * DAY).ok().map(Some),
        };
        let settings = Self {
            session_expiry: keys.take(EXPIRY, "a number of days of at least 0, or null", days, usual.session_expiry),
            max_tokens: keys.take(
                "spawner.interactive.max_tokens",
                "an integer greater than 0",
                |value| value.as_u64().filter(|tokens| *tokens > 0),
                usual.max_tokens,
            ),
            tool: keys.take(
                TOOL,
                "the name of a program",
                |value| value.as_str().filter(|name| !name.is_empty()).map(|name| Some(name.to_owned())),
                usual.tool,
            ),
            agent_folders: keys.take(
                AGENT_FOLDERS,
                "a list of folders",
                |value| {
                    value
                        .as_array()?
                        .iter()
                        .map(|item| item.as_str().map(PathBuf::from))
                        .collect::<Option<_>>()
                        .map(Some)
                },
                usual.agent_folders,
            ),
        };
        (settings, keys.warnings)
    }
}

/// Reads the config key by key and collects warnings.
struct Keys<'a> {
    config: &'a Value,
    path: &'a Path,
    warnings: Vec<String>,
}

impl Keys<'_> {
    fn take<T>(&mut self, key: &str, wanted: &str, read: impl Fn(&Value) -> Option<T>, usual: T) -> T {
        let Some(value) = key.split('.').try_fold(self.config, |value, part| value.get(part)) else { return usual };
        read(value).unwrap_or_else(|| {
            let path = self.path.display();
            self.warnings.push(format!("the config {path}: {key} must be {wanted}; using the default"));
            usual
        })
    }
}

/// Returns the project's config if the project has a `.aurora` folder, or else the user's.
fn config_file(current: &Path, home: &Path) -> PathBuf {
    let local = current.join(".aurora");
    let folder = if local.is_dir() { local } else { home.to_owned() };
    folder.join("config.json")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> (Settings, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.json");
        fs::write(&path, text).expect("a file");
        Settings::read(&path)
    }

    #[test]
    fn chat_09_settings_are_read_from_the_aurora_config() {
        let (settings, warnings) = read(
            r#"{"spawner":{"tool":"codex","max_concurrent":4,"interactive":{"session_expiry_days":7,"max_tokens":5000}},
                "agents":{"discovery_paths":["~/a","/b"]}}"#,
        );
        let expected = Settings {
            session_expiry: Some(Duration::from_secs(7 * 86_400)),
            max_tokens: 5000,
            tool: Some("codex".into()),
            agent_folders: Some(vec!["~/a".into(), "/b".into()]),
        };
        assert_eq!((settings, warnings), (expected, vec![]));
        let never = read(r#"{"spawner":{"interactive":{"session_expiry_days":null}}}"#);
        assert_eq!(never, (Settings { session_expiry: None, ..Settings::default() }, vec![]));
        for text in ["{}", "[]", r#"{"spawner":null}"#, r#"{"spawner":{"interactive":{}}}"#] {
            assert_eq!(read(text), (Settings::default(), vec![]), "{text}");
        }
    }

    #[test]
    fn a_mistake_in_the_config_causes_a_warning_and_the_default_is_used() {
        let (settings, warnings) = read("{");
        assert_eq!(settings, Settings::default());
        assert!(
            matches!(&warnings[..], [text] if text.contains("is not valid JSON") && text.contains("line 1")),
            "{warnings:?}"
        );
        for (key, value) in [("session_expiry_days", "-1"), ("session_expiry_days", "\"x\""), ("max_tokens", "0")] {
            let (settings, warnings) = read(&format!(r#"{{"spawner":{{"interactive":{{"{key}":{value}}}}}}}"#));
            assert_eq!(settings, Settings::default());
            assert!(matches!(&warnings[..], [text] if text.contains(key)), "{warnings:?}");
        }
    }

    #[test]
    fn a_projects_config_replaces_the_users_config() {
        let folder = tempfile::tempdir().expect("a folder");
        let (project, home) = (folder.path().join("project"), folder.path().join("home"));
        fs::create_dir_all(&project).expect("a folder");
        assert_eq!(config_file(&project, &home), home.join("config.json"));
        fs::create_dir(project.join(".aurora")).expect("a folder");
        assert_eq!(
            config_file(&project, &home),
            project.join(".aurora/config.json"),
            "even if the file does not exist"
        );
        assert_eq!(Settings::read(&project.join(".aurora/config.json")), (Settings::default(), vec![]));
    }
}
