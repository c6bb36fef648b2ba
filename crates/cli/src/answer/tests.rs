//! What keys, clicks and news do to the state.

use coven_domain::Timestamp;
use coven_domain::question::QuestionAnswer;
use crossterm::event::{KeyCode, KeyModifiers};

use super::draft::Draft;
use super::fixtures::*;
use super::reply::Choosable;
use super::state::{App, Effect, Message, Mode, Report, Sending};

fn sent(effects: Vec<Effect>) -> Vec<QuestionAnswer> {
    match effects.into_iter().next() {
        Some(Effect::Answer { answers, .. }) => answers,
        other => panic!("{other:?} is no answer"),
    }
}

fn notice(app: &App) -> &str {
    app.notice.as_ref().map_or("", |notice| &notice.text)
}

fn later(app: &mut App, millis: i64) {
    let now = Timestamp::from_millis(app.now.as_millis() + millis);
    app.update(Message::Clock, now);
}

#[test]
fn a_set_is_answered_with_arrows_space_and_enter() {
    let mut app = usual_app();
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    press(&mut app, KeyCode::Char(' '));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char(' '));
    press(&mut app, KeyCode::Enter);
    let answers = sent(press(&mut app, KeyCode::Enter));
    assert_eq!(answers[0].selected_option.as_deref(), Some("SQLite"));
    assert_eq!(answers[1].selected_options, Some(vec!["Auth".into(), "漢字 search".into()]));
    assert_eq!(press(&mut app, KeyCode::Enter), [], "it is sent once");
    let effects = report(&mut app, Report::Sent { id: "0c7e49a2-0000".into(), what: Sending::Answers, result: Ok(()) });
    assert_eq!(effects, [Effect::DropDraft("0c7e49a2-0000".into())]);
    assert!(app.queue.is_empty() && notice(&app).starts_with("sent: “Database, Features”"));
}

#[test]
fn numbers_choose_and_letters_take_what_is_recommended() {
    let mut app = usual_app();
    type_text(&mut app, "2");
    assert!(app.queue[0].draft.replies[0].is_chosen(Choosable::Option(1)));
    type_text(&mut app, "r");
    assert!(app.queue[0].draft.replies[0].is_chosen(Choosable::Option(0)));
    press(&mut app, KeyCode::Tab);
    type_text(&mut app, "r");
    assert_eq!(notice(&app), "nothing is recommended here");
    type_text(&mut app, "139");
    assert_eq!(app.queue[0].answered(), 2);
}

#[test]
fn what_is_recommended_is_taken_everywhere_but_no_answer_is_overwritten() {
    let mut app = app_with(vec![asked("a", 1, vec![database(), database(), features()])]);
    type_text(&mut app, "2R");
    let waiting = &app.queue[0];
    assert!(waiting.draft.replies[0].is_chosen(Choosable::Option(1)));
    assert!(waiting.draft.replies[1].is_chosen(Choosable::Option(0)));
    assert_eq!((waiting.question(), notice(&app)), (None, "took what is recommended for one question"));
    press(&mut app, KeyCode::Enter);
    assert_eq!((app.queue[0].draft.question, notice(&app)), (2, "this question has no answer yet"));
}

#[test]
fn words_of_ones_own_may_have_several_lines() {
    let mut app = usual_app();
    type_text(&mut app, "ofirst");
    press_with(&mut app, KeyCode::Char('j'), KeyModifiers::CONTROL);
    type_text(&mut app, "second 漢");
    press_with(&mut app, KeyCode::Enter, KeyModifiers::ALT);
    let now = app.now;
    app.update(Message::Paste("pasted\r\nlines\x1b[2J".into()), now);
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.queue[0].draft.question, 1, "Enter goes on");
    type_text(&mut app, "0v");
    let answers = sent(press(&mut app, KeyCode::Enter));
    assert_eq!(answers[0].custom_text.as_deref(), Some("first\nsecond 漢\npasted\nlines[2J"));
    assert_eq!(answers[1].selected_options, Some(Vec::new()), "none of these");
}

#[test]
fn escape_goes_back_level_by_level_and_throws_nothing_away() {
    let mut app = usual_app();
    type_text(&mut app, "1onot quite");
    press(&mut app, KeyCode::Esc);
    assert!(matches!(app.mode, Mode::Asking));
    let reply = &app.queue[0].draft.replies[0];
    assert!(reply.is_chosen(Choosable::Option(0)) && !reply.is_chosen(Choosable::Other));
    assert_eq!(reply.text(Choosable::Other), "not quite");
    type_text(&mut app, "o");
    press(&mut app, KeyCode::Enter);
    assert!(app.queue[0].draft.replies[0].is_chosen(Choosable::Other));
    type_text(&mut app, "v");
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.queue[0].draft.question, 1);
    type_text(&mut app, "xbecause");
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.queue[0].draft.reason, "because");
    assert_eq!(press(&mut app, KeyCode::Esc), []);
    assert!(matches!(app.mode, Mode::Quitting));
    press(&mut app, KeyCode::Esc);
    assert!(matches!(app.mode, Mode::Asking));
    press(&mut app, KeyCode::Esc);
    assert_eq!(type_text(&mut app, "y"), [Effect::Leave]);
}

