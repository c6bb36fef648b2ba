//! A snapshot restores the same screen in a fresh or used terminal, and later output has the same effect.

use coven_screen::Screen;

/// Checks that a screen restored from a snapshot after `output` equals the original, before and after `rest`.
#[track_caller]
fn assert_continues(output: &str, rest: &str) {
    let mut original = Screen::new(6, 20);
    original.feed(output.as_bytes());

    let snapshot = original.snapshot();
    let mut fresh = Screen::restore(6, 20, &snapshot);
    let mut used = Screen::new(6, 20);
    used.feed(DIRT.as_bytes());
    used.feed(&snapshot);

    for copy in [&mut fresh, &mut used] {
        assert_eq!(copy.rows(), original.rows(), "rows after {output:?}");
        assert_eq!(copy.cursor(), original.cursor(), "cursor after {output:?}");
        assert_eq!(copy.title(), original.title());
        assert_eq!(show(&copy.snapshot()), show(&snapshot), "snapshot after {output:?}");
    }
    original.take_replies();
    original.feed(rest.as_bytes());
    let replies = original.take_replies();
    for copy in [&mut fresh, &mut used] {
        copy.feed(rest.as_bytes());
        assert_eq!(copy.rows(), original.rows(), "rows after {output:?} and {rest:?}");
        assert_eq!(show(&copy.snapshot()), show(&original.snapshot()), "{output:?} and {rest:?}");
        assert_eq!(show(&copy.take_replies()), show(&replies), "{output:?} and {rest:?}");
    }
}

/// Leaves a terminal with unusual modes and in the middle of a sequence.
const DIRT: &str = "mess\x1b[?1049h\x1b[2;3r\x1b[?6h\x1b[4hmore\x1b[?1003;1006;2004;1004h\x1b=\
                    \x1b[41;7m\x1b(0\x0e\x1b[>31u\x1b[>4;2m\x1b[?25l\x1b[5 q\x1b7\x1b[3";

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[test]
fn an_empty_screen() {
    assert_continues("", "hello");
}

#[test]
fn text_and_every_attribute() {
    assert_continues(
        "plain \x1b[1mbold\x1b[2;3;4mall\x1b[0m\r\n\x1b[5;7;8;9mmore\x1b[0m \x1b[4:3mcurly\x1b[58:2::1:2:3mred\x1b[m\r\n\
         \x1b[31;42mnamed\x1b[91;102mbright\x1b[38;5;200;48;5;17mindexed\r\n\x1b[0;38;2;1;2;3mspec\x1b[48:2::9:8:7mcolon\x1b[21mdouble",
        "continues in the same colours",
    );
}

#[test]
fn a_coloured_background_to_the_edge() {
    assert_continues("\x1b[44m\x1b[2J\x1b[3;5Hon blue\x1b[K", "\x1b[2Kx");
}

#[test]
fn a_scroll_region() {
    assert_continues("1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[4;1H", "\n\nscrolled\x1b[H\x1bM");
}

#[test]
fn a_saved_cursor_with_its_colours() {
    assert_continues("ab\x1b[3;7H\x1b[1;35m\x1b7\x1b[0m\x1b[1;1H", "\x1b8here");
}

#[test]
fn an_incomplete_escape_sequence() {
    for cut in ["\x1b", "\x1b[", "\x1b[3", "\x1b[38;5", "\x1b[?104", "\x1b(", "\x1b#"] {
        assert_continues(&format!("text{cut}"), "1;4mhA8Bx");
    }
}

#[test]
fn an_incomplete_title() {
    assert_continues("\x1b]2;half a ti", "tle\x07after");
    assert_continues("\x1b]2;half a title\x1b", "\\after");
}

#[test]
fn an_incomplete_string_of_another_terminal() {
    assert_continues("\x1b_Gf=100;AAAA", "BBBB\x1b\\after");
    assert_continues("\x1bP+q544e", "\x1b\\after");
    assert_continues("\x1bPq#0;2;0;0;0", "#0~~\x1b\\after");
}

#[test]
fn an_incomplete_character() {
    let bytes = "─".as_bytes();
    for cut in 1..bytes.len() {
        let mut original = Screen::new(3, 10);
        original.feed(b"ab");
        original.feed(&bytes[..cut]);
        let mut copy = Screen::restore(3, 10, &original.snapshot());
        copy.feed(&bytes[cut..]);
        assert_eq!(copy.text(), "ab─");
    }
}

#[test]
fn the_alternate_screen_with_the_primary_behind_it() {
    assert_continues(
        "shell\r\n$ \x1b[32mvim\x1b[>1u\x1b[?1049h\x1b[2J\x1b[H\x1b[7mstatus\x1b[>5u\x1b[2;5r",
        "\x1b[5;1H\n\nmore\x1b[?1049l$ back\x1b[?u",
    );
}

