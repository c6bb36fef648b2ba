//! Writes that are killed or fail at every step, full disks, and temporary folders on other file systems.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use coven_domain::QuestionSetId;
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_interop::questions::{Listed, QuestionError, Waited};

use crate::fixture::{Fixture, NOW, choose, parse_report, report_of};

const KILL: i32 = 9;
/// The steps of a write, in order. A fault occurs before its step.
const STEPS: [&str; 6] = ["create", "write", "verify", "sync", "rename", "sync_folder"];

fn with_fault(fixture: &Fixture, role: &str, id: Option<&QuestionSetId>, fault: &str) -> Output {
    fixture.other(role, id).env("COVEN_FAULT", fault).output().expect("test binary starts")
}

/// Returns every step of writing `file`, and whether the file is in place at that point.
fn steps_of(file: &str) -> impl Iterator<Item = (String, bool)> {
    STEPS.iter().map(move |step| (format!("{file} {step}"), *step == "sync_folder"))
}

#[test]
fn ask_12_an_answerer_killed_at_any_step_leaves_a_consistent_set_that_can_be_finished() {
    let lock = [("lock acquired".to_owned(), false)].into_iter();
    let answers = steps_of("answers.json");
    let status = steps_of("status.json").map(|(fault, _)| (fault, true));
    for (fault, is_answered) in lock.chain(answers).chain(status) {
        let fixture = Fixture::new();
        let id = fixture.ask();
        let output = with_fault(&fixture, "answer SQLite", Some(&id), &fault);
        assert_eq!(output.status.signal(), Some(KILL), "{fault}: {output:?}");
        if is_answered {
            assert_eq!(fixture.read(&id).state, QuestionSetState::Completed, "{fault}");
            let waited = fixture.folder.wait(&id, None, None).expect("sound");
            assert!(matches!(waited, Waited::Answered(_)), "{fault}: {waited:?}");
            let again = fixture.folder.answer(&id, choose("PostgreSQL"), NOW).expect_err("answered");
            assert!(matches!(again, QuestionError::AlreadyFinished { .. }), "{fault}: {again}");
            fixture.folder.clean_up(std::time::Duration::MAX, NOW);
        } else {
            assert_eq!(fixture.read(&id).state, QuestionSetState::Pending, "{fault}");
            fixture.folder.answer(&id, choose("PostgreSQL"), NOW).expect("lock of a dead process is stale");
        }
        assert_eq!(fixture.json(&id, "status.json")["status"], "completed", "{fault}");
        fixture.folder.validate(&id).expect("sound");
    }
}

#[test]
fn ask_12_a_rejecter_killed_at_any_step_leaves_a_consistent_set() {
    for (fault, is_rejected) in steps_of("status.json") {
        let fixture = Fixture::new();
        let id = fixture.ask();
        let output = with_fault(&fixture, "reject no", Some(&id), &fault);
        assert_eq!(output.status.signal(), Some(KILL), "{fault}: {output:?}");
        match is_rejected {
            true => assert_eq!(fixture.read(&id).rejection_reason.as_deref(), Some("no"), "{fault}"),
            false => fixture.folder.reject(&id, None, NOW).expect("still pending"),
        }
        assert_eq!(fixture.read(&id).state, QuestionSetState::Rejected, "{fault}");
    }
}

#[test]
fn ask_12_an_asker_killed_at_any_step_leaves_a_complete_set_or_none() {
    let hidden = ["request.json", "status.json"]
        .into_iter()
        .flat_map(|file| STEPS[..4].iter().map(move |step| (format!("{file} {step}"), false)));
    let last = [("set rename".to_owned(), false), ("set sync_folder".to_owned(), true)];
    for (fault, is_there) in hidden.chain(last) {
        let fixture = Fixture::new();
        let output = with_fault(&fixture, "create", None, &fault);
        assert_eq!(output.status.signal(), Some(KILL), "{fault}: {output:?}");
        let listed = fixture.folder.list().expect("readable folder");
        match is_there {
            true => assert!(matches!(&listed[..], [Listed::Sound(_)]), "{fault}: {listed:?}"),
            false => assert!(listed.is_empty(), "{fault}: {listed:?}"),
        }
        fixture.folder.clean_up(std::time::Duration::MAX, clock::now());
        assert_eq!(fixture.names(None).len(), 1, "{fault}: a recent folder may still be incomplete");
        let later = coven_domain::Timestamp::from_millis(clock::now().as_millis() + 3_600_000);
        fixture.folder.clean_up(std::time::Duration::MAX, later);
        assert_eq!(fixture.names(None).len(), usize::from(is_there), "{fault}: an old incomplete folder is removed");
    }
}

