//! What the board does with keys, clicks and reports.

use coven_api::inbox::InboxKind;
use coven_api::task::{CreateTaskRequest, EditTaskRequest};
use coven_domain::Timestamp;
use coven_domain::task::TaskState;
use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Size;

use super::fixtures::{agent, app_with, detail, permission, press, run, snapshot, task, terminal, type_text};
use super::offer::OFFERS;
use super::report::{Done, Report, Request, Subject, What};
use super::state::{App, Effect, Message, Mode, Tone};
use super::{Outcome, layout};

fn selected(app: &App) -> String {
    app.tasks.selected().map(|card| card.task.id.to_string()).unwrap_or_default()
}

fn answer(app: &mut App, request: Request, answer: Result<Done, String>) -> Vec<Effect> {
    app.update(Message::Reports(vec![Report::Answered { request: Box::new(request), answer }]))
}

fn asked(effects: &[Effect]) -> Vec<(&str, &What)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Ask(request) => Some((request.id.as_str(), &request.what)),
            _ => None,
        })
        .collect()
}

#[test]
fn ready_tasks_come_first_and_the_selection_moves_through_the_columns() {
    let mut app = app_with(snapshot());
    assert_eq!(app.tasks.column(0), ["11111111-0000-4000-8000-000000000061", "22222222-0000-4000-8000-000000000062"]);
    assert_eq!(selected(&app), "11111111-0000-4000-8000-000000000061");
    press(&mut app, KeyCode::Char('j'));
    assert_eq!(selected(&app), "22222222-0000-4000-8000-000000000062");
    press(&mut app, KeyCode::Right);
    assert_eq!(selected(&app), "33333333-0000-4000-8000-000000000063");
    type_text(&mut app, "ll");
    assert_eq!((selected(&app).as_str(), app.first_column), ("66666666-0000-4000-8000-000000000066", 1));
    type_text(&mut app, "hhhh");
    assert_eq!((selected(&app).as_str(), app.first_column), ("11111111-0000-4000-8000-000000000061", 0));
}

#[test]
fn the_selection_goes_where_its_task_goes() {
    let mut app = app_with(snapshot());
    let moved = detail(
        task("11111111-0000-4000-8000-000000000061", "in_progress", 10),
        Some(run("11111111-0000-4000-8000-000000000061", "running")),
    );
    app.update(Message::Reports(vec![Report::Changed(Box::new(moved))]));
    assert_eq!((selected(&app).as_str(), app.tasks.cursor().0), ("11111111-0000-4000-8000-000000000061", 1));
    app.update(Message::Reports(vec![Report::Gone("11111111-0000-4000-8000-000000000061".into())]));
    assert_eq!(selected(&app), "33333333-0000-4000-8000-000000000063");
}

#[test]
fn an_empty_column_can_be_stayed_in() {
    let mut some = snapshot();
    some.tasks.retain(|task| task.status != TaskState::PendingMerge);
    let mut app = app_with(some);
    type_text(&mut app, "ll");
    app.update(Message::Reports(vec![Report::Ready(["11111111-0000-4000-8000-000000000061".to_owned()].into())]));
    assert_eq!((selected(&app).as_str(), app.tasks.cursor()), ("", (2, 0)));
    assert!(type_text(&mut app, "a").is_empty());
    type_text(&mut app, "l");
    assert_eq!(selected(&app), "66666666-0000-4000-8000-000000000066");
}

