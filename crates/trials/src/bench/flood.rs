//! The benchmark's side of a flood: starts it, receives its duration and lets the program exit.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use super::pattern::Kind;
use super::pty::{STEP_TIMEOUT, readable};
use super::{Bench, BenchResult};

/// Control socket for a flooding program that is about to be launched.
pub struct Gate {
    listener: UnixListener,
    path: PathBuf,
    // Keeps the socket's folder until the flood is over.
    _folder: tempfile::TempDir,
}

/// A flooding program that has started and waits for a command.
pub struct Flood {
    control: BufReader<UnixStream>,
    pub pid: u32,
}

impl Gate {
    pub fn open() -> BenchResult<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("control");
        Ok(Self { listener: UnixListener::bind(&path)?, path, _folder: folder })
    }

    /// Returns the command line to launch in the measured terminal.
    pub fn argv(&self, bench: &Bench, kind: Kind, bytes: u64) -> Vec<String> {
        let words = ["gen", kind.name(), &bytes.to_string(), "--control", &self.path.to_string_lossy()];
        bench.program(&words)
    }

    /// Waits until the program connects.
    pub fn accept(&self) -> BenchResult<Flood> {
        let listener = self.listener.try_clone()?.into();
        if !readable(&listener, STEP_TIMEOUT)? {
            return Err("the flooding program did not start".into());
        }
        let mut control = BufReader::new(self.listener.accept()?.0);
        let mut line = String::new();
        control.read_line(&mut line)?;
        let pid = line
            .trim()
            .strip_prefix("ready ")
            .ok_or_else(|| format!("unexpected message from the flooding program: {line}"))?;
        Ok(Flood { pid: pid.parse()?, control })
    }
}

impl Flood {
    /// Lets the program write until it has written `bytes` in total and the terminal has accepted the last byte.
    /// Returns the duration by the program's clock.
    pub fn run_to(&mut self, bytes: u64) -> BenchResult<Duration> {
        writeln!(self.control.get_mut(), "{bytes}")?;
        let mut line = String::new();
        self.control.read_line(&mut line)?;
        let nanos =
            line.trim().strip_prefix("done ").ok_or_else(|| format!("the flooding program stopped early: {line:?}"))?;
        Ok(Duration::from_nanos(nanos.parse()?))
    }

    pub fn run(&mut self) -> BenchResult<Duration> {
        self.run_to(u64::MAX)
    }
}
