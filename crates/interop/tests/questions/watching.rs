//! Watching the folder: sets that are added, changed or removed.

use std::collections::BTreeSet;

use coven_domain::QuestionSetId;
use coven_interop::questions::FolderWatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::fixture::{Fixture, NOW, choose, report_of};

/// Waits for events and returns whether there are any.
fn has_events(watch: &FolderWatch) -> bool {
    let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
    poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
}

#[test]
fn added_changed_and_removed_sets_are_reported() {
    let fixture = Fixture::new();
    let old = fixture.ask();
    let mut watch = fixture.folder.watch().expect("inotify watch");
    assert_eq!(watch.drain(), [], "nothing has happened yet");

    let new = fixture.ask();
    assert!(has_events(&watch));
    assert_eq!(watch.drain(), [new]);
    fixture.folder.answer(&new, choose("SQLite"), NOW).expect("pending");
    assert!(has_events(&watch));
    assert_eq!(watch.drain(), [new]);
    let child = fixture.other("reject no", Some(&old)).spawn().expect("test binary starts");
    assert_eq!(report_of(child), "rejected");
    assert_eq!(watch.drain(), [old]);
    fixture.folder.dismiss(&old).expect("exists");
    assert_eq!(watch.drain(), [old]);
    assert!(!watch.is_blind());
    assert_eq!(watch.drain(), []);
}

#[test]
fn a_set_that_another_tool_creates_file_by_file_is_reported_for_each_file() {
    let fixture = Fixture::new();
    let model = fixture.ask();
    let mut watch = fixture.folder.watch().expect("inotify watch");
    let id: QuestionSetId = "173b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("valid id");
    let text = |file: &str| fixture.text(&model, file).replace(&model.to_string(), &id.to_string());
    std::fs::create_dir(fixture.path(&id, "")).expect("disk has space");
    assert_eq!(watch.drain(), [id]);
    fixture.put(&id, "request.json", &text("request.json"));
    assert_eq!(watch.drain(), [id]);
    fixture.put(&id, "status.json", &text("status.json"));
    assert_eq!(watch.drain(), [id]);
    fixture.read(&id);
}

#[test]
fn an_event_queue_overflow_reports_all_sets() {
    let fixture = Fixture::new();
    let ids: BTreeSet<QuestionSetId> = (0..4).map(|_| fixture.ask()).collect();
    let mut watch = fixture.folder.watch().expect("inotify watch");
    let queue_size: usize = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .expect("number");
    let first = ids.iter().next().expect("four sets");
    // Alternate between two files: the kernel merges identical consecutive events.
    let text = fixture.text(first, "status.json");
    for _ in 0..queue_size / 2 + 8 {
        std::fs::write(fixture.path(first, "status.json"), &text).expect("disk has space");
        std::fs::write(fixture.path(first, "other"), "").expect("disk has space");
    }
    let changed: BTreeSet<QuestionSetId> = watch.drain().into_iter().collect();
    assert_eq!(changed, ids);
    assert_eq!(watch.drain(), []);
}

#[test]
fn a_removed_folder_is_reported_and_can_be_watched_again() {
    let fixture = Fixture::new();
    let lost = fixture.ask();
    let mut watch = fixture.folder.watch().expect("inotify watch");
    assert!(!watch.is_gone());

    std::fs::remove_dir_all(fixture.folder.path()).expect("writable");

    assert!(has_events(&watch));
    assert_eq!(watch.drain(), [lost]);
    assert!(watch.is_gone());
    let mut watch = fixture.folder.watch().expect("folder is created again");
    let new = fixture.ask();
    assert!(has_events(&watch));
    assert_eq!(watch.drain(), [new]);
    std::fs::rename(fixture.folder.path(), fixture.folder.path().with_extension("moved")).expect("writable");
    assert!(has_events(&watch));
    watch.drain();
    assert!(watch.is_gone(), "a moved folder counts as gone");
}
