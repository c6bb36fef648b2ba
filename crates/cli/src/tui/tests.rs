//! What the browser does, message by message.

use coven_domain::Timestamp;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Size;

use super::fixtures::{app_with, completed, conversation, ids, press, record, type_text, waiting};
use super::offer::OFFERS;
use super::report::{Report, Request, Watched, What};
use super::state::{App, Effect, Link, Message, Mode, Tone};
use super::{BrowseOptions, Outcome, shelf};

fn request(id: &str, what: What) -> Request {
    Request { id: id.to_owned(), what }
}

fn report(app: &mut App, report: Report) -> Vec<Effect> {
    app.update(Message::Reports(vec![report]))
}

fn problem(app: &App) -> &str {
    let notice = app.notice.as_ref().expect("there is a notice");
    assert_eq!(notice.tone, Tone::Problem);
    &notice.text
}

/// LIFE-25: whatever a record allows, exactly that is done and nothing else.
#[test]
fn only_the_actions_that_the_record_allows_do_anything() {
    for allowed in OFFERS {
        let mut session = completed("a", 1);
        session.actions = vec![allowed.action.to_string()];
        for offer in OFFERS {
            // given a session that allows one action
            let mut app = app_with(vec![session.clone()]);
            // when the key of any action is pressed, and whatever it asks is confirmed
            let key = if offer.key == '\n' { KeyCode::Enter } else { KeyCode::Char(offer.key) };
            let effects = press(&mut app, key);
            // then only the allowed one has an effect; Enter opens the log of what can be replayed
            let opens_log = offer.key == '\n' && allowed.key == 'r';
            let is_allowed = offer == allowed || opens_log;
            let did_something = !effects.is_empty() || app.mode != Mode::Browsing;
            let is_hint = offer.key == 'e' && is_allowed;
            assert_eq!(did_something || is_hint, is_allowed, "{} on {}", offer.word, allowed.word);
            if !is_allowed {
                assert!(problem(&app).starts_with(&format!("{} is not possible", offer.word)));
            }
        }
    }
}

#[test]
fn enter_attaches_and_r_replays_and_u_summons() {
    let mut app = app_with(vec![record("a", 1)]);
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Leave(Outcome::Attach("a".into()))]);
    assert_eq!(press(&mut app, KeyCode::Char('r')), [Effect::Leave(Outcome::Replay("a".into()))]);
    let mut app = app_with(vec![completed("a", 1)]);
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Leave(Outcome::Attach("a".into()))]);
    let mut archived = completed("a", 1);
    archived.actions = vec!["summon".into()];
    let mut app = app_with(vec![archived]);
    assert_eq!(press(&mut app, KeyCode::Char('u')), [Effect::Leave(Outcome::Summon("a".into()))]);
}

#[test]
fn the_session_that_the_browser_runs_in_is_not_opened_inside_itself() {
    let mut app = app_with(vec![record("a", 1)]);
    app.own_session = Some("a".into());
    for key in [KeyCode::Enter, KeyCode::Char('r')] {
        assert_eq!(press(&mut app, key), []);
        let notice = app.notice.take().expect("a reason");
        assert!(notice.text.ends_with("this browser runs in session a"), "{}", notice.text);
    }
    app.own_session = Some("b".into());
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Leave(Outcome::Attach("a".into()))]);
}

/// LIFE-29.
#[test]
fn only_the_typed_word_sacrifices() {
    for typed in ["", "s", "sacrific", "sacrifice ", " sacrifice", "Sacrifice", "SACRIFICE", "sacrificed", "yes", "y"] {
        let mut app = app_with(vec![completed("a", 1)]);
        press(&mut app, KeyCode::Char('d'));
        assert_eq!(type_text(&mut app, typed), []);
        assert_eq!(press(&mut app, KeyCode::Enter), [], "{typed:?}");
        assert_eq!(app.mode, Mode::Browsing);
        assert_eq!(ids(&app.list), ["a"]);
    }
    let mut app = app_with(vec![completed("a", 1)]);
    press(&mut app, KeyCode::Char('d'));
    type_text(&mut app, "sacrifice");
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Ask(request("a", What::Sacrifice))]);
}

#[test]
fn the_word_cannot_be_pasted_and_escape_keeps_the_session() {
    let mut app = app_with(vec![completed("a", 1)]);
    press(&mut app, KeyCode::Char('d'));
    app.update(Message::Paste("sacrifice".into()));
    assert_eq!(press(&mut app, KeyCode::Enter), []);
    press(&mut app, KeyCode::Char('d'));
    type_text(&mut app, "sacrifice");
    assert_eq!(press(&mut app, KeyCode::Esc), []);
    assert_eq!(app.mode, Mode::Browsing);
}

