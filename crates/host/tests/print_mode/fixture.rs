//! Fixture: a folder for each test, and harnesses whose program is a shell script.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coven_harness::print_mode::{self, PrintFormat, PrintMode, PrintPrompt};
use coven_holder::process;
use coven_host::print_mode::{Cancel, PrintHarness, TurnDone, TurnError, TurnSpec, run_turn};

/// Long enough for a busy machine; reaching it means that the test has failed.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a harness whose program is this shell script.
    pub fn harness(&self, script: &str) -> PrintHarness {
        harness(script)
    }

    pub fn spec<'a>(&'a self, harness: &'a PrintHarness, prompt: &'a str) -> TurnSpec<'a> {
        let cwd = self.folder.path();
        TurnSpec {
            harness,
            prompt,
            session: None,
            used_before: None,
            agent: None,
            more_args: &[],
            cwd,
            timeout: Some(TIMEOUT),
        }
    }

    /// Runs a script as the program of one turn.
    pub fn turn(&self, script: &str, prompt: &str) -> Result<TurnDone, TurnError> {
        let harness = self.harness(script);
        run_turn(&self.spec(&harness, prompt), |_| {}, &never())
    }
}

/// Returns the JSON format of this agent's output.
pub fn format_of(agent: &str) -> PrintFormat {
    print_mode::known(agent).expect("a print mode").format
}

/// Returns a harness with the shell as its program. A script file could still be open for writing in a child of another
/// test, and then could not be started.
pub fn harness(script: &str) -> PrintHarness {
    PrintHarness {
        id: "scripted".to_owned(),
        label: "Scripted".to_owned(),
        program: PathBuf::from("/bin/sh"),
        mode: PrintMode {
            args: ["-c", script, "scripted"].map(str::to_owned).into(),
            prompt: PrintPrompt::Stdin,
            ..PrintMode::default()
        },
        added_args: Vec::new(),
        env: BTreeMap::new(),
        grace: TIMEOUT,
    }
}

/// Returns a token that is not cancelled.
pub fn never() -> Cancel {
    Cancel::new().expect("two descriptors")
}

/// Polls until `check` succeeds; no event reports the state of other processes.
pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Waits until a script has written a number and a line break to a file, and returns the number.
pub fn number_in(file: &Path) -> u32 {
    eventually("a number in a file", || fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok())
}

pub fn is_alive(pid: u32) -> bool {
    process::stat(pid).is_ok_and(|it| !it.is_zombie())
}

pub fn wait_until_dead(pid: u32) {
    eventually("the exit of a process", || (!is_alive(pid)).then_some(()));
}