#[test]
fn the_primary_cursor_behind_the_alternate_screen() {
    assert_continues("0123456789abcdefghij\x1b[?1049hALT", "\x1b[?1049lnext line");
    assert_continues("\x1b[?6h\x1b[3;3H\x1b(0q\x0e\x1b[?1049hALT", "\x1b[?1049lq\x0fq\x1b8x");
}

#[test]
fn kitty_keyboard_flags() {
    assert_continues("\x1b[=1;1u\x1b[>3u\x1b[>7u\x1b[=8;2u", "\x1b[?u\x1b[<u\x1b[?u\x1b[<u\x1b[?u");
}

#[test]
fn wide_and_combined_characters() {
    assert_continues("日本語 e\u{301}\u{323}x 👩\u{200d}👧 ⚠\u{fe0f}", "\x1b[1;2Hx\x1b[1;4HY");
    assert_continues("abc日本語日本語日本語日本", "\x1b[1;20H語");
}

#[test]
fn a_wrap_pending_at_the_last_column() {
    assert_continues("0123456789abcdefghij", "k");
    assert_continues("0123456789abcdefgh日", "k");
    assert_continues("0123456789abcdefghij\x1b7\x1b[1;1H", "x\x1b8y");
    assert_continues("\x1b[?7l0123456789abcdefghijkl", "m\x1b[?7hno");
}

#[test]
fn a_line_that_wrapped_is_still_one_line() {
    let mut original = Screen::new(6, 20);
    original.feed("a line of more than twenty characters 日".as_bytes());
    let mut copy = Screen::restore(6, 20, &original.snapshot());
    for screen in [&mut original, &mut copy] {
        screen.resize(6, 60);
        assert_eq!(screen.text(), "a line of more than twenty characters 日");
    }
}

#[test]
fn origin_mode() {
    assert_continues("\x1b[2;5r\x1b[?6h\x1b[2;3Hx", "\x1b[1;1Htop\x1b[99;1Hbottom\x1b[6n\x1b[?6lhome");
    assert_continues("\x1b[2;5r\x1b[?6h\x1b[2;3H\x1b7\x1b[?6l\x1b[6;1H", "x\x1b8y\x1b[1;1Hz");
}

#[test]
fn insert_mode_and_input_modes() {
    assert_continues(
        "\x1b[4habc\x1b[1;1H\x1b[?1;1003;1006;1004;2004;2031h\x1b=\x1b[>4;2m\x1b[?25l\x1b[3 q\x1b[20h",
        "X\nY\x1b[?1003$p\x1b[?2004$p\x1b[4$p\x1b[?4m",
    );
}

#[test]
fn character_sets() {
    assert_continues("\x1b)0\x0eqqq", "qqq\x0fqqq");
    assert_continues("\x1b(0lqk", "mqj\x1b(Bq");
}

#[test]
fn the_character_that_rep_repeats() {
    assert_continues("ab", "\x1b[5bc");
    assert_continues("\x1b(0q", "\x1b[5bc");
    assert_continues("ab\x1b[1m", "\x1b[5bc");
    assert_continues("0123456789abcdefghij", "\x1b[5bc");
    assert_continues("e\u{301}", "\x1b[3b");
}

#[test]
fn tab_stops_titles_colours_and_links() {
    assert_continues("\x1b[3g\x1b[1;4H\x1bH\x1b[1;9H\x1bH\r", "\tx\ty\tz");
    assert_continues("\x1b]2;one\x07\x1b[22;0t\x1b]2;two; and more\x07", "\x1b[23;0t");
    assert_continues("\x1b]4;1;#102030\x07\x1b]11;rgb:ff/00/80\x07", "\x1b]4;1;?\x07\x1b]11;?\x1b\\");
    assert_continues("see \x1b]8;id=7;https://example.org/a;b\x1b\\this\x1b]8;;\x1b\\ and", "that");
    assert_continues("\x1b]8;;https://example.org\x07open", " still\x1b]8;;\x07 closed");
}

#[test]
fn an_unfinished_synchronised_update_hides_nothing() {
    let mut screen = Screen::new(3, 10);
    screen.feed(b"old\x1b[?2026h\x1b[2J\x1b[Hnew");

    assert_eq!(screen.text(), "new");
    assert_eq!(Screen::restore(3, 10, &screen.snapshot()).text(), "new");
}

#[test]
fn a_snapshot_does_not_paint_blanks() {
    let mut screen = Screen::new(40, 120);
    screen.feed(b"one\r\n\r\n  two   \x1b[1;60H ");

    let snapshot = show(&screen.snapshot());

    assert!(snapshot.contains("one\\r\\n\\r\\n  two\\x1b"), "{snapshot}");
    assert!(snapshot.len() < 800, "{} bytes", snapshot.len());
}
