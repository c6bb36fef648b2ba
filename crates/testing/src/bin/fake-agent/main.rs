//! The scripted agent: runs the commands in its prompt, separated by `;;`, on a terminal and, with `--acp`, over ACP.
//!
//! Installed under the name of a harness, it passes the identity check of that harness.

mod acp;

use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coven_api::routes::{CallHook, Endpoint, Health};
use coven_testing::pattern::{INVALID_UTF8, push_line};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGTERM, SIGWINCH};

/// The rate of `flood_until_told`, so that it can run long without filling the disk.
const FLOOD_BYTES_PER_SECOND: usize = 2 << 20;
const PIECE: usize = 64 << 10;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--version") => {
            println!("fake-agent 1.0.0");
            return ExitCode::SUCCESS;
        }
        Some("--help") => return help(),
        _ if words.iter().any(|word| word == "--acp") => return acp::run(&words),
        // Print mode: the prompt is on standard input.
        _ if words.iter().any(|word| word == "-p") => {
            words.clear();
            match io::read_to_string(io::stdin()) {
                Ok(prompt) => words.push(prompt),
                Err(_) => return ExitCode::from(74),
            }
        }
        // Connects to a socket as another user and prints the response.
        Some("--knock") => return knock(Path::new(&words[1])),
        _ => {}
    }
    // Agents expect the prompt after `--`; the arguments before it are for hooks.
    if let Some(dashes) = words.iter().position(|word| word == "--") {
        words.drain(..=dashes);
    }
    let script = words.join(" ");
    match script.split(";;").map(str::trim).filter(|command| !command.is_empty()).try_for_each(run_command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::With(code)) => ExitCode::from(code),
        Err(Stop::Io(error)) => {
            // Ignore an error: the terminal may be closed.
            let _ = writeln!(io::stderr(), "fake-agent: {error}");
            ExitCode::from(74)
        }
    }
}

/// Prints the options like the help of a harness. A flag that is not listed is refused.
fn help() -> ExitCode {
    println!("Usage: fake-agent [--acp] [-- SCRIPT]\n\n  --acp               use ACP on stdin and stdout");
    if acp::takes_workspace() {
        println!("  --workspace <path>  the folder to work in");
    }
    ExitCode::SUCCESS
}