#[test]
fn every_action_of_the_command_line_has_a_key() {
    let id = |id: &str| id.to_owned();
    for (column, key, what) in [
        (0, 's', What::Start),
        (1, 'r', What::Release),
        (2, 'a', What::Approve),
        (3, 'u', What::Unblock),
        (3, 'R', What::Retry),
        (1, 'o', What::Attach),
    ] {
        let mut app = app_with(snapshot());
        app.tasks.select(column, 0);
        let at = id(&selected(&app));
        let effects = type_text(&mut app, &key.to_string());
        assert_eq!(asked(&effects), [(at.as_str(), &what)], "{key}");
        assert!(type_text(&mut app, &key.to_string()).is_empty(), "{key} twice asks once");
    }
    for (column, keys, what) in [
        (0, "c\n", What::Close(String::new())),
        (0, "cdone by hand\n", What::Close("done by hand".into())),
        (0, "Dy", What::Delete { is_recursive: false }),
        (0, "DA", What::Delete { is_recursive: true }),
        (1, "Cy", What::Cancel),
        (1, "bwrong\n", What::Block("wrong".into())),
        (1, "b\n", What::Block(String::new())),
        (2, "xno tests\n", What::Reject("no tests".into())),
    ] {
        let mut app = app_with(snapshot());
        app.tasks.select(column, 0);
        let effects = type_text(&mut app, keys);
        assert_eq!(asked(&effects).iter().map(|(_, what)| *what).collect::<Vec<_>>(), [&what], "{keys}");
    }
    for (keys, id, what) in [
        ("i2", "ask-1", What::Answer { option: "no".into() }),
        ("ij\nyes\n", "ask-2", What::Reply("yes".into())),
        ("ijj1", "44444444-0000-4000-8000-000000000064", What::Approve),
        ("ijj2no tests\n", "44444444-0000-4000-8000-000000000064", What::Reject("no tests".into())),
        ("ijjjj2", "66666666-0000-4000-8000-000000000066", What::Unblock),
        ("ijjjj1", "66666666-0000-4000-8000-000000000066", What::Retry),
        ("ijjjj3\n", "66666666-0000-4000-8000-000000000066", What::Close(String::new())),
        ("ijjjj3too late\n", "66666666-0000-4000-8000-000000000066", What::Close("too late".into())),
        ("ijj\n", "44444444-0000-4000-8000-000000000064", What::Look(Subject::Detail)),
        ("ijjo", "44444444-0000-4000-8000-000000000064", What::Attach),
    ] {
        let mut some = snapshot();
        some.inbox.push(terminal("ask-2", "5e550000-0000-4000-8000-000000000001"));
        let mut app = app_with(some);
        assert_eq!(asked(&type_text(&mut app, keys)), [(id, &what)], "{keys}");
    }
    let mut keys: Vec<char> = OFFERS.iter().map(|offer| offer.key).chain("ni/A?qhjklgG".chars()).collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count, "no key means two things");
}

#[test]
fn what_the_state_does_not_allow_is_refused_with_what_it_allows() {
    let mut app = app_with(snapshot());
    assert!(type_text(&mut app, "a").is_empty());
    let notice = app.notice.as_ref().expect("a problem");
    assert_eq!(notice.tone, Tone::Problem);
    assert!(notice.text.starts_with("approve is not possible: the task is open; possible now: open, start"));
    type_text(&mut app, "d");
    assert!(app.notice.as_ref().is_some_and(|it| it.text.contains("nobody has worked on it yet")));
}

#[test]
fn an_answer_other_than_yes_does_nothing() {
    let mut app = app_with(snapshot());
    for keys in ["Dn", "Dx", "D "] {
        assert!(type_text(&mut app, keys).is_empty());
        assert_eq!(app.mode, Mode::Browsing);
    }
    type_text(&mut app, "cy");
    assert!(press(&mut app, KeyCode::Esc).is_empty());
    assert_eq!(app.mode, Mode::Browsing);
    app.tasks.select(2, 0);
    assert!(type_text(&mut app, "x\n").is_empty(), "a rejection needs a reason");
    assert!(matches!(app.mode, Mode::Saying { .. }));
}

#[test]
fn a_long_action_is_told_until_it_is_done_and_an_error_loses_nothing() {
    let mut app = app_with(snapshot());
    app.tasks.select(2, 0);
    type_text(&mut app, "a");
    let later = coven_domain::Timestamp::from_millis(9_000_000);
    app.update(Message::Clock(later));
    assert!(app.notice.as_ref().is_some_and(|it| it.text.contains("merging 44444444 Add a changelog …")));
    // The board goes on meanwhile.
    press(&mut app, KeyCode::Left);
    assert_eq!(selected(&app), "33333333-0000-4000-8000-000000000063");
    let request = Request { id: "44444444-0000-4000-8000-000000000064".into(), what: What::Approve };
    answer(&mut app, request, Err("it conflicts with its base in a.rs.".into()));
    assert!(app.notice.as_ref().is_some_and(|it| it.tone == Tone::Problem && it.text.contains("a.rs")));

    for (column, keys) in [(2, "xslow\n"), (0, "cslow\n"), (0, "ij2slow\n")] {
        app = app_with(snapshot());
        app.tasks.select(column, 0);
        let effects = type_text(&mut app, keys);
        let [Effect::Ask(request)] = &effects[..] else { panic!("{effects:?}") };
        answer(&mut app, request.clone(), Err("the daemon stops.".into()));
        assert!(matches!(&app.mode, Mode::Saying { line, .. } if line.text() == "slow"), "{keys}");
    }
}

