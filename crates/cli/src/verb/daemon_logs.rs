//! `coven daemon logs`: prints the end of the daemon's log, and follows it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use coven_files::Links;
use coven_host::home::Home;

use crate::failure::Failure;
use crate::output;

const POLL_INTERVAL: Duration = Duration::from_millis(250);
const CHUNK_BYTES: u64 = 64 << 10;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep running and print new lines
    #[arg(long, short)]
    follow: bool,
    /// Number of lines to show, counted from the end
    #[arg(long, short = 'n', default_value_t = 100, value_name = "N")]
    lines: usize,
}

pub fn run(args: &Args, home: &Home) -> Result<(), Failure> {
    let folder = home.logs_dir();
    let newest = log_files(&folder).pop().ok_or_else(|| {
        Failure::failed(
            format!("{} contains no log", folder.display()),
            "The daemon has not run yet; start it with `coven daemon start`",
        )
    })?;
    let mut log = LogReader::open(newest)?;
    log.skip_to_last(args.lines)?;
    loop {
        let chunk = log.read()?;
        if !chunk.is_empty() {
            output::bytes(&chunk)?;
        } else if args.follow {
            sleep(POLL_INTERVAL);
        } else {
            return Ok(());
        }
    }
}

/// Reads a log file, and then the files of the following days.
struct LogReader {
    path: PathBuf,
    file: File,
    offset: u64,
}

impl LogReader {
    fn open(path: PathBuf) -> Result<Self, Failure> {
        match coven_files::open(&path, Links::Refuse) {
            Ok(file) => Ok(Self { path, file, offset: 0 }),
            Err(error) => Err(Failure::File { path, source: error.into() }),
        }
    }

    fn skip_to_last(&mut self, lines: usize) -> Result<(), Failure> {
        let start = last_lines(&mut self.file, lines);
        self.offset = start.and_then(|start| self.file.seek(SeekFrom::Start(start))).map_err(|it| self.error(it))?;
        Ok(())
    }

    /// Returns the next bytes; empty if the file has not grown.
    fn read(&mut self) -> Result<Vec<u8>, Failure> {
        // Listed before reading: once a newer file exists, the daemon no longer writes to this one.
        let newer = self.path.parent().and_then(|folder| log_files(folder).into_iter().find(|path| *path > self.path));
        let chunk = self.read_chunk().map_err(|error| self.error(error))?;
        match newer {
            Some(path) if chunk.is_empty() => {
                *self = Self::open(path)?;
                self.read()
            }
            _ => Ok(chunk),
        }
    }

    fn read_chunk(&mut self) -> io::Result<Vec<u8>> {
        // The file was truncated.
        if self.file.metadata()?.len() < self.offset {
            self.offset = self.file.seek(SeekFrom::Start(0))?;
        }
        let mut chunk = Vec::new();
        self.offset += self.file.by_ref().take(CHUNK_BYTES).read_to_end(&mut chunk)? as u64;
        Ok(chunk)
    }

    fn error(&self, source: io::Error) -> Failure {
        Failure::File { path: self.path.clone(), source }
    }
}

/// Lists the log files from oldest to newest: their names end with the date.
fn log_files(folder: &Path) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("daemon") && name.contains("log"))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_log).collect();
    files.sort();
    files
}

/// Returns the offset of the last `lines` lines.
fn last_lines(file: &mut File, lines: usize) -> io::Result<u64> {
    let end = file.seek(SeekFrom::End(0))?;
    let mut found = 0;
    let mut from = end;
    while from > 0 {
        let start = from.saturating_sub(CHUNK_BYTES);
        let mut chunk = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(from - start).read_to_end(&mut chunk)?;
        for (at, _) in chunk.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let behind = start + at as u64 + 1;
            // The final newline does not start another line.
            if behind < end {
                found += 1;
                if found == lines {
                    return Ok(behind);
                }
            }
        }
        from = start;
    }
    Ok(if lines == 0 { end } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let mut file = tempfile::tempfile().expect("a file");
        for number in 0..20_000 {
            writeln!(file, "line {number}").expect("room");
        }
        let mut text = |lines| {
            let start = last_lines(&mut file, lines).expect("readable");
            let mut text = String::new();
            file.seek(SeekFrom::Start(start)).and_then(|_| file.read_to_string(&mut text)).expect("readable");
            text
        };
        assert_eq!(text(2), "line 19998\nline 19999\n");
        assert_eq!(text(0), "");
        assert_eq!(text(15_000).lines().count(), 15_000);
        assert_eq!(text(50_000).lines().count(), 20_000);
    }

    #[test]
    fn following_loses_no_line_when_the_day_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let append = |day: &str, text: &str| {
            let path = folder.path().join(format!("daemon.log.2026-11-{day}"));
            let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("a file");
            file.write_all(text.as_bytes()).expect("room");
            path
        };
        let mut log = LogReader::open(append("18", "before\nlast\n")).expect("a log");
        log.skip_to_last(1).expect("readable");
        let mut next = || String::from_utf8(log.read().expect("readable")).expect("text");
        assert_eq!((next(), next()), ("last\n".into(), String::new()));

        append("18", "at midnight\n");
        let long: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        append("19", &long);
        append("20", "another day\n");
        assert_eq!(next(), "at midnight\n");
        let mut all = String::new();
        while let chunk = next()
            && !chunk.is_empty()
        {
            all.push_str(&chunk);
        }
        assert_eq!(all, format!("{long}another day\n"));
    }
}
