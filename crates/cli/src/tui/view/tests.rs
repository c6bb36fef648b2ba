//! What stands on the screen, at three sizes.

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::super::fixtures::{app_with, completed, conversation, press, record, type_text};
use super::super::preview::Picture;
use super::super::report::Report;
use super::super::shelf;
use super::super::state::{App, Message};
use super::{Theme, draw};

const SIZES: [(u16, u16); 3] = [(80, 24), (40, 10), (200, 60)];

fn screen(app: &App) -> Terminal<TestBackend> {
    let backend = TestBackend::new(app.size.width, app.size.height);
    let mut terminal = Terminal::new(backend).expect("a test backend never fails");
    terminal.draw(|frame| draw(frame, app, Theme::Colored)).expect("a test backend never fails");
    terminal
}

/// The rows of the screen; the second cell of a wide character is left out.
fn rows(app: &App) -> Vec<String> {
    let terminal = screen(app);
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(app.size.width.max(1)));
    rows.map(|row| {
        let mut line = String::new();
        let mut skip = 0;
        for cell in row {
            if skip == 0 {
                line.push_str(cell.symbol());
                skip = super::super::text::width(cell.symbol()).max(1);
            }
            skip -= 1;
        }
        line.trim_end().to_owned()
    })
    .collect()
}

fn resized(app: &mut App, (width, height): (u16, u16)) {
    app.update(Message::Resized(Size { width, height }));
}

fn shows(app: &App, wanted: &[&str]) {
    let rows = rows(app);
    for text in wanted {
        assert!(rows.iter().any(|row| row.contains(text)), "{text:?} is not on\n{}", rows.join("\n"));
    }
}

fn some_sessions() -> App {
    let mut running = record("1f2e3d4c-0000-4000-8000-000000000001", 3_500);
    (running.title, running.harness) = ("Fix the parser".into(), "claude".into());
    let mut failed = completed("2f2e3d4c-0000-4000-8000-000000000002", 60);
    (failed.title, failed.status, failed.exit_code) = ("壊れた\u{1b}[2J".into(), "failed".into(), Some(3));
    app_with(vec![running, failed])
}

fn with_screen(mut app: App) -> App {
    let red = Line::styled("drawn in red", Style::new().fg(Color::Red));
    let lines = std::iter::repeat_n(Line::raw("old"), 50).chain([red]).collect();
    let id = app.selected().expect("a session is selected").id.clone();
    app.update(Message::Reports(vec![Report::Screen { id, screen: Ok(Picture { rows: 51, cols: 80, lines }) }]));
    app
}

#[test]
fn a_usual_terminal_shows_list_preview_details_and_keys() {
    let app = with_screen(some_sessions());
    shows(
        &app,
        &[
            " coven sessions",
            "1 running · 2 sessions · live",
            "   STATUS     HARNESS  TITLE",
            " ● running    claude   Fix the parser",
            "  1m  1f2e3d4c",
            " ✗ failed     demo     壊れた␛[2J",
            "─ Fix the parser ──",
            " 80×51",
            "drawn in red",
            " 1f2e3d4c-0000-4000-8000-000000000001 · /work/project",
            " ● running · pid 4711 · started 1m ago",
            " ⏎ attach  r replay  i input  f finish  x kill  e export",
            "? help  q quit",
        ],
    );
}

#[test]
fn a_small_terminal_keeps_list_and_keys() {
    let mut app = with_screen(some_sessions());
    resized(&mut app, (40, 10));
    shows(&app, &[" coven  ", " ● running    Fix the parser", " ✗ failed     壊れた␛[2J", "? help  q quit"]);
    assert!(!rows(&app).iter().any(|row| row.contains("drawn in red")));
}

#[test]
fn a_large_terminal_has_the_preview_beside_the_list() {
    let mut app = with_screen(some_sessions());
    resized(&mut app, (200, 60));
    let rows = rows(&app);
    assert!(rows[1].contains("STATUS") && rows[1].contains("┌─ Fix the parser ─"), "{}", rows[1]);
    shows(&app, &["│drawn in red", "1f2e3d4c │old"]);
}

#[test]
fn columns_line_up_behind_wide_characters() {
    let app = some_sessions();
    let rows = rows(&app);
    let column = |row: &String, text: &str| {
        let at = row.find(text).expect("the id is shown");
        super::super::text::width(&row[..at])
    };
    let [running, failed] = [&rows[2], &rows[3]];
    assert_eq!(column(running, "1f2e3d4c"), column(failed, "2f2e3d4c"));
}

#[test]
fn the_selected_row_and_the_preview_have_their_looks() {
    let app = with_screen(some_sessions());
    let terminal = screen(&app);
    let buffer = terminal.backend().buffer();
    assert!(buffer[(30, 2)].modifier.contains(Modifier::REVERSED));
    assert!(!buffer[(30, 3)].modifier.contains(Modifier::REVERSED));
    let red = app.panes().preview.bottom() - 1;
    assert_eq!((buffer[(0, red)].symbol(), buffer[(0, red)].fg), ("d", Color::Red));
}