enum Stop {
    With(u8),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for Stop {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

type CommandResult = Result<(), Stop>;

fn run_command(command: &str) -> CommandResult {
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    match verb {
        "say" => print_line(rest),
        "ask" => {
            print_line(rest)?;
            let answer = line()?.unwrap_or_default();
            print_line(&format!("answer:{answer}"))
        }
        "password" => password(rest),
        "echo" => echo(),
        "env" => {
            print_line(&std::env::var(rest).map_or_else(|_| format!("{rest} unset"), |value| format!("{rest}={value}")))
        }
        "args" => print_line(&format!("{:?}", std::env::args().skip(1).collect::<Vec<_>>())),
        "cwd" => print_line(&format!("cwd={}", std::env::current_dir()?.display())),
        "pid" => print_line(&format!("pid={}", std::process::id())),
        "size" => watch_size(),
        "full_screen" => full_screen(rest),
        "exit" => Err(Stop::With(rest.parse().unwrap_or(1))),
        "hang" => loop {
            std::thread::park();
        },
        "ignore_sigterm" => ignore_signals(),
        "flood" => flood(rest.parse().unwrap_or(0)),
        "flood_until_told" => flood_until_told(),
        "fork_children" => fork_children(),
        "leave_session" => Ok(rustix::process::setsid().map(drop)?),
        "close_terminal" => close_terminal(),
        "invalid_utf8" => write_raw(INVALID_UTF8),
        "touch" => Ok(std::fs::write(rest, "")?),
        "leave_dirty" => Ok(std::fs::write(rest, "not committed\n")?),
        "commit" => commit(rest),
        "append" => append(rest),
        "raw" => write_raw(&unescaped(rest)),
        "titles" => change_titles(rest),
        "hook" => call_hook(rest),
        "post_hook" => post_hook(rest),
        "background_post_hook" => {
            let rest = rest.to_owned();
            std::thread::spawn(move || drop(post_hook(&rest)));
            Ok(())
        }
        "background_hook" => {
            let rest = rest.to_owned();
            // Ends with the agent.
            std::thread::spawn(move || drop(call_hook(&rest)));
            Ok(())
        }
        "until" => {
            wait_for_file(Path::new(rest));
            Ok(())
        }
        // Any other prompt gets a line of text, as from a real agent.
        _ => print_line(&format!("prompt:{command}")),
    }
}

/// Reads a password without echo, like `sudo` and `ssh`. Restores the echo before it answers.
fn password(prompt: &str) -> CommandResult {
    let before = tcgetattr(io::stdin())?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(io::stdin(), OptionalActions::Now, &silent)?;
    print_line(prompt)?;
    let secret = line()?.unwrap_or_default();
    tcsetattr(io::stdin(), OptionalActions::Now, &before)?;
    print_line(&format!("{} characters", secret.len()))
}

/// Commits a new file of this name.
fn commit(name: &str) -> CommandResult {
    std::fs::write(name, format!("{name}\n"))?;
    for args in [&["add", "--all"][..], &["-c", "user.name=fake", "-c", "user.email=f@f", "commit", "-qm", name]] {
        if !Command::new("git").args(args).status()?.success() {
            return Err(Stop::With(70));
        }
    }
    Ok(())
}

/// `FILE TEXT`: appends a line to the file.
fn append(rest: &str) -> CommandResult {
    let (file, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut file = std::fs::File::options().append(true).create(true).open(file)?;
    Ok(writeln!(file, "{text}")?)
}

/// Writes a line in one piece. A terminal that turns `\n` into `\r\n` passes on the text before the line's end is there,
/// so a reader could see one without the other.
fn print_line(text: &str) -> CommandResult {
    // Two threads must not change the settings at the same time.
    static SETTINGS: Mutex<()> = Mutex::new(());
    let _guard = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let line = format!("{text}\n");
    match tcgetattr(io::stdout()) {
        Ok(modes) if modes.output_modes.contains(OutputModes::OPOST) && is_in_foreground() => {
            let mut raw = modes.clone();
            raw.output_modes.remove(OutputModes::OPOST);
            tcsetattr(io::stdout(), OptionalActions::Now, &raw)?;
            let written = write_raw(line.replace('\n', "\r\n").as_bytes());
            tcsetattr(io::stdout(), OptionalActions::Now, &modes)?;
            written
        }
        _ => write_raw(line.as_bytes()),
    }
}

/// Returns whether this process may change the terminal's settings: the kernel stops a background process that tries to.
fn is_in_foreground() -> bool {
    rustix::termios::tcgetpgrp(io::stdout()).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn write_raw(bytes: &[u8]) -> CommandResult {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Reads one line without its newline; returns `None` at the end of the input.
fn line() -> Result<Option<String>, Stop> {
    let mut bytes = Vec::new();
    let count = io::stdin().lock().read_until(b'\n', &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned();
    Ok((count > 0).then_some(text))
}

/// Prints every input line as `got:…` until `quit` or the end of the input.
fn echo() -> CommandResult {
    print_line("ready")?;
    while let Some(line) = line()?
        && line != "quit"
    {
        print_line(&format!("got:{line}"))?;
    }
    Ok(())
}

/// Prints the terminal's size now and after each change.
fn watch_size() -> CommandResult {
    let (mut woken, wake) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGWINCH, wake)?;
    print_size()?;
    std::thread::spawn(move || {
        let mut byte = [0];
        while woken.read_exact(&mut byte).is_ok() && print_size().is_ok() {}
    });
    Ok(())
}

fn print_size() -> CommandResult {
    let size = tcgetwinsize(io::stdout())?;
    print_line(&format!("size:{}x{}", size.ws_row, size.ws_col))
}

/// Shows the text on the alternate screen until a line is typed.
fn full_screen(text: &str) -> CommandResult {
    write_raw(format!("\x1b[?1049h\x1b[2J\x1b[H\x1b[?25l{text}\r\n").as_bytes())?;
    line()?;
    write_raw(b"\x1b[?25h\x1b[?1049l")
}

/// Ignores SIGTERM, and SIGHUP, which may follow it.
fn ignore_signals() -> CommandResult {
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, ignored.clone())?;
    signal_hook::flag::register(SIGHUP, ignored)?;
    Ok(())
}

/// Sets raw mode like full-screen agents: output is not translated, and input is not echoed.
fn make_raw() -> CommandResult {
    let Ok(mut modes) = tcgetattr(io::stdin()) else { return Ok(()) };
    modes.output_modes.remove(OutputModes::OPOST);
    modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
    Ok(tcsetattr(io::stdin(), OptionalActions::Now, &modes)?)
}

fn flood(length: usize) -> CommandResult {
    make_raw()?;
    let (mut number, mut left, mut piece) = (0, length, Vec::with_capacity(2 * PIECE));
    while left > 0 {
        piece.clear();
        while piece.len() < PIECE {
            push_line(&mut piece, number);
            number += 1;
        }
        piece.truncate(left);
        left -= piece.len();
        write_raw(&piece)?;
    }
    Ok(())
}

/// Writes output until a line is typed. The last line has the number of bytes.
fn flood_until_told() -> CommandResult {
    make_raw()?;
    let (started, mut written, mut number, mut piece) = (Instant::now(), 0_usize, 0, Vec::with_capacity(PIECE));
    loop {
        piece.clear();
        while piece.len() < PIECE / 8 {
            push_line(&mut piece, number);
            number += 1;
        }
        write_raw(&piece)?;
        written += piece.len();
        let due = Duration::from_secs_f64(written as f64 / FLOOD_BYTES_PER_SECOND as f64);
        if is_readable(io::stdin(), due.saturating_sub(started.elapsed()))? {
            line()?;
            return print_line(&format!("flooded {written}"));
        }
    }
}

fn is_readable(file: impl AsFd, within: Duration) -> Result<bool, Stop> {
    let within = Timespec { tv_sec: within.as_secs().cast_signed(), tv_nsec: i64::from(within.subsec_nanos()) };
    Ok(poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&within))? > 0)
}

/// Starts three hanging children: a plain one, one that ignores SIGTERM, and one in a new session that ignores it too.
fn fork_children() -> CommandResult {
    let this = std::env::current_exe()?;
    for script in ["hang", "ignore_sigterm ;; hang", "leave_session ;; ignore_sigterm ;; hang"] {
        let child = Command::new(&this).args(["--", script]).spawn()?;
        print_line(&format!("child={}", child.id()))?;
    }
    print_line("children are there")
}

/// Redirects the three standard streams to `/dev/null`.
fn close_terminal() -> CommandResult {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// Returns the bytes of a text with `\\e`, `\\a`, `\\n`, `\\0` and `\\\\`.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'e') => 0x1b,
                Some(b'a') => 0x07,
                Some(b'n') => b'\n',
                Some(b'0') => 0,
                other => other.unwrap_or(b'\\'),
            },
            byte => byte,
        });
    }
    bytes
}

