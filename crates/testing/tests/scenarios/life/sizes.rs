//! Viewers whose terminal size differs from the session's.

use coven_testing::{TestHome, TestTerminal, check_invariants};

const DETACH: &str = "\x1c";

#[test]
fn the_session_has_the_size_of_the_viewer_that_typed_last_and_the_others_show_both_sizes() {
    let home = TestHome::started();
    let id = home.launch("size ;; echo").id;
    home.wait_for_output(&id, "ready\r\n");

    let mut large = TestTerminal::with_size(&home, &["attach", &id], 40, 120);
    large.shows("size:40x120");
    let mut small = TestTerminal::with_size(&home, &["attach", &id], 20, 60);
    small.shows("size:20x60");
    large.shows("session 60x20, this terminal 120x40: type to use this size");

    large.types("hello\r");
    large.shows("got:hello");
    large.hides("this terminal");
    small.shows("session 120x40, this terminal 60x20: type to use this size");
    small.shows("got:hello");

    large.types(DETACH);
    assert_eq!(large.wait(), 0);
    large.is_as_it_was();
    small.hides("this terminal");
    small.types("quit\r");
    assert_eq!(small.wait(), 0);
    small.is_as_it_was();
    check_invariants(&home);
}

#[test]
fn a_smaller_read_only_terminal_shows_the_part_around_the_cursor() {
    let home = TestHome::started();
    let id = home.launch("say first ;; echo").id;
    home.wait_for_output(&id, "ready\r\n");

    let mut reader = TestTerminal::with_size(&home, &["attach", &id, "--read-only"], 10, 70);
    reader.shows("session 80x24, this terminal 70x10: another viewer sets the size");
    reader.shows("first");
    home.type_in(&id, "hello\r");
    reader.shows("got:hello");
    reader.resize(24, 80);
    reader.hides("this terminal");
    reader.shows("got:hello");
    reader.types(DETACH);

    assert_eq!(reader.wait(), 0);
    reader.is_as_it_was();
    assert_eq!(home.session(&id).status, "running");
}

#[test]
fn a_replay_on_a_terminal_of_another_size_has_a_frame_and_a_message() {
    let home = TestHome::started();
    let id = home.run_to_end("say first ;; say second").id;

    for (rows, cols) in [(10, 70), (40, 120)] {
        let mut terminal = TestTerminal::with_size(&home, &["replay", &id, "--speed", "max"], rows, cols);
        assert_eq!(terminal.wait(), 0);
        let screen = terminal.shows("recorded at another size");
        assert!(screen.contains("first") && screen.contains("second"), "{screen}");
        terminal.is_as_it_was();
    }
}
