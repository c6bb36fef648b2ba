//! Target of an export: standard output, or a file that is created atomically.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

pub enum Target {
    Stdout(BufWriter<io::Stdout>),
    File { file: BufWriter<NamedTempFile>, path: PathBuf, may_replace: bool },
}

impl Target {
    /// Fails early if the file exists and must not be replaced.
    pub fn open(path: Option<&Path>, may_replace: bool) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::Stdout(BufWriter::with_capacity(64 << 10, io::stdout()))) };
        if !may_replace && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let file_error = |source| Failure::File { path: path.to_owned(), source };
        // In the same folder: a rename works only within one file system.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new().prefix(".coven-export-").tempfile_in(folder).map_err(file_error)?;
        Ok(Self::File { file: BufWriter::with_capacity(64 << 10, file), path: path.to_owned(), may_replace })
    }

    /// Flushes the output and moves the file to its final name.
    pub fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(mut out) => out.flush().map_err(Failure::Output),
            Self::File { file, path, may_replace } => {
                let file_error = |source| Failure::File { path: path.clone(), source };
                let file = file.into_inner().map_err(|error| file_error(error.into_error()))?;
                file.as_file().sync_all().map_err(file_error)?;
                let kept = if may_replace { file.persist(&path) } else { file.persist_noclobber(&path) };
                match kept {
                    Ok(_) => Ok(()),
                    Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
                    Err(error) => Err(file_error(error.error)),
                }
            }
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File { file, .. } => file.flush(),
        }
    }
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!("{} already exists", path.display()), "Choose another name, or add --force to replace it")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_appears_complete_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.txt");
        let mut target = Target::open(Some(&path), false).expect("a free name");
        target.write_all(b"half").expect("room");
        assert!(!path.exists(), "not before it is complete");
        drop(target);
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0);

        let mut target = Target::open(Some(&path), false).expect("a free name");
        target.write_all(b"whole").expect("room");
        target.finish().expect("a free name");
        assert_eq!(fs::read(&path).expect("there"), b"whole");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn an_existing_file_is_replaced_only_with_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.txt");
        let late = Target::open(Some(&path), false).expect("a free name");
        fs::write(&path, "mine").expect("room");
        assert!(Target::open(Some(&path), false).is_err());
        assert!(late.finish().is_err(), "it was created meanwhile");
        assert_eq!(fs::read(&path).expect("there"), b"mine");
        Target::open(Some(&path), true).and_then(Target::finish).expect("replacing is allowed");
        assert_eq!(fs::read(&path).expect("there"), b"");
    }
}
