//! A folder for every test, and programs in it that are written for their scenario.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coven_harness::print_mode::{self, PrintFormat, PrintMode, PrintPrompt};
use coven_holder::process;
use coven_host::print_mode::{Cancel, PrintHarness, TurnDone, TurnError, TurnSpec, run_turn};

/// Long enough for a busy machine; a test that needs so much has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Stand {
    folder: tempfile::TempDir,
}

impl Stand {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A harness whose program is this shell script.
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
            timeout: Some(PATIENCE),
        }
    }

    /// Runs a script as the program of one turn.
    pub fn turn(&self, script: &str, prompt: &str) -> Result<TurnDone, TurnError> {
        let harness = self.harness(script);
        run_turn(&self.spec(&harness, prompt), |_| {}, &never())
    }
}

/// The form of JSON that this agent prints.
pub fn format_of(agent: &str) -> PrintFormat {
    print_mode::known(agent).expect("it prints").format
}

/// The shell itself is the program, so that nothing that another test starts can hold its file open for writing.
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
        grace: PATIENCE,
    }
}

/// A cancel that does not come.
pub fn never() -> Cancel {
    Cancel::new().expect("two descriptors")
}

/// Looks again and again; there is no event for what other processes do.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// The number that a script wrote into a file, once it is whole.
pub fn number_in(file: &Path) -> u32 {
    eventually("a number in a file", || fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok())
}

pub fn is_alive(pid: u32) -> bool {
    process::stat(pid).is_ok_and(|it| !it.is_zombie())
}

pub fn wait_until_dead(pid: u32) {
    eventually("a process ends", || (!is_alive(pid)).then_some(()));
}