#[test]
fn a_session_that_changed_under_the_dialog_is_left_alone() {
    // given the dialog of a session that can be sacrificed
    let mut app = app_with(vec![completed("a", 1)]);
    press(&mut app, KeyCode::Char('d'));
    type_text(&mut app, "sacrifice");
    // when it stops allowing that before the word is confirmed
    report(&mut app, Report::Changed(Box::new(record("a", 1))));
    // then nothing is asked
    assert_eq!(press(&mut app, KeyCode::Enter), []);
    assert!(problem(&app).starts_with("sacrifice is not possible any more"));
}

#[test]
fn the_dialog_is_about_the_session_it_was_opened_for() {
    let mut app = app_with(vec![completed("a", 1)]);
    press(&mut app, KeyCode::Char('d'));
    type_text(&mut app, "sacrifice");
    // A newer session takes its place on the screen meanwhile.
    report(&mut app, Report::Changed(Box::new(completed("b", 2))));
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Ask(request("a", What::Sacrifice))]);
}

#[test]
fn kill_and_finish_ask_first() {
    for (key, what) in [('x', What::Kill), ('f', What::Finish)] {
        for answer in ['n', 'x', 'f', ' '] {
            let mut app = app_with(vec![record("a", 1)]);
            press(&mut app, KeyCode::Char(key));
            assert_eq!(press(&mut app, KeyCode::Char(answer)), []);
            assert_eq!(app.mode, Mode::Browsing);
        }
        let mut app = app_with(vec![record("a", 1)]);
        assert_eq!(press(&mut app, KeyCode::Char(key)), []);
        assert_eq!(press(&mut app, KeyCode::Char('y')), [Effect::Ask(request("a", what))]);
    }
}

#[test]
fn an_archive_key_pressed_twice_asks_once() {
    let mut app = app_with(vec![completed("a", 1)]);
    assert_eq!(press(&mut app, KeyCode::Char('a')), [Effect::Ask(request("a", What::Archive))]);
    assert_eq!(press(&mut app, KeyCode::Char('a')), []);
    let answer = Report::Answered { request: request("a", What::Archive), answer: Ok(()) };
    report(&mut app, answer);
    assert_eq!(press(&mut app, KeyCode::Char('a')).len(), 1);
}

#[test]
fn lines_are_sent_and_the_line_stays_open() {
    let mut app = app_with(vec![record("a", 1)]);
    press(&mut app, KeyCode::Char('i'));
    type_text(&mut app, "go on");
    let sent = press(&mut app, KeyCode::Enter);
    assert_eq!(sent, [Effect::Ask(request("a", What::Input("go on".into())))]);
    // Letters are still text, not actions; the same line may be sent again.
    type_text(&mut app, "go on");
    assert_eq!(press(&mut app, KeyCode::Enter), sent);
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.mode, Mode::Browsing);
}

#[test]
fn a_line_that_was_not_sent_is_not_lost() {
    let mut app = app_with(vec![record("a", 1)]);
    press(&mut app, KeyCode::Char('i'));
    type_text(&mut app, "precious");
    press(&mut app, KeyCode::Enter);
    press(&mut app, KeyCode::Esc);
    let failed = request("a", What::Input("precious".into()));
    report(&mut app, Report::Answered { request: failed, answer: Err("the daemon does not answer".into()) });
    assert!(problem(&app).ends_with("the daemon does not answer"));
    press(&mut app, KeyCode::Char('i'));
    assert!(matches!(&app.mode, Mode::Typing { line, .. } if line.text() == "precious"));
    // Leaving the line keeps it, too.
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('i'));
    assert!(matches!(&app.mode, Mode::Typing { line, .. } if line.text() == "precious"));
}

#[test]
fn start_takes_the_size_of_this_terminal() {
    let mut detached = record("a", 1);
    (detached.status, detached.actions) = ("created".into(), vec!["start".into()]);
    let mut app = app_with(vec![detached]);
    let asked = press(&mut app, KeyCode::Char('s'));
    assert_eq!(asked, [Effect::Ask(request("a", What::Start { rows: 24, cols: 80 }))]);
}

#[test]
fn the_filter_follows_every_letter_and_escape_clears_it() {
    let mut app = app_with(vec![record("beef", 2), record("f00d", 1)]);
    press(&mut app, KeyCode::Char('/'));
    type_text(&mut app, "f0");
    assert_eq!(ids(&app.list), ["f00d"]);
    press(&mut app, KeyCode::Backspace);
    press(&mut app, KeyCode::Backspace);
    type_text(&mut app, "be");
    assert_eq!(ids(&app.list), ["beef"]);
    // Enter keeps it, and letters are keys again; Esc clears first and leaves only then.
    press(&mut app, KeyCode::Enter);
    press(&mut app, KeyCode::Esc);
    assert_eq!(ids(&app.list), ["beef", "f00d"]);
    assert_eq!(press(&mut app, KeyCode::Esc), [Effect::Leave(Outcome::Quit)]);
}