#[test]
fn every_change_of_a_draft_is_kept_at_once() {
    let mut app = usual_app();
    assert!(matches!(&type_text(&mut app, "1")[..], [Effect::KeepDraft { id, .. }] if id == "0c7e49a2-0000"));
    assert_eq!(type_text(&mut app, "1"), [], "nothing has changed");
    type_text(&mut app, "o");
    let effects = type_text(&mut app, "x");
    let [Effect::KeepDraft { draft, .. }] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(draft.replies[0].text(Choosable::Other), "x");
    let mut again = App::new(app.size, NOW);
    let asked = app.queue[0].asked.clone();
    report(&mut again, Report::Asked { asked, draft: Some(draft.clone()) });
    assert_eq!(again.queue[0].draft, *draft);
}

#[test]
fn enter_on_an_answered_question_keeps_its_answer() {
    let mut app = usual_app();
    type_text(&mut app, "2");
    let (asked, draft) = (app.queue[0].asked.clone(), Some(app.queue[0].draft.clone()));
    let mut again = App::new(app.size, NOW);
    report(&mut again, Report::Asked { asked, draft });
    press(&mut again, KeyCode::Enter);
    press(&mut again, KeyCode::Left);
    press(&mut again, KeyCode::Up);
    press(&mut again, KeyCode::Right);
    press(&mut again, KeyCode::Left);
    press(&mut again, KeyCode::Enter);
    assert!(again.queue[0].draft.replies[0].is_chosen(Choosable::Option(1)));
}

#[test]
fn a_set_is_rejected_with_or_without_a_reason() {
    let mut app = usual_app();
    type_text(&mut app, "x");
    let id = || "0c7e49a2-0000".to_owned();
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Reject { id: id(), reason: None }]);
    report(&mut app, Report::Sent { id: id(), what: Sending::Rejection, result: Err("the disk is full".into()) });
    assert_eq!(notice(&app), "not sent, everything is kept: the disk is full");
    type_text(&mut app, "xtoo vague ");
    let effects = press(&mut app, KeyCode::Enter);
    assert_eq!(effects, [Effect::Reject { id: id(), reason: Some("too vague".into()) }]);
}

#[test]
fn more_explanation_can_be_asked_for() {
    let mut app = app_with(vec![asked("a", 1, vec![database()])]);
    type_text(&mut app, "ewhat does it cost?");
    press(&mut app, KeyCode::Enter);
    let answers = sent(press(&mut app, KeyCode::Enter));
    let text = answers[0].custom_text.as_deref().unwrap_or_default();
    assert!(text.starts_with("[ELABORATE_REQUEST] ") && text.ends_with("\nUser note: what does it cost?"));
}

#[test]
fn the_oldest_set_is_first_and_sets_are_switched() {
    let mut app = app_with(vec![
        asked("new", 1, vec![database()]),
        asked("old", 9, vec![features()]),
        asked("mid", 5, vec![database()]),
    ]);
    let shown = |app: &App| app.current().map(|waiting| waiting.asked.id.clone()).unwrap_or_default();
    assert_eq!(shown(&app), "old");
    type_text(&mut app, "]");
    assert_eq!(shown(&app), "mid");
    type_text(&mut app, "[[");
    assert_eq!(shown(&app), "new");
    type_text(&mut app, "sk");
    press(&mut app, KeyCode::Enter);
    assert_eq!(shown(&app), "mid");
}

#[test]
fn a_set_finished_elsewhere_leaves_at_once_and_its_keys_hit_nothing() {
    let mut app = app_with(vec![asked("a", 9, vec![database()]), asked("b", 1, vec![database()])]);
    type_text(&mut app, "ohalf a sent");
    let effects = report(&mut app, Report::Finished { id: "a".into(), how: "was answered elsewhere" });
    assert_eq!(effects, [Effect::DropDraft("a".into())]);
    assert_eq!(notice(&app), "“Database” was answered elsewhere");
    assert_eq!(type_text(&mut app, "ence 1qx"), [], "those were meant for the set that has gone");
    assert!(matches!(app.mode, Mode::Asking) && app.queue[0].asked.id == "b");
    later(&mut app, 200);
    assert_eq!(type_text(&mut app, "1"), [], "and so was this");
    later(&mut app, 301);
    type_text(&mut app, "1");
    assert_eq!(app.queue[0].answered(), 1, "who pauses has seen what is there");
    arrives(&mut app, asked("c", 0, vec![features()]));
    report(&mut app, Report::Finished { id: "b".into(), how: "has timed out" });
    type_text(&mut app, "1");
    assert_eq!(app.queue[0].answered(), 1, "nothing was being typed");
    let late = Report::Sent { id: "a".into(), what: Sending::Answers, result: Err("already finished".into()) };
    report(&mut app, late);
    assert_eq!(notice(&app), "");
}

