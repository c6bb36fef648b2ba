//! The config file: its keys, reading it, and checking it.

pub mod check;
mod environment;
mod notifications;
mod permissions;
mod retention;
mod types;

use std::io;
use std::path::PathBuf;

use coven_files::{Limit, Links};

use crate::Home;
use crate::trust::{self, Withheld};

pub use environment::BadVariable;
pub use notifications::{NotificationKind, NotificationsConfig, QuietHours};
pub use permissions::{PermissionsConfig, Rule};
pub use types::{
    AgentsConfig, AppConfig, BadValue, Config, DetachKeys, HttpConfig, McpConfig, QuestionsConfig, SchedulerConfig,
    SessionsConfig, StoreConfig,
};

pub const CONFIG_FILE: Limit = Limit::new("a config file", 1 << 20);

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the config {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the config {}, line {line}, column {column}: {key}{problem}", path.display())]
    Malformed { path: PathBuf, line: usize, column: usize, key: String, problem: String },
    #[error("the config {}: {bad}", path.display())]
    Senseless { path: PathBuf, bad: BadValue },
    #[error(transparent)]
    Variable(#[from] BadVariable),
}

/// Loads the config that is in force, and the parts of the file that are withheld until the user agrees to them.
pub fn load(home: &Home) -> Result<(Config, Withheld), ConfigError> {
    Ok(trust::effective(home, read(home)?))
}

/// Loads the config of a daemon: like [`load`], overridden by the environment. An empty variable counts as unset.
pub fn load_for_daemon(home: &Home) -> Result<(Config, Withheld), ConfigError> {
    let (mut config, withheld) = load(home)?;
    config.agents.overlay(|name| std::env::var_os(name).filter(|value| !value.is_empty()))?;
    Ok((config, withheld))
}

/// Reads the home's config file; returns the defaults if it does not exist. Use [`load`] for settings that run or open
/// something.
pub fn read(home: &Home) -> Result<Config, ConfigError> {
    let path = home.config_file();
    // Users often link the files of their home folder to another place; a repository has no reason to.
    let links = if home.project_root().is_some() { Links::Refuse } else { Links::Follow };
    match coven_files::read_text(&path, CONFIG_FILE, links) {
        Ok(text) => parse(&text, path),
        Err(error) if error.is_not_found() => Ok(Config::default()),
        Err(source) => Err(ConfigError::Unreadable { path, source: source.into() }),
    }
}

/// Parses and checks the text of a config file; `path` is only used in errors.
pub fn parse(text: &str, path: PathBuf) -> Result<Config, ConfigError> {
    // serde would fill the settings from an array, by position.
    if text.trim_start().starts_with('[') {
        let problem = "the config must be an object, not an array".to_owned();
        return Err(ConfigError::Malformed { path, line: 1, column: 1, key: String::new(), problem });
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let config: Config = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let key = match error.path().to_string() {
            key if key == "." => String::new(),
            key => format!("{key}: "),
        };
        let inner = error.into_inner();
        let mut problem = inner.to_string();
        // The error already starts with the position.
        if let Some(at) = problem.rfind(" at line ") {
            problem.truncate(at);
        }
        ConfigError::Malformed { path: path.clone(), line: inner.line(), column: inner.column(), key, problem }
    })?;
    reader.end().map_err(|error| ConfigError::Malformed {
        path: path.clone(),
        line: error.line(),
        column: error.column(),
        key: String::new(),
        problem: "unexpected text after the end of the object".to_owned(),
    })?;
    config.check().map_err(|bad| ConfigError::Senseless { path, bad })?;
    Ok(config)
}

/// Returns the JSON Schema of the config file, as text.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Config);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain data");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, PathBuf::from("c.json")).expect_err("an invalid config").to_string()
    }

    #[test]
    fn a_mistake_is_reported_with_its_position_and_key() {
        let text = error("{\n  \"store\": {\"eventRetentionHour\": 1}\n}");
        assert!(text.contains("line 2") && text.contains("eventRetentionHour"), "{text}");
        let text = error(r#"{"http":{"allowRemote":"yes"}}"#);
        assert!(text.contains("http.allowRemote") && text.contains("boolean"), "{text}");
        let text = error(r#"{"harnesses":{"x":{"program":"a b"}}}"#);
        assert!(text.contains("harnesses.x"), "{text}");
        assert!(error("{").contains("line 1"));
        assert!(error(" []").contains("must be an object"));
    }

    #[test]
    fn a_fifo_or_a_huge_file_is_refused_without_blocking() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::at(folder.path()).expect("a home");
        let path = home.config_file();
        let refused = || match read(&home) {
            Err(ConfigError::Unreadable { source, .. }) => source.to_string(),
            other => panic!("{other:?}"),
        };
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).expect("a fifo");
        assert!(refused().contains("is a fifo, not a regular file"), "{}", refused());
        std::fs::remove_file(&path)
            .and_then(|()| std::fs::File::create(&path)?.set_len(1 << 30))
            .expect("a sparse file");
        assert!(refused().ends_with("is larger than 1 MiB, the limit for a config file"), "{}", refused());
    }

    #[test]
    fn the_schema_contains_every_block() {
        let schema = schema();
        for block in ["store", "sessions", "harnesses", "http", "scheduler", "questions", "defaultHarness"] {
            assert!(schema.contains(&format!("\"{block}\"")), "{block}");
        }
    }
}
