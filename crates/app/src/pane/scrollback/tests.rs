use coven_api::entry::{EntriesResponse, EntryDetail, EntryRecord};
use coven_domain::entry::EntryKind;
use crossterm::event::{KeyCode, KeyModifiers};

use super::*;

const AREA: Rect = Rect { x: 0, y: 0, width: 40, height: 6 };
const THEME: Theme = Theme { has_colors: true };

/// A daemon with one recorded session.
struct Daemon {
    entries: Vec<EntryRecord>,
    per_page: usize,
    requests: usize,
}

impl Daemon {
    /// The session starts at second 1,000 with 5 rows and 20 columns.
    fn new() -> Self {
        let mut daemon = Self { entries: Vec::new(), per_page: 1_000, requests: 0 };
        daemon.resize(0, 5, 20);
        daemon
    }

    fn add(&mut self, kind: EntryKind, millis: i64, data: &str, detail: EntryDetail) {
        let is_output = kind == EntryKind::Output;
        self.entries.push(EntryRecord {
            seq: self.entries.len() as u64 + 1,
            kind,
            at: at(millis),
            offset: 0,
            length: is_output.then_some(1),
            data: is_output.then(|| data.to_owned()).filter(|data| !data.is_empty()),
            data_base64: None,
            detail,
        });
    }

    fn output(&mut self, millis: i64, data: &str) {
        self.add(EntryKind::Output, millis, data, EntryDetail::default());
    }

    fn resize(&mut self, millis: i64, rows: u16, cols: u16) {
        let detail = EntryDetail { rows: Some(rows), cols: Some(cols), ..EntryDetail::default() };
        self.add(EntryKind::Resize, millis, "", detail);
    }

    /// Answers requests until there are none.
    fn serve(&mut self, scrollback: &mut Scrollback, mut effects: Vec<Effect>) {
        while let Some(effect) = effects.pop() {
            let Effect::Call(call) = effect else { panic!("{effect:?}") };
            let Call::Entries { after, .. } = *call else { panic!("{call:?}") };
            let entries: Vec<_> =
                self.entries.iter().filter(|it| it.seq > after).take(self.per_page).cloned().collect();
            let next = entries.last().map_or(after, |it| it.seq);
            self.requests += 1;
            effects.extend(scrollback.answered(&call, &Ok(Answer::Entries(EntriesResponse { entries, next }))));
        }
    }

    fn open_output(&mut self) -> Scrollback {
        let (mut scrollback, effects) = Scrollback::output(session());
        self.serve(&mut scrollback, effects);
        self.settle(&mut scrollback, 0);
        scrollback
    }

    fn open_replay(&mut self) -> Scrollback {
        let (mut scrollback, effects) = Scrollback::replay(session(), at(0));
        self.serve(&mut scrollback, effects);
        scrollback
    }

    /// Ticks as long as there is work to do at this time.
    fn settle(&mut self, scrollback: &mut Scrollback, millis: i64) {
        for _ in 0..1_000 {
            let effects = scrollback.tick(at(millis));
            self.serve(scrollback, effects);
            if scrollback.next_tick_millis() != Some(1) {
                return;
            }
        }
        panic!("it never settles");
    }

    fn press(&mut self, scrollback: &mut Scrollback, keys: &str, millis: i64) -> Vec<Effect> {
        let mut other = Vec::new();
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '←' => KeyCode::Left,
                '→' => KeyCode::Right,
                '⇞' => KeyCode::PageUp,
                '⇟' => KeyCode::PageDown,
                c => KeyCode::Char(c),
            };
            let PaneResult::Done(effects) = scrollback.key(KeyEvent::from(code), AREA, at(millis)) else {
                panic!("the key {c} does nothing")
            };
            let (calls, rest): (Vec<_>, Vec<_>) = effects.into_iter().partition(|it| matches!(it, Effect::Call(_)));
            other.extend(rest);
            self.serve(scrollback, calls);
            self.settle(scrollback, millis);
        }
        other
    }
}

fn session() -> SessionId {
    SessionId::from_uuid(Default::default())
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + millis)
}

fn drawn(scrollback: &Scrollback) -> Vec<String> {
    let mut buffer = Buffer::empty(AREA);
    scrollback.draw(&mut buffer, AREA, THEME);
    let row = |y| (0..AREA.width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..AREA.height).map(|y| row(y).trim_end().to_owned()).collect()
}

fn status(scrollback: &Scrollback) -> String {
    drawn(scrollback).pop().expect("a last row")
}

fn copied(effects: &[Effect]) -> &str {
    let [Effect::Copy(text)] = effects else { panic!("{effects:?}") };
    text
}