#[test]
fn a_set_that_goes_in_the_background_does_not_move_the_one_on_the_screen() {
    let mut app = app_with(vec![asked("a", 9, vec![database()]), asked("b", 1, vec![database()])]);
    type_text(&mut app, "]otext");
    report(&mut app, Report::Finished { id: "a".into(), how: "timed out" });
    type_text(&mut app, "!");
    assert_eq!(app.queue[0].draft.replies[0].text(Choosable::Other), "text!");
}

#[test]
fn a_new_set_rings_and_waits_for_its_turn() {
    let mut app = app_with(Vec::new());
    assert_eq!(arrives(&mut app, asked("a", 5, vec![database()])), [Effect::Bell]);
    type_text(&mut app, "1");
    assert_eq!(arrives(&mut app, asked("older", 9, vec![features()])), [Effect::Bell]);
    assert_eq!((app.at, app.queue[1].asked.id.as_str()), (1, "a"), "what is on the screen stays there");
    assert!(notice(&app).starts_with("new: “Features”"));
    assert_eq!(arrives(&mut app, asked("a", 5, vec![database()])), [], "known already");
}

#[test]
fn clicks_choose_rows_and_tabs() {
    let mut app = usual_app();
    let row_of = |app: &App, wanted: super::page::Target| {
        let page = app.page(crate::tui::view::Theme::Plain);
        let place = page.lines.iter().position(|(_, target)| *target == Some(wanted)).expect("it is there");
        app.panes().body.y + u16::try_from(place).expect("small")
    };
    let sqlite = row_of(&app, super::page::Target::Row(1));
    click(&mut app, 20, sqlite);
    assert!(app.queue[0].draft.replies[0].is_chosen(Choosable::Option(1)));
    let tabs = app.panes().tabs.y;
    click(&mut app, 14, tabs);
    assert_eq!(app.queue[0].draft.question, 1);
    let auth = row_of(&app, super::page::Target::Row(0));
    click(&mut app, 10, auth);
    type_text(&mut app, "v");
    let first = row_of(&app, super::page::Target::Question(0));
    click(&mut app, 10, first);
    assert_eq!(app.queue[0].draft.question, 0);
    type_text(&mut app, "v");
    let send = row_of(&app, super::page::Target::Send);
    assert_eq!(sent(click(&mut app, 10, send)).len(), 2);
}

#[test]
fn nobody_chooses_what_is_not_on_the_screen() {
    let mut long = database();
    long.prompt = "line\n".repeat(60);
    let mut app = app_with(vec![asked("a", 1, vec![long])]);
    assert_eq!(app.offset, 0, "the prompt is read first");
    type_text(&mut app, " ");
    assert_eq!(app.queue[0].answered(), 0);
    assert!(app.offset > 0, "it has come onto the screen");
    type_text(&mut app, " ");
    assert_eq!(app.queue[0].answered(), 1);
    press(&mut app, KeyCode::PageUp);
    press(&mut app, KeyCode::PageUp);
    press(&mut app, KeyCode::PageUp);
    press(&mut app, KeyCode::PageUp);
    assert_eq!(app.offset, 0);
}

#[test]
fn a_multiple_choice_is_not_left_by_accident() {
    let mut app = app_with(vec![asked("a", 1, vec![features()])]);
    press(&mut app, KeyCode::Enter);
    assert!(app.queue[0].question().is_some() && notice(&app).starts_with("nothing is marked"));
    press(&mut app, KeyCode::Right);
    assert!(app.queue[0].question().is_none());
}

#[test]
fn a_draft_of_a_changed_set_is_fitted() {
    let mut app = App::new(ratatui::layout::Size { width: 80, height: 24 }, NOW);
    let draft = Draft { question: 9, ..Draft::default() };
    report(&mut app, Report::Asked { asked: asked("a", 1, vec![database()]), draft: Some(draft) });
    report(&mut app, Report::Listed { broken: 2 });
    assert_eq!(app.queue[0].draft.question, 1);
    assert_eq!(notice(&app), "2 broken sets are left out; `coven questions list --all` names them");
    arrives(&mut app, asked("a", 1, vec![features(), features()]));
    assert_eq!(app.queue[0].draft.replies.len(), 2);
}
