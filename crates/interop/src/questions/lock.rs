//! Lock files that the format's first tool understands: `<file>.lock` beside the file, with the owner's process number.
//!
//! That tool reads the number at the beginning and takes an empty lock for a stale one; so a lock appears with its content, and
//! what tells the owner from a later process of the same number stands on a second line, where that tool does not look.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use coven_files::{Links, ReadError};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::atomic::beside;
use super::owner::{self, Owner};
use super::{QUESTION_LOCK, QuestionError, fault};

const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN_TRIES: Duration = Duration::from_millis(50);
/// A lock is held for milliseconds: one without a sensible content is being written, or is a ruin.
const BEING_WRITTEN: Duration = Duration::from_secs(1);
/// Whether an owner elsewhere still lives cannot be known; past this it does not hold the lock on purpose.
const HELD_ELSEWHERE: Duration = Duration::from_secs(30);
/// Process and file times are not of one clock.
const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// Held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Kept open, so that no other file can have the same inode.
    file: File,
}

/// Waits for the lock of `target`, at most five seconds.
pub(super) fn acquire(target: &Path) -> Result<Lock, QuestionError> {
    acquire_within(target, PATIENCE)
}

fn acquire_within(target: &Path, patience: Duration) -> Result<Lock, QuestionError> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let path = target.with_file_name(name);
    let unwritable = |source| QuestionError::Unwritable { path: path.clone(), source };
    let until = Instant::now() + patience;
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
        thread::sleep(left.min(BETWEEN_TRIES));
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only if it is still ours: somebody may have taken us for dead.
        let is_ours = self.file.metadata().is_ok_and(|ours| {
            fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
        });
        if is_ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The lock, or none if there is one already.
fn create(path: &Path) -> io::Result<Option<Lock>> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(None);
    }
    let temp = beside(path);
    let file = written(&temp)?;
    let renamed = renameat_with(CWD, &temp, CWD, path, RenameFlags::NOREPLACE);
    if renamed.is_err() {
        let _ = fs::remove_file(&temp);
    }
    match renamed {
        Ok(()) => Ok(Some(Lock { path: path.to_owned(), file })),
        Err(Errno::EXIST) => Ok(None),
        // A file system that cannot rename without replacing: then it is empty for a moment.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match written(path) {
            Ok(file) => Ok(Some(Lock { path: path.to_owned(), file })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => Err(error.into()),
    }
}

