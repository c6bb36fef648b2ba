//! Reads and writes text files for an agent, only inside its repository, even if another process replaces folders by
//! links at the same time.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use coven_acp::RpcError;
use coven_files::{Limit, ReadError};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Maximum size of a file that an agent reads.
const TEXT_FILE: Limit = Limit::new("a file that an agent reads", 8 << 20);

/// A resolved path contains no links, so a link in it was added since.
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

pub(super) fn read(root: &Path, path: &str, line: Option<u32>, limit: Option<u32>) -> Result<String, RpcError> {
    let place = Place::of(root, path)?;
    // Without NONBLOCK, opening a fifo would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(place.open(&place.relative, flags).map_err(|error| failed(path, &error))?);
    let bytes = coven_files::ensure_regular(&file, Path::new(path))
        .and_then(|()| coven_files::read_opened(file, Path::new(path), TEXT_FILE));
    let bytes = bytes.map_err(|error| match error {
        ReadError::Io { source, .. } => failed(path, &source),
        refused => RpcError::invalid_params(refused.to_string()),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| RpcError::invalid_params(format!("{path} is not UTF-8 text")))?;
    if line.is_none() && limit.is_none() {
        return Ok(text);
    }
    let from = usize::try_from(line.unwrap_or(1).max(1) - 1).unwrap_or(usize::MAX);
    let count = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(text.split_inclusive('\n').skip(from).take(count).collect())
}

/// Writes a file atomically: to a temporary file beside it, then by renaming.
pub(super) fn write(root: &Path, path: &str, content: &str) -> Result<(), RpcError> {
    let place = Place::of(root, path)?;
    let (Some(folder), Some(name)) = (place.relative.parent(), place.relative.file_name()) else {
        return Err(RpcError::invalid_params(format!("{path} is a folder")));
    };
    let attempt = || -> io::Result<()> {
        let folder = place.make_folder(folder)?;
        let known = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(known) => Some(known),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let kind = known.as_ref().map(|known| FileType::from_raw_mode(known.st_mode));
        if kind == Some(FileType::Directory) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let beside = format!(".{}.{}.coven", name.to_string_lossy(), uuid::Uuid::new_v4().simple());
        let written = (|| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut new = File::from(rustix::fs::openat(&folder, &beside, flags, Mode::from_raw_mode(0o666))?);
            new.write_all(content.as_bytes())?;
            if let (Some(known), Some(FileType::RegularFile)) = (&known, kind) {
                rustix::fs::fchmod(&new, Mode::from_raw_mode(known.st_mode))?;
            }
            // Replaces a link instead of following it.
            Ok(rustix::fs::renameat(&folder, &beside, &folder, name)?)
        })();
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&folder, &beside, AtFlags::empty());
        }
        written
    };
    attempt().map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => RpcError::invalid_params(format!("{path} is a folder")),
        _ => failed(path, &error),
    })
}

/// Reports whether a path is in a `.git` folder. Files there can run code the next time the user calls Git.
pub(super) fn is_gits_own(root: &Path, path: &str) -> Result<bool, RpcError> {
    let place = Place::of(root, path)?;
    // Some file systems ignore case.
    Ok(place.relative.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git")))
}

/// A path inside a repository: the open folder of the repository and the relative path without links.
struct Place {
    root: OwnedFd,
    relative: PathBuf,
}

impl Place {
    fn of(root: &Path, path: &str) -> Result<Self, RpcError> {
        let real = inside(root, path)?;
        let root = std::fs::canonicalize(root).map_err(|error| failed(&root.to_string_lossy(), &error))?;
        let relative = real.strip_prefix(&root).map_err(|_| outside(&root, path))?.to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&root, flags, Mode::empty());
        Ok(Self { root: opened.map_err(|error| failed(path, &error.into()))?, relative })
    }

    fn open(&self, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        match openat2(&self.root, relative, flags, Mode::empty(), RESOLVE) {
            Err(Errno::NOSYS) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel has no openat2, so coven cannot keep the agent inside its repository; use Linux 5.6 or later, or \
                 let the agent use its own file tools",
            )),
            Err(Errno::LOOP | Errno::XDEV) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a folder in the path was replaced by a link; retry when no other program changes it",
            )),
            opened => Ok(opened?),
        }
    }

    /// Opens a folder and creates missing parents.
    fn make_folder(&self, relative: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match (self.open(relative, flags), relative.parent(), relative.file_name()) {
            (Err(error), Some(above), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
                let above = self.make_folder(above)?;
                match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => self.open(relative, flags),
                    Err(error) => Err(error.into()),
                }
            }
            (opened, _, _) => opened,
        }
    }
}

fn outside(root: &Path, path: &str) -> RpcError {
    tracing::warn!(path, root = %root.display(), "an agent requested a file outside its repository");
    RpcError::invalid_params(format!("{path} is outside the repository {}", root.display()))
}

