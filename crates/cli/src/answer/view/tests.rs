//! What stands on the screen.

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};

use super::super::fixtures::*;
use super::super::state::{App, Message, Report};
use super::draw;
use crate::tui::text;
use crate::tui::view::Theme;

fn screen(app: &App) -> Terminal<TestBackend> {
    let backend = TestBackend::new(app.size.width, app.size.height);
    let mut terminal = Terminal::new(backend).expect("a test backend never fails");
    terminal.draw(|frame| draw(frame, app, Theme::Colored)).expect("a test backend never fails");
    terminal
}

/// The rows of the screen; the second cell of a wide character is left out.
fn rows(app: &App) -> Vec<String> {
    let terminal = screen(app);
    let rows = terminal.backend().buffer().content().chunks(usize::from(app.size.width.max(1)));
    rows.map(|row| {
        let mut line = String::new();
        let mut skip = 0;
        for cell in row {
            if skip == 0 {
                line.push_str(cell.symbol());
                skip = text::width(cell.symbol()).max(1);
            }
            skip -= 1;
        }
        line.trim_end().to_owned()
    })
    .collect()
}

fn resized(app: &mut App, width: u16, height: u16) {
    let now = app.now;
    app.update(Message::Resized(Size { width, height }), now);
}

fn shows(app: &App, wanted: &[&str]) {
    let rows = rows(app);
    for text in wanted {
        assert!(rows.iter().any(|row| row.contains(text)), "{text:?} is not on\n{}", rows.join("\n"));
    }
}

#[test]
fn a_usual_terminal_shows_a_single_choice() {
    let app = usual_app();
    let expected = [
        " coven answer · 0c7e49a2 · /work/project                        waiting 0:02:13",
        " ○ Database  ○ Features  » Review",
        "────────────────────────────────────────────────────────────────────────────────",
        " Which database?",
        "",
        " single choice",
        " ▸ ( ) 1 PostgreSQL (recommended) ★",
        "         Relational, mature",
        "   ( ) 2 SQLite",
        "         One file",
        "   ( ) o Other: in your own words",
        "   ( ) e Ask for more explanation first",
    ];
    let rows = rows(&app);
    assert_eq!(&rows[..expected.len()], expected);
    assert_eq!(rows[23], " ⏎ choose, go on  → next  r recommended  x reject               ? help  q quit");
    let terminal = screen(&app);
    let buffer = terminal.backend().buffer();
    assert!(buffer[(7, 3)].modifier.contains(Modifier::BOLD), "markdown in the prompt");
    assert!(buffer[(9, 6)].modifier.contains(Modifier::REVERSED), "the row under the cursor");
}

#[test]
fn a_multiple_choice_shows_its_marks_and_the_text() {
    let mut app = usual_app();
    type_text(&mut app, "2");
    press(&mut app, KeyCode::Tab);
    type_text(&mut app, "13omine\\");
    press(&mut app, KeyCode::Esc);
    let expected = [
        " ✓ Database  ✓ Features  » Review",
        "────────────────────────────────────────────────────────────────────────────────",
        " Which features?",
        "",
        " multiple choice: Space marks each that applies",
        "   [x] 1 Auth",
        "         Login",
        "   [ ] 2 Logs",
        "   [x] 3 漢字 search",
        " ▸ [ ] o Other: in your own words",
        "         mine\\",
        "   ( ) 0 None of these",
        "   ( ) e Ask for more explanation first",
    ];
    assert_eq!(&rows(&app)[1..=expected.len()], expected);
}

#[test]
fn a_text_is_typed_below_its_row() {
    let mut app = usual_app();
    type_text(&mut app, "o漢字 word");
    shows(&app, &["       › 漢字 word", " ⏎ take it, go on  ^J new line  Esc back, text is kept"]);
    screen(&app).backend_mut().assert_cursor_position((18, 11));
}

#[test]
fn the_review_shows_every_answer_before_it_is_sent() {
    let mut app = usual_app();
    type_text(&mut app, "1v");
    let expected = [
        " 1. Which database?",
        "    → PostgreSQL (recommended) — Relational, mature",
        "",
        " 2. Which features?",
        "    → not answered yet",
        "",
        " one question has no answer; Enter goes to it",
    ];
    assert_eq!(&rows(&app)[3..3 + expected.len()], expected);
    press(&mut app, KeyCode::Esc);
    type_text(&mut app, "0v");
    shows(&app, &["    → none of these", "  Enter sends the answers", " ⏎ send  Esc back"]);
    press(&mut app, KeyCode::Enter);
    shows(&app, &["sending …"]);
}

#[test]
fn several_sets_are_counted_and_listed() {
    let mut app = app_with(vec![
        asked("aaaaaaaa-1", 9, vec![database()]),
        asked("bbbbbbbb-1", 300, vec![features(), database()]),
    ]);
    shows(&app, &[" set 1 of 2 · bbbbbbbb", "[ ] sets"]);
    type_text(&mut app, "s");
    shows(
        &app,
        &[
            "2 question sets, the oldest first",
            "│ Features, Database",
            "  0/2   5m  bbbbbbbb ",
            "  0/1   9s  aaaaaaaa ",
        ],
    );
    let row = rows(&app).iter().position(|row| row.contains("aaaaaaaa")).expect("it is there");
    click(&mut app, 20, u16::try_from(row).expect("small"));
    shows(&app, &[" set 2 of 2 · aaaaaaaa"]);
}

