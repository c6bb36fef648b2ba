//! Cleanup and dismissal of question sets.

use std::fs;
use std::time::Duration;

use coven_domain::question_set::QuestionSetState;
use coven_domain::{QuestionSetId, Timestamp};
use coven_holder::clock;
use coven_interop::questions::{CleanedUp, Listed, QuestionFolder};

use crate::fixture::{Fixture, NOW, choose, report_of};

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

fn after(earlier: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(earlier.as_millis() + millis)
}

fn week_after(earlier: Timestamp) -> Timestamp {
    after(earlier, i64::try_from(WEEK.as_millis()).expect("fits into i64"))
}

#[test]
fn ask_23_finished_sets_expire_and_pending_sets_stay() {
    let fixture = Fixture::new();
    let pending = fixture.ask();
    let ends = [QuestionSetState::TimedOut, QuestionSetState::Abandoned];
    let mut old: Vec<QuestionSetId> = ends
        .iter()
        .map(|state| {
            let id = fixture.ask();
            fixture.folder.end_without_answer(&id, *state, NOW).expect("pending");
            id
        })
        .collect();
    old.extend([fixture.ask(), fixture.ask()]);
    fixture.folder.answer(&old[2], choose("SQLite"), NOW).expect("pending");
    fixture.folder.reject(&old[3], None, NOW).expect("pending");
    let younger = fixture.ask();
    fixture.folder.reject(&younger, None, after(NOW, 1)).expect("pending");

    assert_eq!(fixture.folder.clean_up(WEEK, after(week_after(NOW), -1)), CleanedUp::default(), "not yet");
    old.sort();
    let done = fixture.folder.clean_up(WEEK, week_after(NOW));
    assert_eq!(done, CleanedUp { removed: old, ..CleanedUp::default() });
    let mut left = [pending.to_string(), younger.to_string()];
    left.sort();
    assert_eq!(fixture.names(None), left);
    assert_eq!(
        fixture.folder.clean_up(Duration::ZERO, week_after(NOW)).removed,
        [younger],
        "a retention of zero removes immediately"
    );
    assert_eq!(fixture.read(&pending).state, QuestionSetState::Pending);
}

#[test]
fn ask_23_cleanup_accepts_a_missing_folder() {
    let fixture = Fixture::new();
    assert_eq!(fixture.folder.clean_up(WEEK, NOW), CleanedUp::default());
    assert!(fixture.folder.list().expect("missing folder").is_empty());
}

/// Creates sets that are broken in different ways.
fn broken_sets(fixture: &Fixture) -> Vec<QuestionSetId> {
    let mut broken: Vec<QuestionSetId> = (0..8).map(|_| fixture.ask()).collect();
    broken.sort();
    let put = |at: usize, file: &str, text: &str| fixture.put(&broken[at], file, text);
    put(0, "status.json", "{");
    put(1, "status.json", "");
    put(2, "request.json", "[]");
    put(3, "request.json", "\u{0}\u{1}");
    put(4, "answers.json", "null");
    fs::remove_file(fixture.path(&broken[5], "status.json")).expect("exists");
    fs::remove_dir_all(fixture.path(&broken[6], "")).expect("exists");
    fs::create_dir(fixture.path(&broken[6], "")).expect("disk has space");
    fs::remove_file(fixture.path(&broken[7], "request.json")).expect("exists");
    fs::create_dir(fixture.path(&broken[7], "request.json")).expect("disk has space");
    broken
}

#[test]
fn ask_24_broken_sets_are_reported_and_the_others_are_cleaned_up() {
    let fixture = Fixture::new();
    let mut good: Vec<QuestionSetId> = (0..5).map(|_| fixture.ask()).collect();
    good.sort();
    for id in &good {
        fixture.folder.reject(id, None, NOW).expect("pending");
    }
    let broken = broken_sets(&fixture);
    let done = fixture.folder.clean_up(Duration::ZERO, NOW);
    assert_eq!(done.removed, good);
    let failed: Vec<QuestionSetId> = done.failed.iter().map(|(id, _)| *id).collect();
    assert_eq!(failed, broken, "{done:?}");
    assert!(done.failed[0].1.contains("status.json is malformed"), "{done:?}");

    let much_later = week_after(week_after(clock::now()));
    let done = fixture.folder.clean_up(WEEK, much_later);
    assert_eq!(done, CleanedUp { removed: broken, ..CleanedUp::default() }, "unchanged for a week");
    assert!(fixture.names(None).is_empty());
}

