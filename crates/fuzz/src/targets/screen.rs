//! The terminal model and keyframes restored into it.

use coven_screen::{HtmlLog, Screen, TextLog};

use crate::outcome::saw;

pub const SCREEN_WORDS: &[&str] = &[
    "\x1b[",
    "\x1b]",
    "\x1bP",
    "\x1b\\",
    "\x07",
    "\x1b[?1049h",
    "\x1b[?1049l",
    "\x1b[?6h",
    "\x1b[2;4r",
    "\x1b7",
    "\x1b8",
    "\x1b[38;2;1;2;3m",
    "\x1b[4:3m",
    "\x1b[0m",
    "\x1b[2J",
    "\x1b[3J",
    "\x1b[99999b",
    "\x1b[65535;65535H",
    "\x1b[99L",
    "\x1b[99M",
    "\x1b[99@",
    "\x1b[99P",
    "\x1b[6n",
    "\x1b[c",
    "\x1b]0;t\x07",
    "\x1b]8;;http://x\x1b\\",
    "\x1b]4;1;?\x07",
    "\x1b]9;4;1;50\x07",
    "\x1b]99;i=1:d=0:e=1;SMOk\x07",
    "\x1b]777;notify;t;b\x07",
    "\x1b]133;D;1\x07",
    "\x1b[>1u",
    "\x1b[<u",
    "\x1b(0",
    "\x0e",
    "\x1bc",
    "\x1b#8",
    "\x1bM",
    "\r\n",
    "\t",
    "日",
    "e\u{301}",
    "👩\u{200d}👧",
    "\u{200b}",
    "\x1b[?2026h",
    "\x1b[22;2t",
];

/// Reads the size from the first two bytes, limited to realistic sizes: larger ones take time and find nothing new.
fn size(data: &[u8]) -> (u16, u16, &[u8]) {
    match data {
        [rows, cols, rest @ ..] => (u16::from(*rows) % 64, u16::from(*cols) % 160, rest),
        _ => (24, 80, data),
    }
}

/// Feeds a program's output in pieces and resizes the screen. A snapshot must restore the same screen.
pub fn screen(data: &[u8]) {
    let (rows, cols, output) = size(data);
    let mut screen = Screen::new(rows, cols);
    let (mut text, mut html) = (TextLog::new(rows, cols), HtmlLog::new(rows, cols, "fuzz"));
    let (mut plain, mut page) = (Vec::new(), Vec::new());
    for (nth, piece) in output.chunks(1 + usize::from(rows) * 7).enumerate() {
        screen.feed(piece);
        text.push(piece, &mut plain).expect("writing to memory");
        html.push(piece, &mut page).expect("writing to memory");
        if nth % 16 == 15 {
            let (rows, cols) = screen.size();
            screen.resize(cols.min(64), rows.max(2) + 3);
            text.resize(cols.min(64), rows.max(2) + 3);
        }
    }
    text.finish(&mut plain).expect("writing to memory");
    html.finish(&mut page).expect("writing to memory");
    saw((
        screen.is_alternate(),
        screen.title().is_some(),
        screen.take_replies().len().min(8),
        screen.take_signals().len().min(4),
        screen.cursor().row.min(4),
    ));
    assert_restores(&mut screen);
}

/// Restores a screen from any bytes in place of a stored snapshot.
pub fn keyframe(data: &[u8]) {
    let (rows, cols, bytes) = size(data);
    let mut screen = Screen::restore(rows, cols, bytes);
    saw((screen.is_alternate(), screen.title().is_some(), screen.text().trim().is_empty()));
    assert_restores(&mut screen);
}

fn assert_restores(screen: &mut Screen) {
    let snapshot = screen.snapshot();
    let (rows, cols) = screen.size();
    let mut copy = Screen::restore(rows, cols, &snapshot);
    assert_eq!(screen.text(), copy.text(), "the text of a restored screen");
    assert_eq!(screen.cursor(), copy.cursor(), "the cursor of a restored screen");
    assert_eq!(screen.rows(), copy.rows(), "the cells of a restored screen");
    assert!(copy.snapshot() == snapshot, "a restored screen has the same snapshot");
    let _ = screen.html("fuzz");
}