/// Returns the canonical path if it is inside the repository. For a new file, its first existing parent decides.
pub(super) fn inside(root: &Path, path: &str) -> Result<PathBuf, RpcError> {
    let refused = || outside(root, path);
    let root = std::fs::canonicalize(root).map_err(|error| failed(&root.to_string_lossy(), &error))?;
    let asked = Path::new(path);
    if !asked.is_absolute() || path.contains('\0') {
        return Err(RpcError::invalid_params(format!("{path:?} is not an absolute path")));
    }
    let mut existing = asked;
    let mut missing = Vec::new();
    let real = loop {
        match std::fs::canonicalize(existing) {
            Ok(real) => break real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link could later point outside.
                if std::fs::symlink_metadata(existing).is_ok() {
                    return Err(refused());
                }
                match existing.components().next_back() {
                    Some(Component::Normal(name)) => missing.push(name.to_owned()),
                    _ => return Err(refused()),
                }
                existing = existing.parent().ok_or_else(refused)?;
            }
            Err(error) => return Err(failed(path, &error)),
        }
    };
    let real = missing.iter().rev().fold(real, |place, name| place.join(name));
    if real.starts_with(&root) { Ok(real) } else { Err(refused()) }
}

fn failed(path: &str, error: &io::Error) -> RpcError {
    match error.kind() {
        io::ErrorKind::NotFound => RpcError::not_found(path),
        _ => RpcError::internal(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_part_and_written_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("deep/er/a.txt");
        let path = file.to_str().expect("text");
        write(dir.path(), path, "one\ntwo\nthree\n").expect("room");
        assert_eq!(read(dir.path(), path, None, None).expect("a file"), "one\ntwo\nthree\n");
        assert_eq!(read(dir.path(), path, Some(2), Some(1)).expect("a file"), "two\n");
        assert_eq!(read(dir.path(), path, Some(9), None).expect("past the end"), "");
        let left: Vec<_> = std::fs::read_dir(file.parent().expect("a folder")).expect("there").collect();
        assert_eq!(left.len(), 1, "nothing is left beside the file");
    }

    #[test]
    fn a_missing_file_is_reported_in_words_that_agents_know() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("none");
        let error = read(dir.path(), path.to_str().expect("text"), None, None).expect_err("missing");
        for words in ["Resource not found", "ENOENT", "does not exist"] {
            assert!(error.message.contains(words), "{error:?}");
        }
    }

    #[test]
    fn agent_13_links_and_dots_do_not_lead_out_of_the_repository() {
        let dir = tempfile::tempdir().expect("a folder");
        let base = std::fs::canonicalize(dir.path()).expect("there");
        let root = base.join("repo");
        std::fs::create_dir(&root).expect("a folder");
        std::fs::write(base.join("secret"), "no").expect("room");
        std::os::unix::fs::symlink(base.join("secret"), root.join("link")).expect("a link");
        std::os::unix::fs::symlink(base.join("not yet"), root.join("dangling")).expect("a link");
        std::os::unix::fs::symlink(&base, root.join("up")).expect("a link");
        let secret = base.join("secret");
        let asked = [
            secret.clone(),
            root.join("link"),
            root.join("dangling"),
            root.join("../secret"),
            root.join("up/secret"),
            root.join("up/new"),
            root.join("none/../../new"),
            PathBuf::from("/etc/passwd"),
            PathBuf::from("repo/x"),
        ];
        for path in asked {
            let path = path.to_str().expect("text");
            read(&root, path, None, None).expect_err(path);
            write(&root, path, "yes").expect_err(path);
        }
        assert_eq!(std::fs::read_to_string(secret).expect("there"), "no");
        assert!(!base.join("new").exists() && !base.join("not yet").exists());
    }

    /// Swaps a folder and a link to the outside in a loop.
    #[test]
    fn a_folder_that_turns_into_a_link_meanwhile_does_not_lead_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let base = std::fs::canonicalize(dir.path()).expect("there");
        let (root, away) = (base.join("repo"), base.join("away"));
        std::fs::create_dir_all(root.join("folder")).expect("a folder");
        std::fs::create_dir(&away).expect("a folder");
        std::fs::write(away.join("secret"), "no").expect("room");
        std::os::unix::fs::symlink(&away, root.join("link")).expect("a link");
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let swap = || {
            let exchange = rustix::fs::RenameFlags::EXCHANGE;
            let (cwd, folder, link) = (rustix::fs::CWD, root.join("folder"), root.join("link"));
            rustix::fs::renameat_with(cwd, &folder, cwd, &link, exchange).expect("both are there");
        };
        let path = |name: &str| root.join("folder").join(name).to_str().expect("text").to_owned();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    swap();
                }
            });
            for nth in 0..2000 {
                // Either order is valid; only the result matters.
                let _ = write(&root, &path(&format!("file-{nth}")), "words");
                if let Ok(text) = read(&root, &path("secret"), None, None) {
                    panic!("read {text:?}");
                }
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let left: Vec<_> = std::fs::read_dir(&away).expect("there").flatten().map(|it| it.file_name()).collect();
        assert_eq!(left, ["secret"], "nothing was written outside");
    }

    #[test]
    fn gits_own_folder_is_found_behind_every_spelling() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = std::fs::canonicalize(dir.path()).expect("there");
        std::fs::create_dir_all(root.join(".git/hooks")).expect("a folder");
        std::os::unix::fs::symlink(root.join(".git"), root.join("innocent")).expect("a link");
        let gits = [".git/config", ".git", ".GIT/config", "innocent/hooks/x", "sub/.git/config", "a/../.git/new"];
        for (path, expected) in
            gits.map(|path| (path, true)).into_iter().chain([".gitignore", "a.git"].map(|path| (path, false)))
        {
            std::fs::create_dir_all(root.join("a")).expect("a folder");
            let whole = root.join(path);
            let asked = is_gits_own(&root, whole.to_str().expect("text")).expect(path);
            assert_eq!(asked, expected, "{path}");
        }
    }
}