fn written(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let done = file.write_all(content().as_bytes());
    done.map(|()| file).inspect_err(|_| {
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

/// Removes a lock whose owner is gone. False: it is held, or somebody else is removing it.
fn remove_if_stale(path: &Path) -> io::Result<bool> {
    if !is_stale(path)? {
        return Ok(false);
    }
    // One at a time, and looked at again: else two would find a dead lock, and the second would remove the first one's.
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        // A file system without such locks: as good as it gets.
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

/// A lock that has just gone counts as stale: there is nothing to wait for.
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
        Content::Ours(owner) => owner.is_gone().unwrap_or(age > HELD_ELSEWHERE),
        Content::Theirs(pid) if !owner::is_alive(pid) => true,
        // A process that started after the lock was made has inherited the number only.
        Content::Theirs(pid) => owner::age(pid).is_some_and(|running| running + CLOCK_SLACK < age),
        Content::Garbage => age > BEING_WRITTEN,
    })
}

/// Since then, or until then if the clock was set back.
fn age(moment: SystemTime) -> Duration {
    let now = SystemTime::now();
    now.duration_since(moment).unwrap_or_else(|error| error.duration())
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    /// Written by coven.
    Ours(Owner),
    /// Written by a tool that knows the number only.
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

    struct Given {
        folder: tempfile::TempDir,
    }

    impl Given {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().expect("a folder") }
        }

        fn target(&self) -> PathBuf {
            self.folder.path().join("status.json")
        }

        fn lock(&self) -> PathBuf {
            self.folder.path().join("status.json.lock")
        }

        /// A lock that somebody left or holds.
        fn with_lock(content: &str, age: Duration) -> Self {
            let given = Self::new();
            fs::write(given.lock(), content).expect("room");
            let file = File::options().write(true).open(given.lock()).expect("there");
            file.set_modified(SystemTime::now() - age).expect("ours");
            given
        }

        fn is_taken_over(&self) -> bool {
            match acquire_within(&self.target(), SHORT) {
                Ok(_held) => true,
                Err(QuestionError::Lock { path }) => {
                    assert_eq!(path, self.target());
                    assert!(self.lock().exists(), "only the owner removes it");
                    false
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_lock_that_is_a_fifo_or_too_large_is_removed_once_it_is_old() {
        use rustix::fs::{AtFlags, Mode, Timestamps, mkfifoat, utimensat};
        let given = Given::new();
        mkfifoat(CWD, given.lock(), Mode::from_raw_mode(0o600)).expect("a fifo");
        let long_ago = rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        utimensat(CWD, given.lock(), &times, AtFlags::empty()).expect("ours");
        assert!(given.is_taken_over());

        let given = Given::with_lock("", Duration::ZERO);
        let file = File::options().write(true).open(given.lock()).expect("there");
        file.set_len(1 << 30).expect("a sparse file");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("ours");
        assert!(given.is_taken_over());
    }

    fn me() -> Owner {
        Owner::this_process().expect("own process")
    }

    fn text(owner: &Owner) -> String {
        let Owner { pid, started_ticks, boot_id, pid_namespace } = owner;
        format!("{pid}\n{started_ticks} {boot_id} {pid_namespace}")
    }

    /// The number of a process that has ended.
    fn dead_pid() -> u32 {
        let mut child = std::process::Command::new("true").spawn().expect("a program");
        child.wait().expect("own child");
        child.id()
    }

    #[test]
    fn ask_13_a_lock_begins_with_the_process_number_and_goes_when_it_is_dropped() {
        let given = Given::new();
        let held = acquire(&given.target()).expect("nobody holds it");
        let content = fs::read_to_string(given.lock()).expect("beside the file");
        assert_eq!(content, text(&me()));
        assert!(content.starts_with(&format!("{}\n", std::process::id())));
        assert_eq!(fs::metadata(given.lock()).expect("there").mode() & 0o777, 0o600);
        assert!(!given.is_taken_over(), "another thread of the same process is no exception");
        drop(held);
        assert_eq!(fs::read_dir(given.folder.path()).expect("there").count(), 0, "nothing is left behind");
    }

    #[test]
    fn ask_13_a_lock_of_a_dead_process_is_taken_over_at_once() {
        let now = Duration::ZERO;
        assert!(Given::with_lock(&dead_pid().to_string(), now).is_taken_over(), "as another tool writes it");
        assert!(Given::with_lock(&text(&Owner { pid: dead_pid(), ..me() }), now).is_taken_over(), "as coven writes it");
    }

    #[test]
    fn ask_13_a_process_that_inherited_the_number_is_not_the_owner() {
        let earlier = Owner { started_ticks: me().started_ticks - 1, ..me() };
        assert!(Given::with_lock(&text(&earlier), Duration::ZERO).is_taken_over());
        let number_only = std::process::id().to_string();
        let hour = Duration::from_secs(3600);
        assert!(Given::with_lock(&number_only, hour).is_taken_over(), "the lock is older than the process");
    }

    #[test]
    fn ask_13_a_lock_of_a_living_process_is_respected_and_the_text_is_exact() {
        assert!(!Given::with_lock(&text(&me()), Duration::from_secs(3600)).is_taken_over(), "however long it takes");
        assert!(!Given::with_lock(&std::process::id().to_string(), Duration::ZERO).is_taken_over());
        assert!(!Given::with_lock("1", Duration::ZERO).is_taken_over(), "of another user, perhaps");
        let given = Given::with_lock("1", Duration::ZERO);
        let error = acquire_within(&given.target(), SHORT).expect_err("held").to_string();
        assert!(error.starts_with("Failed to acquire file lock"), "{error}");
    }

    #[test]
    fn ask_13_an_empty_or_senseless_lock_counts_only_while_it_may_be_being_written() {
        for content in ["", "garbage", "-5", "0", "\n"] {
            assert!(!Given::with_lock(content, Duration::ZERO).is_taken_over(), "{content:?}");
            assert!(Given::with_lock(content, Duration::from_secs(2)).is_taken_over(), "{content:?}");
        }
    }

    #[test]
    fn an_owner_in_another_container_gets_more_time() {
        let elsewhere = text(&Owner { pid: dead_pid(), pid_namespace: "pid:[1]".into(), ..me() });
        assert!(!Given::with_lock(&elsewhere, Duration::from_secs(3)).is_taken_over());
        assert!(Given::with_lock(&elsewhere, Duration::from_secs(31)).is_taken_over());
    }

    #[test]
    fn a_lock_that_was_taken_from_us_is_not_ours_to_remove() {
        let given = Given::new();
        let held = acquire(&given.target()).expect("nobody holds it");
        fs::remove_file(given.lock()).expect("taken for dead");
        fs::write(given.lock(), "1").expect("room");
        drop(held);
        assert_eq!(fs::read_to_string(given.lock()).expect("theirs"), "1");
    }

    #[test]
    fn many_that_find_a_dead_lock_still_hold_it_one_at_a_time() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let given = Given::with_lock(&dead_pid().to_string(), Duration::ZERO);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let _held = acquire(&given.target()).expect("their turn comes");
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }
}
