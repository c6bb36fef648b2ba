//! Files that no tool of the format writes. They break only their set and neither block nor exhaust memory.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use coven_domain::QuestionSetId;
use coven_interop::questions::{QuestionError, QuestionFolder, Waited};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::fixture::{Fixture, NOW, report_of};

const FILES: [&str; 3] = ["request.json", "status.json", "answers.json"];
/// In KiB. Reading a whole sparse file would take eight times as much.
const DATA_LIMIT: u64 = 128 << 10;
const SPARSE: u64 = 1 << 30;

/// Replaces the file with the result of `make`.
fn replace(fixture: &Fixture, id: &QuestionSetId, file: &str, make: impl Fn(&std::path::Path)) {
    let path = fixture.path(id, file);
    let _ = fs::remove_file(&path);
    make(&path);
}

fn fifo(path: &std::path::Path) {
    mkfifoat(CWD, path, Mode::from_raw_mode(0o600)).expect("fifo");
}

fn sparse(path: &std::path::Path) {
    File::create(path).and_then(|file| file.set_len(SPARSE)).expect("sparse file");
}

/// Lists the folder: the number of sound sets, and why the others are broken.
pub fn list(folder: &QuestionFolder) -> Result<String, QuestionError> {
    let mut sound = 0;
    let mut broken = Vec::new();
    for listed in folder.list()? {
        match listed {
            coven_interop::questions::Listed::Sound(_) => sound += 1,
            coven_interop::questions::Listed::Broken { why, .. } => broken.push(why.to_string()),
        }
    }
    Ok(format!("{sound} sound; {}", broken.join("; ")))
}

#[test]
fn a_fifo_in_a_set_breaks_only_that_set() {
    for file in FILES {
        let fixture = Fixture::new();
        let (sound, broken) = (fixture.ask(), fixture.ask());
        replace(&fixture, &broken, file, fifo);
        let listed = list(&fixture.folder).expect("readable folder");
        assert!(listed.starts_with("1 sound; ") && listed.contains("is a fifo, not a regular file"), "{listed}");
        assert!(listed.contains(file), "{listed}");
        fixture.read(&sound);
        fixture.folder.dismiss(&broken).expect("broken sets can be dismissed");
    }
}

#[test]
fn a_link_in_a_set_is_not_followed() {
    let fixture = Fixture::new();
    let (target, id) = (fixture.ask(), fixture.ask());
    replace(&fixture, &id, "status.json", |path| {
        symlink(fixture.path(&target, "status.json"), path).expect("symbolic link")
    });
    let error = fixture.folder.read_once(&id).expect_err("symbolic link").to_string();
    assert!(error.contains("is a symbolic link"), "{error}");
}

#[test]
fn listing_sparse_files_of_a_gigabyte_takes_little_memory() {
    let fixture = Fixture::new();
    fixture.ask();
    for file in FILES {
        replace(&fixture, &fixture.ask(), file, sparse);
    }
    let other = fixture.other_after(&format!("ulimit -d {DATA_LIMIT}"), "list", None).spawn().expect("process starts");
    let listed = report_of(other);
    assert!(listed.starts_with("1 sound; "), "{listed}");
    assert_eq!(listed.matches("is larger than 4 MiB, the limit for a file of a question set").count(), 3, "{listed}");
}

#[test]
fn a_fifo_as_answers_file_does_not_block_the_waiter() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    replace(&fixture, &id, "answers.json", fifo);
    let waited = fixture.folder.wait(&id, None, None).expect("wait ends");
    assert!(matches!(&waited, Waited::Abandoned(Some(why)) if why.contains("is a fifo")), "{waited:?}");
}

#[test]
fn questions_too_large_to_read_are_refused() {
    let fixture = Fixture::new();
    let mut new = crate::fixture::new_set();
    new.questions[0].prompt = "x".repeat(5 << 20);
    let error = fixture.folder.create(&new, &crate::fixture::LIMITS, NOW).expect_err("too large");
    let QuestionError::AtomicWrite(error) = error else { panic!("{error}") };
    assert!(error.source.to_string().ends_with("the limit for a file of a question set"), "{}", error.source);
    assert_eq!(fixture.names(None), Vec::<String>::new(), "no file is left");
}
