//! Writes the daemon's log: one file per UTC day in the home's `logs` folder.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::PathBuf;

use coven_host::trust;
use jiff::civil::Date;

const PREFIX: &str = "daemon.log.";
/// Number of log files kept.
const DAYS_KEPT: usize = 14;

/// Writes to the file of the day. Never follows a symbolic link: a repository can contain one with that name.
pub struct DailyLog {
    folder: PathBuf,
    file: Option<(Date, File)>,
}

impl DailyLog {
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder, file: None }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
        if self.file.as_ref().is_none_or(|(day, _)| *day != today) {
            let mut file = trust::open_own(&self.folder.join(format!("{PREFIX}{today}")))?;
            file.seek(SeekFrom::End(0))?;
            self.remove_old();
            self.file = Some((today, file));
        }
        Ok(&mut self.file.as_mut().expect("opened above").1)
    }

    fn remove_old(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.retain(|name| name.to_str().is_some_and(|name| name.starts_with(PREFIX)));
        names.sort();
        for name in names.iter().rev().skip(DAYS_KEPT) {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }
}

impl Write for DailyLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.file()?.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file()?.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_log_is_appended_to_and_two_weeks_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        for day in 1..=20 {
            fs::write(folder.path().join(format!("{PREFIX}2020-01-{day:02}")), "old").expect("room");
        }
        for line in ["one\n", "two\n"] {
            DailyLog::in_folder(folder.path().to_owned()).write_all(line.as_bytes()).expect("room");
        }
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.path()).collect();
        names.sort();
        assert_eq!(names.len(), DAYS_KEPT);
        let newest = names.last().expect("today's");
        assert_eq!(fs::read_to_string(newest).expect("text"), "one\ntwo\n");
        assert_eq!(fs::metadata(newest).expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_in_place_of_todays_log_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("target");
        fs::write(&target, "mine").expect("room");
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
        for day in [today, today.tomorrow().expect("a date")] {
            std::os::unix::fs::symlink(&target, folder.path().join(format!("{PREFIX}{day}"))).expect("a link");
        }
        DailyLog::in_folder(folder.path().to_owned()).write_all(b"line\n").expect_err("a link");
        assert_eq!(fs::read_to_string(&target).expect("text"), "mine");
    }
}
