//! Writes that are cut or fail at every step, disks that are full, temporary folders elsewhere.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use coven_domain::QuestionSetId;
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_interop::questions::{Listed, QuestionError, Waited};

use crate::stand::{NOW, Stand, choose, said, said_by};

const KILL: i32 = 9;
/// The steps of one write, in order; a fault comes before its step.
const STEPS: [&str; 6] = ["create", "write", "verify", "sync", "rename", "sync_folder"];

fn with_fault(stand: &Stand, role: &str, id: Option<&QuestionSetId>, fault: &str) -> Output {
    stand.other(role, id).env("COVEN_FAULT", fault).output().expect("own binary")
}

/// Every step of writing `file`, and whether the file is in its place then.
fn steps_of(file: &str) -> impl Iterator<Item = (String, bool)> {
    STEPS.iter().map(move |step| (format!("{file} {step}"), *step == "sync_folder"))
}

#[test]
fn ask_12_an_answerer_killed_at_any_step_leaves_a_set_that_is_whole_and_can_be_finished() {
    let lock = [("lock acquired".to_owned(), false)].into_iter();
    let answers = steps_of("answers.json");
    let status = steps_of("status.json").map(|(fault, _)| (fault, true));
    for (fault, is_answered) in lock.chain(answers).chain(status) {
        let stand = Stand::new();
        let id = stand.ask();
        let output = with_fault(&stand, "answer SQLite", Some(&id), &fault);
        assert_eq!(output.status.signal(), Some(KILL), "{fault}: {output:?}");
        if is_answered {
            assert_eq!(stand.read(&id).state, QuestionSetState::Completed, "{fault}");
            let waited = stand.folder.wait(&id, None, None).expect("sound");
            assert!(matches!(waited, Waited::Answered(_)), "{fault}: {waited:?}");
            let again = stand.folder.answer(&id, choose("PostgreSQL"), NOW).expect_err("answered");
            assert!(matches!(again, QuestionError::AlreadyFinished { .. }), "{fault}: {again}");
            stand.folder.clean_up(std::time::Duration::MAX, NOW);
        } else {
            assert_eq!(stand.read(&id).state, QuestionSetState::Pending, "{fault}");
            stand.folder.answer(&id, choose("PostgreSQL"), NOW).expect("the dead one's lock does not hold");
        }
        assert_eq!(stand.json(&id, "status.json")["status"], "completed", "{fault}");
        stand.folder.validate(&id).expect("sound");
    }
}

#[test]
fn ask_12_a_rejecter_killed_at_any_step_leaves_a_set_that_is_whole() {
    for (fault, is_rejected) in steps_of("status.json") {
        let stand = Stand::new();
        let id = stand.ask();
        let output = with_fault(&stand, "reject no", Some(&id), &fault);
        assert_eq!(output.status.signal(), Some(KILL), "{fault}: {output:?}");
        match is_rejected {
            true => assert_eq!(stand.read(&id).rejection_reason.as_deref(), Some("no"), "{fault}"),
            false => stand.folder.reject(&id, None, NOW).expect("still pending"),
        }
        assert_eq!(stand.read(&id).state, QuestionSetState::Rejected, "{fault}");
    }
}

#[test]
fn ask_12_an_asker_killed_at_any_step_shows_a_whole_set_or_none() {
    let hidden = ["request.json", "status.json"]
        .into_iter()
        .flat_map(|file| STEPS[..4].iter().map(move |step| (format!("{file} {step}"), false)));
    let last = [("set rename".to_owned(), false), ("set sync_folder".to_owned(), true)];
    for (fault, is_there) in hidden.chain(last) {
        let stand = Stand::new();
        let output = with_fault(&stand, "create", None, &fault);
        assert_eq!(output.status.signal(), Some(KILL), "{fault}: {output:?}");
        let listed = stand.folder.list().expect("a folder");
        match is_there {
            true => assert!(matches!(&listed[..], [Listed::Sound(_)]), "{fault}: {listed:?}"),
            false => assert!(listed.is_empty(), "{fault}: {listed:?}"),
        }
        stand.folder.clean_up(std::time::Duration::MAX, clock::now());
        assert_eq!(stand.names(None).len(), 1, "{fault}: what is new may still be in the making");
        let later = coven_domain::Timestamp::from_millis(clock::now().as_millis() + 3_600_000);
        stand.folder.clean_up(std::time::Duration::MAX, later);
        assert_eq!(stand.names(None).len(), usize::from(is_there), "{fault}: an hour later it is not");
    }
}