#[test]
fn dialogs_say_what_they_do() {
    let mut app = usual_app();
    type_text(&mut app, "x漢 no");
    shows(
        &app,
        &[" Reject ", "“Database, Features” is not answered", "Enter rejects, with or without a reason", "› 漢 no"],
    );
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Esc);
    shows(&app, &[" Quit ", "A question set waits for an answer", "y quits · any other key stays"]);
    press(&mut app, KeyCode::Esc);
    type_text(&mut app, "?");
    shows(
        &app,
        &[" Keys ", "choose what is recommended (★) here", "quit; what was chosen and typed is kept", "any key closes"],
    );
}

#[test]
fn an_empty_queue_says_what_will_happen() {
    let mut app = App::new(Size { width: 80, height: 24 }, NOW);
    shows(&app, &["reading the questions …"]);
    report(&mut app, Report::Listed { broken: 0 });
    shows(&app, &["No questions wait. New ones appear here by themselves."]);
    report(&mut app, Report::Trouble("the folder cannot be read: permission denied".into()));
    shows(&app, &["the folder cannot be read: permission denied"]);
}

#[test]
fn control_characters_of_a_set_never_reach_the_terminal() {
    let wild = "a\x1b[2J\x07\u{9b}31m\u{202e}b";
    let mut question = features();
    question.prompt = format!("{wild}\n```\n{wild}\n```\n**{wild}**");
    question.title = wild.into();
    question.options = vec![choice(wild, wild), choice("x", "")];
    let mut set = asked(wild, 5, vec![question]);
    (set.folder, set.session) = (Some(wild.into()), Some(wild.into()));
    let mut app = app_with(vec![set.clone(), asked("b", 3, vec![database()])]);
    for keys in ["", "1v", "s", "x"] {
        type_text(&mut app, keys);
        let terminal = screen(&app);
        let symbols = terminal.backend().buffer().content().iter().map(|cell| cell.symbol());
        assert!(!symbols.clone().any(|it| it.chars().any(|c| c.is_control() || c == '\u{202e}')), "after {keys:?}");
        press(&mut app, KeyCode::Esc);
    }
    report(&mut app, Report::Finished { id: wild.into(), how: "was answered elsewhere" });
    shows(&app, &["a␛[2J␇\u{fffd}31m\u{fffd}b” was answered elsewhere"]);
}

#[test]
fn a_long_page_tells_what_is_above_and_below() {
    let mut long = database();
    long.prompt = "line\n\n".repeat(30);
    let mut app = app_with(vec![asked("a", 1, vec![long])]);
    assert!(rows(&app)[22].ends_with('↓') && !rows(&app)[3].ends_with('↑'));
    press(&mut app, KeyCode::End);
    assert!(rows(&app)[3].ends_with('↑') && !rows(&app)[22].ends_with('↓'), "{:#?}", rows(&app));
    shows(&app, &["▸ ( ) e Ask for more"]);
}

#[test]
fn many_tabs_keep_the_current_one_in_view() {
    let mut question = database();
    question.title = "A rather long title".into();
    let mut app = app_with(vec![asked("a", 1, vec![question; 12])]);
    resized(&mut app, 40, 12);
    for _ in 0..12 {
        let terminal = screen(&app);
        let tabs = terminal.backend().buffer().content()[40..80].iter();
        assert!(tabs.clone().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
        press(&mut app, KeyCode::Tab);
    }
    shows(&app, &["» Rev…"]);
}

#[test]
fn a_small_terminal_keeps_the_question_and_the_keys() {
    let mut app = usual_app();
    resized(&mut app, 30, 8);
    shows(&app, &["Which database?", " ○ Datab…  ○ Featu…", "? help"]);
    press(&mut app, KeyCode::Down);
    shows(&app, &["▸ ( ) 2 SQLite"]);
}

#[test]
fn every_size_can_be_drawn_in_every_mode() {
    for keys in ["", "o漢字 word", "1v", "x漢字", "s", "?", "e", "]"] {
        let mut app = app_with(vec![
            asked("a", 9, vec![database(), features()]),
            asked("b", 5, vec![features()]),
            asked("c", 1, vec![database(); 12]),
        ]);
        type_text(&mut app, keys);
        for (width, height) in [0, 1, 2, 5, 9, 29, 45, 131]
            .into_iter()
            .flat_map(|width| [0, 1, 2, 3, 4, 9, 15, 21].map(|height| (width, height)))
        {
            resized(&mut app, width, height);
            screen(&app);
            click(&mut app, width / 2, height / 2);
        }
    }
}

#[test]
fn without_colours_nothing_is_coloured() {
    let app = usual_app();
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a test backend never fails");
    terminal.draw(|frame| draw(frame, &app, Theme::of(Some("1".as_ref())))).expect("a test backend never fails");
    let buffer = terminal.backend().buffer();
    assert!(buffer.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}