/// `COUNT MILLISECONDS`: alternates between the titles `* 0`, `- 1`, `* 2` and so on.
fn change_titles(rest: &str) -> CommandResult {
    let mut numbers = rest.split(' ').map(|word| word.parse::<u64>().unwrap_or(0));
    let (count, pause) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    for number in 0..count {
        let mark = if number % 2 == 0 { '*' } else { '-' };
        write_raw(format!("\x1b]2;{mark} {number}\x07").as_bytes())?;
        std::thread::sleep(Duration::from_millis(pause));
    }
    Ok(())
}

/// `EVENT [wait] JSON`: calls a hook as an agent does, and prints its output.
fn call_hook(rest: &str) -> CommandResult {
    let (event, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let payload = rest.strip_prefix("wait").map(str::trim_start);
    let coven = std::env::var("COVEN_PROGRAM").map_err(|_| io::Error::other("COVEN_PROGRAM is not set"))?;
    let mut command = Command::new(coven);
    command.args(["hook", "fake", event]).args(payload.map(|_| "wait"));
    let mut hook = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut input) = hook.stdin.take() {
        input.write_all(&payload_of(payload.unwrap_or(rest)))?;
    }
    let output = hook.wait_with_output()?;
    print_line(&format!("hook {event}: {} {}", output.status, String::from_utf8_lossy(&output.stdout).trim_end()))
}

/// `SESSION CALL EVENT JSON`: sends a hook call with this id to the daemon, and prints the response. The session `self` is
/// its own.
fn post_hook(rest: &str) -> CommandResult {
    let words: Vec<&str> = rest.splitn(4, ' ').collect();
    let [session, id, event, payload] = words[..] else { return Err(Stop::With(64)) };
    let variable = |name| std::env::var(name).map_err(|_| io::Error::other("not in a session"));
    let session = if session == "self" { variable("COVEN_SESSION_ID")? } else { session.to_owned() };
    let payload = String::from_utf8_lossy(&payload_of(payload)).into_owned();
    let body = format!(r#"{{"id":"{id}","event":"{event}","payload":{payload}}}"#);
    let (target, length) = (CallHook::of(&session).target().to_owned(), body.len());
    let mut stream = UnixStream::connect(Path::new(&variable("COVEN_HOME")?).join("coven.sock"))?;
    let head =
        format!("POST {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n");
    // Ignore an error: the daemon may refuse the request before it has read all of it.
    let _ = write!(stream, "{head}content-length: {length}\r\n\r\n{body}");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let status = answer.split(' ').nth(1).unwrap_or("none");
    print_line(&format!("posted {event}: {status} {}", answer.rsplit("\r\n").next().unwrap_or_default()))
}

/// `huge N` stands for a JSON text of N bytes.
fn payload_of(text: &str) -> Vec<u8> {
    match text.strip_prefix("huge ").and_then(|size| size.parse::<usize>().ok()) {
        Some(size) => format!(r#"{{"detail":"{}"}}"#, "x".repeat(size)).into_bytes(),
        None => text.as_bytes().to_vec(),
    }
}

fn wait_for_file(path: &Path) {
    while !path.exists() {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn knock(socket: &Path) -> ExitCode {
    let mut text = String::new();
    let asked = UnixStream::connect(socket).and_then(|mut stream| {
        write!(stream, "GET {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", Health::ROUTE.path)?;
        stream.read_to_string(&mut text)
    });
    println!("connected={} answer={text:?}", asked.is_ok());
    ExitCode::SUCCESS
}