#[test]
fn ask_14_a_failed_write_names_its_step_and_leaves_no_temporary_file() {
    for (step, (fault, is_written)) in STEPS.iter().zip(steps_of("answers.json")) {
        let fixture = Fixture::new();
        let id = fixture.ask();
        let output = with_fault(&fixture, "answer SQLite", Some(&id), &format!("{fault} fails"));
        let report = parse_report(&output).unwrap_or_else(|| panic!("{fault}: {output:?}"));
        assert!(report.starts_with(&format!("atomic write failed at {step}: ")), "{report}");
        let files: &[&str] = match is_written {
            true => &["answers.json", "request.json", "status.json"],
            false => &["request.json", "status.json"],
        };
        assert_eq!(fixture.names(Some(&id)), files, "{fault}: no temporary file and no lock");
        assert_eq!(fixture.json(&id, "status.json")["status"], "pending", "{fault}");
    }
}

#[test]
fn ask_14_a_set_that_cannot_be_created_leaves_no_files() {
    for fault in ["request.json write fails", "status.json sync fails", "set rename fails"] {
        let fixture = Fixture::new();
        let report = parse_report(&with_fault(&fixture, "create", None, fault)).expect("process reports");
        assert!(report.starts_with("atomic write failed at "), "{report}");
        assert!(fixture.names(None).is_empty(), "{fault}");
    }
}

#[test]
fn ask_14_a_full_disk_is_reported_and_changes_nothing() {
    // Files cannot grow: as on a full disk, a write fails partway.
    let full = "trap '' XFSZ; ulimit -f 0";
    let fixture = Fixture::new();
    let report = report_of(fixture.other_after(full, "create", None).spawn().expect("shell starts"));
    assert!(report.starts_with("atomic write failed at write: "), "{report}");
    assert!(fixture.names(None).is_empty());
    let id = fixture.ask();
    let report = report_of(fixture.other_after(full, "answer SQLite", Some(&id)).spawn().expect("shell starts"));
    assert!(report.contains("cannot write"), "{report}");
    assert_eq!(fixture.names(Some(&id)), ["request.json", "status.json"]);
    assert_eq!(fixture.read(&id).state, QuestionSetState::Pending);
}

#[test]
fn ask_14_the_error_names_a_target_that_cannot_be_replaced() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    fs::create_dir_all(fixture.path(&id, "answers.json/in-the-way")).expect("disk has space");
    let error = fixture.folder.answer(&id, choose("SQLite"), NOW).expect_err("a folder is in the way");
    assert!(error.to_string().contains("answers.json"), "{error}");
    assert_eq!(fixture.names(Some(&id)), ["answers.json", "request.json", "status.json"]);
}

#[test]
fn ask_12_tmpdir_has_no_effect() {
    let fixture = Fixture::new();
    for elsewhere in ["/dev/shm", "/nowhere/at/all"] {
        let child = fixture.other("create", None).env("TMPDIR", elsewhere).spawn().expect("test binary starts");
        let id: QuestionSetId = report_of(child).parse().expect("valid id");
        let child =
            fixture.other("answer SQLite", Some(&id)).env("TMPDIR", elsewhere).spawn().expect("test binary starts");
        assert_eq!(report_of(child), "answered");
        assert_eq!(fixture.read(&id).state, QuestionSetState::Completed);
    }
}
