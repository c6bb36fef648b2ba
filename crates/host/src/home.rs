//! The home: a `.coven` folder with everything one daemon owns.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coven_domain::SessionId;
use coven_files::Limit;

use crate::git;
use crate::trust::{self, Origin, TrustError, TrustStore};

pub const WORKFLOW_FILE: Limit = Limit::new("a workflow file", 1 << 20);

/// The longest path a Unix socket can have on Linux, without its closing NUL.
const MAX_SOCKET_PATH: usize = 107;

#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("no home folder: set HOME or COVEN_HOME, or give --home")]
    Nowhere,
    #[error("the home {} cannot be made or used; check its permissions or choose another with --home", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("the home {} is not a folder; choose another with --home", path.display())]
    NotAFolder { path: PathBuf },
    #[error("the home {} belongs to another user; choose another with --home", path.display())]
    NotOurs { path: PathBuf },
    #[error("{} is a symbolic link; remove it, or name the folder it leads to with --home", path.display())]
    Link { path: PathBuf },
    #[error(
        "there is no coven home at {path}; make one with `coven init --home {path}`, or correct --home or COVEN_HOME",
        path = path.display()
    )]
    Missing { path: PathBuf },
    #[error(
        "{} has state that you did not make on this machine ({found}), so coven did not use it; if you know where it \
         comes from, run `coven trust {}`, otherwise remove it",
        path.display(), path.display()
    )]
    Foreign { path: PathBuf, found: String },
    #[error(
        "{found} in {} is tracked by Git, so it may have come with the repository and coven did not use it; remove it, and take \
         it out of the repository with `git rm --cached`",
        path.display()
    )]
    TrackedState { path: PathBuf, found: String },
    #[error(
        "git cannot list the tracked files in {0}, so its state may have come with a repository; see `git -C {0} ls-files`",
        path.display()
    )]
    UnknownTracking { path: PathBuf },
    #[error("the home {} cannot be recorded as yours: {source}", path.display())]
    NotRecorded { path: PathBuf, source: TrustError },
    #[error(
        "the socket's path {} is {} bytes long and a socket takes at most {MAX_SOCKET_PATH}; \
         choose a shorter home with --home or COVEN_HOME",
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

/// What git is told of a home: only these files belong into a repository.
const SHARED: &str = "*\n!.gitignore\n!config.json\n!grimoires/\n!grimoires/*.yaml\n!grimoires/*.yml\n";

/// State that only coven makes. In a `.coven` that came with a repository or archive it is not used.
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
/// Folders that are state as soon as they hold anything.
const STATE_FOLDERS: [&str; 3] = ["sessions", "worktrees", "logs"];
/// What a user may put into a home before coven makes its own: settings, workflow files, the older coven's state.
const SETTINGS: [&str; 2] = ["config.json", "grimoires"];
const LEGACY: [&str; 5] = ["state.json", "session.json", "workflows", "familiars", "questions"];