#[test]
fn escape_while_typing_the_filter_clears_it() {
    let mut app = app_with(vec![record("beef", 2), record("f00d", 1)]);
    press(&mut app, KeyCode::Char('/'));
    type_text(&mut app, "nothing like it");
    assert!(app.list.is_empty());
    press(&mut app, KeyCode::Esc);
    assert_eq!((ids(&app.list), &app.mode), (vec!["beef", "f00d"], &Mode::Browsing));
}

#[test]
fn the_screen_of_the_selected_session_is_watched() {
    let live = |id: &str| Effect::Watch(Some(Watched { id: id.to_owned(), is_live: true }));
    let mut app = app_with(vec![record("b", 2), record("a", 1)]);
    assert_eq!(press(&mut app, KeyCode::Down), [live("a")]);
    assert_eq!(press(&mut app, KeyCode::Down), []);
    // when it ends it is looked at once more
    let ended = report(&mut app, Report::Changed(Box::new(completed("a", 1))));
    assert_eq!(ended, [Effect::Watch(Some(Watched { id: "a".into(), is_live: false }))]);
    // when there is no room for a preview nothing is watched
    let small = app.update(Message::Resized(Size { width: 80, height: 12 }));
    assert_eq!(small, [Effect::Watch(None)]);
}

#[test]
fn the_selection_is_always_on_the_screen() {
    let mut app = app_with((0..500).rev().map(|n| record(&format!("{n:03}"), n)).collect());
    let is_seen = |app: &App| {
        let height = usize::from(app.panes().list.height);
        (app.offset..app.offset + height).contains(&app.list.cursor())
    };
    for key in [KeyCode::End, KeyCode::PageUp, KeyCode::Up, KeyCode::Home, KeyCode::PageDown, KeyCode::Char('G')] {
        press(&mut app, key);
        assert!(is_seen(&app), "{key:?}");
    }
    for (width, height) in [(80, 10), (20, 3), (1, 1), (200, 60)] {
        app.update(Message::Resized(Size { width, height }));
        assert!(is_seen(&app), "{width}x{height}");
    }
    assert_eq!(app.selected().map(|record| record.id.as_str()), Some("000"));
}

#[test]
fn a_click_selects_and_the_wheel_scrolls() {
    let mouse = |kind, row| Message::Mouse(MouseEvent { kind, column: 5, row, modifiers: KeyModifiers::NONE });
    let mut app = app_with((0..100).rev().map(|n| record(&format!("{n:03}"), n)).collect());
    let first = app.panes().list.y;
    app.update(mouse(MouseEventKind::Down(MouseButton::Left), first + 2));
    assert_eq!(app.list.cursor(), 2);
    app.update(mouse(MouseEventKind::ScrollDown, first));
    assert_eq!((app.offset, app.list.cursor()), (3, 3));
    app.update(mouse(MouseEventKind::ScrollUp, first));
    assert_eq!(app.offset, 0);
    // A click on the header, or below the last session, does nothing.
    app.update(mouse(MouseEventKind::Down(MouseButton::Left), 0));
    assert_eq!(app.list.cursor(), 3);
}

#[test]
fn showing_archived_sessions_reads_them() {
    let mut app = app_with(vec![record("a", 1)]);
    assert_eq!(press(&mut app, KeyCode::Char('A')), [Effect::Read { include_archived: true }]);
    assert_eq!(press(&mut app, KeyCode::Char('A')), [Effect::Read { include_archived: false }]);
}

#[test]
fn a_lost_daemon_takes_nothing_from_the_screen() {
    let mut app = app_with(vec![record("a", 1)]);
    report(&mut app, Report::Lost("it has ended".into()));
    assert_eq!((ids(&app.list), &app.link), (vec!["a"], &Link::Lost("it has ended".into())));
    report(&mut app, Report::Connected);
    assert_eq!(app.link, Link::Live);
}

#[test]
fn news_goes_after_a_while_and_a_problem_stays() {
    let later = |app: &App, millis| Message::Clock(Timestamp::from_millis(app.now.as_millis() + millis));
    let mut app = app_with(vec![completed("a", 1)]);
    press(&mut app, KeyCode::Char('e'));
    assert!(app.notice.as_ref().is_some_and(|notice| notice.text.starts_with("coven export a --format asciicast")));
    app.update(later(&app, 7_000));
    assert_eq!(app.notice, None);
    press(&mut app, KeyCode::Char('x'));
    app.update(later(&app, 100_000));
    assert!(problem(&app).starts_with("kill is not possible: the status is completed"));
    assert_eq!(press(&mut app, KeyCode::Esc), []);
    assert_eq!(app.notice, None);
}

