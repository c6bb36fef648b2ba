//! The feed against a scripted daemon on a real socket.

use super::feed::Feed;
use super::fixtures::{completed, record, waiting};
use super::report::{Report, Request, Watched, What};
use super::scripted_daemon::ScriptedDaemon;

/// A home of its own with a daemon in it and a feed on it.
struct Rig {
    folder: tempfile::TempDir,
    daemon: ScriptedDaemon,
    feed: Feed,
}

impl Rig {
    fn new(count: i64, page: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the socket");
        let sessions = (0..count).rev().map(|n| completed(&format!("s{n}"), n)).collect();
        let socket = folder.path().join("coven.sock");
        let daemon = ScriptedDaemon::start(&socket, sessions, page);
        let feed = Feed::start(socket, false).expect("threads are left");
        Self { folder, daemon, feed }
    }

    /// Waits for the list to be read to its end; returns the sizes of its pages.
    fn read(&mut self) -> Vec<usize> {
        let mut pages = Vec::new();
        loop {
            match self.feed.next() {
                Report::Page { sessions, .. } => pages.push(sessions.len()),
                Report::ReadingEnded => return pages,
                _ => {}
            }
        }
    }

    fn wait_for(&mut self, wanted: impl Fn(&Report) -> bool) -> Report {
        loop {
            let report = self.feed.next();
            if wanted(&report) {
                return report;
            }
        }
    }
}

#[test]
fn the_list_is_read_page_by_page_and_changes_follow() {
    let mut rig = Rig::new(5, 2);
    assert_eq!(rig.feed.next(), Report::Connected);
    assert_eq!(rig.feed.next(), Report::ReadingStarted);
    assert_eq!(rig.read(), [2, 2, 1]);
    // when a session begins, then it is told
    rig.daemon.put(record("new", 9));
    rig.daemon.emit("session.running", "new");
    assert_eq!(rig.feed.next(), Report::Changed(Box::new(record("new", 9))));
    // when one is sacrificed, then it is gone
    rig.daemon.remove("s0");
    rig.daemon.emit("session.sacrificed", "s0");
    assert_eq!(rig.feed.next(), Report::Gone("s0".into()));
}

#[test]
fn after_a_gap_and_for_the_archive_the_list_is_read_again() {
    let mut rig = Rig::new(3, 10);
    assert_eq!(rig.read(), [3]);
    rig.daemon.put(record("missed", 9));
    rig.daemon.emit("gap", "");
    assert_eq!(rig.read(), [4]);
    rig.feed.read(true);
    assert_eq!(rig.read(), [4]);
}

#[test]
fn a_daemon_that_vanished_is_found_again() {
    let mut rig = Rig::new(3, 10);
    rig.read();
    rig.daemon.vanish();
    rig.wait_for(|report| matches!(report, Report::Lost(_)));
    // when a new one starts on the same socket, then everything is read again
    ScriptedDaemon::start(&rig.folder.path().join("coven.sock"), vec![record("after", 1)], 10);
    rig.wait_for(|report| *report == Report::Connected);
    assert_eq!(rig.read(), [1]);
}

#[test]
fn the_screen_of_what_is_watched_is_shown() {
    let mut rig = Rig::new(2, 10);
    rig.read();
    rig.feed.watch(Some(Watched { id: "s1".into(), is_live: false }));
    let shown = rig.wait_for(|report| matches!(report, Report::Screen { .. }));
    let Report::Screen { id, screen: Ok(picture) } = shown else { panic!("{shown:?}") };
    assert_eq!((id.as_str(), picture.lines[0].to_string().as_str()), ("s1", "s1"));
}

#[test]
fn requests_are_answered_with_a_sentence_if_refused() {
    let mut rig = Rig::new(1, 10);
    let request = Request { id: "s0".into(), what: What::Kill };
    rig.feed.ask(request.clone()).expect("nothing is under way");
    let answered = rig.wait_for(|report| matches!(report, Report::Answered { .. }));
    let Report::Answered { request: answered, answer: Err(why) } = answered else { panic!("{answered:?}") };
    assert_eq!(answered, request);
    assert!(why.starts_with("the session is not live"), "{why}");
}

#[test]
fn lines_arrive_in_the_order_they_were_typed_even_when_the_browser_is_left_at_once() {
    let rig = Rig::new(1, 10);
    let lines: Vec<String> = (0..30).map(|n| format!("line {n}")).collect();
    for line in &lines {
        let request = Request { id: "s0".into(), what: What::Input(line.clone()) };
        rig.feed.ask(request).expect("the queue holds so many");
    }
    drop(rig.feed);
    let asked = rig.daemon.asked();
    let sent: Vec<&str> = asked.iter().filter_map(|(_, body)| body["data"].as_str()).collect();
    assert_eq!(sent, lines.iter().map(|line| format!("{line}\r")).collect::<Vec<_>>());
    assert_eq!(asked[0].0, "POST /api/v1/sessions/s0/input");
}

#[test]
fn what_newly_waits_is_told_and_what_is_gone_already_is_not() {
    let mut rig = Rig::new(1, 10);
    rig.read();
    rig.daemon.emit("question_set.asked", "gone");
    rig.daemon.emit("question_set.asked", "q1");
    assert_eq!(rig.feed.next(), Report::Waits(Box::new(waiting("q1"))));
}
