//! What stands on the screen, at several sizes.

use crossterm::event::KeyCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use ratatui::style::Color;

use super::super::fixtures::{app_with, press, run, snapshot, terminal, type_text};
use super::super::page::{PageLine, Shade};
use super::super::read::Snapshot;
use super::super::report::{Done, Report, Request, Subject, What};
use super::super::state::{App, Message};
use super::draw;
use crate::tui::text;
use crate::tui::view::Theme;

const SIZES: [(u16, u16); 5] = [(120, 35), (80, 24), (60, 20), (50, 15), (40, 10)];

fn screen(app: &App, theme: Theme) -> Terminal<TestBackend> {
    let backend = TestBackend::new(app.size.width, app.size.height);
    let mut terminal = Terminal::new(backend).expect("a test backend never fails");
    terminal.draw(|frame| draw(frame, app, theme)).expect("a test backend never fails");
    terminal
}

/// The rows of the screen; the second cell of a wide character is left out.
fn rows(app: &App) -> Vec<String> {
    let terminal = screen(app, Theme::Colored);
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(app.size.width.max(1)));
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

fn resized(app: &mut App, (width, height): (u16, u16)) {
    app.update(Message::Resized(Size { width, height }));
}

#[track_caller]
fn shows(app: &App, wanted: &[&str]) {
    let rows = rows(app);
    for text in wanted {
        assert!(rows.iter().any(|row| row.contains(text)), "{text:?} is not on\n{}", rows.join("\n"));
    }
}

fn board() -> App {
    let mut app = app_with(snapshot());
    let line = "compiling \u{1b}[31mlexer".to_owned();
    app.update(Message::Reports(vec![Report::Wrote { session: "5e550000-0000-4000-8000-000000000001".into(), line }]));
    app
}

#[test]
fn a_usual_terminal_shows_three_columns_and_names_the_rest() {
    let app = board();
    assert_eq!(
        rows(&app)[..9],
        [
            " coven board  blocked 1 ›  closed 1 ›                 ?1 asked · 1 ready · live",
            " open 2                     in progress 1              pending merge 2",
            "▌11111111 P1 bug    ready   33333333 P2           ?1   44444444 P2",
            "▌Fix the parser             Make the lexer faster,     Add a changelog",
            "                            and say in the docs how…   waits for review",
            " 22222222 P0        waits   ● work: running",
            " 文書を書く [2J             › compiling  [31mlexer     55555555 P2",
            " after 11111111                                        Rename all",
            "                                                       not merged: it",
        ]
    );
    shows(&app, &[" ⏎ open  s start  e edit  c close  D delete  n new", "? help  q quit"]);
}

#[test]
fn a_wide_terminal_shows_every_column() {
    let mut app = board();
    resized(&mut app, (120, 35));
    shows(&app, &["open 2", "in progress 1", "pending merge 2", "blocked 1", "closed 1", "no tests", "1m ago"]);
}

#[test]
fn a_narrow_terminal_has_one_list() {
    let mut app = board();
    resized(&mut app, (50, 15));
    shows(
        &app,
        &[
            " open 2",
            "▌11111111 P1 bug Fix the parser",
            " 22222222 P0 文書を書く [2J",
            " in progress 1",
            " ● work: running",
            " pending merge 2",
            " waits for review",
        ],
    );
    press(&mut app, KeyCode::End);
    shows(&app, &["▌77777777 P2 Set up"]);
}

#[test]
fn too_small_a_terminal_gets_a_word() {
    let mut app = board();
    resized(&mut app, (30, 8));
    shows(&app, &["the board needs 40×10; q"]);
}

#[test]
fn a_merge_that_is_under_way_says_so() {
    let mut some = snapshot();
    let mut approved = run("44444444-0000-4000-8000-000000000064", "pending_merge");
    approved.approved_by = Some("user".into());
    some.runs.insert(0, approved);
    shows(&app_with(some), &["being merged …"]);
}

#[test]
fn long_columns_say_how_much_is_off_the_screen() {
    let mut many = snapshot();
    many.tasks.extend((0..30).map(|n| {
        let task = super::super::fixtures::task(&format!("{n:08}-0000-4000-8000-{n:012}"), "open", 100 + n);
        coven_api::task::TaskRecord { title: format!("title of {n:08}-z"), ..task }
    }));
    let mut app = app_with(many);
    shows(&app, &["open 32 ↓25"]);
    press(&mut app, KeyCode::End);
    shows(&app, &["open 32 ↑2", "▌00000029"]);
    let all = rows(&app);
    assert!(all[all.len() - 3..].iter().any(|row| row.contains("title of 00000029-z")), "{}", all.join("\n"));
}

