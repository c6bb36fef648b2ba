//! What goes after a while, what stays, what is dismissed.

use std::fs;
use std::time::Duration;

use coven_domain::question_set::QuestionSetState;
use coven_domain::{QuestionSetId, Timestamp};
use coven_holder::clock;
use coven_interop::questions::{CleanedUp, Listed, QuestionFolder};

use crate::stand::{NOW, Stand, choose, said_by};

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

fn after(earlier: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(earlier.as_millis() + millis)
}

fn week_after(earlier: Timestamp) -> Timestamp {
    after(earlier, i64::try_from(WEEK.as_millis()).expect("a week"))
}

#[test]
fn ask_23_finished_sets_go_after_their_time_and_pending_ones_stay() {
    let stand = Stand::new();
    let pending = stand.ask();
    let ends = [QuestionSetState::TimedOut, QuestionSetState::Abandoned];
    let mut old: Vec<QuestionSetId> = ends
        .iter()
        .map(|state| {
            let id = stand.ask();
            stand.folder.settle(&id, *state, NOW).expect("pending");
            id
        })
        .collect();
    old.extend([stand.ask(), stand.ask()]);
    stand.folder.answer(&old[2], choose("SQLite"), NOW).expect("pending");
    stand.folder.reject(&old[3], None, NOW).expect("pending");
    let younger = stand.ask();
    stand.folder.reject(&younger, None, after(NOW, 1)).expect("pending");

    assert_eq!(stand.folder.clean_up(WEEK, after(week_after(NOW), -1)), CleanedUp::default(), "not yet");
    old.sort();
    let done = stand.folder.clean_up(WEEK, week_after(NOW));
    assert_eq!(done, CleanedUp { removed: old, ..CleanedUp::default() });
    let mut left = [pending.to_string(), younger.to_string()];
    left.sort();
    assert_eq!(stand.names(None), left);
    assert_eq!(stand.folder.clean_up(Duration::ZERO, week_after(NOW)).removed, [younger], "zero means at once");
    assert_eq!(stand.read(&pending).state, QuestionSetState::Pending);
}

#[test]
fn ask_23_a_folder_that_is_not_there_is_clean() {
    let stand = Stand::new();
    assert_eq!(stand.folder.clean_up(WEEK, NOW), CleanedUp::default());
    assert!(stand.folder.list().expect("nothing").is_empty());
}

/// Sets broken in every way, by hand.
fn break_some(stand: &Stand) -> Vec<QuestionSetId> {
    let mut broken: Vec<QuestionSetId> = (0..8).map(|_| stand.ask()).collect();
    broken.sort();
    let put = |at: usize, file: &str, text: &str| stand.put(&broken[at], file, text);
    put(0, "status.json", "{");
    put(1, "status.json", "");
    put(2, "request.json", "[]");
    put(3, "request.json", "\u{0}\u{1}");
    put(4, "answers.json", "null");
    fs::remove_file(stand.path(&broken[5], "status.json")).expect("there");
    fs::remove_dir_all(stand.path(&broken[6], "")).expect("there");
    fs::create_dir(stand.path(&broken[6], "")).expect("room");
    fs::remove_file(stand.path(&broken[7], "request.json")).expect("there");
    fs::create_dir(stand.path(&broken[7], "request.json")).expect("room");
    broken
}

#[test]
fn ask_24_a_broken_set_is_told_and_the_others_are_cleaned_up() {
    let stand = Stand::new();
    let mut good: Vec<QuestionSetId> = (0..5).map(|_| stand.ask()).collect();
    good.sort();
    for id in &good {
        stand.folder.reject(id, None, NOW).expect("pending");
    }
    let broken = break_some(&stand);
    let done = stand.folder.clean_up(Duration::ZERO, NOW);
    assert_eq!(done.removed, good);
    let told: Vec<QuestionSetId> = done.failed.iter().map(|(id, _)| *id).collect();
    assert_eq!(told, broken, "{done:?}");
    assert!(done.failed[0].1.contains("status.json is malformed"), "{done:?}");

    let much_later = week_after(week_after(clock::now()));
    let done = stand.folder.clean_up(WEEK, much_later);
    assert_eq!(done, CleanedUp { removed: broken, ..CleanedUp::default() }, "nobody touched them for a week");
    assert!(stand.names(None).is_empty());
}