#[test]
fn a_new_task_is_filled_in_and_kept_until_it_is_good() {
    let mut app = app_with(snapshot());
    type_text(&mut app, "nWrite it");
    press(&mut app, KeyCode::Tab);
    app.update(Message::Paste("one\r\ntwo".into()));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Right);
    press(&mut app, KeyCode::Down);
    type_text(&mut app, "7");
    type_text(&mut app, "0");
    press(&mut app, KeyCode::Down);
    type_text(&mut app, "ui, core");
    let expected = CreateTaskRequest {
        title: "Write it".into(),
        body: Some("one\ntwo".into()),
        kind: Some("bug".into()),
        priority: Some(0),
        tags: vec!["ui".into(), "core".into()],
        ..CreateTaskRequest::default()
    };
    // Left and taken up again.
    press(&mut app, KeyCode::Esc);
    type_text(&mut app, "n");
    let effects = press(&mut app, KeyCode::Enter);
    let request = Request { id: String::new(), what: What::Create(Box::new(expected)) };
    assert_eq!(effects, [Effect::Ask(request.clone())]);
    answer(&mut app, request.clone(), Err("no.".into()));
    assert!(matches!(&app.mode, Mode::Filling(form) if form.field(super::form::Name::Title).text() == "Write it"));
    press(&mut app, KeyCode::Enter);
    // It is selected when it comes along.
    answer(
        &mut app,
        request,
        Ok(Done::Made("99999999-0000-4000-8000-00000000006e".into(), "99999999 Write it".into())),
    );
    assert_eq!((selected(&app).as_str(), &app.mode), ("11111111-0000-4000-8000-000000000061", &Mode::Browsing));
    let made = detail(task("99999999-0000-4000-8000-00000000006e", "open", 99), None);
    app.update(Message::Reports(vec![Report::Changed(Box::new(made))]));
    assert_eq!(selected(&app), "99999999-0000-4000-8000-00000000006e");
    type_text(&mut app, "n");
    assert!(matches!(&app.mode, Mode::Filling(form) if form.is_untouched()));
}

#[test]
fn only_what_was_changed_is_sent() {
    let mut app = app_with(snapshot());
    type_text(&mut app, "e!");
    let effects = press(&mut app, KeyCode::Enter);
    let edit = EditTaskRequest { title: Some("Fix the parser!".into()), ..EditTaskRequest::default() };
    assert_eq!(asked(&effects), [("11111111-0000-4000-8000-000000000061", &What::Edit(Box::new(edit)))]);
    let mut app = app_with(snapshot());
    type_text(&mut app, "e");
    assert!(press(&mut app, KeyCode::Enter).is_empty());
    type_text(&mut app, "e");
    (0..4).for_each(|_| drop(press(&mut app, KeyCode::Tab)));
    (0..4).for_each(|_| drop(press(&mut app, KeyCode::Backspace)));
    let effects = press(&mut app, KeyCode::Enter);
    let edit = EditTaskRequest { tags: Some(Vec::new()), ..EditTaskRequest::default() };
    assert_eq!(asked(&effects), [("11111111-0000-4000-8000-000000000061", &What::Edit(Box::new(edit)))]);
}

#[test]
fn the_filter_takes_words_and_tags() {
    let mut app = app_with(snapshot());
    for (filter, expected) in [("parser", 1), ("#core", 1), ("#cor bug", 1), ("#ui", 0), ("no tests", 1), ("3333", 1)] {
        type_text(&mut app, "/");
        type_text(&mut app, filter);
        assert_eq!(app.tasks.count(), expected, "{filter}");
        press(&mut app, KeyCode::Esc);
    }
    assert_eq!(app.tasks.count(), 7);
    type_text(&mut app, "/upgrade");
    assert_eq!(selected(&app), "66666666-0000-4000-8000-000000000066");
}