/// A session that wrote these lines.
fn with_lines(lines: impl IntoIterator<Item = impl std::fmt::Display>) -> Daemon {
    let mut daemon = Daemon::new();
    lines.into_iter().for_each(|line| daemon.output(0, &format!("{line}\r\n")));
    daemon
}

#[test]
fn copy_mode_opens_at_the_end_and_moves() {
    let mut daemon = with_lines((1..=2_500).map(|number| format!("row {number}")));
    let mut view = daemon.open_output();
    assert_eq!(drawn(&view), ["row 2496", "row 2497", "row 2498", "row 2499", "row 2500", "line 2,500 of 2,500"]);
    daemon.press(&mut view, "kk", 0);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).as_str()), ("row 2496", "line 2,498 of 2,500"));
    daemon.press(&mut view, "⇞", 0);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).as_str()), ("row 2491", "line 2,493 of 2,500"));
    daemon.press(&mut view, "g", 0);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).as_str()), ("row 1", "line 1 of 2,500"));
    daemon.press(&mut view, "⇟", 0);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).as_str()), ("row 6", "line 6 of 2,500"));
    view.scroll(10, AREA);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).as_str()), ("row 16", "line 16 of 2,500"));
    view.scroll(-2, AREA);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).as_str()), ("row 14", "line 14 of 2,500"));
    let half = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    view.key(half, AREA, at(0));
    assert_eq!(status(&view), "line 12 of 2,500");
    assert!(matches!(view.key(KeyEvent::from(KeyCode::Esc), AREA, at(0)), PaneResult::Left));
}

#[test]
fn the_wheel_opens_it_at_the_end_too() {
    let mut daemon = with_lines(0..100);
    let (mut view, effects) = Scrollback::output(session());
    view.scroll(-3, AREA);
    daemon.serve(&mut view, effects);
    assert_eq!(status(&view), "line 100 of 100");
    view.scroll(-3, AREA);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).as_str()), ("92", "line 97 of 100"));
}

#[test]
fn search_finds_upwards_from_the_end_and_wraps() {
    let mut daemon = with_lines((0..50).map(|n| if n % 20 == 5 { format!("{n} an Error") } else { format!("{n}") }));
    let mut view = daemon.open_output();
    daemon.press(&mut view, "/error", 0);
    assert_eq!(status(&view), "/error");
    daemon.press(&mut view, "\n", 0);
    assert_eq!(status(&view), "line 46 of 50  3 of 3");
    daemon.press(&mut view, "n", 0);
    assert_eq!(status(&view), "line 26 of 50  2 of 3");
    daemon.press(&mut view, "nn", 0);
    assert_eq!(status(&view), "line 46 of 50  3 of 3", "from the first to the last");
    daemon.press(&mut view, "N", 0);
    assert_eq!(status(&view), "line 6 of 50  1 of 3", "and back");
    daemon.press(&mut view, "N", 0);
    assert_eq!(status(&view), "line 26 of 50  2 of 3");
    daemon.press(&mut view, "/ERROR\n", 0);
    assert_eq!(status(&view), "line 26 of 50  not found: ERROR");
    let mut buffer = Buffer::empty(AREA);
    daemon.press(&mut view, "/an e\n", 0);
    let cursor = view.draw(&mut buffer, AREA, THEME).expect("a cursor");
    let marked = |x: u16| buffer[(x, cursor.y)].modifier.contains(ratatui::style::Modifier::UNDERLINED);
    assert_eq!((cursor.x, (0..8).map(marked).filter(|it| *it).count(), marked(3), marked(7)), (3, 4, true, false));
}

#[test]
fn the_selection_is_copied_with_wide_characters() {
    let mut daemon = with_lines(["one", "漢字 two", "", "three"]);
    let mut view = daemon.open_output();
    assert_eq!(copied(&daemon.press(&mut view, "y", 0)), "three");
    assert_eq!(status(&view), "line 4 of 4  copied 1 line");
    assert_eq!(copied(&daemon.press(&mut view, "gjlv$hy", 0)), "字 tw");
    assert_eq!(copied(&daemon.press(&mut view, "gjl jj\n", 0)), "字 two\n\nthr");
    assert_eq!(status(&view), "line 4 of 4  copied 3 lines");
    // Upwards, and whole lines.
    assert_eq!(copied(&daemon.press(&mut view, "0Vkky", 0)), "漢字 two\n\nthree");
    daemon.press(&mut view, "G0v", 0);
    assert_eq!(view.hints(), "move to select  y copy  esc cancel");
    assert!(matches!(view.key(KeyEvent::from(KeyCode::Esc), AREA, at(0)), PaneResult::Done(_)));
    assert_eq!(status(&view), "line 4 of 4");
}

