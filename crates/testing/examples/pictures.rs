//! Draws the screens of the app for the documents, from the real binary: `cargo xtask pictures`.
//!
//! Each picture is what a terminal of 110×32 shows. SVG, because it is small, sharp at any size and can be compared.

// Dependencies of the library and of the tests.
#![allow(unused_crate_dependencies, reason = "an example shares them with the package")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use coven_domain::task::TaskState;
use coven_screen::{Color, Span};
use coven_testing::{TestHome, TestTerminal};
use serde_json::json;

const ROWS: u16 = 32;
const COLS: u16 = 110;
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 12.0;
const BACKGROUND: &str = "#1b1d23";
const FOREGROUND: &str = "#d7dae0";
/// The sixteen colours of a terminal.
const PALETTE: [&str; 16] = [
    "#22252b", "#e5697a", "#8fc67b", "#e3c078", "#6ba4e9", "#bf86d8", "#62b8c4", "#c3c8d1", "#5c6370", "#f28391",
    "#a8dc95", "#f3d49b", "#8cbcf5", "#d5a3ea", "#82d0da", "#ffffff",
];

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    fs::create_dir_all(&folder).expect("docs can be written");
    let save = |name: &str, app: &TestTerminal| {
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, svg(&app.rows())).expect("docs can be written");
        println!("{}", path.canonicalize().unwrap_or(path).display());
    };
    agents(save);
    board(save);
}

/// The Agents view, the Inbox with a question, a conversation, and split panes.
fn agents(save: impl Fn(&str, &TestTerminal)) {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("parser");
    let talk = home.open(&repo).id;
    home.turn(&talk, "Why do the tests of the parser fail?");
    let build = "printf '\\033[1;32m   Compiling\\033[0m parser v0.3.1\\n\\033[1;32m    Finished\\033[0m in 2.41s\\n\\033[1mrunning 48 tests\\033[0m\\n'; exec sleep 1000";
    for (title, script) in [
        ("docs", "echo writing docs/guide.md; exit 0"),
        ("watch tests", build),
        ("release notes", "printf 'Which commits belong to 0.4?\\n> '; exec sleep 1000"),
    ] {
        home.coven(&["run", "--background", "--title", title, "--", "sh", "-c", script]).expect_success();
    }
    let question = json!([{
        "title": "Storage", "prompt": "Where should the **cache** live?", "multiSelect": false,
        "options": [{"label": "SQLite", "description": "one file, no server"}, {"label": "Memory", "description": "lost at exit"}],
    }]);
    home.coven(&["ask", &question.to_string(), "--no-wait"]).expect_success();
    home.prompt(&talk, "permit cargo test --workspace");
    home.wait_for_request(&talk);

    let mut app = TestTerminal::with_size(&home, &[], ROWS, COLS);
    app.wait_for_text("needs you 2");
    app.wait_for_text("finished 1");
    app.type_keys("/watch\r");
    app.wait_for_text("running 48 tests");
    app.type_keys("\u{1b}");
    app.wait_for_text("needs you 2");
    save("agents", &app);
    app.type_keys("|k");
    app.wait_for_text("▸");
    app.type_keys("-");
    app.wait_until_hidden("reading the screen");
    save("panes", &app);
    app.type_keys("WWI");
    app.wait_for_text("[Inbox]");
    app.type_keys("g\t\r");
    app.type_keys("1");
    app.wait_for_text("(•)");
    save("inbox", &app);
    app.type_keys("\u{1c}");
    app.wait_for_text("? help");
    app.type_keys("A/gemini\r");
    app.wait_for_text("cargo test");
    app.wait_for_text("Ask first");
    save("conversation", &app);
    app.type_keys(":");
    app.wait_for_text(" commands ");
    app.type_keys("kill");
    app.wait_for_text("kill the session");
    save("palette", &app);
}

/// The board and a review.
fn board(save: impl Fn(&str, &TestTerminal)) {
    let home = TestHome::in_repository(json!({}));
    let change = "printf '// Greets.\\nfn main() {\\n    println!(\"hello\");\\n}\\n' > main.rs; printf '1\\ntwo\\n3\\n' > a.txt";
    home.write_workflow(
        "quick",
        &format!("steps:\n  - name: build\n    type: script\n    command: |\n      {change}\n  - name: merge\n    type: merge\n"),
    );
    let done = home.add_task("Print a greeting", "", &["--workflow", "quick"]);
    let blocked = home.add_task("Measure the parser", "exit 3", &[]);
    for title in ["Describe the config", "Support Windows paths"] {
        home.add_task(title, "true", &[]);
    }
    for (task, state) in [(&done, TaskState::PendingMerge), (&blocked, TaskState::Blocked)] {
        home.start_task(task);
        home.wait_for_task(task, state);
    }
    let mut app = TestTerminal::with_size(&home, &["board"], ROWS, COLS);
    app.wait_for_text("pending merge 1");
    app.wait_for_text("blocked 1");
    save("board", &app);
    app.type_keys("/greeting\r");
    app.wait_until_hidden("Windows");
    app.type_keys("\r");
    app.wait_for_text("println");
    save("review", &app);
}

/// Draws rows of styled text.
fn svg(rows: &[Vec<Span>]) -> String {
    let (width, height) = (f64::from(COLS) * CELL.0 + 2.0 * MARGIN, f64::from(ROWS) * CELL.1 + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\" xml:space=\"preserve\">\n"
    );
    for (y, row) in rows.iter().enumerate() {
        let top = MARGIN + y as f64 * CELL.1;
        let mut column = 0;
        for span in row {
            let cells = columns(&span.text);
            let (x, wide) = (MARGIN + column as f64 * CELL.0, cells as f64 * CELL.0);
            column += cells;
            let (mut fg, mut bg) = (color(span.style.fg, FOREGROUND), color(span.style.bg, ""));
            if span.style.inverse {
                (fg, bg) = (if bg.is_empty() { BACKGROUND.to_owned() } else { bg }, fg);
            }
            if !bg.is_empty() {
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{:.1}\" fill=\"{bg}\"/>",
                    CELL.1
                );
            }
            let text = span.text.trim_end();
            if text.is_empty() || span.style.hidden {
                continue;
            }
            let weight = if span.style.bold { " font-weight=\"bold\"" } else { "" };
            let dim = if span.style.dim { " opacity=\"0.6\"" } else { "" };
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{fg}\"{weight}{dim}>{}</text>",
                top + CELL.1 * 0.75,
                escaped(text)
            );
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Counts the cells of a text. The pictures have no wide characters.
fn columns(text: &str) -> usize {
    text.chars().count()
}

fn color(color: Color, default: &str) -> String {
    match color {
        Color::Default => default.to_owned(),
        Color::Indexed(index) => PALETTE.get(usize::from(index)).copied().unwrap_or(FOREGROUND).to_owned(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}

/// Blanks are kept as no-break spaces: some viewers join others.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(' ', "\u{a0}")
}