#[test]
fn the_menu_changes_with_the_selection() {
    let mut app = some_sessions();
    press(&mut app, KeyCode::Down);
    shows(&app, &[" ⏎ open log  r replay  a archive  e export  d sacrifice", " ✗ failed · exit code 3"]);
    let keys = rows(&app).pop().expect("a footer");
    assert!(!keys.contains("kill") && !keys.contains("attach"), "{keys}");
}

#[test]
fn a_lost_daemon_is_told_in_a_banner() {
    let mut app = some_sessions();
    app.update(Message::Reports(vec![Report::Lost("it has ended; start it with `coven daemon start`".into())]));
    for size in SIZES {
        resized(&mut app, size);
        shows(&app, &["daemon not reachable, retrying", "Fix the parser"]);
    }
    shows(&app, &["start it with `coven daemon start`"]);
}

#[test]
fn dialogs_show_what_they_are_about_at_every_size() {
    let mut app = some_sessions();
    for size in SIZES {
        resized(&mut app, size);
        press(&mut app, KeyCode::Char('x'));
        shows(&app, &[" Kill ", "“Fix the parser”", "y kills it"]);
        press(&mut app, KeyCode::Esc);
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Char('d'));
        type_text(&mut app, "sacri");
        shows(&app, &[" Sacrifice ", "the word sacrifice", "> sacri"]);
        press(&mut app, KeyCode::Esc);
        press(&mut app, KeyCode::Esc);
        press(&mut app, KeyCode::Up);
    }
}

#[test]
fn the_help_lists_every_key_on_one_usual_terminal() {
    let mut app = some_sessions();
    press(&mut app, KeyCode::Char('?'));
    shows(&app, &[" Keys ", "filter: title", "end it now: killed", "delete it for good", "q Esc ^C", "any key closes"]);
}

#[test]
fn typing_and_filtering_show_the_line_with_its_cursor() {
    let mut app = some_sessions();
    press(&mut app, KeyCode::Char('i'));
    type_text(&mut app, "漢字");
    shows(&app, &[" > 漢字", "Enter sends · Esc leaves"]);
    screen(&app).backend_mut().assert_cursor_position((7, 23));
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('/'));
    type_text(&mut app, "pars");
    shows(&app, &[" / pars", "1 of 2", "Esc clear"]);
    screen(&app).backend_mut().assert_cursor_position((7, 0));
}

#[test]
fn an_empty_list_says_what_to_do() {
    let mut app = app_with(Vec::new());
    shows(&app, &["No sessions yet. Start one with `coven run demo`"]);
    press(&mut app, KeyCode::Char('/'));
    type_text(&mut app, "x");
    shows(&app, &["Nothing matches “x”. Esc clears the filter."]);
}

#[test]
fn a_problem_is_broken_into_lines_above_the_keys() {
    let mut app = some_sessions();
    resized(&mut app, (40, 10));
    press(&mut app, KeyCode::Char('d'));
    shows(&app, &["sacrifice is not possible: the status", "is running; possible now: attach,", "q quit"]);
}

#[test]
fn ten_thousand_sessions_are_drawn_row_by_row() {
    let mut app = app_with((0..10_000).rev().map(|n| record(&format!("{n:08x}-0"), n)).collect());
    press(&mut app, KeyCode::End);
    shows(&app, &["10000 sessions", "00000000"]);
    press(&mut app, KeyCode::Home);
    shows(&app, &["0000270f", "▐"]);
}

#[test]
fn every_size_can_be_drawn_in_every_mode() {
    for keys in ["", "/abc", "i漢字", "x", "?", "q"] {
        let mut app = with_screen(some_sessions());
        type_text(&mut app, keys);
        for size in [0, 1, 2, 5, 29, 45, 69, 131]
            .into_iter()
            .flat_map(|width| [0, 1, 2, 4, 9, 15, 21].map(|height| (width, height)))
        {
            resized(&mut app, size);
            screen(&app);
        }
    }
}

#[test]
fn without_colors_nothing_is_coloured() {
    let app = with_screen(some_sessions());
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a test backend never fails");
    terminal.draw(|frame| draw(frame, &app, Theme::of(Some("1".as_ref())))).expect("a test backend never fails");
    let buffer = terminal.backend().buffer();
    assert!(buffer.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn a_conversation_says_what_it_is_and_how_it_goes_on() {
    let mut app = some_sessions();
    app.update(Message::Reports(vec![Report::Conversations(vec![shelf::row(&conversation("talk", 3_599))])]));
    press(&mut app, KeyCode::Home);
    shows(
        &app,
        &[
            "1 running · 2 sessions · 1 conversation · live",
            " ✎ active     claude   talk: conversation, 2 turns",
            "begun 1s ago · last written 1s ago · coven spawn --resume talk",
            " ⏎ resume  e export",
        ],
    );
    for size in SIZES {
        resized(&mut app, size);
        shows(&app, &["talk: conversation"]);
    }
}
