//! Files that no tool of the format writes: they break one set, hang nothing and cost no memory.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use coven_domain::QuestionSetId;
use coven_interop::questions::{QuestionError, QuestionFolder, Waited};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::stand::{NOW, Stand, said_by};

const FILES: [&str; 3] = ["request.json", "status.json", "answers.json"];
/// In KiB. Reading one of the sparse files whole would take eight times as much.
const DATA_LIMIT: u64 = 128 << 10;
const SPARSE: u64 = 1 << 30;

/// Replaces the file by something else.
fn replaced(stand: &Stand, id: &QuestionSetId, file: &str, make: impl Fn(&std::path::Path)) {
    let path = stand.path(id, file);
    let _ = fs::remove_file(&path);
    make(&path);
}

fn fifo(path: &std::path::Path) {
    mkfifoat(CWD, path, Mode::from_raw_mode(0o600)).expect("a fifo");
}

fn sparse(path: &std::path::Path) {
    File::create(path).and_then(|file| file.set_len(SPARSE)).expect("a sparse file");
}

/// Lists the folder: how many sets are sound, and why the others are broken.
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
fn a_fifo_in_a_set_breaks_that_set_and_no_other() {
    for file in FILES {
        let stand = Stand::new();
        let (sound, broken) = (stand.ask(), stand.ask());
        replaced(&stand, &broken, file, fifo);
        let listed = list(&stand.folder).expect("a folder");
        assert!(listed.starts_with("1 sound; ") && listed.contains("is a fifo, not a regular file"), "{listed}");
        assert!(listed.contains(file), "{listed}");
        stand.read(&sound);
        stand.folder.dismiss(&broken).expect("what is broken can be dismissed");
    }
}

#[test]
fn a_link_in_a_set_is_not_followed() {
    let stand = Stand::new();
    let (target, id) = (stand.ask(), stand.ask());
    replaced(&stand, &id, "status.json", |path| symlink(stand.path(&target, "status.json"), path).expect("a link"));
    let error = stand.folder.read_once(&id).expect_err("a link").to_string();
    assert!(error.contains("is a symbolic link"), "{error}");
}

#[test]
fn sparse_files_of_a_gigabyte_are_listed_as_broken_within_little_memory() {
    let stand = Stand::new();
    stand.ask();
    for file in FILES {
        replaced(&stand, &stand.ask(), file, sparse);
    }
    let other = stand.other_after(&format!("ulimit -d {DATA_LIMIT}"), "list", None).spawn().expect("a process");
    let listed = said_by(other);
    assert!(listed.starts_with("1 sound; "), "{listed}");
    assert_eq!(listed.matches("is larger than 4 MiB, the limit for a file of a question set").count(), 3, "{listed}");
}

#[test]
fn who_waits_for_answers_that_are_a_fifo_is_not_kept_waiting() {
    let stand = Stand::new();
    let id = stand.ask();
    replaced(&stand, &id, "answers.json", fifo);
    let waited = stand.folder.wait(&id, None, None).expect("an end");
    assert!(matches!(&waited, Waited::Abandoned(Some(why)) if why.contains("is a fifo")), "{waited:?}");
}

#[test]
fn questions_that_could_not_be_read_again_are_refused() {
    let stand = Stand::new();
    let mut new = crate::stand::new_set();
    new.questions[0].prompt = "x".repeat(5 << 20);
    let error = stand.folder.create(&new, &crate::stand::LIMITS, NOW).expect_err("too large");
    let QuestionError::AtomicWrite(error) = error else { panic!("{error}") };
    assert!(error.source.to_string().ends_with("the limit for a file of a question set"), "{}", error.source);
    assert_eq!(stand.names(None), Vec::<String>::new(), "nothing is left behind");
}