#[test]
fn closed_tasks_can_be_hidden_and_only_the_newest_are_shown() {
    let mut many = snapshot();
    many.tasks.extend((0..30).map(|n| task(&format!("{n:08}-0000-4000-8000-{n:012}"), "closed", n)));
    let mut app = app_with(many);
    assert_eq!(
        (app.tasks.column(4).len(), app.tasks.column(4)[0].as_str()),
        (20, "77777777-0000-4000-8000-000000000030")
    );
    type_text(&mut app, "A");
    assert_eq!((app.tasks.column_count(), app.tasks.column(4).len()), (4, 0));
}

#[test]
fn a_page_is_read_scrolled_and_read_again_when_its_task_changes() {
    let mut app = app_with(snapshot());
    let effects = press(&mut app, KeyCode::Enter);
    let look = Request { id: "11111111-0000-4000-8000-000000000061".into(), what: What::Look(Subject::Detail) };
    assert_eq!(effects, [Effect::Ask(look.clone())]);
    let lines = (0..50).map(|n| super::page::PageLine { text: format!("line {n}"), shade: super::page::Shade::Plain });
    answer(&mut app, look.clone(), Ok(Done::Page(lines.collect())));
    type_text(&mut app, "jj");
    press(&mut app, KeyCode::End);
    assert!(matches!(&app.mode, Mode::Reading(page) if page.scroll == 28 && page.shown.len() == 50));
    let changed = Report::Changed(Box::new(detail(task("11111111-0000-4000-8000-000000000061", "open", 10), None)));
    let effects = app.update(Message::Reports(vec![changed.clone(), changed]));
    assert_eq!(effects, [Effect::Ask(look.clone())], "asked once while it is under way");
    assert_eq!(answer(&mut app, look.clone(), Err("no".into())), [Effect::Ask(look)], "and again because it changed");
    assert!(matches!(&app.mode, Mode::Reading(page) if page.shown.len() == 50), "what was seen stays");
    // An action from the page.
    assert_eq!(asked(&type_text(&mut app, "s")), [("11111111-0000-4000-8000-000000000061", &What::Start)]);
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.mode, Mode::Browsing);
}

#[test]
fn from_page_to_page_and_back() {
    let mut app = app_with(snapshot());
    app.tasks.select(2, 0);
    press(&mut app, KeyCode::Enter);
    assert_eq!(
        asked(&type_text(&mut app, "d")),
        [("44444444-0000-4000-8000-000000000064", &What::Look(Subject::Diff))]
    );
    assert_eq!(
        asked(&press(&mut app, KeyCode::Esc)),
        [("44444444-0000-4000-8000-000000000064", &What::Look(Subject::Detail))]
    );
    assert!(press(&mut app, KeyCode::Esc).is_empty());
    assert_eq!(app.mode, Mode::Browsing);
}

#[test]
fn the_session_that_was_found_is_attached_to() {
    let mut app = app_with(snapshot());
    let request = Request { id: "33333333-0000-4000-8000-000000000063".into(), what: What::Attach };
    let effects = answer(&mut app, request, Ok(Done::Session("5e550000-0000-4000-8000-000000000001".into())));
    assert_eq!(effects, [Effect::Leave(Outcome::Attach("5e550000-0000-4000-8000-000000000001".into()))]);
}

#[test]
fn the_inbox_answers_permissions_and_leads_to_questions() {
    let mut app = app_with(snapshot());
    assert_eq!(app.tasks.card("33333333-0000-4000-8000-000000000063").map(|card| card.questions), Some(1));
    type_text(&mut app, "i");
    let effects = type_text(&mut app, "2");
    assert_eq!(asked(&effects), [("ask-1", &What::Answer { option: "no".into() })]);
    let mut set = permission("ask-2", "5e550000-0000-4000-8000-000000000009");
    (set.kind, set.options) = (InboxKind::QuestionSet, Vec::new());
    let effects = app.update(Message::Reports(vec![Report::Inbox(vec![set])]));
    assert_eq!(effects, [Effect::Bell]);
    assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Leave(Outcome::Answer)]);
}

