//! Lock files that are compatible with AUQ: `<file>.lock` in the same folder, with the pid of the owner.
//!
//! AUQ reads only the pid on the first line and treats an empty lock as stale. Therefore, a lock file is created
//! together with its content, and its second line distinguishes the owner from a later process with the same pid.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use coven_files::{Links, ReadError};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::atomic::temp_path;
use super::owner::{self, Owner};
use super::{QUESTION_LOCK, QuestionError, fault};

const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Age up to which a lock without valid content counts as held: its owner may still be writing it.
const MAX_WRITE_TIME: Duration = Duration::from_secs(1);
/// Age at which a lock counts as stale if its owner cannot be checked, for example in another container. Locks are
/// normally held for milliseconds.
const MAX_FOREIGN_AGE: Duration = Duration::from_secs(30);
/// Tolerance for comparing process and file times, which come from different clocks.
const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Kept open, so that its inode is not reused.
    file: File,
}

/// Waits for the lock of `target`, at most five seconds.
pub(super) fn acquire(target: &Path) -> Result<Lock, QuestionError> {
    acquire_within(target, LOCK_TIMEOUT)
}

fn acquire_within(target: &Path, timeout: Duration) -> Result<Lock, QuestionError> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let path = target.with_file_name(name);
    let unwritable = |source| QuestionError::Unwritable { path: path.clone(), source };
    let until = Instant::now() + timeout;
    loop {
        if let Some(lock) = create(&path).map_err(unwritable)? {
            fault::before("lock", "acquired").map_err(unwritable)?;
            return Ok(lock);
        }
        if remove_if_stale(&path).map_err(unwritable)? {
            continue;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(QuestionError::Lock { path: target.to_owned() });
        }
        thread::sleep(left.min(LOCK_POLL_INTERVAL));
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Another process may have treated this lock as stale and replaced it.
        let is_ours = self.file.metadata().is_ok_and(|ours| {
            fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
        });
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the lock. Returns `None` if it already exists.
fn create(path: &Path) -> io::Result<Option<Lock>> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(None);
    }
    let temp = temp_path(path);
    let file = write_lock(&temp)?;
    let renamed = renameat_with(CWD, &temp, CWD, path, RenameFlags::NOREPLACE);
    if renamed.is_err() {
        let _ = fs::remove_file(&temp);
    }
    match renamed {
        Ok(()) => Ok(Some(Lock { path: path.to_owned(), file })),
        Err(Errno::EXIST) => Ok(None),
        // The file system does not support RENAME_NOREPLACE: the lock is empty for a moment instead.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match write_lock(path) {
            Ok(file) => Ok(Some(Lock { path: path.to_owned(), file })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => Err(error.into()),
    }
}

fn write_lock(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(content().as_bytes());
    written.map(|()| file).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}

fn content() -> String {
    match Owner::this_process() {
        Some(Owner { pid, started_ticks, boot_id, pid_namespace }) => {
            format!("{pid}\n{started_ticks} {boot_id} {pid_namespace}")
        }
        None => std::process::id().to_string(),
    }
}

