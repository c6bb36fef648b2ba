//! The home: a `.coven` folder with everything one daemon owns.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coven_domain::SessionId;

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
    #[error(
        "the socket's path {} is {} bytes long and a socket takes at most {MAX_SOCKET_PATH}; \
         choose a shorter home with --home or COVEN_HOME",
        path.display(), path.as_os_str().len()
    )]
    SocketTooLong { path: PathBuf },
}

/// What git is told of a home: only these files belong into a repository.
const SHARED: &str = "*\n!.gitignore\n!config.json\n!grimoires/\n!grimoires/*.yaml\n";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// `--home`, else `COVEN_HOME`, else the nearest `.coven` above the current folder, else `~/.coven`.
    pub fn resolve(flag: Option<&Path>) -> Result<Self, HomeError> {
        let named = flag.map(Path::to_owned).or_else(|| non_empty_var("COVEN_HOME"));
        if let Some(path) = named {
            return Self::at(&path);
        }
        let current = std::env::current_dir().ok();
        let nearest = current
            .as_deref()
            .and_then(|dir| dir.ancestors().map(|above| above.join(".coven")).find(|candidate| candidate.is_dir()));
        match nearest.or_else(|| non_empty_var("HOME").map(|home| home.join(".coven"))) {
            Some(path) => Self::at(&path),
            None => Err(HomeError::Nowhere),
        }
    }

    /// This folder, whether or not it exists yet.
    pub fn at(path: &Path) -> Result<Self, HomeError> {
        let unusable = |source| HomeError::Unusable { path: path.to_owned(), source };
        // Canonical where it exists, so that one home has one name.
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
            Err(_) => std::path::absolute(path).map_err(unusable)?,
        };
        Ok(Self { path })
    }

    /// Makes what is missing. Folders are 0700: sockets, tokens and logs are nobody else's business.
    pub fn create(&self) -> Result<(), HomeError> {
        let unusable = |source| HomeError::Unusable { path: self.path.clone(), source };
        if self.path.exists() && !self.path.is_dir() {
            return Err(HomeError::NotAFolder { path: self.path.clone() });
        }
        for folder in [
            self.path.clone(),
            self.sessions_dir(),
            self.logs_dir(),
            self.path.join("worktrees"),
            self.path.join("grimoires"),
        ] {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(unusable)?;
        }
        let metadata = fs::metadata(&self.path).map_err(unusable)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(HomeError::NotOurs { path: self.path.clone() });
        }
        if metadata.mode() & 0o077 != 0 {
            fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700)).map_err(unusable)?;
        }
        self.hide_from_git();
        Ok(())
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

    pub fn socket(&self) -> Result<PathBuf, HomeError> {
        let path = self.path.join("coven.sock");
        match path.as_os_str().len() > MAX_SOCKET_PATH {
            true => Err(HomeError::SocketTooLong { path }),
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

    /// Whether old state lies here that `coven migrate` would take over and put aside.
    pub fn has_legacy_state(&self) -> bool {
        let holds_json = |folder: &str| {
            fs::read_dir(self.path.join(folder)).is_ok_and(|entries| {
                entries.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
            })
        };
        self.path.join("state.json").is_file() || ["workflows", "familiars", "questions"].into_iter().any(holds_json)
    }

    /// The folder that a project's home belongs to; a home of all projects (`~/.coven`, or any other name) has none.
    pub fn project_root(&self) -> Option<PathBuf> {
        let parent = self.path.parent()?;
        let is_users = non_empty_var("HOME").is_some_and(|home| fs::canonicalize(&home).unwrap_or(home) == parent);
        (self.path.file_name()? == ".coven" && !is_users).then(|| parent.to_owned())
    }
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
    }
}