#[test]
fn a_terminal_takes_a_line_as_it_is_typed() {
    let mut some = snapshot();
    some.inbox = vec![terminal("ask-1", "5e550000-0000-4000-8000-000000000001")];
    let mut app = app_with(some);
    assert!(type_text(&mut app, "i1").is_empty(), "there is nothing to choose from");
    type_text(&mut app, "\nno");
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.mode, Mode::Inbox { cursor: 0 });
    type_text(&mut app, "\n  2 ");
    app.update(Message::Paste("a\nb".into()));
    let effects = press(&mut app, KeyCode::Enter);
    let reply = Request { id: "ask-1".into(), what: What::Reply("  2 a b".into()) };
    assert_eq!(effects, [Effect::Ask(reply.clone())]);
    assert_eq!(app.mode, Mode::Inbox { cursor: 0 });
    // What was refused is given back while it is waited for.
    answer(&mut app, reply.clone(), Err("the daemon stops.".into()));
    assert!(matches!(&app.mode, Mode::Saying { line, .. } if line.text() == "  2 a b"));
    press(&mut app, KeyCode::Enter);
    app.update(Message::Reports(vec![Report::Inbox(Vec::new())]));
    answer(&mut app, reply, Err("it was answered already.".into()));
    assert_eq!(app.mode, Mode::Inbox { cursor: 0 });
    // An empty line is an answer, too.
    app.update(Message::Reports(vec![Report::Inbox(vec![terminal("ask-2", "5e550000-0000-4000-8000-000000000001")])]));
    app.mode = Mode::Inbox { cursor: 0 };
    assert_eq!(asked(&type_text(&mut app, "\n\n")), [("ask-2", &What::Reply(String::new()))]);
}

#[test]
fn work_is_rejected_in_the_inbox_only_with_a_reason() {
    let mut app = app_with(snapshot());
    assert!(type_text(&mut app, "ij2 \n").is_empty());
    assert!(matches!(app.mode, Mode::Saying { .. }));
    assert!(app.notice.as_ref().is_some_and(|it| it.text.contains("say what is wrong")));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.mode, Mode::Inbox { cursor: 1 });
    let effects = type_text(&mut app, "2no tests\n");
    assert_eq!(asked(&effects), [("44444444-0000-4000-8000-000000000064", &What::Reject("no tests".into()))]);
    assert_eq!(app.mode, Mode::Inbox { cursor: 1 });
}

#[test]
fn what_was_approved_does_not_wait_in_the_inbox() {
    let mut some = snapshot();
    let mut approved = run("44444444-0000-4000-8000-000000000064", "pending_merge");
    approved.approved_by = Some("user".into());
    some.runs.insert(0, approved);
    let mut app = app_with(some);
    assert_eq!(asked(&type_text(&mut app, "ij1")), [("55555555-0000-4000-8000-000000000065", &What::Approve)]);
}

#[test]
fn the_inbox_stays_with_what_is_selected() {
    let mut app = app_with(snapshot());
    type_text(&mut app, "ij");
    let two = vec![
        permission("ask-1", "5e550000-0000-4000-8000-000000000001"),
        permission("ask-2", "5e550000-0000-4000-8000-000000000001"),
    ];
    app.update(Message::Reports(vec![Report::Inbox(two)]));
    assert_eq!(app.mode, Mode::Inbox { cursor: 2 });
    type_text(&mut app, "2");
    app.update(Message::Reports(vec![Report::Inbox(Vec::new())]));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.mode, Mode::Inbox { cursor: 0 });
    assert_eq!(asked(&type_text(&mut app, "1")), [("44444444-0000-4000-8000-000000000064", &What::Approve)]);
}

#[test]
fn a_digit_does_not_answer_what_has_just_taken_the_place() {
    let mut app = app_with(snapshot());
    type_text(&mut app, "i");
    app.update(Message::Reports(vec![Report::Inbox(Vec::new())]));
    assert!(type_text(&mut app, "1").is_empty());
    assert!(app.notice.as_ref().is_some_and(|it| it.text.contains("look at it first")));
    app.update(Message::Clock(Timestamp::from_millis(app.now.as_millis() + 700)));
    assert_eq!(asked(&type_text(&mut app, "1")), [("44444444-0000-4000-8000-000000000064", &What::Approve)]);
    // Whoever moves has looked.
    app.update(Message::Reports(vec![Report::Inbox(vec![permission(
        "ask-2",
        "5e550000-0000-4000-8000-000000000001",
    )])]));
    type_text(&mut app, "k");
    app.update(Message::Reports(vec![Report::Inbox(Vec::new())]));
    assert!(type_text(&mut app, "1").is_empty());
    assert_eq!(asked(&type_text(&mut app, "j1")), [("55555555-0000-4000-8000-000000000065", &What::Approve)]);
}

