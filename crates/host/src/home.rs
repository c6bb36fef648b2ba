//! The home: a `.coven` folder that contains everything one daemon owns.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coven_domain::SessionId;
use coven_files::Limit;

use crate::git;
use crate::trust::{self, Origin, TrustError, TrustStore};

pub const WORKFLOW_FILE: Limit = Limit::new("a workflow file", 1 << 20);

/// Maximum length of a Unix socket's path on Linux, without the terminating NUL.
const MAX_SOCKET_PATH: usize = 107;

#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("no home folder found; set HOME or COVEN_HOME, or use --home")]
    Nowhere,
    #[error("cannot create or use the home {}; check its permissions or choose another with --home", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("the home {} is not a folder; choose another with --home", path.display())]
    NotAFolder { path: PathBuf },
    #[error("the home {} belongs to another user; choose another with --home", path.display())]
    NotOurs { path: PathBuf },
    #[error("{} is a symbolic link; remove it, or use --home with the folder that it points to", path.display())]
    Link { path: PathBuf },
    #[error(
        "{path} is not a coven home; create one with `coven init --home {path}`, or correct --home or COVEN_HOME",
        path = path.display()
    )]
    Missing { path: PathBuf },
    #[error(
        "{} contains state that you did not create on this machine ({found}), so coven did not use it; if you know \
         where it comes from, run `coven trust {}`, otherwise remove it",
        path.display(), path.display()
    )]
    Foreign { path: PathBuf, found: String },
    #[error(
        "{found} in {} is tracked by Git, so it may have come with the repository and coven did not use it; remove it, \
         also from the repository with `git rm --cached`",
        path.display()
    )]
    TrackedState { path: PathBuf, found: String },
    #[error(
        "git cannot list the tracked files in {0}, so its state may have come with a repository; see `git -C {0} ls-files`",
        path.display()
    )]
    UnknownTracking { path: PathBuf },
    #[error("cannot record the home {} as yours: {source}", path.display())]
    NotRecorded { path: PathBuf, source: TrustError },
    #[error(
        "the socket path {} is {} bytes long, and the maximum is {MAX_SOCKET_PATH}; \
         choose a home with a shorter path with --home or COVEN_HOME",
        path.display(), path.as_os_str().len()
    )]
    SocketTooLong { path: PathBuf },
}

impl HomeError {
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Foreign { .. }
            | Self::TrackedState { .. }
            | Self::UnknownTracking { .. }
            | Self::NotOurs { .. }
            | Self::Link { .. } => 4,
            Self::Nowhere
            | Self::Unusable { .. }
            | Self::NotAFolder { .. }
            | Self::Missing { .. }
            | Self::NotRecorded { .. }
            | Self::SocketTooLong { .. } => 2,
        }
    }
}

/// Content of a home's `.gitignore`: only these files belong in a repository.
const SHARED: &str = "*\n!.gitignore\n!config.json\n!grimoires/\n!grimoires/*.yaml\n!grimoires/*.yml\n";

/// State files that only coven creates. Coven ignores them in a `.coven` that came with a repository or archive.
const STATE: [&str; 11] = [
    "coven.db",
    "coven.db.lock",
    "coven.db-wal",
    "coven.db-shm",
    "coven.db-journal",
    "token",
    "coven.sock",
    "daemon.start",
    "ballast",
    "withheld",
    trust::HOME_ID,
];
/// Folders that count as state unless they are empty.
const STATE_FOLDERS: [&str; 3] = ["sessions", "worktrees", "logs"];
/// Files that a user may put into a home before coven creates its own: settings, workflow files, the older coven's
/// state.
const SETTINGS: [&str; 2] = ["config.json", "grimoires"];
const LEGACY: [&str; 5] = ["state.json", "session.json", "workflows", "familiars", "questions"];

/// How a home was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// By coven itself, which has already checked it or is creating it.
    Given,
    /// By `--home` or `COVEN_HOME`.
    Named,
    /// `~/.coven`.
    Default,
    /// A `.coven` above the current folder, which may have come with a repository or archive.
    Found,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
    choice: Choice,
}

impl Home {
    /// Returns `--home`, or else `COVEN_HOME`, or else the nearest `.coven` above the current folder, or else
    /// `~/.coven`.
    pub fn resolve(flag: Option<&Path>) -> Result<Self, HomeError> {
        if let Some(path) = flag.map(Path::to_owned).or_else(|| non_empty_var("COVEN_HOME")) {
            return Self::chosen(&path, Choice::Named);
        }
        let users = non_empty_var("HOME").map(|home| home.join(".coven"));
        let nearest = std::env::current_dir().ok().and_then(|current| nearest(&current));
        let is_users = |path: &Path| users.as_deref().is_some_and(|users| is_same_folder(users, path));
        match (nearest, &users) {
            (Some(path), _) if !is_users(&path) => Self::chosen(&path, Choice::Found),
            (_, Some(users)) => Self::chosen(users, Choice::Default),
            (_, None) => Err(HomeError::Nowhere),
        }
    }