#[test]
fn dialogs_and_pages_fit_at_every_size() {
    for size in SIZES {
        let mut app = board();
        resized(&mut app, size);
        type_text(&mut app, "D");
        shows(&app, &[" Delete ", "Fix the parser", "y deletes it"]);
        press(&mut app, KeyCode::Esc);
        type_text(&mut app, "nA title");
        shows(&app, &[" New task ", "title       A title", "⏎ save"]);
        press(&mut app, KeyCode::BackTab);
        shows(&app, &["parent", "the id of what it is a part of"]);
        press(&mut app, KeyCode::Esc);
        type_text(&mut app, "i");
        shows(&app, &[" Inbox ", "claude: Run [2J tests", "1 Allow · 2 Deny"]);
        type_text(&mut app, "j");
        shows(&app, &["59m review: Add a changelog", "1 approve · 2 reject"]);
        press(&mut app, KeyCode::Esc);
        app.update(Message::Reports(vec![Report::Inbox(vec![terminal(
            "ask-2",
            "5e550000-0000-4000-8000-000000000001",
        )])]));
        type_text(&mut app, "i");
        shows(&app, &["claude: Really [2J go on?", "⏎ types a line into it"]);
        type_text(&mut app, "\nby all means");
        shows(&app, &[" Answer ", "Two ways:", "Really [2J go on?", "> by all means"]);
        press(&mut app, KeyCode::Esc);
        press(&mut app, KeyCode::Esc);
        type_text(&mut app, "?");
        shows(&app, &[" Keys ", "what the selected task allows"]);
    }
    let mut app = board();
    app.tasks.select(2, 0);
    type_text(&mut app, "xnot like that");
    shows(&app, &[" Reject ", "“Add a changelog” 44444444", "> not like that"]);
    press(&mut app, KeyCode::Esc);
    app.tasks.select(0, 0);
    type_text(&mut app, "cnot needed");
    shows(&app, &[" Close ", "“Fix the parser” 11111111", "> not needed"]);
    press(&mut app, KeyCode::Esc);
    type_text(&mut app, "i");
    shows(&app, &["not merged: Rename all · it conflicts", "blocked: Upgrade · no tests"]);
}

#[test]
fn the_help_lists_every_key_on_one_wide_terminal() {
    let mut app = board();
    resized(&mut app, (120, 35));
    type_text(&mut app, "?");
    for offer in super::super::offer::OFFERS {
        shows(&app, &[offer.help]);
    }
    shows(&app, &["any key closes", "show or hide closed tasks"]);
}

#[test]
fn a_diff_is_coloured_and_does_not_act_on_the_terminal() {
    let mut app = board();
    app.tasks.select(2, 0);
    type_text(&mut app, "d");
    shows(&app, &["diff 44444444 Add a changelog", "reading …"]);
    let line = |text: &str, shade| PageLine { text: text.to_owned(), shade };
    let lines = vec![line("+new\u{1b}[2J\tline", Shade::Added), line("-old", Shade::Removed)];
    let request = Request { id: "44444444-0000-4000-8000-000000000064".into(), what: What::Look(Subject::Diff) };
    let report = Report::Answered { request: Box::new(request), answer: Ok(Done::Page(lines)) };
    app.update(Message::Reports(vec![report]));
    shows(&app, &[" +new␛[2J", " -old", "a approve  x reject", "Esc back"]);
    let terminal = screen(&app, Theme::Colored);
    assert_eq!(terminal.backend().buffer()[(1, 1)].fg, Color::Green);
    assert_eq!(terminal.backend().buffer()[(1, 2)].fg, Color::Red);
}

#[test]
fn a_lost_daemon_is_told_in_a_banner_and_an_empty_board_says_what_to_do() {
    let mut app = board();
    app.update(Message::Reports(vec![Report::Lost("start it with `coven daemon start`".into())]));
    shows(&app, &["daemon not reachable, retrying", "Fix the parser"]);
    let app = app_with(Snapshot::default());
    shows(&app, &["No tasks yet. n makes one"]);
    let mut app = board();
    type_text(&mut app, "/zz");
    shows(&app, &[" / zz", "Nothing matches “zz”."]);
}

#[test]
fn every_size_can_be_drawn_in_every_mode() {
    for keys in ["", "/abc", "n漢字", "D", "c", "i", "ij2漢字", "?", "e", "lx"] {
        let mut app = board();
        type_text(&mut app, keys);
        for size in
            [0, 1, 2, 5, 29, 45, 61, 131].into_iter().flat_map(|width| [0, 1, 4, 9, 12, 21].map(|it| (width, it)))
        {
            resized(&mut app, size);
            screen(&app, Theme::Colored);
        }
    }
}

#[test]
fn without_colours_nothing_is_coloured() {
    let terminal = screen(&board(), Theme::Plain);
    let buffer = terminal.backend().buffer();
    assert!(buffer.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}
