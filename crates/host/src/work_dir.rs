//! A working folder, checked to be inside its project root.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum WorkDirError {
    #[error("the project root {} is not a folder; use an existing one", .0.display())]
    RootNotAFolder(PathBuf),
    #[error("the working folder {} does not exist; create it or choose another with --cwd", .0.display())]
    Missing(PathBuf),
    #[error("the working folder {} is not a folder; choose another with --cwd", .0.display())]
    NotAFolder(PathBuf),
    #[error(
        "the working folder {} is outside the project root {}; choose a folder inside it",
        cwd.display(), root.display()
    )]
    OutsideRoot { cwd: PathBuf, root: PathBuf },
}

impl WorkDirError {
    /// Returns the reason why a path is not a working folder.
    pub fn of(path: &Path) -> Self {
        match path.exists() {
            true => Self::NotAFolder(path.to_owned()),
            false => Self::Missing(path.to_owned()),
        }
    }
}

/// A root and a working folder in it. Both are canonical: links and `..` are resolved before the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkDir {
    pub root: PathBuf,
    pub cwd: PathBuf,
}

impl WorkDir {
    pub fn inside(root: &Path, cwd: &Path) -> Result<Self, WorkDirError> {
        let root = canonical_folder(root).ok_or_else(|| WorkDirError::RootNotAFolder(root.to_owned()))?;
        let found = canonical_folder(&root.join(cwd)).ok_or_else(|| WorkDirError::of(&root.join(cwd)))?;
        match found.starts_with(&root) {
            true => Ok(Self { root, cwd: found }),
            false => Err(WorkDirError::OutsideRoot { cwd: found, root }),
        }
    }
}

/// Returns the top folder of the Git repository that contains `dir`, or else `dir` itself.
pub fn repository_of(dir: &Path) -> PathBuf {
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    dir.ancestors().find(|above| above.join(".git").exists()).unwrap_or(&dir).to_owned()
}

fn canonical_folder(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok().filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn life_09_links_and_dots_cannot_escape_the_root() {
        let dir = tempfile::tempdir().expect("a folder");
        let base = std::fs::canonicalize(dir.path()).expect("the folder exists");
        let (root, out) = (base.join("root"), base.join("root-beside"));
        std::fs::create_dir_all(root.join("sub")).expect("a folder");
        std::fs::create_dir(&out).expect("a folder");
        std::os::unix::fs::symlink(&out, root.join("link")).expect("a link");
        let inside = WorkDir::inside(&root, Path::new("sub")).expect("inside");
        assert_eq!(inside, WorkDir { root: root.clone(), cwd: root.join("sub") });
        for escape in [root.join("link"), root.join("sub/../.."), out, PathBuf::from("/")] {
            let error = WorkDir::inside(&root, &escape).expect_err("outside");
            assert!(matches!(error, WorkDirError::OutsideRoot { .. }), "{error}");
        }
        assert!(matches!(WorkDir::inside(&root, Path::new("none")), Err(WorkDirError::Missing(_))));
        let file = base.join("file");
        std::fs::write(&file, "").expect("a file");
        assert!(matches!(WorkDir::inside(&file, Path::new(".")), Err(WorkDirError::RootNotAFolder(_))));
        assert!(matches!(WorkDir::inside(&base, &file), Err(WorkDirError::NotAFolder(_))));
    }
}
