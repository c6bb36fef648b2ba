//! Compares our dispatch of control functions with alacritty's own where both should agree.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::Processor;
use coven_screen::{Color, Screen, Style, Underline};

const ROWS: u16 = 8;
const COLS: u16 = 16;

/// Left out: functions in which ours follows other terminals instead (moving at margins, halves of wide characters,
/// deleting past the edge, tabs, the content of a saved cursor).
const PARTS: &[&str] = &[
    "a",
    "word ",
    "a longer run of text",
    "\r",
    "\n",
    "\r\n",
    "\x08",
    "\x1b[3;5H",
    "\x1b[8;16H",
    "\x1b[H",
    "\x1b[2;1f",
    "\x1b[J",
    "\x1b[2J",
    "\x1b[K",
    "\x1b[1K",
    "\x1b[2K",
    "\x1b[3X",
    "\x1b[2@",
    "\x1b[L",
    "\x1b[2M",
    "\x1b[S",
    "\x1b[2T",
    "\x1bM",
    "\x1bD",
    "\x1bE",
    "\x1b7",
    "\x1b8",
    "\x1b[3;6r",
    "\x1b[r",
    "\x1b[4C",
    "\x1b[3D",
    "\x1b[7G",
    "\x1b[5d",
    "\x1b[31;1m",
    "\x1b[m",
    "\x1b[48;5;3m",
    "\x1b(0",
    "\x1b(B",
    "qx",
    "\x1b[?7l",
    "\x1b[?7h",
    "\x1b[4h",
    "\x1b[4l",
    "\x1b[4b",
    "\x1b#8",
    "\x1b[s",
    "\x1b[u",
];

#[test]
fn text_and_cursor_match_alacritty() {
    for seed in 1..=1000u64 {
        let mut screen = Screen::new(ROWS, COLS);
        let config = Config { scrolling_history: 0, ..Config::default() };
        let mut term = Term::new(config, &TermSize::new(COLS.into(), ROWS.into()), VoidListener);
        let mut processor: Processor = Processor::new();
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut fed = String::new();
        let mut is_text = false;
        for _ in 0..60 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let part = PARTS[(state >> 33) as usize % PARTS.len()];
            // REP is only defined directly after a character.
            let was_text = std::mem::replace(&mut is_text, part.chars().all(|c| !c.is_control()));
            if part == "\x1b[4b" && !was_text {
                continue;
            }
            fed.push_str(part);
            screen.feed(part.as_bytes());
            processor.advance(&mut term, part.as_bytes());
            assert_eq!(screen.text(), text_of(&term), "seed {seed}: {fed:?}");
            let at = term.grid().cursor.point;
            let cursor = screen.cursor();
            assert_eq!(
                (i32::from(cursor.row), usize::from(cursor.col)),
                (at.line.0, at.column.0),
                "seed {seed}: {fed:?}"
            );
        }
    }
}

fn text_of(term: &Term<VoidListener>) -> String {
    let rows: Vec<String> = (0..term.screen_lines())
        .map(|row| {
            let row = &term.grid()[Line(row as i32)];
            let text: String = (0..term.columns()).map(|col| row[Column(col)].c).collect();
            text.trim_end().to_owned()
        })
        .collect();
    rows.join("\n").trim_end().to_owned()
}

#[test]
fn applies_and_restores_every_rendition() {
    let plain = Style::default();
    let fg = |fg| Style { fg, ..plain };
    let bg = |bg| Style { bg, ..plain };
    let underline = |underline| Style { underline, ..plain };
    let table = [
        ("1", Style { bold: true, ..plain }),
        ("2", Style { dim: true, ..plain }),
        ("3", Style { italic: true, ..plain }),
        ("4", underline(Underline::Single)),
        ("4:2", underline(Underline::Double)),
        ("4:3", underline(Underline::Curly)),
        ("4:4", underline(Underline::Dotted)),
        ("4:5", underline(Underline::Dashed)),
        ("4;4:0", plain),
        ("5", Style { blink: true, ..plain }),
        ("7", Style { inverse: true, ..plain }),
        ("8", Style { hidden: true, ..plain }),
        ("9", Style { strike: true, ..plain }),
        ("1;2;22", plain),
        ("3;4;5;7;8;9;23;24;25;27;28;29", plain),
        ("31", fg(Color::Indexed(1))),
        ("97", fg(Color::Indexed(15))),
        ("31;39", plain),
        ("42", bg(Color::Indexed(2))),
        ("100", bg(Color::Indexed(8))),
        ("42;49", plain),
        ("38;5;99", fg(Color::Indexed(99))),
        ("38:5:99", fg(Color::Indexed(99))),
        ("48;2;1;2;3", bg(Color::Rgb(1, 2, 3))),
        ("48:2:1:2:3", bg(Color::Rgb(1, 2, 3))),
        ("48:2::1:2:3", bg(Color::Rgb(1, 2, 3))),
        ("38;2;300;2;3", plain),
        ("4;58;5;9", Style { underline: Underline::Single, underline_color: Color::Indexed(9), ..plain }),
        ("4;58;5;9;59", underline(Underline::Single)),
        ("1;31;0", plain),
        ("1;31;", plain),
    ];
    for (codes, style) in table {
        let mut screen = Screen::new(1, 10);
        screen.feed(format!("\x1b[{codes}mx").as_bytes());
        assert_eq!(screen.rows()[0][0].style, style, "SGR {codes}");
        let copy = Screen::restore(1, 10, &screen.snapshot());
        assert_eq!(copy.rows(), screen.rows(), "SGR {codes}");
    }
}