#[test]
fn help_is_closed_by_any_key_but_scrolls_where_it_must() {
    let mut app = app_with(vec![record("a", 1)]);
    app.update(Message::Resized(Size { width: 40, height: 10 }));
    press(&mut app, KeyCode::Char('?'));
    press(&mut app, KeyCode::Down);
    assert_eq!(app.mode, Mode::Help { scroll: 1 });
    // The key that closes it does nothing else.
    assert_eq!(press(&mut app, KeyCode::Char('q')), []);
    assert_eq!(app.mode, Mode::Browsing);
}

#[test]
fn control_c_leaves_from_everywhere() {
    for key in ['/', 'i', 'x', '?', 'f'] {
        let mut app = app_with(vec![record("a", 1)]);
        press(&mut app, KeyCode::Char(key));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.update(Message::Key(interrupt)), [Effect::Leave(Outcome::Quit)]);
    }
}

#[test]
fn the_browser_opens_where_it_was_left() {
    let mut app = app_with(vec![record("b", 2), record("a", 1)]);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char('A'));
    let mut options = BrowseOptions::default();
    app.remember(&mut options);
    let expected = BrowseOptions { include_archived: true, selected: Some("a".into()), ..BrowseOptions::default() };
    assert_eq!(options, expected);
    // when it is opened again and all of the list comes at once, then the same session is selected
    let mut again = App::new(&options, Size { width: 80, height: 24 }, app.now);
    let page = Report::Page { sessions: vec![record("b", 2), record("a", 1)], total: 2 };
    again.update(Message::Reports(vec![Report::ReadingStarted, page, Report::ReadingEnded]));
    assert_eq!(again.selected().map(|record| record.id.as_str()), Some("a"));
}

#[test]
fn what_newly_waits_rings_once_for_all_that_came_together_and_is_named() {
    let mut app = app_with(vec![record("a", 1)]);
    let waits = |id: &str| Report::Waits(Box::new(waiting(id)));
    assert_eq!(app.update(Message::Reports(vec![waits("q1"), waits("q2")])), [Effect::Bell]);
    let notice = app.notice.as_ref().map(|notice| (notice.tone, notice.text.as_str()));
    assert_eq!(notice, Some((Tone::News, "an agent asks: Which [2J?; `coven inbox` has it")));
}

#[test]
fn conversations_stand_among_the_sessions_and_outlast_their_reading() {
    let mut app = app_with(vec![record("new", 9), record("old", 1)]);
    report(&mut app, Report::Conversations(vec![shelf::row(&conversation("talk", 5))]));
    assert_eq!(ids(&app.list), ["new", "talk", "old"]);
    // when the sessions are read again, and one is gone
    for it in
        [Report::ReadingStarted, Report::Page { sessions: vec![record("new", 9)], total: 1 }, Report::ReadingEnded]
    {
        report(&mut app, it);
    }
    assert_eq!(ids(&app.list), ["new", "talk"]);
    // when the conversations are read again
    report(&mut app, Report::Conversations(vec![shelf::row(&conversation("other", 2))]));
    assert_eq!(ids(&app.list), ["new", "other"]);
    assert_eq!(app.list.conversation_count(), 1);
}

#[test]
fn a_conversation_is_resumed_or_exported_and_nothing_else() {
    let mut app = app_with(vec![]);
    let effects = report(&mut app, Report::Conversations(vec![shelf::row(&conversation("talk", 5))]));
    // Its end is shown; the daemon has no screen of it.
    assert_eq!(effects, [Effect::Recall { id: "talk".into(), columns: 78 }]);
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Leave(Outcome::Resume("talk".into()))]);
    for offer in OFFERS.iter().filter(|offer| !matches!(offer.key, '\n' | 'e')) {
        assert_eq!(press(&mut app, KeyCode::Char(offer.key)), [], "{}", offer.word);
        assert_eq!(app.mode, Mode::Browsing);
        assert!(problem(&app).starts_with(&format!("{} is not possible", offer.word)));
    }
    press(&mut app, KeyCode::Char('e'));
    assert!(app.notice.as_ref().is_some_and(|notice| notice.text.starts_with("coven export talk ")));
    // when it was written to, its end is shown anew
    let mut longer = conversation("talk", 5);
    longer.last_activity_at = Timestamp::from_millis(9_000);
    let effects = report(&mut app, Report::Conversations(vec![shelf::row(&longer)]));
    assert_eq!(effects, [Effect::Recall { id: "talk".into(), columns: 78 }]);
}
