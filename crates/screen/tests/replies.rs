//! Answers to queries, ignored strings and limits of the model.

use coven_screen::{Color, Screen, Span, Style};

#[track_caller]
fn assert_answer(query: &str, answer: &str) {
    let mut screen = Screen::new(24, 80);
    screen.feed(b"\x1b[3;5H");
    screen.feed(query.as_bytes());
    let replies = screen.take_replies();
    assert_eq!(String::from_utf8_lossy(&replies).escape_debug().to_string(), answer.escape_debug().to_string());
    assert_eq!(screen.text(), "", "{query:?} leaves no visible text");
    assert!(screen.take_replies().is_empty());
}

#[test]
fn answers_the_queries_that_agents_send() {
    assert_answer("\x1b[c", "\x1b[?62;22c");
    assert_answer("\x1b[>c", "\x1b[>0;277;0c");
    assert_answer("\x1b[5n", "\x1b[0n");
    assert_answer("\x1b[6n", "\x1b[3;5R");
    assert_answer("\x1b[?996n", "\x1b[?997;1n");
    assert_answer("\x1b[?2026$p", "\x1b[?2026;2$y");
    assert_answer("\x1b[?2004h\x1b[?2004$p", "\x1b[?2004;1$y");
    assert_answer("\x1b[?12345$p", "\x1b[?12345;0$y");
    assert_answer("\x1b[>5u\x1b[?u", "\x1b[?5u");
    assert_answer("\x1b[>0q", concat!("\x1bP>|coven(", env!("CARGO_PKG_VERSION"), ")\x1b\\"));
    assert_answer("\x1b]10;?\x07", "\x1b]10;rgb:d4d4/d4d4/d4d4\x07");
    assert_answer("\x1b]11;?\x1b\\", "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\");
    assert_answer("\x1b]4;16;?\x07", "\x1b]4;16;rgb:0000/0000/0000\x07");
    assert_answer("\x1bP+q524742\x1b\\", "\x1bP0+r524742\x1b\\");
    assert_answer("\x1bP$qm\x1b\\", "\x1bP0$r\x1b\\");
    assert_answer("\x1b[18t", "\x1b[8;24;80t");
    assert_answer("\x1b_Gi=31,s=1,v=1,a=q;AAAA\x1b\\\x1b[c", "\x1b[?62;22c");
}

#[test]
fn ignores_control_strings_of_other_terminals() {
    let mut screen = Screen::new(3, 20);
    screen.feed("a\x1b_Gtitle ✓ 日本\x1b\\b\x1bP1;2|✓ ✜ text\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e".as_bytes());

    assert_eq!(screen.text(), "abcde");
    assert_eq!(screen.title(), None);
}

#[test]
fn an_endless_title_is_truncated_and_later_output_is_shown() {
    let mut screen = Screen::new(3, 20);
    screen.feed(b"\x1b]2;");
    for _ in 0..1000 {
        screen.feed(&[b'x'; 4096]);
    }
    assert!(screen.snapshot().len() < 20_000);
    screen.feed(b"\x07after");

    assert_eq!(screen.text(), "after");
    assert_eq!(screen.title().map(str::len), Some(1024));
}

#[test]
fn the_number_of_marks_per_cell_is_limited() {
    let mut screen = Screen::new(3, 20);
    screen.feed("e".as_bytes());
    screen.feed("\u{301}".repeat(10_000).as_bytes());

    assert!(screen.text().len() < 64);
}

#[test]
fn pending_answers_are_limited() {
    let mut screen = Screen::new(3, 20);
    screen.feed("\x1b[c".repeat(50_000).as_bytes());

    assert!(screen.take_replies().len() <= 64 * 1024);
}

#[test]
fn stacks_of_keyboard_modes_and_titles_are_limited() {
    let mut screen = Screen::new(3, 20);
    screen.feed("\x1b[>1u\x1b[22t".repeat(10_000).as_bytes());
    screen.feed(b"ok");

    assert_eq!(screen.text(), "ok");
}

#[test]
fn rows_are_runs_of_equal_style() {
    let mut screen = Screen::new(2, 20);
    screen.feed(b"\x1b[31mred text\x1b[0m plain\x1b[44m  ");

    let red = Style { fg: Color::Indexed(1), ..Style::default() };
    let blue = Style { bg: Color::Indexed(4), ..Style::default() };
    let span = |text: &str, style| Span { text: text.into(), style, link: None };
    assert_eq!(
        screen.rows(),
        [vec![span("red text ", red), span("plain", Style::default()), span("  ", blue)], vec![]]
    );
}