/// How a home was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// By coven itself, which has checked it already or makes it now.
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
    /// `--home`, else `COVEN_HOME`, else the nearest `.coven` above the current folder, else `~/.coven`.
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

    /// This folder, whether or not it exists yet.
    pub fn at(path: &Path) -> Result<Self, HomeError> {
        Self::chosen(path, Choice::Given)
    }

    fn chosen(path: &Path, choice: Choice) -> Result<Self, HomeError> {
        let unusable = |source| HomeError::Unusable { path: path.to_owned(), source };
        if choice == Choice::Found && path.is_symlink() {
            return Err(HomeError::Link { path: path.to_owned() });
        }
        // Canonical where it exists, so that one home has one name.
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
            Err(_) => std::path::absolute(path).map_err(unusable)?,
        };
        Ok(Self { path, choice })
    }

    /// This folder, as if it had been found above the current folder.
    pub fn found_at(path: &Path) -> Result<Self, HomeError> {
        Self::chosen(path, Choice::Found)
    }

    /// Records the state of a home as this user's, after the user agreed to it. Its settings stay what they were.
    pub fn adopt(&self) -> Result<(), HomeError> {
        let origin = if self.has_settings() { Origin::Found } else { Origin::Made };
        self.record(origin)
    }

    /// True for a `.coven` above the current folder, which may have come with a repository or archive.
    pub fn was_found(&self) -> bool {
        self.choice == Choice::Found
    }

    /// True for the home in the user's own folder.
    pub fn is_default(&self) -> bool {
        self.choice == Choice::Default
    }

    /// Fails if the home is not this user's, or holds state that this user did not make on this machine. Nothing is written
    /// to a home, and nothing is sent to its daemon, before this has been checked.
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

    /// Fails if Git tracks state of this home: a pull replaces files that Git ignores without asking, so the state may be
    /// anybody's. Checked when a daemon starts.
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

    /// Whether this user made the home's state on this machine, or agreed to it.
    pub fn is_recorded(&self) -> bool {
        TrustStore::locate().is_ok_and(|store| store.home(&self.path).is_some())
    }

    /// The state in the home, by name.
    pub fn state(&self) -> Vec<String> {
        let is_there = |name: &&str| self.path.join(name).symlink_metadata().is_ok();
        let holds_any = |name: &&str| {
            let path = self.path.join(name);
            path.is_symlink() || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
        };
        let files = STATE.iter().filter(|name| is_there(name));
        files.chain(STATE_FOLDERS.iter().filter(|name| holds_any(name))).map(|name| (*name).to_owned()).collect()
    }

    /// Makes what is missing, and records the home as this user's. Folders are 0700: sockets, tokens and logs are private.
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
            // A home that the user named can be used where no record can be kept, e.g. without HOME.
            Err(source) if self.was_found() => Err(HomeError::NotRecorded { path: self.path.clone(), source }),
            _ => Ok(()),
        }
    }

    /// An empty folder of workflow files is none: coven makes one itself.
    fn has_settings(&self) -> bool {
        SETTINGS.iter().map(|name| self.path.join(name)).any(|path| match fs::symlink_metadata(&path) {
            Ok(it) if it.is_dir() => fs::read_dir(&path).map_or(true, |mut entries| entries.next().is_some()),
            Ok(_) => true,
            Err(_) => false,
        })
    }

    /// An empty folder, or one with something in it that belongs into a home.
    fn looks_like_a_home(&self) -> bool {
        let is_empty = fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none());
        let mut known = STATE.iter().chain(&STATE_FOLDERS).chain(&SETTINGS).chain(&LEGACY);
        is_empty || known.any(|name| self.path.join(name).symlink_metadata().is_ok())
    }

    /// Whether a Git repository may have files of this home in it.
    pub fn may_be_tracked(&self) -> bool {
        self.path.ancestors().any(|above| above.join(".git").exists())
    }

    /// A project's home lies in its repository: `git add` takes along what a project may share, and neither store, logs nor work trees.
    fn hide_from_git(&self) {
        let file = self.path.join(".gitignore");
        if self.project_root().is_some() && !file.exists() {
            // Not worth failing for: git would only show more than is wanted.
            let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
            let _ = made.and_then(|mut file| file.write_all(SHARED.as_bytes()));
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The daemon's socket, in a home that is safe to use.
    pub fn socket(&self) -> Result<PathBuf, HomeError> {
        self.verify()?;
        let path = self.path.join("coven.sock");
        match path.as_os_str().len() > MAX_SOCKET_PATH {
            true => Err(HomeError::SocketTooLong { path }),
            // It would lead to another home's daemon.
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

    /// The folder that a project's home belongs to; a home of all projects (`~/.coven`, or any other name) has none.
    pub fn project_root(&self) -> Option<PathBuf> {
        let parent = self.path.parent()?;
        let is_users = non_empty_var("HOME").is_some_and(|home| fs::canonicalize(&home).unwrap_or(home) == parent);
        (self.path.file_name()? == ".coven" && !is_users).then(|| parent.to_owned())
    }

    /// The folder that repositories must lie in by default, canonical: a project's folder, else the user's home folder.
    pub fn workspace(&self) -> PathBuf {
        let root = self
            .project_root()
            .or_else(|| non_empty_var("HOME"))
            .or_else(|| self.path.parent().map(Path::to_owned))
            .unwrap_or_else(|| PathBuf::from("/"));
        fs::canonicalize(&root).unwrap_or(root)
    }
}

/// The nearest `.coven` at or above a folder. A folder that other users can write ends the search: they could have put one there.
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
    fn a_new_home_is_private_whatever_it_was_before() {
        let dir = tempfile::tempdir().expect("a folder");
        let home = Home::at(&dir.path().join(".coven")).expect("a path");
        fs::create_dir(home.path()).expect("a folder");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        home.create().expect("ours");
        for folder in [home.path().to_owned(), home.sessions_dir(), home.logs_dir()] {
            assert_eq!(fs::metadata(folder).expect("made").mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_file_is_no_home_and_a_long_path_has_no_socket() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        fs::write(&file, "x").expect("room");
        let error = Home::at(&file).expect("a path").create().expect_err("a file");
        assert!(matches!(error, HomeError::NotAFolder { .. }));
        let long = Home::at(&dir.path().join("x".repeat(120))).expect("a path");
        let text = long.socket().expect_err("too long").to_string();
        assert!(text.contains("107") && text.contains("--home"), "{text}");
    }

    #[test]
    fn only_a_projects_home_has_a_root() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = fs::canonicalize(dir.path()).expect("there");
        fs::create_dir(root.join(".coven")).expect("a folder");
        assert_eq!(Home::at(&root.join(".coven")).expect("a path").project_root(), Some(root.clone()));
        assert_eq!(Home::at(&root.join("elsewhere")).expect("a path").project_root(), None);
        assert_eq!(Home::at(&root.join(".coven")).expect("a path").workspace(), root);
    }
}
