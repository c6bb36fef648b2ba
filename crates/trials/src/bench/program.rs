//! The programs that run inside the measured terminals.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Subcommand;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::pattern::{BANNER, Kind, Pattern};
use super::pty::{self, Terminal};
use super::{BenchResult, activity};

#[derive(Debug, Subcommand)]
pub enum Program {
    /// Write a flood of bytes to the terminal in raw mode.
    #[command(hide = true)]
    Gen {
        kind: Kind,
        bytes: u64,
        /// Socket that receives start commands and reports durations; without it the flood starts immediately.
        #[arg(long)]
        control: Option<PathBuf>,
    },
    /// Run a program on a terminal and discard its output: the minimum that a holder must do.
    #[command(hide = true)]
    Drain { argv: Vec<String> },
    /// Echo every byte in raw mode.
    #[command(hide = true)]
    Echo,
    /// Print lines of history, then paint a screen; repaint it on every Ctrl+L.
    #[command(hide = true)]
    Page { lines: u64 },
    /// Report every ^C to a socket; flood the terminal on a command from the socket.
    #[command(hide = true)]
    Interruptible { control: PathBuf },
    /// Repaint the whole screen on every key.
    #[command(hide = true)]
    Redraw,
    /// Serve ACP on standard input and output.
    #[command(hide = true)]
    AcpAgent,
    /// Time hooks and write the result to a file.
    #[command(hide = true)]
    HookTimes { rounds: usize, calls: usize, report: PathBuf },
    /// Ask for permission whenever the folder has an order.
    #[command(hide = true)]
    Ask { folder: PathBuf },
    /// Wait for an answer in a file.
    #[command(hide = true)]
    FileHook { folder: PathBuf },
    /// Write lines of digits, so many bytes a second.
    #[command(hide = true)]
    Paced { bytes_per_second: u64 },
    /// Change the title so many times a second.
    #[command(hide = true)]
    Titles { per_second: u32 },
}

