//! The entry for `coven mcp` in the settings of other agents: which file, which form, written and taken out again without
//! touching anything else in there.

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

/// The name that the server has in every agent's settings.
pub const SERVER: &str = "coven";
/// Some agents keep their history in there as well.
pub const AGENT_SETTINGS: Limit = Limit::new("the settings file of an agent", 64 << 20);
/// A human may take long: where an agent has a limit for a call, the entry sets it to a day.
pub const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The entry for `coven mcp` in the settings of one agent.
#[derive(Debug)]
pub struct McpEntry {
    pub file: SettingsFile,
    pub form: Form,
    /// The entry for a server that is started with this program.
    pub entry: fn(program: &str) -> Value,
}

/// Where an agent keeps its settings.
#[derive(Debug)]
pub struct SettingsFile {
    /// The variable that names another folder.
    pub variable: Option<&'static str>,
    /// The folder without that variable, below the user's home.
    pub folder: &'static str,
    /// The file, below either: the first that exists, else the last.
    pub names: &'static [&'static str],
}

/// How a file lists its servers.
#[derive(Debug)]
pub enum Form {
    /// In the first of these places that the file has, else in the last.
    Json {
        places: &'static [&'static [&'static str]],
    },
    Toml {
        table: &'static str,
    },
}

impl Form {
    /// JSON in the place that most agents use.
    pub const JSON: Self = Self::Json { places: &[&["mcpServers"]] };
}

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("there is no home folder; set HOME")]
    NoHome,
    #[error("{} could not be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Refused(ReadError),
    #[error("{} could not be written", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{} is not understood, so it was not changed: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
    #[error("{} was changed by somebody else meanwhile, so it was left alone", path.display())]
    Moved { path: PathBuf },
}

/// What would become of an agent's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub path: PathBuf,
    /// Our part of the file, as it will stand there; none when it is taken out.
    pub entry: Option<String>,
    /// What stood there under our name and was something else.
    pub replaced: Option<String>,
    before: Option<String>,
    after: String,
}

impl Plan {
    /// The file says it already.
    pub fn is_done(&self) -> bool {
        self.before.as_deref().unwrap_or_default() == self.after
    }
}

impl SettingsFile {
    /// The file that this user's agent reads.
    pub fn path(&self) -> Result<PathBuf, InstallError> {
        self.located(|name| std::env::var_os(name), std::env::home_dir())
    }

    /// The same in these surroundings.
    pub fn located(
        &self,
        var: impl Fn(&str) -> Option<OsString>,
        home: Option<PathBuf>,
    ) -> Result<PathBuf, InstallError> {
        let named = self.variable.and_then(var).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = home.filter(|home| !home.as_os_str().is_empty());
        let folder = named.or_else(|| Some(home?.join(self.folder))).ok_or(InstallError::NoHome)?;
        let (last, others) = self.names.split_last().expect("an agent's settings have a name");
        let there = others.iter().map(|name| folder.join(name)).find(|path| path.exists());
        Ok(there.unwrap_or_else(|| folder.join(last)))
    }
}

impl McpEntry {
    /// What adding the entry would do to `path`. Writes nothing.
    pub fn install(&self, path: &Path, program: &str) -> Result<Plan, InstallError> {
        self.plan(path, Some((self.entry)(program)))
    }

    /// What taking the entry out would do. Writes nothing.
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

/// A file's text with our entry put in or taken out.
#[derive(Debug, Default)]
struct Edited {
    text: String,
    entry: Option<String>,
    replaced: Option<String>,
}

impl Plan {
    /// Carries it out, unless the file is no longer the one that was planned with.
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

/// The whole file at once, with the rights it had; a link stays a link.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mode = fs::metadata(&path).map_or(0o600, |there| there.permissions().mode());
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
        agents::find(agent).and_then(|agent| agent.mcp.as_ref().ok()).expect("its settings are known")
    }

    fn all() -> impl Iterator<Item = (&'static str, &'static McpEntry)> {
        agents::ALL.iter().filter_map(|agent| Some((agent.id, agent.mcp.as_ref().ok()?)))
    }

    #[test]
    fn settings_that_are_a_fifo_or_huge_are_refused_and_left_alone() {
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
    fn every_agent_has_its_file_and_says_where_it_is_moved_to() {
        assert_eq!(located("claude", &[]), "/home/ann/.claude.json");
        assert_eq!(located("claude", &[("CLAUDE_CONFIG_DIR", "/c")]), "/c/.claude.json");
        assert_eq!(located("codex", &[]), "/home/ann/.codex/config.toml");
        assert_eq!(located("codex", &[("CODEX_HOME", "/x")]), "/x/config.toml");
        assert_eq!(located("opencode", &[("XDG_CONFIG_HOME", "/x")]), "/x/opencode/opencode.json");
        assert_eq!(located("copilot", &[]), "/home/ann/.copilot/mcp-config.json");
    }

    #[test]
    fn what_is_put_in_can_be_taken_out_again_and_nothing_else_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        for (agent, entry) in all() {
            let path = folder.path().join(agent);
            let plan = entry.install(&path, "coven").expect("a new file");
            assert!(!plan.is_done() && !path.exists(), "a plan writes nothing");
            plan.write().expect("room");
            assert!(entry.install(&path, "coven").expect("ours").is_done(), "{agent}: twice is once");
            let other = entry.install(&path, "/opt/coven").expect("ours");
            assert!(other.replaced.is_some(), "{agent}");
            entry.uninstall(&path).expect("ours").write().expect("room");
            assert!(entry.uninstall(&path).expect("ours").is_done(), "{agent}");
            let text = fs::read_to_string(&path).expect("a file");
            assert!(!text.contains("coven"), "{agent}: {text}");
        }
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("settings.json");
        let plan = entry("gemini").install(&path, "coven").expect("a new file");
        fs::write(&path, "{}").expect("room");
        assert!(matches!(plan.write(), Err(InstallError::Moved { .. })));
        assert_eq!(fs::read_to_string(&path).expect("a file"), "{}");
    }

    #[test]
    fn a_file_that_is_not_understood_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        for (agent, text) in [("claude", "{\"a\": "), ("claude", "[]"), ("codex", "= 3"), ("codex", "mcp_servers = 3")]
        {
            let path = folder.path().join("settings");
            fs::write(&path, text).expect("room");
            assert!(matches!(entry(agent).install(&path, "coven"), Err(InstallError::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn rights_and_links_stay_as_they_were() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&path, "{}\n").expect("room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("ours");
        std::os::unix::fs::symlink(&path, &link).expect("room");
        entry("cursor").install(&link, "coven").expect("sound").write().expect("room");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o640);
        assert!(fs::read_to_string(&path).expect("a file").contains("coven"));
    }
}