#[test]
fn a_long_line_is_wrapped_and_copied_as_one() {
    let mut daemon = with_lines(["x".repeat(30) + &"y".repeat(30), "end".to_owned()]);
    let mut view = daemon.open_output();
    assert_eq!(drawn(&view)[..3], ["x".repeat(30) + &"y".repeat(10), "y".repeat(20), "end".to_owned()]);
    daemon.press(&mut view, "kk$", 0);
    assert_eq!(copied(&daemon.press(&mut view, "y", 0)), "x".repeat(30) + &"y".repeat(30));
}

#[test]
fn pages_are_read_one_after_the_other_and_failures_are_tried_again() {
    let mut daemon = with_lines(0..95);
    daemon.per_page = 10;
    let (mut view, effects) = Scrollback::output(session());
    let [Effect::Call(call)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(view.answered(call, &Err("the daemon is away".to_owned())), []);
    assert_eq!(status(&view), "cannot read the output: the daemon is a…");
    assert_eq!(
        (view.next_tick_millis(), view.tick(at(0)), view.tick(at(1_999))),
        (Some(1_000), Vec::new(), Vec::new())
    );
    assert_eq!(view.tick(at(2_000)), effects);
    // A running session adds output after each page: reading ends all the same.
    daemon.serve(&mut view, effects);
    daemon.settle(&mut view, 3_000);
    assert_eq!((daemon.requests, status(&view)), (3, "line 29 of 29".to_owned()));
    // Answers to others are not taken.
    let other = Call::AcpState(session());
    assert_eq!(view.answered(&other, &Ok(Answer::Done)), []);
}

#[test]
fn a_replay_shows_the_state_at_each_time() {
    let mut daemon = Daemon::new();
    daemon.output(1_000, "one");
    daemon.output(3_000, "\r\ntwo");
    daemon.resize(3_500, 5, 30);
    daemon.output(63_500, "\r\nthree");
    let mut view = daemon.open_replay();
    assert_eq!(daemon.requests, 2, "the scan and the player share the pages");
    assert_eq!((drawn(&view)[0].as_str(), status(&view).as_str()), ("", "▶ 0:00 / 0:05 ─────────────────────── 1×"));
    assert_eq!(view.next_tick_millis(), Some(250));
    daemon.settle(&mut view, 990);
    assert_eq!((drawn(&view)[0].as_str(), view.next_tick_millis()), ("", Some(15)));
    daemon.settle(&mut view, 1_000);
    assert_eq!(drawn(&view)[..2], ["one", ""]);
    daemon.settle(&mut view, 2_000);
    daemon.settle(&mut view, 3_000);
    assert_eq!(drawn(&view)[..2], ["one", "two"]);
    // A minute without output is cut to two seconds.
    daemon.settle(&mut view, 4_000);
    daemon.settle(&mut view, 5_000);
    assert_eq!(drawn(&view)[2], "");
    daemon.settle(&mut view, 5_500);
    assert_eq!(drawn(&view)[2], "three");
    daemon.settle(&mut view, 6_500);
    assert_eq!(status(&view), "⏸ 0:05 / 0:05 ━━━━━━━━━━━━━━━━━━━━━━━ 1×");
    assert_eq!(view.next_tick_millis(), None, "nothing moves at the end");
    daemon.press(&mut view, " ", 7_000);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).starts_with("▶ 0:00 / 0:05")), ("", true));
}

#[test]
fn a_replay_pauses_seeks_and_changes_its_speed() {
    let mut daemon = Daemon::new();
    for second in 1..=100 {
        daemon.output(second * 1_000, &format!("\x1b[2J\x1b[Hat {second}"));
    }
    let mut view = daemon.open_replay();
    daemon.press(&mut view, " ", 0);
    daemon.settle(&mut view, 50_000);
    assert_eq!(drawn(&view)[0], "", "paused");
    let mut shown = |keys: &str| {
        daemon.press(&mut view, keys, 50_000);
        drawn(&view)[0].clone()
    };
    assert_eq!([shown("5"), shown("9"), shown("1"), shown("0")], ["at 50", "at 90", "at 10", ""]);
    assert_eq!([shown("→"), shown("→→"), shown("←"), shown("←←←←")], ["at 5", "at 15", "at 10", ""]);
    assert_eq!([shown("."), shown("."), shown("9→→→")], ["at 1", "at 2", "at 100"]);
    shown("0 ++");
    daemon.settle(&mut view, 51_000);
    assert_eq!((drawn(&view)[0].as_str(), status(&view).ends_with("4×")), ("at 4", true));
    daemon.press(&mut view, "------", 51_000);
    daemon.settle(&mut view, 52_000);
    assert!(status(&view).starts_with("▶ 0:04 / 1:40") && status(&view).ends_with("0.25×"), "{}", status(&view));
    daemon.press(&mut view, "++++++++", 52_000);
    assert!(status(&view).ends_with("16×"), "{}", status(&view));
}