impl Program {
    pub fn run(self) -> ExitCode {
        let outcome = match self {
            Program::Gen { kind, bytes, control } => flood(kind, bytes, control),
            Program::Drain { argv } => drain(&argv),
            Program::Echo => echo(),
            Program::Page { lines } => page(lines),
            Program::Interruptible { control } => interruptible(&control),
            Program::Redraw => redraw(),
            Program::AcpAgent => super::acp_agent::run(),
            Program::HookTimes { rounds, calls, report } => activity::hook_times(rounds, calls, &report),
            Program::Ask { folder } => activity::ask(&folder),
            Program::FileHook { folder } => activity::file_hook(&folder),
            Program::Paced { bytes_per_second } => paced(bytes_per_second),
            Program::Titles { per_second } => activity::titles(per_second),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("trials: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Turns off output processing and echo, so that bytes pass the terminal unchanged.
fn make_raw() -> BenchResult<()> {
    let stdin = io::stdin();
    let mut termios = tcgetattr(&stdin)?;
    termios.make_raw();
    tcsetattr(&stdin, OptionalActions::Now, &termios)?;
    Ok(())
}

/// Measures the time here, from the first write to the last accepted one, so that it is comparable between contenders.
fn flood(kind: Kind, bytes: u64, control: Option<PathBuf>) -> BenchResult<()> {
    make_raw()?;
    // Buffered standard output would change the size of the writes.
    let stdout = rustix::stdio::stdout();
    let write = |mut piece: &[u8]| -> BenchResult<()> {
        while !piece.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(stdout, piece))?;
            piece = &piece[written..];
        }
        Ok(())
    };
    let mut pattern = Pattern::new(kind, bytes);
    write(BANNER)?;
    let Some(control) = control else {
        while let Some(piece) = pattern.next_piece() {
            write(piece)?;
        }
        return Ok(());
    };
    let mut control = BufReader::new(UnixStream::connect(control)?);
    writeln!(control.get_mut(), "ready {}", std::process::id())?;
    // Each line is the number of bytes to reach; at end of file the program exits.
    let (mut line, mut written) = (String::new(), 0);
    while control.read_line(&mut line)? > 0 {
        let target: u64 = line.trim().parse()?;
        let start = Instant::now();
        while written < target
            && let Some(piece) = pattern.next_piece()
        {
            write(piece)?;
            written += piece.len() as u64;
        }
        writeln!(control.get_mut(), "done {}", start.elapsed().as_nanos())?;
        line.clear();
    }
    Ok(())
}

fn paced(bytes_per_second: u64) -> BenchResult<()> {
    const PIECES_PER_SECOND: u64 = 100;
    let line = b"0123456789012345678901234567890123456789012345678901234567890123456789012345678\n";
    let piece = line.repeat((bytes_per_second / PIECES_PER_SECOND) as usize / line.len());
    let mut stdout = io::stdout();
    let mut due = Instant::now();
    loop {
        stdout.write_all(&piece)?;
        stdout.flush()?;
        due += Duration::from_secs(1) / PIECES_PER_SECOND as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn drain(argv: &[String]) -> BenchResult<()> {
    // Its own session, like every holder: the kernel schedules CPU time by session.
    rustix::process::setsid()?;
    pty::drain(&Terminal::spawn(pty::command(argv))?)
}

fn echo() -> BenchResult<()> {
    make_raw()?;
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    stdout.write_all(BANNER)?;
    stdout.flush()?;
    let mut buffer = [0; 4096];
    loop {
        let count = stdin.read(&mut buffer)?;
        if count == 0 || buffer[..count].contains(&END) {
            return Ok(());
        }
        stdout.write_all(&buffer[..count])?;
        stdout.flush()?;
    }
}

const CTRL_L: u8 = 0x0c;
/// Ctrl+D ends `echo` and `page`, because a raw terminal does not turn it into end of file.
pub const END: u8 = 0x04;

/// The last text of the painted screen.
pub const PAINTED: &[u8] = b"painted-to-the-end";
pub const ROWS: u16 = 40;
pub const COLS: u16 = 120;

fn page(lines: u64) -> BenchResult<()> {
    make_raw()?;
    let mut stdout = io::stdout().lock();
    for number in 0..lines {
        write!(
            stdout,
            "\x1b[3{}m{number:8}\x1b[0m a line of history that has scrolled out of view {number:x}\r\n",
            number % 7
        )?;
    }
    let mut screen = String::from("\x1b[H\x1b[2J");
    for row in 1..ROWS {
        screen.push_str(&format!(
            "\x1b[3{}m{row:4}\x1b[0m │ what the agent shows now, one line of it, with some colour\r\n",
            row % 7
        ));
    }
    screen.push_str(std::str::from_utf8(PAINTED).expect("ASCII"));
    stdout.write_all(screen.as_bytes())?;
    stdout.flush()?;
    for byte in io::stdin().lock().bytes() {
        match byte? {
            CTRL_L => {
                stdout.write_all(screen.as_bytes())?;
                stdout.flush()?;
            }
            END => break,
            _ => {}
        }
    }
    Ok(())
}

const CTRL_C: u8 = 0x03;

/// Reads keys on a separate thread, like agents that read input while they paint.
fn interruptible(control: &Path) -> BenchResult<()> {
    make_raw()?;
    let control = UnixStream::connect(control)?;
    let mut reports = control.try_clone()?;
    std::thread::spawn(move || -> BenchResult<()> {
        for byte in io::stdin().lock().bytes() {
            if byte? == CTRL_C {
                writeln!(reports, "interrupted")?;
            }
        }
        Ok(())
    });
    let is_flooding = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_flooding);
    let flood = std::thread::spawn(move || -> BenchResult<()> {
        let piece = b"a line of a long build log that scrolls by\r\n".repeat(100);
        loop {
            match flag.load(Ordering::Acquire) {
                true => io::stdout().write_all(&piece)?,
                false => std::thread::park(),
            }
        }
    });
    for line in BufReader::new(control).lines() {
        is_flooding.store(line? == "flood", Ordering::Release);
        flood.thread().unpark();
    }
    Ok(())
}

/// Returns the screen of redraw `number`: every row, three of them changed. All redraws have the same size.
pub fn redrawn(number: u64) -> String {
    let mut screen = String::from("\x1b[?25l\x1b[H");
    for row in 1..ROWS {
        let text = match row {
            3 => format!("working, {number:06} seconds"),
            20 => format!("{:06} tokens so far, more to come", number * 7 % 1_000_000),
            38 => format!("step {number:06} of many"),
            _ => format!("row {row:02} of a screen that stays as it is"),
        };
        screen.push_str(&format!("\x1b[{row};1H\x1b[2K\x1b[38;5;{:03}m│\x1b[0m {text:<60}\x1b[1m│\x1b[0m", 100 + row));
    }
    screen.push_str("\x1b[?25h");
    screen
}

fn redraw() -> BenchResult<()> {
    make_raw()?;
    let mut stdout = io::stdout().lock();
    let mut paint = |number: u64| -> BenchResult<()> {
        stdout.write_all(redrawn(number).as_bytes())?;
        Ok(stdout.flush()?)
    };
    paint(0)?;
    for (number, byte) in (1..).zip(io::stdin().lock().bytes()) {
        match byte? {
            END => break,
            _ => paint(number)?,
        }
    }
    Ok(())
}
