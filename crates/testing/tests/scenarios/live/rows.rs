//! A session's screen as rows: only changed rows are sent, and the result equals the daemon's screen.

use std::fs;

use coven_testing::sessions::path;
use coven_testing::{TestHome, wait_until};
use serde_json::{Value, json};

use super::client::{Frame, Live};

/// The screen of a client that subscribes to rows.
#[derive(Default)]
struct Painted {
    offset: u64,
    lines: Vec<Value>,
    cursor: Value,
    /// Bytes of all messages.
    received: usize,
    /// Number of rows in `rows` messages.
    changed: usize,
}

impl Painted {
    fn apply(&mut self, message: &Value) {
        self.received += message.to_string().len();
        self.offset = message["offset"].as_u64().expect("an offset");
        self.cursor = message["cursor"].clone();
        match message["type"].as_str() {
            Some("screen") => self.lines.clone_from(message["lines"].as_array().expect("lines")),
            Some("rows") => {
                for row in message["changed"].as_array().expect("rows") {
                    self.changed += 1;
                    self.lines[row["row"].as_u64().expect("a row") as usize] = row["spans"].clone();
                }
            }
            other => panic!("{other:?} paints nothing"),
        }
    }

    fn text(&self) -> String {
        let row = |spans: &Value| -> String {
            spans.as_array().expect("spans").iter().filter_map(|span| span["text"].as_str()).collect()
        };
        self.lines.iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

/// Follows a session's rows to its end, acknowledging every message.
fn follow_to_exit(live: &mut Live, id: u32, painted: &mut Painted) {
    loop {
        match live.next() {
            Frame::Text(message) => match message["type"].as_str() {
                Some("screen" | "rows") => {
                    painted.apply(&message);
                    live.ack(id, painted.offset);
                }
                Some("exit") => return assert_eq!(message["id"], id),
                Some("lagging" | "jump" | "resize") => {}
                _ => panic!("{message}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the daemon's screen at an offset.
fn screen_at(home: &TestHome, id: &str, offset: u64) -> Vec<Value> {
    let screen: Value = home.read(&path(id, &format!("/screen?at={offset}")));
    screen["spans"].as_array().expect("rows").clone()
}

/// Runs a shell script on a terminal in raw mode.
fn launch_script(home: &TestHome, script: &str) -> String {
    let script = format!("stty raw -echo; {script}");
    home.launch_with(json!({ "argv": ["sh", "-c", script] })).id.to_string()
}

#[test]
fn rows_start_with_the_screen_and_send_what_changes() {
    let home = TestHome::started();
    let gate = home.folder().join("gate");
    let script = format!(
        "printf '\\033[2J\\033[Hfirst\\r\\n\\033[1;31mred\\033[0m 日本語\\r\\nthird'; while [ ! -e {} ]; do sleep 0.01; done; \
         printf '\\033[2;1H\\033[Kchanged'",
        gate.display()
    );
    let id = launch_script(&home, &script);
    home.wait_for_output(&id, "third");
    home.wait_for_screen(&id);
    let mut live = Live::connect(&home);
    live.subscribe(3, &id, json!({ "mode": "rows" }));
    let screen = live.message("screen");
    assert_eq!((screen.get("data"), screen["rows"].as_u64(), screen["cols"].as_u64()), (None, Some(24), Some(80)));
    assert_eq!(screen["lines"].as_array().map(Vec::len), Some(24));
    assert_eq!(screen["lines"][0], json!([{ "text": "first" }]));
    let styled =
        json!([{ "text": "red ", "fg": { "type": "indexed", "index": 1 }, "bold": true }, { "text": "日本語" }]);
    assert_eq!(screen["lines"][1], styled);
    assert_eq!(screen["cursor"], json!({ "row": 2, "col": 5, "visible": true }));
    fs::write(&gate, "").expect("disk has space");
    let rows = live.message("rows");
    assert_eq!(rows["changed"], json!([{ "row": 1, "spans": [{ "text": "changed" }] }]));
    assert_eq!(rows["cursor"], json!({ "row": 1, "col": 7, "visible": true }));
    let exit = live.message("exit");
    assert_eq!((exit["exit_code"].as_i64(), &exit["offset"]), (Some(0), &rows["offset"]));
}

#[test]
fn painted_rows_equal_the_screen_of_the_daemon_for_any_output() {
    let home = TestHome::started();
    for seed in 1..=3_u64 {
        let file = home.folder().join(format!("hostile-{seed}"));
        fs::write(&file, hostile(seed, 400_000)).expect("disk has space");
        let id = launch_script(&home, &format!("cat {}", file.display()));
        let mut live = Live::connect(&home);
        live.subscribe(1, &id, json!({ "mode": "rows", "window": 20_000 }));
        let mut painted = Painted::default();
        follow_to_exit(&mut live, 1, &mut painted);
        assert_eq!(painted.lines, screen_at(&home, &id, painted.offset), "seed {seed}");
        // A later subscriber gets the same screen.
        live.subscribe(1, &id, json!({ "mode": "rows" }));
        let mut again = Painted::default();
        follow_to_exit(&mut live, 1, &mut again);
        assert_eq!((again.lines, again.cursor), (painted.lines, painted.cursor), "seed {seed}");
    }
}

#[test]
fn a_redraw_of_the_full_screen_costs_less_than_a_third_of_its_bytes() {
    let home = TestHome::started();
    // Every frame paints the whole screen, as full-screen agents do, and one row of it changes.
    let mut frames = Vec::new();
    for frame in 0..400 {
        frames.extend_from_slice(b"\x1b[H");
        for row in 0..24 {
            let count = if row == 5 { frame } else { 0 };
            let text = format!(
                "\x1b[{}m row {row:02} {count:04} {}\x1b[0m\x1b[K\x1b[{}H",
                31 + row % 6,
                "=".repeat(60),
                row + 2
            );
            frames.extend_from_slice(text.as_bytes());
        }
    }
    let file = home.folder().join("frames");
    fs::write(&file, &frames).expect("disk has space");
    let id = launch_script(&home, &format!("cat {}", file.display()));
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "mode": "rows", "on_lag": "wait" }));
    let mut painted = Painted::default();
    follow_to_exit(&mut live, 1, &mut painted);
    assert!(painted.text().contains("row 05 0399"), "{}", painted.text());
    let raw = home.log(&id).len();
    assert!(painted.received * 10 <= raw * 3, "{} bytes of rows for {raw} bytes of output", painted.received);
}

#[test]
fn a_redraw_at_a_human_pace_sends_the_changed_row_only() {
    let home = TestHome::started();
    let gate = home.folder().join("gate");
    fs::create_dir(&gate).expect("disk has space");
    // Paints the whole screen again whenever a file appears.
    let script = format!(
        "n=0; while [ $n -lt 5 ]; do printf '\\033[H'; r=1; while [ $r -le 24 ]; do \
         if [ $r -eq 7 ]; then c=$n; else c=0; fi; printf '\\033[%d;1Hrow %d frame %d ==========================' $r $r $c; \
         r=$((r+1)); done; while [ ! -e {}/$n ]; do sleep 0.01; done; n=$((n+1)); done",
        gate.display()
    );
    let id = launch_script(&home, &script);
    home.wait_for_output(&id, "row 24 frame 0");
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "mode": "rows" }));
    let mut painted = Painted::default();
    painted.apply(&live.message("screen"));
    // The screen may lag behind the log.
    while !painted.text().contains("row 24 frame 0 ==========================") {
        painted.apply(&live.message("rows"));
        live.ack(1, painted.offset);
    }
    let before = painted.changed;
    for frame in 1..5 {
        fs::write(gate.join((frame - 1).to_string()), "").expect("disk has space");
        while !painted.text().contains(&format!("row 7 frame {frame}")) {
            painted.apply(&live.message("rows"));
            live.ack(1, painted.offset);
        }
    }
    assert_eq!(painted.changed - before, 4, "one row of each frame");
    home.kill(&id);
}

#[test]
fn rows_that_are_not_acknowledged_stop_and_a_new_size_brings_a_screen() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id.to_string();
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "mode": "rows", "window": 1000 }));
    let mut sent = live.message("screen")["offset"].as_u64().expect("an offset");
    let lagging = loop {
        match live.next() {
            Frame::Text(rows) if rows["type"] == "rows" => sent = rows["offset"].as_u64().expect("an offset"),
            Frame::Text(lagging) => break lagging,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((lagging["type"].as_str(), lagging["offset"].as_u64()), (Some("lagging"), Some(sent)));
    let end = home.log(&id).len();
    wait_until("much more was written", || home.log(&id).len() > end + (1 << 20));
    live.expect_silence();
    live.ack(1, sent);
    let jump = live.message("jump");
    assert_eq!(jump["from"], sent);
    assert_eq!(live.message("screen")["offset"], jump["to"]);

    live.send(json!({ "type": "resize", "session_id": id, "rows": 40, "cols": 100 }));
    let mut has_size = false;
    loop {
        let Frame::Text(message) = live.next() else { panic!("only text in rows mode") };
        match message["type"].as_str() {
            Some("resize") => has_size = message["rows"] == 40 && message["cols"] == 100,
            Some("screen") if has_size => break assert_eq!(message["lines"].as_array().map(Vec::len), Some(40)),
            Some("screen" | "rows") => live.ack(1, message["offset"].as_u64().expect("an offset")),
            _ => {}
        }
    }
    home.kill(&id);
}

/// Returns text, colours, cursor movements, scrolling, wide characters, invalid sequences and invalid UTF-8 in random order.
fn hostile(seed: u64, length: usize) -> Vec<u8> {
    const PIECES: &[&[u8]] = &[
        b"plain text ",
        "日本語".as_bytes(),
        "e\u{301}\u{1f469}\u{200d}\u{1f4bb}".as_bytes(),
        b"\r\n",
        b"\t",
        b"\x08",
        b"\x1b[2J",
        b"\x1b[K",
        b"\x1b[1J",
        b"\x1b[31m",
        b"\x1b[48;5;200m",
        b"\x1b[38;2;1;2;3m",
        b"\x1b[0m",
        b"\x1b[7;4:3m",
        b"\x1b[5;10r",
        b"\x1b[r",
        b"\x1b[L",
        b"\x1b[3M",
        b"\x1b[4P",
        b"\x1b[2@",
        b"\x1bM",
        b"\x1bD",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b7",
        b"\x1b8",
        b"\x1b[?6h",
        b"\x1b[?6l",
        b"\x1b[4h",
        b"\x1b[4l",
        b"\x1b]2;a title\x07",
        b"\x1b]8;;http://x.y\x1b\\link\x1b]8;;\x1b\\",
        b"\x1b[999",
        b"\xff\xfe",
        b"\xe4\xbd",
        b"\x1b[5b",
        b"\x1b(0lqqk\x1b(B",
        b"\x1bc",
        b"\x1b[?25l",
        b"\x1b[?25h",
        b"\x1bP+q\x1b\\",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 64);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state % 5 {
            0 => bytes.extend(format!("\x1b[{};{}H", state / 7 % 30, state / 11 % 90).bytes()),
            _ => bytes.extend_from_slice(PIECES[(state / 5) as usize % PIECES.len()]),
        }
    }
    bytes
}