#[test]
fn ask_14_a_write_that_fails_names_its_step_and_leaves_no_temporary_file() {
    for (step, (fault, is_written)) in STEPS.iter().zip(steps_of("answers.json")) {
        let stand = Stand::new();
        let id = stand.ask();
        let output = with_fault(&stand, "answer SQLite", Some(&id), &format!("{fault} fails"));
        let told = said(&output).unwrap_or_else(|| panic!("{fault}: {output:?}"));
        assert!(told.starts_with(&format!("atomic write failed at {step}: ")), "{told}");
        let files: &[&str] = match is_written {
            true => &["answers.json", "request.json", "status.json"],
            false => &["request.json", "status.json"],
        };
        assert_eq!(stand.names(Some(&id)), files, "{fault}: neither a temporary file nor a lock");
        assert_eq!(stand.json(&id, "status.json")["status"], "pending", "{fault}");
    }
}

#[test]
fn ask_14_a_set_that_cannot_be_made_leaves_nothing() {
    for fault in ["request.json write fails", "status.json sync fails", "set rename fails"] {
        let stand = Stand::new();
        let told = said(&with_fault(&stand, "create", None, fault)).expect("it lives");
        assert!(told.starts_with("atomic write failed at "), "{told}");
        assert!(stand.names(None).is_empty(), "{fault}");
    }
}

#[test]
fn ask_14_a_full_disk_is_told_and_changes_nothing() {
    // No file may grow: as on a full disk, a write fails in the middle.
    let full = "trap '' XFSZ; ulimit -f 0";
    let stand = Stand::new();
    let told = said_by(stand.other_after(full, "create", None).spawn().expect("a shell"));
    assert!(told.starts_with("atomic write failed at write: "), "{told}");
    assert!(stand.names(None).is_empty());
    let id = stand.ask();
    let told = said_by(stand.other_after(full, "answer SQLite", Some(&id)).spawn().expect("a shell"));
    assert!(told.contains("cannot be written"), "{told}");
    assert_eq!(stand.names(Some(&id)), ["request.json", "status.json"]);
    assert_eq!(stand.read(&id).state, QuestionSetState::Pending);
}

#[test]
fn ask_14_a_target_that_cannot_be_replaced_is_named() {
    let stand = Stand::new();
    let id = stand.ask();
    fs::create_dir_all(stand.path(&id, "answers.json/in-the-way")).expect("room");
    let error = stand.folder.answer(&id, choose("SQLite"), NOW).expect_err("a folder is in the way");
    assert!(error.to_string().contains("answers.json"), "{error}");
    assert_eq!(stand.names(Some(&id)), ["answers.json", "request.json", "status.json"]);
}

#[test]
fn ask_12_where_temporary_files_go_does_not_matter() {
    let shared_memory = "/dev/shm";
    let stand = Stand::new();
    for elsewhere in [shared_memory, "/nowhere/at/all"] {
        let child = stand.other("create", None).env("TMPDIR", elsewhere).spawn().expect("own binary");
        let id: QuestionSetId = said_by(child).parse().expect("an id");
        let child = stand.other("answer SQLite", Some(&id)).env("TMPDIR", elsewhere).spawn().expect("own binary");
        assert_eq!(said_by(child), "answered");
        assert_eq!(stand.read(&id).state, QuestionSetState::Completed);
    }
}
