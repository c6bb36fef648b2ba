//! A snapshot, fed into a fresh or used terminal, gives the same screen, and the output goes on from there.

use coven_screen::Screen;

/// Given some output, when its snapshot is restored and both receive `rest`, then both agree.
#[track_caller]
fn goes_on_alike(output: &str, rest: &str) {
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

/// A terminal left in a mess, in the middle of a sequence.
const DIRT: &str = "mess\x1b[?1049h\x1b[2;3r\x1b[?6h\x1b[4hmore\x1b[?1003;1006;2004;1004h\x1b=\
                    \x1b[41;7m\x1b(0\x0e\x1b[>31u\x1b[>4;2m\x1b[?25l\x1b[5 q\x1b7\x1b[3";

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[test]
fn an_empty_screen() {
    goes_on_alike("", "hello");
}

#[test]
fn text_and_every_attribute() {
    goes_on_alike(
        "plain \x1b[1mbold\x1b[2;3;4mall\x1b[0m\r\n\x1b[5;7;8;9mmore\x1b[0m \x1b[4:3mcurly\x1b[58:2::1:2:3mred\x1b[m\r\n\
         \x1b[31;42mnamed\x1b[91;102mbright\x1b[38;5;200;48;5;17mindexed\r\n\x1b[0;38;2;1;2;3mspec\x1b[48:2::9:8:7mcolon\x1b[21mdouble",
        "goes on in the same colours",
    );
}

#[test]
fn a_coloured_background_to_the_edge() {
    goes_on_alike("\x1b[44m\x1b[2J\x1b[3;5Hon blue\x1b[K", "\x1b[2Kx");
}

#[test]
fn a_scroll_region() {
    goes_on_alike("1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[4;1H", "\n\nscrolled\x1b[H\x1bM");
}

#[test]
fn a_saved_cursor_with_its_colours() {
    goes_on_alike("ab\x1b[3;7H\x1b[1;35m\x1b7\x1b[0m\x1b[1;1H", "\x1b8here");
}

#[test]
fn a_half_received_escape() {
    for cut in ["\x1b", "\x1b[", "\x1b[3", "\x1b[38;5", "\x1b[?104", "\x1b(", "\x1b#"] {
        goes_on_alike(&format!("text{cut}"), "1;4mhA8Bx");
    }
}

#[test]
fn a_half_received_title() {
    goes_on_alike("\x1b]2;half a ti", "tle\x07after");
    goes_on_alike("\x1b]2;half a title\x1b", "\\after");
}

#[test]
fn a_half_received_string_of_another_terminal() {
    goes_on_alike("\x1b_Gf=100;AAAA", "BBBB\x1b\\after");
    goes_on_alike("\x1bP+q544e", "\x1b\\after");
    goes_on_alike("\x1bPq#0;2;0;0;0", "#0~~\x1b\\after");
}

#[test]
fn a_half_received_character() {
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
    goes_on_alike(
        "shell\r\n$ \x1b[32mvim\x1b[>1u\x1b[?1049h\x1b[2J\x1b[H\x1b[7mstatus\x1b[>5u\x1b[2;5r",
        "\x1b[5;1H\n\nmore\x1b[?1049l$ back\x1b[?u",
    );
}

#[test]
fn the_primary_cursor_waits_behind_the_alternate_screen() {
    goes_on_alike("0123456789abcdefghij\x1b[?1049hALT", "\x1b[?1049lnext line");
    goes_on_alike("\x1b[?6h\x1b[3;3H\x1b(0q\x0e\x1b[?1049hALT", "\x1b[?1049lq\x0fq\x1b8x");
}

#[test]
fn kitty_keyboard_flags() {
    goes_on_alike("\x1b[=1;1u\x1b[>3u\x1b[>7u\x1b[=8;2u", "\x1b[?u\x1b[<u\x1b[?u\x1b[<u\x1b[?u");
}

#[test]
fn wide_and_combined_characters() {
    goes_on_alike("日本語 e\u{301}\u{323}x 👩\u{200d}👧 ⚠\u{fe0f}", "\x1b[1;2Hx\x1b[1;4HY");
    goes_on_alike("abc日本語日本語日本語日本", "\x1b[1;20H語");
}

#[test]
fn a_wrap_pending_at_the_last_column() {
    goes_on_alike("0123456789abcdefghij", "k");
    goes_on_alike("0123456789abcdefgh日", "k");
    goes_on_alike("0123456789abcdefghij\x1b7\x1b[1;1H", "x\x1b8y");
    goes_on_alike("\x1b[?7l0123456789abcdefghijkl", "m\x1b[?7hno");
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
    goes_on_alike("\x1b[2;5r\x1b[?6h\x1b[2;3Hx", "\x1b[1;1Htop\x1b[99;1Hbottom\x1b[6n\x1b[?6lhome");
    goes_on_alike("\x1b[2;5r\x1b[?6h\x1b[2;3H\x1b7\x1b[?6l\x1b[6;1H", "x\x1b8y\x1b[1;1Hz");
}

#[test]
fn insert_mode_and_the_modes_for_input() {
    goes_on_alike(
        "\x1b[4habc\x1b[1;1H\x1b[?1;1003;1006;1004;2004;2031h\x1b=\x1b[>4;2m\x1b[?25l\x1b[3 q\x1b[20h",
        "X\nY\x1b[?1003$p\x1b[?2004$p\x1b[4$p\x1b[?4m",
    );
}

#[test]
fn character_sets() {
    goes_on_alike("\x1b)0\x0eqqq", "qqq\x0fqqq");
    goes_on_alike("\x1b(0lqk", "mqj\x1b(Bq");
}

#[test]
fn the_character_rep_repeats() {
    goes_on_alike("ab", "\x1b[5bc");
    goes_on_alike("\x1b(0q", "\x1b[5bc");
    goes_on_alike("ab\x1b[1m", "\x1b[5bc");
    goes_on_alike("0123456789abcdefghij", "\x1b[5bc");
    goes_on_alike("e\u{301}", "\x1b[3b");
}

#[test]
fn tab_stops_titles_colours_and_links() {
    goes_on_alike("\x1b[3g\x1b[1;4H\x1bH\x1b[1;9H\x1bH\r", "\tx\ty\tz");
    goes_on_alike("\x1b]2;one\x07\x1b[22;0t\x1b]2;two; and more\x07", "\x1b[23;0t");
    goes_on_alike("\x1b]4;1;#102030\x07\x1b]11;rgb:ff/00/80\x07", "\x1b]4;1;?\x07\x1b]11;?\x1b\\");
    goes_on_alike("see \x1b]8;id=7;https://example.org/a;b\x1b\\this\x1b]8;;\x1b\\ and", "that");
    goes_on_alike("\x1b]8;;https://example.org\x07open", " still\x1b]8;;\x07 closed");
}

#[test]
fn an_update_left_unfinished_hides_nothing() {
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
