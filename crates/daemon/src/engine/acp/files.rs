//! An agent's reads and writes of text files: inside its repository, links resolved before the check.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use coven_acp::RpcError;

/// The largest file that is handed over.
const MAX_BYTES: u64 = 8 << 20;

pub(super) fn read(root: &Path, path: &str, line: Option<u32>, limit: Option<u32>) -> Result<String, RpcError> {
    let file = inside(root, path)?;
    let metadata = std::fs::metadata(&file).map_err(|error| failed(path, &error))?;
    if !metadata.is_file() {
        return Err(RpcError::invalid_params(format!("{path} is not a file")));
    }
    if metadata.len() > MAX_BYTES {
        return Err(RpcError::invalid_params(format!("{path} is larger than {MAX_BYTES} bytes")));
    }
    let bytes = std::fs::read(&file).map_err(|error| failed(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|_| RpcError::invalid_params(format!("{path} is not UTF-8 text")))?;
    if line.is_none() && limit.is_none() {
        return Ok(text);
    }
    let from = usize::try_from(line.unwrap_or(1).max(1) - 1).unwrap_or(usize::MAX);
    let count = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(text.split_inclusive('\n').skip(from).take(count).collect())
}

/// Whole or not at all: beside the file, then in its place.
pub(super) fn write(root: &Path, path: &str, content: &str) -> Result<(), RpcError> {
    let file = inside(root, path)?;
    let folder = file.parent().ok_or_else(|| RpcError::invalid_params(format!("{path} is no file")))?;
    if file.is_dir() {
        return Err(RpcError::invalid_params(format!("{path} is a folder")));
    }
    let attempt = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let beside = folder.join(format!(".{name}.{}.coven", uuid::Uuid::new_v4().simple()));
        let written = (|| {
            let mut new = std::fs::File::create_new(&beside)?;
            new.write_all(content.as_bytes())?;
            if let Ok(known) = std::fs::metadata(&file) {
                new.set_permissions(known.permissions())?;
            }
            std::fs::rename(&beside, &file)
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        written
    };
    attempt().map_err(|error| failed(path, &error))
}

/// The real place of a path, if it lies in the repository. What does not exist yet is judged by the folder that does.
pub(super) fn inside(root: &Path, path: &str) -> Result<PathBuf, RpcError> {
    let refused = || {
        tracing::warn!(path, root = %root.display(), "an agent asked for a file outside its repository");
        RpcError::invalid_params(format!("{path} is outside the repository {}", root.display()))
    };
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
                // A link that leads nowhere yet could lead anywhere.
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
    fn a_missing_file_is_told_in_words_that_agents_know() {
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
}
