//! The terminal app in a real terminal, against a real daemon.

mod agents;
mod answers;
mod daemon;
mod frame;
mod panes;

use coven_testing::{TestHome, TestTerminal};

/// The sizes at which every view is tried: rows and columns.
const SIZES: [(u16, u16); 4] = [(10, 40), (24, 80), (32, 110), (60, 200)];

const BACK: &str = "\u{1c}";
const ESC: &str = "\u{1b}";

/// Opens the app and waits until it shows the list.
fn open(home: &TestHome, args: &[&str], (rows, cols): (u16, u16)) -> TestTerminal {
    let app = TestTerminal::with_size(home, args, rows, cols);
    app.wait_for_text(" live");
    app
}

/// Launches a command in the background.
fn launch(home: &TestHome, title: &str, script: &str) -> String {
    home.coven(&["run", "--background", "--title", title, "--", "sh", "-c", script]).expect_success();
    home.sessions().remove(0).id
}

/// A shell that repeats each line it gets.
const ECHO: &str = "stty -echo; echo ready; while read line; do echo got:$line; done";

/// Leaves the app with `q`.
fn quit(mut app: TestTerminal) {
    app.type_keys("q");
    assert_eq!(app.wait(), 0);
    app.assert_settings_restored();
    assert!(!app.is_alternate() && app.is_cursor_visible());
}
