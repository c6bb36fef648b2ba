//! Measures the throughput, the snapshot time and the memory of a screen.
//!
//! `cargo run --release -p coven-screen --example feed_speed`

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::term::test::TermSize;
use alacritty_terminal::term::{Config, Term};
use alacritty_terminal::vte::ansi::Processor;
use coven_screen::{HtmlLog, Screen, TextLog};

const ROWS: u16 = 40;
const COLS: u16 = 120;
const MEGABYTES: usize = 32;
const CHUNK: usize = 16 * 1024;

/// Counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    for (name, part) in [("plain", plain()), ("ansi", frames()), ("unicode", unicode())] {
        let bytes: Vec<u8> = part.bytes().cycle().take(MEGABYTES << 20).collect();
        let mut best = [f64::MAX; 4];
        for _ in 0..3 {
            best[0] = best[0].min(seconds(|| bare(&bytes)));
            best[1] = best[1].min(seconds(|| {
                let mut screen = Screen::new(ROWS, COLS);
                bytes.chunks(CHUNK).for_each(|chunk| screen.feed(chunk));
                black_box(screen.text());
            }));
            best[2] = best[2].min(seconds(|| {
                let mut log = TextLog::new(ROWS, COLS);
                let mut out = std::io::sink();
                bytes.chunks(CHUNK).for_each(|chunk| log.push(chunk, &mut out).expect("a sink accepts all output"));
                log.finish(&mut out).expect("a sink accepts all output");
            }));
            best[3] = best[3].min(seconds(|| {
                let mut log = HtmlLog::new(ROWS, COLS, "log");
                let mut out = std::io::sink();
                bytes.chunks(CHUNK).for_each(|chunk| log.push(chunk, &mut out).expect("a sink accepts all output"));
                log.finish(&mut out).expect("a sink accepts all output");
            }));
        }
        let [bare, screen, text, html] = best.map(|seconds| bytes.len() as f64 / 1e6 / seconds);
        println!(
            "{name:8} bare {bare:4.0}  screen {screen:4.0}  text log {text:4.0}  html log {html:4.0} MB per CPU-second"
        );
    }
    snapshots();
    memory();
}

/// Returns the CPU time, which a busy machine affects less than elapsed time. Falls back to elapsed time.
fn seconds(run: impl FnOnce()) -> f64 {
    let (clock, start) = (Instant::now(), cpu_nanoseconds());
    run();
    match (start, cpu_nanoseconds()) {
        (Some(start), Some(end)) => (end - start) as f64 / 1e9,
        _ => clock.elapsed().as_secs_f64(),
    }
}

fn cpu_nanoseconds() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

fn bare(bytes: &[u8]) {
    let size = TermSize::new(COLS.into(), ROWS.into());
    let config = Config { scrolling_history: 0, ..Config::default() };
    let mut term = Term::new(config, &size, VoidListener);
    let mut processor: Processor = Processor::new();
    bytes.chunks(CHUNK).for_each(|chunk| processor.advance(&mut term, chunk));
    black_box(term.mode());
}

fn plain() -> String {
    (0..200).fold(String::new(), |mut text, line| {
        let _ = write!(text, "line {line}: compiling something of moderate length, nothing unusual here\r\n");
        text
    })
}

/// Full repaints like an agent's: cursor addressing, colours, erased line ends.
fn frames() -> String {
    let mut text = String::new();
    for frame in 0..20 {
        text.push_str("\x1b[?2026h");
        for row in 1..=ROWS {
            let _ = write!(
                text,
                "\x1b[{row};1H\x1b[38;5;{}m│ \x1b[1mstep {frame}\x1b[22m \x1b[38;2;{row};200;10mdoing work on row {row}\x1b[0m\x1b[K",
                frame + 20
            );
        }
        text.push_str("\x1b[?2026l");
    }
    text
}

fn unicode() -> String {
    "│ ✓ geprüft → 日本語のテキスト e\u{301} ─────── 🚀 done\r\n".repeat(100)
}

fn snapshots() {
    let dense = frames();
    for (name, output) in
        [("text", plain()), ("dense", dense.clone()), ("dense in alternate", format!("{dense}\x1b[?1049h{dense}"))]
    {
        let mut screen = Screen::new(ROWS, COLS);
        screen.feed(output.as_bytes());
        let length = screen.snapshot().len();
        let runs = 2000;
        let each = seconds(|| (0..runs).for_each(|_| drop(black_box(screen.snapshot())))) / f64::from(runs);
        println!("snapshot of {name}: {:.0} µs, {length} bytes", each * 1e6);
    }
}

fn memory() {
    for (rows, cols) in [(24, 80), (40, 120)] {
        let before = IN_USE.load(Ordering::Relaxed);
        let mut screen = Screen::new(rows, cols);
        screen.feed(plain().as_bytes());
        screen.feed(frames().as_bytes());
        let held = IN_USE.load(Ordering::Relaxed) - before;
        println!("memory of a screen of {rows}x{cols}: {} KiB", (held + size_of::<Screen>()) / 1024);
    }
}
