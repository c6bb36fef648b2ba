//! Runs git with a timeout and an output limit: filters may hang, and repositories may be huge.

use std::cell::RefCell;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{GIT_ERRORS, GIT_OUTPUT, GitError};

const TIMEOUT: Duration = Duration::from_secs(600);
/// Time between SIGTERM and SIGKILL, for git to clean up.
const GRACE: Duration = Duration::from_secs(2);
/// Interval for checking whether a command was cancelled or timed out.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

thread_local! {
    static CANCEL: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Cancels the git commands of another thread.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Runs `work`. Cancelling kills the running git command and rejects later ones.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = CANCEL.replace(Some(self.clone()));
        let result = work();
        CANCEL.set(before);
        result
    }

    /// Returns a guard that cancels when it is dropped, e.g. because the caller stopped waiting.
    pub fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs git and returns its output. On timeout or cancellation, kills git and all its children.
pub(super) fn output(command: &mut Command) -> Result<Output, GitError> {
    output_within(command, TIMEOUT)
}

fn output_within(command: &mut Command, limit: Duration) -> Result<Output, GitError> {
    let output = start_of_output(command, GIT_OUTPUT.bytes, limit)?;
    match output.stdout.len() as u64 > GIT_OUTPUT.bytes {
        true => Err(GitError::TooMuch { what: name_of(command) }),
        false => Ok(output),
    }
}

/// Returns the first `most` bytes of git's output, plus one if there are more.
pub(super) fn start(command: &mut Command, most: u64) -> Result<Output, GitError> {
    start_of_output(command, most, TIMEOUT)
}

/// Returns the git subcommand, for messages.
fn name_of(command: &Command) -> String {
    command.get_args().nth(2).unwrap_or_default().to_string_lossy().into_owned()
}

fn start_of_output(command: &mut Command, most: u64, limit: Duration) -> Result<Output, GitError> {
    let cancel = CANCEL.with_borrow(Option::clone);
    let is_cancelled = || cancel.as_ref().is_some_and(CancelToken::is_set);
    let what = name_of(command);
    if is_cancelled() {
        return Err(GitError::Stopped { what });
    }
    let child = command.process_group(0).spawn().map_err(GitError::NotRun)?;
    let group = Pid::from_child(&child);
    let (done, over) = mpsc::channel::<()>();
    let (output, ended) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let over = over;
            let until = Instant::now() + limit;
            loop {
                let why = match over.recv_timeout(POLL_INTERVAL) {
                    Err(RecvTimeoutError::Timeout) if is_cancelled() => GitError::Stopped { what: what.clone() },
                    Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                        GitError::TooLong { what: what.clone(), seconds: limit.as_secs() }
                    }
                    Err(RecvTimeoutError::Timeout) => continue,
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return None,
                };
                // SIGTERM first, so that git removes its locks and incomplete folders.
                let _ = kill_process_group(group, Signal::TERM);
                if over.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                return Some(why);
            }
        });
        let output = output_of(child, most);
        drop(done);
        (output, watch.join().expect("the watchdog does not panic"))
    });
    match ended {
        Some(why) => Err(why),
        None => output.map_err(GitError::NotRun),
    }
}

/// Waits for the process to exit. Returns the first `most` bytes of its output, plus one if there are more.
fn output_of(mut child: Child, most: u64) -> io::Result<Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = thread::scope(|scope| {
        let stderr = scope.spawn(|| stderr.map(start_of).unwrap_or_default());
        let mut start = Vec::new();
        // This closes the pipe, so a process that keeps writing gets SIGPIPE.
        let stdout = stdout.map_or(Ok(0), |stdout| stdout.take(most + 1).read_to_end(&mut start)).map(|_| start);
        (stdout, stderr.join().expect("reading does not panic"))
    });
    let status = child.wait()?;
    Ok(Output { status, stdout: stdout?, stderr })
}

/// Returns the start of a stream. Reads and discards the rest, so that its writer does not block.
fn start_of(mut stream: impl Read) -> Vec<u8> {
    let mut start = Vec::new();
    let _ = stream.by_ref().take(GIT_ERRORS.bytes).read_to_end(&mut start);
    let _ = io::copy(&mut stream, &mut io::sink());
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn endless_output_is_cut_off_and_stops_its_writer() {
        let endless = output(&mut shell("yes; exit 3"));
        assert!(matches!(endless, Err(GitError::TooMuch { .. })), "{:?}", endless.map(|it| it.status));
        let cut = start(&mut shell("yes"), 10).expect("the first bytes");
        assert_eq!(cut.stdout, b"y\ny\ny\ny\ny\ny");
        let noisy = output(&mut shell("yes | head -c 1000000 >&2; echo done")).expect("standard error does not block");
        assert_eq!((noisy.stderr.len() as u64, &noisy.stdout[..]), (GIT_ERRORS.bytes, &b"done\n"[..]));
    }

    #[test]
    fn a_timeout_kills_the_command_and_its_children() {
        // The child keeps the pipe open, too.
        let ended = output_within(&mut shell("trap '' TERM; sleep 600 & sleep 600"), Duration::from_millis(100));
        assert!(matches!(ended, Err(GitError::TooLong { .. })), "{ended:?}");
        let output = output_within(&mut shell("echo a; echo b >&2"), Duration::from_secs(60)).expect("output");
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"a\n"[..], &b"b\n"[..]));
    }

    #[test]
    fn cancelling_kills_the_running_command_and_rejects_later_ones() {
        let cancel = CancelToken::default();
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().join("started");
        let ended = thread::scope(|scope| {
            scope.spawn(|| {
                while !mark.exists() {
                    thread::yield_now();
                }
                cancel.cancel();
            });
            let mut command = shell(&format!("touch {}; sleep 600", mark.display()));
            cancel.run(|| output(&mut command))
        });
        assert!(matches!(ended, Err(GitError::Stopped { .. })), "{ended:?}");
        assert!(matches!(cancel.run(|| output(&mut shell("true"))), Err(GitError::Stopped { .. })));
        assert!(output(&mut shell("true")).is_ok(), "other commands are not affected");
    }
}