    /// Returns the home in this folder, which need not exist yet.
    pub fn at(path: &Path) -> Result<Self, HomeError> {
        Self::chosen(path, Choice::Given)
    }

    fn chosen(path: &Path, choice: Choice) -> Result<Self, HomeError> {
        let unusable = |source| HomeError::Unusable { path: path.to_owned(), source };
        if choice == Choice::Found && path.is_symlink() {
            return Err(HomeError::Link { path: path.to_owned() });
        }
        // Canonical if it exists, so that every home has only one path.
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
            Err(_) => std::path::absolute(path).map_err(unusable)?,
        };
        Ok(Self { path, choice })
    }

    /// Returns the home in this folder, as if it had been found above the current folder.
    pub fn found_at(path: &Path) -> Result<Self, HomeError> {
        Self::chosen(path, Choice::Found)
    }

    /// Records the state of a home as this user's, after the user agreed to it. Does not affect agreements about its
    /// settings.
    pub fn adopt(&self) -> Result<(), HomeError> {
        let origin = if self.has_settings() { Origin::Found } else { Origin::Made };
        self.record(origin)
    }

    /// Returns true for a `.coven` above the current folder, which may have come with a repository or archive.
    pub fn was_found(&self) -> bool {
        self.choice == Choice::Found
    }

    /// Returns true for `~/.coven`.
    pub fn is_default(&self) -> bool {
        self.choice == Choice::Default
    }

    /// Fails if the home belongs to another user, or contains state that this user did not create on this machine. Call
    /// this before writing to a home or sending anything to its daemon.
    pub fn verify(&self) -> Result<(), HomeError> {
        let metadata = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(HomeError::Unusable { path: self.path.clone(), source }),
        };
        if !metadata.is_dir() {
            return Err(HomeError::NotAFolder { path: self.path.clone() });
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(HomeError::NotOurs { path: self.path.clone() });
        }
        if self.choice != Choice::Found || self.is_recorded() {
            return Ok(());
        }
        match self.state().join(", ") {
            found if found.is_empty() => Ok(()),
            found => Err(HomeError::Foreign { path: self.path.clone(), found }),
        }
    }

    /// Fails if Git tracks state of this home: a pull replaces ignored files without asking, so the state may come from
    /// another user. Checked when a daemon starts.
    pub fn refuse_tracked_state(&self) -> Result<(), HomeError> {
        if !self.may_be_tracked() {
            return Ok(());
        }
        let names: Vec<&str> = STATE.iter().chain(&STATE_FOLDERS).copied().collect();
        let tracked = git::tracked(&self.path, &names);
        if tracked.is_unknown() {
            return Err(HomeError::UnknownTracking { path: self.path.clone() });
        }
        match tracked.first() {
            Some(found) => Err(HomeError::TrackedState { path: self.path.clone(), found: found.to_owned() }),
            None => Ok(()),
        }
    }

    /// Returns whether this user created the home's state on this machine, or agreed to it.
    pub fn is_recorded(&self) -> bool {
        TrustStore::locate().is_ok_and(|store| store.home(&self.path).is_some())
    }

    /// Returns the names of the state files in the home.
    pub fn state(&self) -> Vec<String> {
        let exists = |name: &&str| self.path.join(name).symlink_metadata().is_ok();
        let is_not_empty = |name: &&str| {
            let path = self.path.join(name);
            path.is_symlink() || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
        };
        let files = STATE.iter().filter(|name| exists(name));
        files.chain(STATE_FOLDERS.iter().filter(|name| is_not_empty(name))).map(|name| (*name).to_owned()).collect()
    }

    /// Creates missing folders and records the home as this user's. Folders get mode 0700: sockets, tokens and logs are
    /// private.
    pub fn create(&self) -> Result<(), HomeError> {
        let unusable = |source| HomeError::Unusable { path: self.path.clone(), source };
        self.verify()?;
        if self.choice == Choice::Named && !self.looks_like_a_home() {
            return Err(HomeError::Missing { path: self.path.clone() });
        }
        let has_settings = self.has_settings();
        for folder in [
            self.path.clone(),
            self.sessions_dir(),
            self.logs_dir(),
            self.path.join("worktrees"),
            self.path.join("grimoires"),
        ] {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(unusable)?;
            if folder.is_symlink() {
                return Err(HomeError::Link { path: folder });
            }
        }
        if fs::metadata(&self.path).map_err(unusable)?.mode() & 0o077 != 0 {
            fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700)).map_err(unusable)?;
        }
        self.hide_from_git();
        let origin = if self.was_found() && has_settings { Origin::Found } else { Origin::Made };
        self.record(origin)
    }

    /// Records the home as this user's.
    pub fn record(&self, origin: Origin) -> Result<(), HomeError> {
        let recorded = TrustStore::locate().and_then(|store| store.record_home(&self.path, origin));
        match recorded {
            // A home that the user named can be used even if it cannot be recorded, e.g. without HOME.
            Err(source) if self.was_found() => Err(HomeError::NotRecorded { path: self.path.clone(), source }),
            _ => Ok(()),
        }
    }

    /// Returns whether the home has settings. An empty folder for workflow files does not count: coven creates it.
    fn has_settings(&self) -> bool {
        SETTINGS.iter().map(|name| self.path.join(name)).any(|path| match fs::symlink_metadata(&path) {
            Ok(it) if it.is_dir() => fs::read_dir(&path).map_or(true, |mut entries| entries.next().is_some()),
            Ok(_) => true,
            Err(_) => false,
        })
    }

    /// Returns whether the folder is empty or contains a file or folder of a home.
    fn looks_like_a_home(&self) -> bool {
        let is_empty = fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none());
        let mut known = STATE.iter().chain(&STATE_FOLDERS).chain(&SETTINGS).chain(&LEGACY);
        is_empty || known.any(|name| self.path.join(name).symlink_metadata().is_ok())
    }

    /// Returns whether a Git repository may track files of this home.
    pub fn may_be_tracked(&self) -> bool {
        self.path.ancestors().any(|above| above.join(".git").exists())
    }

    /// Writes a `.gitignore` to a project's home, so that `git add` includes only files that a project may share, not
    /// the store, logs and worktrees.
    fn hide_from_git(&self) {
        let file = self.path.join(".gitignore");
        if self.project_root().is_some() && !file.exists() {
            // Errors are ignored: without the file, `git status` only lists more files.
            let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
            let _ = created.and_then(|mut file| file.write_all(SHARED.as_bytes()));
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Verifies the home and returns the path of the daemon's socket.
    pub fn socket(&self) -> Result<PathBuf, HomeError> {
        self.verify()?;
        let path = self.path.join("coven.sock");
        match path.as_os_str().len() > MAX_SOCKET_PATH {
            true => Err(HomeError::SocketTooLong { path }),
            // A link could point to the socket of another home's daemon.
            false if path.is_symlink() => Err(HomeError::Link { path }),
            false => Ok(path),
        }
    }

    pub fn db(&self) -> PathBuf {
        self.path.join("coven.db")
    }

    pub fn config_file(&self) -> PathBuf {
        self.path.join("config.json")
    }

    pub fn token_file(&self) -> PathBuf {
        self.path.join("token")
    }

    pub fn logs_dir(&self) -> PathBuf {
        self.path.join("logs")
    }

    pub fn sessions_dir(&self) -> PathBuf {
        self.path.join("sessions")
    }

    pub fn session_dir(&self, id: SessionId) -> PathBuf {
        self.sessions_dir().join(id.to_string())
    }

    /// Returns the folder of the project that the home belongs to; `None` for a home of all projects (`~/.coven`, or
    /// any folder with another name).
    pub fn project_root(&self) -> Option<PathBuf> {
        let parent = self.path.parent()?;
        let is_users = non_empty_var("HOME").is_some_and(|home| fs::canonicalize(&home).unwrap_or(home) == parent);
        (self.path.file_name()? == ".coven" && !is_users).then(|| parent.to_owned())
    }

    /// Returns the default folder that must contain all repositories: the project's folder, or else the user's home
    /// folder. Canonical.
    pub fn workspace(&self) -> PathBuf {
        let root = self
            .project_root()
            .or_else(|| non_empty_var("HOME"))
            .or_else(|| self.path.parent().map(Path::to_owned))
            .unwrap_or_else(|| PathBuf::from("/"));
        fs::canonicalize(&root).unwrap_or(root)
    }
}

/// Returns the nearest `.coven` at or above a folder. The search stops at a folder that other users can write to,
/// because they could have put one there.
fn nearest(folder: &Path) -> Option<PathBuf> {
    let own = folder.ancestors().take_while(|above| !trust::others_can_write(above));
    own.map(|above| above.join(".coven")).find(|candidate| candidate.is_dir())
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    canonical(one) == canonical(other)
}

fn non_empty_var(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creating_a_home_makes_it_private() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(&dir.path().join(".coven")).expect("a path");
        fs::create_dir(home.path()).expect("a folder");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("permissions are set");
        home.create().expect("a home");
        for folder in [home.path().to_owned(), home.sessions_dir(), home.logs_dir()] {
            assert_eq!(fs::metadata(folder).expect("the folder exists").mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_file_or_a_path_too_long_for_a_socket_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        fs::write(&file, "x").expect("a file");
        let error = Home::at(&file).expect("a path").create().expect_err("a file");
        assert!(matches!(error, HomeError::NotAFolder { .. }));
        let long = Home::at(&dir.path().join("x".repeat(120))).expect("a path");
        let text = long.socket().expect_err("too long").to_string();
        assert!(text.contains("107") && text.contains("--home"), "{text}");
    }

    #[test]
    fn only_the_home_of_a_project_has_a_project_root() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(dir.path()).expect("the folder exists");
        fs::create_dir(root.join(".coven")).expect("a folder");
        assert_eq!(Home::at(&root.join(".coven")).expect("a path").project_root(), Some(root.clone()));
        assert_eq!(Home::at(&root.join("elsewhere")).expect("a path").project_root(), None);
        assert_eq!(Home::at(&root.join(".coven")).expect("a path").workspace(), root);
    }
}