#[test]
fn idle_time_is_shown_on_request() {
    let mut daemon = Daemon::new();
    daemon.output(1_000, "a");
    daemon.output(3_601_000, "b");
    let mut view = daemon.open_replay();
    daemon.press(&mut view, " →", 0);
    assert!(status(&view).starts_with("⏸ 0:03 / 0:03"), "{}", status(&view));
    daemon.press(&mut view, "i", 0);
    assert_eq!(status(&view), "⏸ 1:00:01 / 1:00:01 ━━ 1× with idle time");
    daemon.press(&mut view, "5", 0);
    assert_eq!(drawn(&view)[0], "a");
    daemon.press(&mut view, "i", 0);
    assert!(status(&view).starts_with("⏸ 0:03 / 0:03"), "{}", status(&view));
    assert_eq!(drawn(&view)[0], "a", "the screen stays");
}

#[test]
fn a_long_recording_is_sought_from_checkpoints() {
    let mut daemon = Daemon::new();
    let filler = "x".repeat(200_000);
    for second in 1..=60 {
        daemon.output(second * 1_000, &format!("{filler}\x1b[2J\x1b[Hat {second}"));
    }
    daemon.per_page = 25;
    let mut view = daemon.open_replay();
    daemon.press(&mut view, " ", 0);
    let Mode::Replay(replay) = &view.mode else { panic!("a replay") };
    assert!(replay.checkpoints() > 8, "{}", replay.checkpoints());
    let before = daemon.requests;
    let mut shown = |keys: &str| {
        daemon.press(&mut view, keys, 0);
        drawn(&view)[0].clone()
    };
    assert_eq!([shown("9"), shown("5"), shown("8"), shown("2")], ["at 54", "at 30", "at 48", "at 12"]);
    assert!(daemon.requests - before <= 8, "{}", daemon.requests - before);
}

#[test]
fn lost_output_takes_no_time_and_is_mentioned() {
    let mut daemon = Daemon::new();
    daemon.output(9_000_000, "");
    daemon.output(9_001_000, "left");
    let view = daemon.open_output();
    assert_eq!(drawn(&view)[0], "left");
    assert_eq!(status(&view), "line 1 of 1  earlier output is not shown");
    let mut replay = daemon.open_replay();
    daemon.press(&mut replay, "i", 0);
    assert!(status(&replay).starts_with("▶ 0:00 / 0:01"), "{}", status(&replay));
}

#[test]
fn every_size_can_be_drawn() {
    let mut daemon = with_lines(["漢字漢字 wide", "", "👩‍👩‍👧 e\u{301}\u{202e}", "x"]);
    daemon.output(5_000, "\x1b[?1049h\x1b[5;20H漢");
    let mut views = [daemon.open_output(), daemon.open_output(), daemon.open_replay(), daemon.open_replay()];
    daemon.press(&mut views[1], "gv/e\n", 0);
    daemon.press(&mut views[3], "9", 0);
    let (empty, _) = Scrollback::output(session());
    let keys = ["k", "j", "h", "l", "$", "0", "g", "G", "v", "n", "N", "y", "⇞", "⇟", "5", "."];
    for view in views.iter_mut().chain([&mut { empty }]) {
        for (width, height) in (1..=40).flat_map(|width| (1..=12).map(move |height| (width, height))) {
            let area = Rect { x: 3, y: 2, width, height };
            let mut buffer = Buffer::empty(Rect { x: 0, y: 0, width: width + 3, height: height + 2 });
            for key in keys {
                let code = match key {
                    "⇞" => KeyCode::PageUp,
                    "⇟" => KeyCode::PageDown,
                    key => KeyCode::Char(key.chars().next().expect("a key")),
                };
                view.key(KeyEvent::from(code), area, at(0));
                let cursor = view.draw(&mut buffer, area, THEME);
                assert!(cursor.is_none_or(|it| area.contains((it.x, it.y).into())), "{cursor:?} in {area:?}");
            }
            view.scroll(-3, area);
            view.scroll(3, area);
            view.key(KeyEvent::from(KeyCode::Char('/')), area, at(0));
            view.draw(&mut buffer, area, THEME);
            view.key(KeyEvent::from(KeyCode::Esc), area, at(0));
            view.key(KeyEvent::from(KeyCode::Char('k')), Rect::default(), at(0));
            let outside = (0..width + 3).all(|x| buffer[(x, 0)].symbol() == " ") && buffer[(2, 2)].symbol() == " ";
            assert!(outside, "drawn outside of {area:?}");
        }
    }
}
