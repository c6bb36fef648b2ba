//! The entry for `coven mcp` in the settings files of agents: which file, which format, and how to add and remove it
//! without changing anything else.

mod json;
mod one_line;
mod toml;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use coven_files::{Limit, Links, ReadError};
use serde_json::Value;

/// Name of the server in every agent's settings.
pub const SERVER: &str = "coven";
/// Large, because some agents also store their history in this file.
pub const AGENT_SETTINGS: Limit = Limit::new("the settings file of an agent", 64 << 20);
/// Timeout of a tool call, for agents that have one: a user may take long to answer.
pub const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The entry for `coven mcp` in the settings of one agent.
#[derive(Debug)]
pub struct McpEntry {
    pub file: SettingsFile,
    pub form: Form,
    /// Builds the entry for a server that is started with this program.
    pub entry: fn(program: &str) -> Value,
}

/// Location of an agent's settings file.
#[derive(Debug)]
pub struct SettingsFile {
    /// Environment variable that overrides the folder.
    pub variable: Option<&'static str>,
    /// Default folder, relative to the user's home.
    pub folder: &'static str,
    /// File names in the folder: the first that exists is used, or else the last.
    pub names: &'static [&'static str],
}

/// Format of the list of servers in a settings file.
#[derive(Debug)]
pub enum Form {
    /// The first of these places that exists in the file, or else the last.
    Json {
        places: &'static [&'static [&'static str]],
    },
    Toml {
        table: &'static str,
    },
}

impl Form {
    /// JSON with the key that most agents use.
    pub const JSON: Self = Self::Json { places: &[&["mcpServers"]] };
}

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("no home folder found; set HOME")]
    NoHome,
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Refused(ReadError),
    #[error("cannot write {}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("cannot parse {}, so it was not changed: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
    #[error("{} changed while coven was editing it; nothing was written. Run the command again", path.display())]
    Moved { path: PathBuf },
}

/// A planned change to an agent's settings file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub path: PathBuf,
    /// Coven's entry as it will appear in the file; `None` if the plan removes it.
    pub entry: Option<String>,
    /// The different entry that coven's name had before.
    pub replaced: Option<String>,
    before: Option<String>,
    after: String,
}

impl Plan {
    /// Returns whether the file needs no change.
    pub fn is_done(&self) -> bool {
        self.before.as_deref().unwrap_or_default() == self.after
    }
}

impl SettingsFile {
    /// Returns the path of the settings file that the user's agent reads.
    pub fn path(&self) -> Result<PathBuf, InstallError> {
        self.located(|name| std::env::var_os(name), std::env::home_dir())
    }

    /// Like `path`, for the given environment.
    pub fn located(
        &self,
        var: impl Fn(&str) -> Option<OsString>,
        home: Option<PathBuf>,
    ) -> Result<PathBuf, InstallError> {
        let named = self.variable.and_then(var).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = home.filter(|home| !home.as_os_str().is_empty());
        let folder = named.or_else(|| Some(home?.join(self.folder))).ok_or(InstallError::NoHome)?;
        let (last, others) = self.names.split_last().expect("at least one file name");
        let existing = others.iter().map(|name| folder.join(name)).find(|path| path.exists());
        Ok(existing.unwrap_or_else(|| folder.join(last)))
    }
}

impl McpEntry {
    /// Plans to add the entry to `path`. Writes nothing.
    pub fn install(&self, path: &Path, program: &str) -> Result<Plan, InstallError> {
        self.plan(path, Some((self.entry)(program)))
    }

    /// Plans to remove the entry from `path`. Writes nothing.
    pub fn uninstall(&self, path: &Path) -> Result<Plan, InstallError> {
        self.plan(path, None)
    }

    fn plan(&self, path: &Path, entry: Option<Value>) -> Result<Plan, InstallError> {
        let before = read(path)?;
        let text = before.as_deref().unwrap_or_default();
        let edited = match (before.is_none() && entry.is_none(), &self.form) {
            (true, _) => Ok(Edited::default()),
            (false, Form::Toml { table }) => toml::edit(text, table, SERVER, entry.as_ref()),
            (false, Form::Json { places }) => json::edit(text, places, SERVER, entry.as_ref()),
        };
        let edited = edited.map_err(|problem| InstallError::Malformed { path: path.to_owned(), problem })?;
        Ok(Plan { path: path.to_owned(), entry: edited.entry, replaced: edited.replaced, before, after: edited.text })
    }
}

/// Text of a file after coven's entry was added or removed.
#[derive(Debug, Default)]
struct Edited {
    text: String,
    entry: Option<String>,
    replaced: Option<String>,
}

