//! What the model answers, swallows and bounds.

use coven_screen::{Color, Screen, Span, Style};

#[track_caller]
fn answers(question: &str, answer: &str) {
    let mut screen = Screen::new(24, 80);
    screen.feed(b"\x1b[3;5H");
    screen.feed(question.as_bytes());
    let replies = screen.take_replies();
    assert_eq!(String::from_utf8_lossy(&replies).escape_debug().to_string(), answer.escape_debug().to_string());
    assert_eq!(screen.text(), "", "nothing of {question:?} shows");
    assert!(screen.take_replies().is_empty());
}

#[test]
fn questions_agents_ask() {
    answers("\x1b[c", "\x1b[?62;22c");
    answers("\x1b[>c", "\x1b[>0;277;0c");
    answers("\x1b[5n", "\x1b[0n");
    answers("\x1b[6n", "\x1b[3;5R");
    answers("\x1b[?996n", "\x1b[?997;1n");
    answers("\x1b[?2026$p", "\x1b[?2026;2$y");
    answers("\x1b[?2004h\x1b[?2004$p", "\x1b[?2004;1$y");
    answers("\x1b[?12345$p", "\x1b[?12345;0$y");
    answers("\x1b[>5u\x1b[?u", "\x1b[?5u");
    answers("\x1b[>0q", concat!("\x1bP>|coven(", env!("CARGO_PKG_VERSION"), ")\x1b\\"));
    answers("\x1b]10;?\x07", "\x1b]10;rgb:d4d4/d4d4/d4d4\x07");
    answers("\x1b]11;?\x1b\\", "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\");
    answers("\x1b]4;16;?\x07", "\x1b]4;16;rgb:0000/0000/0000\x07");
    answers("\x1bP+q524742\x1b\\", "\x1bP0+r524742\x1b\\");
    answers("\x1bP$qm\x1b\\", "\x1bP0$r\x1b\\");
    answers("\x1b[18t", "\x1b[8;24;80t");
    answers("\x1b_Gi=31,s=1,v=1,a=q;AAAA\x1b\\\x1b[c", "\x1b[?62;22c");
}

#[test]
fn strings_of_other_terminals_leave_no_trace() {
    let mut screen = Screen::new(3, 20);
    screen.feed("a\x1b_Gtitle ✓ 日本\x1b\\b\x1bP1;2|✓ ✜ text\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e".as_bytes());

    assert_eq!(screen.text(), "abcde");
    assert_eq!(screen.title(), None);
}

#[test]
fn an_endless_title_is_cut_and_what_follows_is_seen() {
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
fn one_cell_takes_a_bounded_number_of_marks() {
    let mut screen = Screen::new(3, 20);
    screen.feed("e".as_bytes());
    screen.feed("\u{301}".repeat(10_000).as_bytes());

    assert!(screen.text().len() < 64);
}

#[test]
fn unfetched_answers_are_bounded() {
    let mut screen = Screen::new(3, 20);
    screen.feed("\x1b[c".repeat(50_000).as_bytes());

    assert!(screen.take_replies().len() <= 64 * 1024);
}

#[test]
fn a_deep_stack_of_keyboard_modes() {
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
