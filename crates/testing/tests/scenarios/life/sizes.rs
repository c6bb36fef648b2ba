//! Viewers whose terminal size differs from the session's.

use coven_testing::{TestHome, TestTerminal, check_invariants};

const DETACH: &str = "\x1c";

#[test]
fn the_session_has_the_size_of_the_viewer_that_typed_last_and_the_others_show_both_sizes() {
    let home = TestHome::started();
    let id = home.launch("size ;; echo").id;
    home.wait_for_output(&id, "ready\r\n");

    let mut large = TestTerminal::with_size(&home, &["attach", &id], 40, 120);
    large.wait_for_text("size:40x120");
    let mut small = TestTerminal::with_size(&home, &["attach", &id], 20, 60);
    small.wait_for_text("size:20x60");
    large.wait_for_text("session 60x20, this terminal 120x40: type to use this size");

    large.type_keys("hello\r");
    large.wait_for_text("got:hello");
    large.wait_until_hidden("this terminal");
    small.wait_for_text("session 120x40, this terminal 60x20: type to use this size");
    small.wait_for_text("got:hello");

    large.type_keys(DETACH);
    assert_eq!(large.wait(), 0);
    large.assert_settings_restored();
    small.wait_until_hidden("this terminal");
    small.type_keys("quit\r");
    assert_eq!(small.wait(), 0);
    small.assert_settings_restored();
    check_invariants(&home);
}

#[test]
fn a_smaller_read_only_terminal_shows_the_part_around_the_cursor() {
    let home = TestHome::started();
    let id = home.launch("say first ;; echo").id;
    home.wait_for_output(&id, "ready\r\n");

    let mut reader = TestTerminal::with_size(&home, &["attach", &id, "--read-only"], 10, 70);
    reader.wait_for_text("session 80x24, this terminal 70x10: another viewer sets the size");
    reader.wait_for_text("first");
    home.type_in(&id, "hello\r");
    reader.wait_for_text("got:hello");
    reader.resize(24, 80);
    reader.wait_until_hidden("this terminal");
    reader.wait_for_text("got:hello");
    reader.type_keys(DETACH);

    assert_eq!(reader.wait(), 0);
    reader.assert_settings_restored();
    assert_eq!(home.session(&id).status, "running");
}

#[test]
fn a_replay_on_a_terminal_of_another_size_has_a_frame_and_a_message() {
    let home = TestHome::started();
    let id = home.run_to_end("say first ;; say second").id;

    for (rows, cols) in [(10, 70), (40, 120)] {
        let mut terminal = TestTerminal::with_size(&home, &["replay", &id, "--speed", "max"], rows, cols);
        assert_eq!(terminal.wait(), 0);
        let screen = terminal.wait_for_text("recorded at another size");
        assert!(screen.contains("first") && screen.contains("second"), "{screen}");
        terminal.assert_settings_restored();
    }
}