/// Removes the lock if its owner has ended. Returns false if the lock is held or another process is removing it.
fn remove_if_stale(path: &Path) -> io::Result<bool> {
    if !is_stale(path)? {
        return Ok(false);
    }
    // Serialize removals and check again. Otherwise, two processes could find the same stale lock, and the second would
    // remove the new lock of the first.
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        // The file system has no locks: continue without one.
        Err(TryLockError::Error(_)) => {}
    }
    if !is_stale(path)? {
        return Ok(false);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// Returns whether the lock is stale. A missing lock counts as stale: there is nothing to wait for.
fn is_stale(path: &Path) -> io::Result<bool> {
    let opened = coven_files::open(path, Links::Refuse);
    let (age, read) = match opened {
        Ok(file) => (age(file.metadata()?.modified()?), coven_files::read_opened(file, path, QUESTION_LOCK)),
        Err(error) if error.is_not_found() => return Ok(true),
        Err(error @ ReadError::Io { .. }) => return Err(error.into()),
        Err(error) => (age(fs::symlink_metadata(path)?.modified()?), Err(error)),
    };
    let content = match read {
        Ok(text) => Content::parse(&String::from_utf8_lossy(&text)),
        Err(error @ ReadError::Io { .. }) => return Err(error.into()),
        // No tool writes a lock like this, so no process holds it.
        Err(_) => Content::Garbage,
    };
    Ok(match content {
        Content::Ours(owner) => owner.is_gone().unwrap_or(age > MAX_FOREIGN_AGE),
        Content::Theirs(pid) if !owner::is_alive(pid) => true,
        // A process that started after the lock was created only reuses the pid.
        Content::Theirs(pid) => owner::age(pid).is_some_and(|running| running + CLOCK_SLACK < age),
        Content::Garbage => age > MAX_WRITE_TIME,
    })
}

/// Returns the time since `moment`, or until it if the clock was set back.
fn age(moment: SystemTime) -> Duration {
    let now = SystemTime::now();
    now.duration_since(moment).unwrap_or_else(|error| error.duration())
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    /// Written by coven.
    Ours(Owner),
    /// Written by a tool that records only the pid.
    Theirs(u32),
    Garbage,
}

impl Content {
    fn parse(text: &str) -> Self {
        let mut lines = text.trim().lines();
        let Some(pid) = lines.next().and_then(|line| line.trim().parse().ok()).filter(|pid| *pid > 0) else {
            return Self::Garbage;
        };
        match lines.next().map(|line| line.split(' ').collect::<Vec<_>>()).as_deref() {
            Some([started, boot_id, pid_namespace]) => match started.parse() {
                Ok(started_ticks) => Self::Ours(Owner {
                    pid,
                    started_ticks,
                    boot_id: (*boot_id).to_owned(),
                    pid_namespace: (*pid_namespace).to_owned(),
                }),
                Err(_) => Self::Theirs(pid),
            },
            _ => Self::Theirs(pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(120);

    struct Fixture {
        folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().expect("temporary folder") }
        }

        fn target(&self) -> PathBuf {
            self.folder.path().join("status.json")
        }

        fn lock(&self) -> PathBuf {
            self.folder.path().join("status.json.lock")
        }

        /// Creates a lock file with this content and age.
        fn with_lock(content: &str, age: Duration) -> Self {
            let fixture = Self::new();
            fs::write(fixture.lock(), content).expect("disk has space");
            let file = File::options().write(true).open(fixture.lock()).expect("exists");
            file.set_modified(SystemTime::now() - age).expect("writable");
            fixture
        }

        fn is_taken_over(&self) -> bool {
            match acquire_within(&self.target(), SHORT) {
                Ok(_held) => true,
                Err(QuestionError::Lock { path }) => {
                    assert_eq!(path, self.target());
                    assert!(self.lock().exists(), "a live lock is not removed");
                    false
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_lock_that_is_a_fifo_or_too_large_is_removed_once_it_is_old() {
        use rustix::fs::{AtFlags, Mode, Timestamps, mkfifoat, utimensat};
        let fixture = Fixture::new();
        mkfifoat(CWD, fixture.lock(), Mode::from_raw_mode(0o600)).expect("fifo");
        let long_ago = rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        utimensat(CWD, fixture.lock(), &times, AtFlags::empty()).expect("writable");
        assert!(fixture.is_taken_over());

        let fixture = Fixture::with_lock("", Duration::ZERO);
        let file = File::options().write(true).open(fixture.lock()).expect("exists");
        file.set_len(1 << 30).expect("sparse file");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("writable");
        assert!(fixture.is_taken_over());
    }

    fn me() -> Owner {
        Owner::this_process().expect("this process")
    }

    fn text(owner: &Owner) -> String {
        let Owner { pid, started_ticks, boot_id, pid_namespace } = owner;
        format!("{pid}\n{started_ticks} {boot_id} {pid_namespace}")
    }

    /// Returns the pid of a process that has ended.
    fn dead_pid() -> u32 {
        let mut child = std::process::Command::new("true").spawn().expect("program starts");
        child.wait().expect("child process");
        child.id()
    }

    #[test]
    fn ask_13_a_lock_starts_with_the_pid_and_is_removed_on_drop() {
        let fixture = Fixture::new();
        let held = acquire(&fixture.target()).expect("lock is free");
        let content = fs::read_to_string(fixture.lock()).expect("lock file exists");
        assert_eq!(content, text(&me()));
        assert!(content.starts_with(&format!("{}\n", std::process::id())));
        assert_eq!(fs::metadata(fixture.lock()).expect("exists").mode() & 0o777, 0o600);
        assert!(!fixture.is_taken_over(), "another thread of the same process has to wait too");
        drop(held);
        assert_eq!(fs::read_dir(fixture.folder.path()).expect("exists").count(), 0, "no file is left");
    }

    #[test]
    fn ask_13_a_lock_of_a_dead_process_is_taken_over_immediately() {
        let now = Duration::ZERO;
        assert!(Fixture::with_lock(&dead_pid().to_string(), now).is_taken_over(), "as another tool writes it");
        assert!(
            Fixture::with_lock(&text(&Owner { pid: dead_pid(), ..me() }), now).is_taken_over(),
            "as coven writes it"
        );
    }

    #[test]
    fn ask_13_a_process_that_reuses_the_pid_is_not_the_owner() {
        let earlier = Owner { started_ticks: me().started_ticks - 1, ..me() };
        assert!(Fixture::with_lock(&text(&earlier), Duration::ZERO).is_taken_over());
        let pid_only = std::process::id().to_string();
        let hour = Duration::from_secs(3600);
        assert!(Fixture::with_lock(&pid_only, hour).is_taken_over(), "the lock is older than the process");
    }

    #[test]
    fn ask_13_a_lock_of_a_live_process_is_respected_and_the_error_text_is_exact() {
        assert!(!Fixture::with_lock(&text(&me()), Duration::from_secs(3600)).is_taken_over(), "regardless of its age");
        assert!(!Fixture::with_lock(&std::process::id().to_string(), Duration::ZERO).is_taken_over());
        assert!(!Fixture::with_lock("1", Duration::ZERO).is_taken_over(), "pid 1 may belong to another user");
        let fixture = Fixture::with_lock("1", Duration::ZERO);
        let error = acquire_within(&fixture.target(), SHORT).expect_err("held").to_string();
        assert!(error.starts_with("Failed to acquire file lock"), "{error}");
    }

    #[test]
    fn ask_13_an_empty_or_invalid_lock_counts_only_while_it_is_recent() {
        for content in ["", "garbage", "-5", "0", "\n"] {
            assert!(!Fixture::with_lock(content, Duration::ZERO).is_taken_over(), "{content:?}");
            assert!(Fixture::with_lock(content, Duration::from_secs(2)).is_taken_over(), "{content:?}");
        }
    }

    #[test]
    fn a_lock_from_another_container_becomes_stale_later() {
        let foreign = text(&Owner { pid: dead_pid(), pid_namespace: "pid:[1]".into(), ..me() });
        assert!(!Fixture::with_lock(&foreign, Duration::from_secs(3)).is_taken_over());
        assert!(Fixture::with_lock(&foreign, Duration::from_secs(31)).is_taken_over());
    }

    #[test]
    fn dropping_a_lock_does_not_remove_another_process_lock() {
        let fixture = Fixture::new();
        let held = acquire(&fixture.target()).expect("lock is free");
        fs::remove_file(fixture.lock()).expect("lock exists");
        fs::write(fixture.lock(), "1").expect("disk has space");
        drop(held);
        assert_eq!(fs::read_to_string(fixture.lock()).expect("lock of the other process"), "1");
    }

    #[test]
    fn concurrent_takeovers_of_a_stale_lock_exclude_each_other() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let fixture = Fixture::with_lock(&dead_pid().to_string(), Duration::ZERO);
        let (inside, max_inside) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let _held = acquire(&fixture.target()).expect("lock becomes free");
                    max_inside.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(max_inside.into_inner(), 1);
    }
}
