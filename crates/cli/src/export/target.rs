//! Where an export goes: standard output, or a file that appears whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

pub enum Target {
    Stdout(BufWriter<io::Stdout>),
    File { file: BufWriter<NamedTempFile>, path: PathBuf, may_replace: bool },
}

impl Target {
    /// Refuses a file that is there already, before any work is done.
    pub fn open(path: Option<&Path>, may_replace: bool) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::Stdout(BufWriter::with_capacity(64 << 10, io::stdout()))) };
        if !may_replace && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let trouble = |source| Failure::File { path: path.to_owned(), source };
        // Beside its place: a rename works within one file system only.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new().prefix(".coven-export-").tempfile_in(folder).map_err(trouble)?;
        Ok(Self::File { file: BufWriter::with_capacity(64 << 10, file), path: path.to_owned(), may_replace })
    }

    /// Makes the file appear.
    pub fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(mut out) => out.flush().map_err(Failure::Output),
            Self::File { file, path, may_replace } => {
                let trouble = |source| Failure::File { path: path.clone(), source };
                let file = file.into_inner().map_err(|error| trouble(error.into_error()))?;
                file.as_file().sync_all().map_err(trouble)?;
                let kept = if may_replace { file.persist(&path) } else { file.persist_noclobber(&path) };
                match kept {
                    Ok(_) => Ok(()),
                    Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&path)),
                    Err(error) => Err(trouble(error.error)),
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
    Failure::usage(format!("{} exists already", path.display()), "Choose another name, or add --force to replace it")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_appears_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.txt");
        let mut target = Target::open(Some(&path), false).expect("a free name");
        target.write_all(b"half").expect("room");
        assert!(!path.exists(), "not before it is whole");
        drop(target);
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 0);

        let mut target = Target::open(Some(&path), false).expect("a free name");
        target.write_all(b"whole").expect("room");
        target.finish().expect("a free name");
        assert_eq!(fs::read(&path).expect("there"), b"whole");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_if_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.txt");
        let late = Target::open(Some(&path), false).expect("a free name");
        fs::write(&path, "mine").expect("room");
        assert!(Target::open(Some(&path), false).is_err());
        assert!(late.finish().is_err(), "it came into being meanwhile");
        assert_eq!(fs::read(&path).expect("there"), b"mine");
        Target::open(Some(&path), true).and_then(Target::finish).expect("it was asked for");
        assert_eq!(fs::read(&path).expect("there"), b"");
    }
}