#[test]
fn tasks_made_together_stay_in_their_order_and_wait_for_what_is_not_closed() {
    let mut some = snapshot();
    let mut last = task("aaaaaaaa-0000-4000-8000-00000000007a", "open", 10);
    let others = [
        "bbbbbbbb-0000-4000-8000-00000000007a",
        "77777777-0000-4000-8000-000000000067",
        "dddddddd-0000-4000-8000-00000000007a",
    ];
    last.depends_on = others.map(|id| id.parse().expect("an id")).into();
    some.tasks = vec![
        task("cccccccc-0000-4000-8000-00000000007a", "open", 10),
        task("bbbbbbbb-0000-4000-8000-00000000007a", "open", 10),
        task("77777777-0000-4000-8000-000000000067", "closed", 1),
    ];
    some.ready = some.tasks.iter().map(|task| task.id.to_string()).collect();
    let mut app = app_with(some);
    app.update(Message::Reports(vec![Report::Changed(Box::new(detail(last, None)))]));
    let column: Vec<String> = (0..3)
        .map(|row| {
            app.tasks.select(0, row);
            selected(&app)
        })
        .collect();
    assert_eq!(
        column,
        [
            "cccccccc-0000-4000-8000-00000000007a",
            "bbbbbbbb-0000-4000-8000-00000000007a",
            "aaaaaaaa-0000-4000-8000-00000000007a"
        ]
    );
    assert_eq!(
        app.tasks.card("aaaaaaaa-0000-4000-8000-00000000007a").map(|card| card.waits),
        Some(&["bbbbbbbb-0000-4000-8000-00000000007a".to_owned()][..])
    );
}

#[test]
fn only_sessions_on_the_screen_are_looked_at() {
    let mut many = snapshot();
    many.tasks.extend((0..30).map(|n| task(&format!("{n:08}-0000-4000-8000-{n:012}"), "in_progress", 100 + n)));
    many.agents.extend(
        (0..30).map(|n| agent(&format!("{n:08}-0000-4000-8000-{n:012}"), &format!("{n:08}-5e55-4000-8000-{n:012}"))),
    );
    let mut app = app_with(many);
    app.update(Message::Resized(Size { width: 30, height: 8 }));
    let effects = app.update(Message::Resized(Size { width: 80, height: 24 }));
    let [Effect::Watch(sessions)] = &effects[..] else { panic!("{effects:?}") };
    assert!(
        sessions.contains("5e550000-0000-4000-8000-000000000001")
            && sessions.contains("00000000-5e55-4000-8000-000000000000")
            && sessions.len() < 8,
        "{sessions:?}"
    );
    app.tasks.select(4, 0);
    let effects = press(&mut app, KeyCode::Right);
    assert_eq!(effects, [Effect::Watch([].into())]);
}

#[test]
fn a_click_selects_and_a_second_one_opens() {
    let mut app = app_with(snapshot());
    let place = layout::places(&app)
        .into_iter()
        .find(|place| place.id == "33333333-0000-4000-8000-000000000063")
        .expect("it is on the screen");
    let click =
        |kind| MouseEvent { kind, column: place.area.x + 2, row: place.area.y + 1, modifiers: KeyModifiers::NONE };
    let down = MouseEventKind::Down(MouseButton::Left);
    app.update(Message::Mouse(click(down)));
    assert_eq!(selected(&app), "33333333-0000-4000-8000-000000000063");
    let effects = app.update(Message::Mouse(click(down)));
    assert_eq!(asked(&effects), [("33333333-0000-4000-8000-000000000063", &What::Look(Subject::Detail))]);
}

#[test]
fn a_narrow_board_is_one_list() {
    let mut app = app_with(snapshot());
    app.update(Message::Resized(Size { width: 50, height: 15 }));
    let ids: Vec<String> = (0..8)
        .map(|_| {
            let id = selected(&app);
            press(&mut app, KeyCode::Down);
            id[..8].to_owned()
        })
        .collect();
    let expected = ["11111111", "22222222", "33333333", "44444444", "55555555", "66666666", "77777777", "77777777"];
    assert_eq!(ids, expected);
    press(&mut app, KeyCode::Left);
    assert_eq!(selected(&app), "66666666-0000-4000-8000-000000000066");
}
