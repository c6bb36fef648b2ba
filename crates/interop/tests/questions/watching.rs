//! The folder as those see it who show it: what came, changed and went.

use std::collections::BTreeSet;

use coven_domain::QuestionSetId;
use coven_interop::questions::FolderWatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::stand::{NOW, Stand, choose, said_by};

/// Whether there is anything to drain, waiting for it a while.
fn is_told(watch: &FolderWatch) -> bool {
    let at_most = Timespec { tv_sec: 10, tv_nsec: 0 };
    poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&at_most)).is_ok_and(|ready| ready > 0)
}

#[test]
fn sets_that_come_change_and_go_are_told() {
    let stand = Stand::new();
    let old = stand.ask();
    let mut watch = stand.folder.watch().expect("the kernel has watches");
    assert_eq!(watch.drain(), [], "nothing has happened yet");

    let new = stand.ask();
    assert!(is_told(&watch));
    assert_eq!(watch.drain(), [new]);
    stand.folder.answer(&new, choose("SQLite"), NOW).expect("pending");
    assert!(is_told(&watch));
    assert_eq!(watch.drain(), [new]);
    let child = stand.other("reject no", Some(&old)).spawn().expect("own binary");
    assert_eq!(said_by(child), "rejected");
    assert_eq!(watch.drain(), [old]);
    stand.folder.dismiss(&old).expect("there");
    assert_eq!(watch.drain(), [old]);
    assert!(!watch.is_blind());
    assert_eq!(watch.drain(), []);
}

#[test]
fn a_set_that_another_tool_makes_file_by_file_is_told_until_it_is_whole() {
    let stand = Stand::new();
    let model = stand.ask();
    let mut watch = stand.folder.watch().expect("the kernel has watches");
    let id: QuestionSetId = "173b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id");
    let text = |file: &str| stand.text(&model, file).replace(&model.to_string(), &id.to_string());
    std::fs::create_dir(stand.path(&id, "")).expect("room");
    assert_eq!(watch.drain(), [id]);
    stand.put(&id, "request.json", &text("request.json"));
    assert_eq!(watch.drain(), [id]);
    stand.put(&id, "status.json", &text("status.json"));
    assert_eq!(watch.drain(), [id]);
    stand.read(&id);
}

#[test]
fn more_changes_than_the_kernel_keeps_mean_that_everything_is_looked_at() {
    let stand = Stand::new();
    let ids: BTreeSet<QuestionSetId> = (0..4).map(|_| stand.ask()).collect();
    let mut watch = stand.folder.watch().expect("the kernel has watches");
    let most: usize = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .expect("a number");
    let first = ids.iter().next().expect("four");
    // Two files in turn: equal events in a row are kept as one.
    let text = stand.text(first, "status.json");
    for _ in 0..most / 2 + 8 {
        std::fs::write(stand.path(first, "status.json"), &text).expect("room");
        std::fs::write(stand.path(first, "other"), "").expect("room");
    }
    let changed: BTreeSet<QuestionSetId> = watch.drain().into_iter().collect();
    assert_eq!(changed, ids);
    assert_eq!(watch.drain(), []);
}

#[test]
fn a_folder_that_goes_away_is_told_and_the_one_in_its_place_is_watched_anew() {
    let stand = Stand::new();
    let lost = stand.ask();
    let mut watch = stand.folder.watch().expect("the kernel has watches");
    assert!(!watch.is_gone());

    std::fs::remove_dir_all(stand.folder.path()).expect("ours");

    assert!(is_told(&watch));
    assert_eq!(watch.drain(), [lost]);
    assert!(watch.is_gone());
    let mut watch = stand.folder.watch().expect("it is made again");
    let new = stand.ask();
    assert!(is_told(&watch));
    assert_eq!(watch.drain(), [new]);
    std::fs::rename(stand.folder.path(), stand.folder.path().with_extension("moved")).expect("ours");
    assert!(is_told(&watch));
    watch.drain();
    assert!(watch.is_gone(), "moved away is gone too");
}
