//! A real terminal with a program in it. Its screen is parsed by the screen model.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use coven_screen::{Screen, Span};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::{TestHome, eventually, wait_until};

struct Shown {
    screen: Screen,
    /// All output of the program.
    bytes: Vec<u8>,
}

pub struct TestTerminal {
    child: Child,
    master: File,
    /// Kept open so that the terminal can be read after the program has exited.
    slave: File,
    shown: Arc<Mutex<Shown>>,
    reader: Option<JoinHandle<()>>,
    /// Dropping it stops the reader.
    reading: Option<UnixStream>,
    before: Termios,
}

impl TestTerminal {
    /// Runs `coven` in a terminal of 24 rows and 80 columns.
    pub fn open(home: &TestHome, args: &[&str]) -> Self {
        Self::with_size(home, args, 24, 80)
    }

    pub fn with_size(home: &TestHome, args: &[&str], rows: u16, cols: u16) -> Self {
        Self::run(home.command(args), rows, cols)
    }

    pub fn run(mut command: Command, rows: u16, cols: u16) -> Self {
        let (master, slave) = open_pair(rows, cols);
        let before = tcgetattr(&slave).expect("a terminal");
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are async-signal-safe and touch nothing of ours.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().expect("the program runs");
        let shown = Arc::new(Mutex::new(Shown { screen: Screen::new(rows, cols), bytes: Vec::new() }));
        let (reading, is_over) = UnixStream::pair().expect("a pair of sockets");
        let reader = std::thread::spawn({
            let (master, shown) = (master.try_clone().expect("a descriptor"), shown.clone());
            move || read_all(master, &is_over, &shown)
        });
        Self { child, master, slave, shown, reader: Some(reader), reading: Some(reading), before }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the text on the screen.
    pub fn text(&self) -> String {
        self.shown().screen.text()
    }

    /// Returns the rows of the screen with their styles.
    pub fn rows(&self) -> Vec<Vec<Span>> {
        self.shown().screen.rows()
    }

    /// Returns all output of the program.
    pub fn bytes(&self) -> Vec<u8> {
        self.shown().bytes.clone()
    }

    pub fn is_alternate(&self) -> bool {
        self.shown().screen.is_alternate()
    }

    pub fn is_cursor_visible(&self) -> bool {
        self.shown().screen.cursor().visible
    }

    /// Waits until the screen contains `text` and returns the screen.
    #[track_caller]
    pub fn wait_for_text(&self, text: &str) -> String {
        self.wait_for_screen(&format!("the screen shows {text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the screen no longer contains `text` and returns the screen.
    #[track_caller]
    pub fn wait_until_hidden(&self, text: &str) -> String {
        self.wait_for_screen(&format!("the screen hides {text:?}"), |screen| !screen.contains(text))
    }

    /// Waits until the last row says that the app is connected to the daemon, and returns the screen.
    #[track_caller]
    pub fn wait_until_live(&self) -> String {
        let is_live = |screen: &str| screen.lines().last().is_some_and(|row| row.trim_end().ends_with(" live"));
        self.wait_for_screen("the app is live", is_live)
    }

    #[track_caller]
    fn wait_for_screen(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let seen = std::cell::RefCell::new(String::new());
        // Print the screen if the test fails.
        let _report = ScreenReport { what, seen: &seen };
        eventually(what, || {
            let text = self.text();
            let found = is_so(&text).then(|| text.clone());
            seen.replace(text);
            found
        })
    }

    /// Types keys.
    pub fn type_keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("a terminal that takes keys");
    }

    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.shown().screen.resize(rows, cols);
        // The kernel sends SIGWINCH to the program.
        set_size(&self.master, rows, cols);
    }

    /// Waits until the program exits; returns its exit code, or 128 plus the signal.
    #[track_caller]
    pub fn wait(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let child = &mut self.child;
        let status = eventually("the program in the terminal exits", || child.try_wait().expect("child process"));
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("child process").is_some()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the program reads single keys, so that Ctrl keys reach it as bytes and not as signals.
    pub fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).expect("a terminal").local_modes.contains(LocalModes::ISIG)
    }

    /// Closes the terminal like a closed window; returns the exit code, or 128 plus the signal.
    #[track_caller]
    pub fn hang_up(mut self) -> i32 {
        self.reading = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let null = || File::open("/dev/null").expect("every system has it");
        (self.slave, self.master) = (null(), null());
        self.wait()
    }

    /// Asserts that the program has restored the terminal's settings.
    #[track_caller]
    pub fn assert_settings_restored(&self) {
        let after = tcgetattr(&self.slave).expect("a terminal");
        let modes = |it: &Termios| (it.input_modes, it.output_modes, it.control_modes, it.local_modes);
        assert_eq!(modes(&after), modes(&self.before), "the terminal was left in another mode");
        // The reader may not have processed the last output yet.
        wait_until("the terminal is back on the main screen", || !self.is_alternate());
        wait_until("the cursor is visible", || self.is_cursor_visible());
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The reader ends when the last descriptor of the slave side is closed, so close ours first.
        self.slave = File::open("/dev/null").expect("every system has it");
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

struct ScreenReport<'a> {
    what: &'a str,
    seen: &'a std::cell::RefCell<String>,
}

impl Drop for ScreenReport<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("waited until {}; the screen is:\n{}", self.what, self.seen.borrow());
        }
    }
}

fn open_pair(rows: u16, cols: u16) -> (File, File) {
    let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&master).expect("a terminal");
    unlockpt(&master).expect("a terminal");
    let name = ptsname(&master, Vec::new()).expect("a terminal");
    let master = File::from(master);
    set_size(&master, rows, cols);
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let slave = open_without_controlling(path);
    (master, slave)
}

fn open_without_controlling(path: &std::ffi::OsStr) -> File {
    use std::os::unix::fs::OpenOptionsExt;
    let flag = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flag).open(path).expect("the terminal's other side")
}

fn set_size(terminal: &impl AsFd, rows: u16, cols: u16) {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal has a size");
}

/// Waits for output of the terminal. Returns false if the reader must stop.
fn has_something(master: &File, is_over: &UnixStream) -> bool {
    let mut fds = [PollFd::new(master, PollFlags::IN), PollFd::new(is_over, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, None)).is_ok() && fds[1].revents().is_empty()
}

/// Feeds output to the screen and answers terminal queries.
fn read_all(mut master: File, is_over: &UnixStream, shown: &Mutex<Shown>) {
    let mut buffer = vec![0; 64 << 10];
    // An error means that the other side is closed.
    while has_something(&master, is_over)
        && let Ok(count) = master.read(&mut buffer)
        && count > 0
    {
        let replies = {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.bytes.extend_from_slice(&buffer[..count]);
            shown.screen.feed(&buffer[..count]);
            shown.screen.take_replies()
        };
        if !replies.is_empty() {
            let _ = master.write_all(&replies);
        }
    }
}