#[test]
fn a_folder_full_of_broken_sets_is_listed_quickly_with_the_reasons() {
    let fixture = Fixture::new();
    let good = fixture.ask();
    let broken = broken_sets(&fixture);
    fs::write(fixture.folder.path().join("173b747a-549b-4b6b-ae62-f1b0c3f21b86"), "a file").expect("disk has space");
    fs::create_dir(fixture.folder.path().join("notes")).expect("disk has space");
    // Make the sets look old, so that reading them is not retried.
    for id in &broken {
        let dir = fs::File::open(fixture.path(id, "")).expect("exists");
        dir.set_modified(std::time::SystemTime::now() - WEEK).expect("writable");
    }
    let started = std::time::Instant::now();
    let listed = fixture.folder.list().expect("readable folder");
    // Retries would take 300 ms for each broken set.
    let with_retries = Duration::from_millis(300) * u32::try_from(broken.len()).expect("a small number");
    assert!(started.elapsed() < with_retries, "no retries for old sets: {:?}", started.elapsed());
    let (sound, rest) = listed.split_at(1);
    assert!(matches!(&sound[0], Listed::Sound(set) if set.id == good));
    let ids: Vec<QuestionSetId> = rest
        .iter()
        .map(|listed| match listed {
            Listed::Broken { id, .. } => *id,
            Listed::Sound(set) => panic!("{set:?}"),
        })
        .collect();
    assert_eq!(ids, broken);
    for id in &broken {
        fixture.folder.dismiss(id).expect("broken sets can be dismissed");
    }
    assert_eq!(fixture.folder.list().expect("readable folder").len(), 1);
}

#[test]
fn sets_are_listed_oldest_first() {
    let fixture = Fixture::new();
    let at = |millis| {
        let new = crate::fixture::new_set();
        fixture.folder.create(&new, &crate::fixture::LIMITS, after(NOW, millis)).expect("created")
    };
    let (third, first, second) = (at(30), at(10), at(20));
    let ids: Vec<QuestionSetId> = fixture
        .folder
        .list()
        .expect("readable folder")
        .iter()
        .map(|listed| match listed {
            Listed::Sound(set) => set.id,
            Listed::Broken { why, .. } => panic!("{why}"),
        })
        .collect();
    assert_eq!(ids, [first, second, third]);
}

#[test]
fn a_set_whose_waiting_asker_exited_is_abandoned() {
    let fixture = Fixture::new();
    let asker_waits = fixture.ask_for_call("mine");
    let no_waiting_asker: QuestionSetId = {
        let child = fixture.other("create", None).spawn().expect("test binary starts");
        report_of(child).parse().expect("valid id")
    };
    let died: QuestionSetId = {
        let child = fixture.other("ask-and-die", None).spawn().expect("test binary starts");
        report_of(child).parse().expect("valid id")
    };
    let done = fixture.folder.clean_up(WEEK, NOW);
    assert_eq!(done, CleanedUp { abandoned: vec![died], ..CleanedUp::default() });
    assert_eq!(fixture.read(&died).abandon_reason.as_deref(), Some("the process that asked has exited"));
    for id in [asker_waits, no_waiting_asker] {
        assert_eq!(fixture.read(&id).state, QuestionSetState::Pending);
    }
}

#[test]
fn abandon_if_orphaned_affects_only_sets_whose_asker_exited() {
    let fixture = Fixture::new();
    let waits = fixture.ask_for_call("mine");
    let died: QuestionSetId = {
        let child = fixture.other("ask-and-die", None).spawn().expect("test binary starts");
        report_of(child).parse().expect("valid id")
    };
    let abandoned = |id| fixture.folder.abandon_if_orphaned(id, NOW).expect("sound set");
    assert_eq!((abandoned(&waits), abandoned(&died)), (false, true));
    assert_eq!(fixture.read(&died).abandon_reason.as_deref(), Some("the process that asked has exited"));
    assert!(!abandoned(&died), "the set has already ended");
    assert_eq!(fixture.read(&waits).state, QuestionSetState::Pending);
}

#[test]
fn a_dismissed_set_is_archived_as_abandoned() {
    let fixture = Fixture::new();
    let id = fixture.ask();
    fixture.folder.dismiss(&id).expect("exists");
    assert!(fixture.names(None).is_empty());
    let archive = QuestionFolder::at(fixture.folder.archive());
    assert_eq!(fixture.folder.archive(), fixture.root().join("archive"));
    let kept = archive.read(&id).expect("archived");
    assert_eq!((kept.state, kept.abandon_reason.as_deref()), (QuestionSetState::Abandoned, Some("dismissed")));
}

#[test]
fn a_set_can_be_archived_on_another_file_system() {
    // The sets are in shared memory, the archive is on disk.
    let memory = tempfile::tempdir_in("/dev/shm").expect("/dev/shm");
    let disk = tempfile::tempdir().expect("temporary folder");
    let sessions = memory.path().join("sessions");
    std::os::unix::fs::symlink(disk.path(), memory.path().join("archive")).expect("disk has space");
    let folder = QuestionFolder::at(&sessions);
    let id = folder.create(&crate::fixture::new_set(), &crate::fixture::LIMITS, NOW).expect("created");
    folder.answer(&id, choose("SQLite"), NOW).expect("pending");
    folder.dismiss(&id).expect("exists");
    assert_eq!(fs::read_dir(&sessions).expect("exists").count(), 0);
    let kept = QuestionFolder::at(disk.path()).read(&id).expect("archived");
    assert_eq!(kept.state, QuestionSetState::Completed);
}
