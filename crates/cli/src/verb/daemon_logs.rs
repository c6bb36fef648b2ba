//! `coven daemon logs`: the end of the daemon's own log, and what is added to it.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use coven_files::Links;
use coven_host::home::Home;

use crate::failure::Failure;
use crate::output;

const LOOK_EVERY: Duration = Duration::from_millis(250);
const PIECE: u64 = 64 << 10;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Stay and print what is added
    #[arg(long, short)]
    follow: bool,
    /// So many lines of the end
    #[arg(long, short = 'n', default_value_t = 100, value_name = "N")]
    lines: usize,
}

pub fn run(args: &Args, home: &Home) -> Result<(), Failure> {
    let path = newest(&home.logs_dir()).ok_or_else(|| {
        let folder = home.logs_dir();
        Failure::failed(
            format!("there is no log in {}", folder.display()),
            "The daemon has not run yet: `coven daemon start`",
        )
    })?;
    let trouble = |source| Failure::File { path: path.clone(), source };
    let mut file = coven_files::open(&path, Links::Refuse).map_err(|error| trouble(error.into()))?;
    let start = last_lines(&mut file, args.lines).map_err(trouble)?;
    let mut at = file.seek(SeekFrom::Start(start)).map_err(trouble)?;
    loop {
        let mut fresh = Vec::new();
        at += file.by_ref().take(PIECE).read_to_end(&mut fresh).map_err(trouble)? as u64;
        if !fresh.is_empty() {
            output::bytes(&fresh)?;
            continue;
        }
        if !args.follow {
            return Ok(());
        }
        sleep(LOOK_EVERY);
        // Another file may have taken its place, or it was emptied.
        match newest(&home.logs_dir()) {
            Some(next) if next != path => return run(args, home),
            _ if file.metadata().is_ok_and(|it| it.len() < at) => {
                at = file.seek(SeekFrom::Start(0)).map_err(trouble)?
            }
            _ => {}
        }
    }
}

/// The file that was written to last: a rolling log has a date in its name.
fn newest(folder: &Path) -> Option<PathBuf> {
    let is_log = |path: &PathBuf| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("daemon") && name.contains("log"))
    };
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(is_log);
    files.max_by_key(|path| fs::metadata(path).and_then(|it| it.modified()).ok())
}

/// Where the last `lines` lines begin.
fn last_lines(file: &mut File, lines: usize) -> std::io::Result<u64> {
    let end = file.seek(SeekFrom::End(0))?;
    let mut found = 0;
    let mut from = end;
    while from > 0 {
        let start = from.saturating_sub(PIECE);
        let mut piece = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(from - start).read_to_end(&mut piece)?;
        for (at, _) in piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let behind = start + at as u64 + 1;
            // The newline that ends the file ends the last line.
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
}