#[test]
fn a_folder_full_of_broken_sets_is_listed_quickly_with_the_reasons() {
    let stand = Stand::new();
    let good = stand.ask();
    let broken = break_some(&stand);
    fs::write(stand.folder.path().join("173b747a-549b-4b6b-ae62-f1b0c3f21b86"), "a file").expect("room");
    fs::create_dir(stand.folder.path().join("notes")).expect("room");
    // As if they had lain there for a while.
    for id in &broken {
        let dir = fs::File::open(stand.path(id, "")).expect("there");
        dir.set_modified(std::time::SystemTime::now() - WEEK).expect("ours");
    }
    let began = std::time::Instant::now();
    let listed = stand.folder.list().expect("a folder");
    assert!(began.elapsed() < Duration::from_millis(300), "no pauses for ruins: {:?}", began.elapsed());
    let (sound, ruins) = listed.split_at(1);
    assert!(matches!(&sound[0], Listed::Sound(set) if set.id == good));
    let ids: Vec<QuestionSetId> = ruins
        .iter()
        .map(|listed| match listed {
            Listed::Broken { id, .. } => *id,
            Listed::Sound(set) => panic!("{set:?}"),
        })
        .collect();
    assert_eq!(ids, broken);
    for id in &broken {
        stand.folder.dismiss(id).expect("the way to get rid of it");
    }
    assert_eq!(stand.folder.list().expect("a folder").len(), 1);
}

#[test]
fn sets_are_listed_oldest_first() {
    let stand = Stand::new();
    let at = |millis| {
        let new = crate::stand::new_set();
        stand.folder.create(&new, &crate::stand::LIMITS, after(NOW, millis)).expect("asked")
    };
    let (third, first, second) = (at(30), at(10), at(20));
    let ids: Vec<QuestionSetId> = stand
        .folder
        .list()
        .expect("a folder")
        .iter()
        .map(|listed| match listed {
            Listed::Sound(set) => set.id,
            Listed::Broken { why, .. } => panic!("{why}"),
        })
        .collect();
    assert_eq!(ids, [first, second, third]);
}

#[test]
fn a_set_whose_asker_died_while_waiting_is_abandoned() {
    let stand = Stand::new();
    let waits_elsewhere = stand.ask_for_call("mine");
    let nobody_waits: QuestionSetId = {
        let child = stand.other("create", None).spawn().expect("own binary");
        said_by(child).parse().expect("an id")
    };
    let died: QuestionSetId = {
        let child = stand.other("ask-and-die", None).spawn().expect("own binary");
        said_by(child).parse().expect("an id")
    };
    let done = stand.folder.clean_up(WEEK, NOW);
    assert_eq!(done, CleanedUp { abandoned: vec![died], ..CleanedUp::default() });
    assert_eq!(stand.read(&died).abandon_reason.as_deref(), Some("the process that asked is gone"));
    for id in [waits_elsewhere, nobody_waits] {
        assert_eq!(stand.read(&id).state, QuestionSetState::Pending);
    }
}

#[test]
fn one_set_is_abandoned_if_its_asker_died_and_only_then() {
    let stand = Stand::new();
    let waits = stand.ask_for_call("mine");
    let died: QuestionSetId = {
        let child = stand.other("ask-and-die", None).spawn().expect("own binary");
        said_by(child).parse().expect("an id")
    };
    let abandoned = |id| stand.folder.abandon_if_orphaned(id, NOW).expect("a sound set");
    assert_eq!((abandoned(&waits), abandoned(&died)), (false, true));
    assert_eq!(stand.read(&died).abandon_reason.as_deref(), Some("the process that asked is gone"));
    assert!(!abandoned(&died), "it is over already");
    assert_eq!(stand.read(&waits).state, QuestionSetState::Pending);
}

#[test]
fn a_dismissed_set_goes_to_the_archive_and_is_not_pending_there() {
    let stand = Stand::new();
    let id = stand.ask();
    stand.folder.dismiss(&id).expect("there");
    assert!(stand.names(None).is_empty());
    let archive = QuestionFolder::at(stand.folder.archive());
    assert_eq!(stand.folder.archive(), stand.root().join("archive"));
    let kept = archive.read(&id).expect("kept whole");
    assert_eq!((kept.state, kept.abandon_reason.as_deref()), (QuestionSetState::Abandoned, Some("dismissed")));
}

#[test]
fn a_dismissed_set_goes_to_an_archive_on_another_file_system_too() {
    // The sets in shared memory, the archive on the disk.
    let memory = tempfile::tempdir_in("/dev/shm").expect("shared memory");
    let disk = tempfile::tempdir().expect("a folder");
    let sessions = memory.path().join("sessions");
    std::os::unix::fs::symlink(disk.path(), memory.path().join("archive")).expect("room");
    let folder = QuestionFolder::at(&sessions);
    let id = folder.create(&crate::stand::new_set(), &crate::stand::LIMITS, NOW).expect("asked");
    folder.answer(&id, choose("SQLite"), NOW).expect("pending");
    folder.dismiss(&id).expect("there");
    assert_eq!(fs::read_dir(&sessions).expect("there").count(), 0);
    let kept = QuestionFolder::at(disk.path()).read(&id).expect("kept whole");
    assert_eq!(kept.state, QuestionSetState::Completed);
}
