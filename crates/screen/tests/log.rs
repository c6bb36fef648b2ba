//! Conversion of logs to text and to HTML pages.

use coven_screen::{HtmlLog, Screen, TextLog};

fn text_of(log: &str, rows: u16, cols: u16) -> String {
    let mut converter = TextLog::new(rows, cols);
    let mut out = Vec::new();
    for piece in log.as_bytes().chunks(7) {
        converter.push(piece, &mut out).expect("writing to memory");
    }
    converter.finish(&mut out).expect("writing to memory");
    String::from_utf8(out).expect("text is UTF-8")
}

fn html_of(log: &str) -> String {
    let mut converter = HtmlLog::new(4, 20, "a <log>");
    let mut out = Vec::new();
    converter.push(log.as_bytes(), &mut out).expect("writing to memory");
    converter.finish(&mut out).expect("writing to memory");
    String::from_utf8(out).expect("a page is UTF-8")
}

#[test]
fn writes_every_line_once_and_in_order() {
    let lines: Vec<String> = (0..5000).map(|line| format!("line {line}")).collect();

    let text = text_of(&lines.join("\r\n"), 4, 20);

    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn removes_sequences_and_shows_the_last_state_of_a_progress_bar() {
    let text = text_of("\x1b[32mstart\x1b[0m\r\n10%\r50%\r100%\r\n\x1b]2;title\x07done\r\n", 4, 20);

    assert_eq!(text, "start\n100%\ndone\n");
}

#[test]
fn a_wrapped_line_is_one_line() {
    let long = "one two three four five six seven eight nine ten eleven twelve";

    assert_eq!(text_of(&format!("{long}\r\n1\r\n2\r\n3\r\n4\r\n5"), 4, 20), format!("{long}\n1\n2\n3\n4\n5\n"));
}

#[test]
fn keeps_the_last_screen_of_a_full_screen_program() {
    let text = text_of("before\r\n\x1b[?1049h\x1b[Hfirst\x1b[2J\x1b[Hsecond\x1b[3;1Hthird\x1b[?1049lafter", 4, 20);

    assert_eq!(text, "second\n\nthird\nbefore\nafter\n");
}

#[test]
fn keeps_the_screen_of_a_program_that_never_left_it() {
    assert_eq!(text_of("$ vim\r\n\x1b[?1049h\x1b[Hthe file", 4, 20), "the file\n$ vim\n");
}

#[test]
fn keeps_a_cleared_screen() {
    assert_eq!(text_of("one\r\ntwo\x1b[2J\x1b[3J\x1b[Hthree", 4, 20), "one\ntwo\nthree\n");
    assert_eq!(text_of("one\r\ntwo\x1bcthree", 4, 20), "one\ntwo\nthree\n");
}

#[test]
fn a_page_contains_colours_but_no_markup_from_the_log() {
    let page = html_of(
        "\x1b[1;31m<script>alert(1)</script>\x1b[0m & \x1b]8;;javascript:x\x07no\x1b]8;;\x07 \
         \x1b]8;;https://e.org/?a=\"b\"\x07yes\x1b]8;;\x07\r\n1\r\n2\r\n3\r\n4\r\n5",
    );

    assert!(page.contains("<title>a &lt;log&gt;</title>"), "{page}");
    assert!(page.contains("font-weight:bold;\">&lt;script&gt;alert(1)"), "{page}");
    assert!(!page.contains("<script"), "{page}");
    assert!(!page.contains("javascript:"), "{page}");
    assert!(page.contains("href=\"https://e.org/?a=&quot;b&quot;\">yes</a>"), "{page}");
    assert!(page.ends_with("3\n4\n5\n</pre>\n</body>\n</html>\n"), "{page}");
}

#[test]
fn converts_a_screen_to_a_page() {
    let mut screen = Screen::new(4, 20);
    screen.feed(b"\x1b[7mhi\x1b[0m there");

    let page = screen.html("now");

    assert!(page.contains("<span style=\"color:#1e1e1e;background:#d4d4d4;\">hi</span> there\n</pre>"), "{page}");
}