impl Plan {
    /// Writes the file, unless it changed since the plan was made.
    pub fn write(&self) -> Result<(), InstallError> {
        if self.is_done() {
            return Ok(());
        }
        if read(&self.path)? != self.before {
            return Err(InstallError::Moved { path: self.path.clone() });
        }
        replace(&self.path, &self.after).map_err(|source| InstallError::Unwritable { path: self.path.clone(), source })
    }
}

fn read(path: &Path) -> Result<Option<String>, InstallError> {
    match coven_files::read_text(path, AGENT_SETTINGS, Links::Follow) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(ReadError::Io { path, source }) => Err(InstallError::Unreadable { path, source }),
        Err(error) => Err(InstallError::Refused(error)),
    }
}

/// Replaces the file atomically, keeping its permissions. Follows a symbolic link.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mode = fs::metadata(&path).map_or(0o600, |metadata| metadata.permissions().mode());
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents;

    fn entry(agent: &str) -> &'static McpEntry {
        agents::find(agent).and_then(|agent| agent.mcp.as_ref().ok()).expect("an agent with MCP settings")
    }

    fn all() -> impl Iterator<Item = (&'static str, &'static McpEntry)> {
        agents::ALL.iter().filter_map(|agent| Some((agent.id, agent.mcp.as_ref().ok()?)))
    }

    #[test]
    fn settings_that_are_a_fifo_or_too_large_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.json");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).expect("a fifo");
        let error = entry("qwen").install(&path, "coven").expect_err("a fifo").to_string();
        assert!(error.contains("is a fifo, not a regular file"), "{error}");
        fs::remove_file(&path).and_then(|()| fs::File::create(&path)?.set_len(1 << 30)).expect("a sparse file");
        let error = entry("qwen").install(&path, "coven").expect_err("too large").to_string();
        assert!(error.ends_with("is larger than 64 MiB, the limit for the settings file of an agent"), "{error}");
    }

    fn located(agent: &str, vars: &[(&str, &str)]) -> String {
        let var = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        entry(agent).file.located(var, Some("/home/ann".into())).expect("a home").display().to_string()
    }

    #[test]
    fn settings_files_follow_the_agents_environment_variables() {
        assert_eq!(located("claude", &[]), "/home/ann/.claude.json");
        assert_eq!(located("claude", &[("CLAUDE_CONFIG_DIR", "/c")]), "/c/.claude.json");
        assert_eq!(located("codex", &[]), "/home/ann/.codex/config.toml");
        assert_eq!(located("codex", &[("CODEX_HOME", "/x")]), "/x/config.toml");
        assert_eq!(located("opencode", &[("XDG_CONFIG_HOME", "/x")]), "/x/opencode/opencode.json");
        assert_eq!(located("copilot", &[]), "/home/ann/.copilot/mcp-config.json");
    }

    #[test]
    fn the_entry_of_every_agent_can_be_added_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        for (agent, entry) in all() {
            let path = folder.path().join(agent);
            let plan = entry.install(&path, "coven").expect("a new file");
            assert!(!plan.is_done() && !path.exists(), "a plan writes nothing");
            plan.write().expect("a writable file");
            assert!(
                entry.install(&path, "coven").expect("valid settings").is_done(),
                "{agent}: adding again changes nothing"
            );
            let other = entry.install(&path, "/opt/coven").expect("valid settings");
            assert!(other.replaced.is_some(), "{agent}");
            entry.uninstall(&path).expect("valid settings").write().expect("a writable file");
            assert!(entry.uninstall(&path).expect("valid settings").is_done(), "{agent}");
            let text = fs::read_to_string(&path).expect("a file");
            assert!(!text.contains("coven"), "{agent}: {text}");
        }
    }

    #[test]
    fn a_file_that_changed_since_planning_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.json");
        let plan = entry("gemini").install(&path, "coven").expect("a new file");
        fs::write(&path, "{}").expect("a writable file");
        assert!(matches!(plan.write(), Err(InstallError::Moved { .. })));
        assert_eq!(fs::read_to_string(&path).expect("a file"), "{}");
    }

    #[test]
    fn a_malformed_file_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        for (agent, text) in [("claude", "{\"a\": "), ("claude", "[]"), ("codex", "= 3"), ("codex", "mcp_servers = 3")]
        {
            let path = folder.path().join("settings");
            fs::write(&path, text).expect("a writable file");
            assert!(matches!(entry(agent).install(&path, "coven"), Err(InstallError::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn permissions_and_symbolic_links_are_preserved() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&path, "{}\n").expect("a writable file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("permissions are set");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        entry("cursor").install(&link, "coven").expect("valid settings").write().expect("a writable file");
        assert!(fs::symlink_metadata(&link).expect("the link exists").is_symlink());
        assert_eq!(fs::metadata(&path).expect("the file exists").permissions().mode() & 0o777, 0o640);
        assert!(fs::read_to_string(&path).expect("a file").contains("coven"));
    }
}
