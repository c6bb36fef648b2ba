//! Appends to a conversation: complete lines in one write under the file's lock, all of them or none.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use coven_domain::conversation::{ConversationId, Line, Metadata};
use coven_files::ReadError;
use rustix::fs::OFlags;

use super::in_use::{self, InUse};
use super::last::{Tail, TailLine, TailState};
use super::load::parsed;
use super::{CONVERSATION_LINE, ConversationError, Conversations, Notice, backup_path, is_still_at, modified_at};
use coven_holder::{clock, fault};

const PAGE: usize = 4 << 10;
/// With `Wait::NoWait`, time allowed for a reader that holds the lock to check an incomplete line.
const READER_TIMEOUT: Duration = Duration::from_millis(100);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Behavior while another process writes.
pub enum Wait {
    /// Wait for the lock. The function is called once before each wait, to notify the user.
    ForLock(Box<dyn FnMut() + Send>),
    NoWait,
}

/// A conversation that is open for writing. It is neither cleaned up nor deleted while this exists.
pub struct Writer {
    id: ConversationId,
    path: PathBuf,
    file: File,
    wait: Wait,
    known: Option<Known>,
    _in_use: InUse,
}

/// The file after our last append; valid as long as the file has this length.
#[derive(Debug, Clone, Copy)]
struct Known {
    len: u64,
    turns: u64,
}

/// The end of the file before an append.
struct End {
    /// Offset of the end of the last complete line.
    whole: u64,
    rest: Rest,
    turns: u64,
}

/// Bytes after the last complete line.
enum Rest {
    Nothing,
    /// A complete line without its line end, as other tools write it.
    Unended {
        bytes: u64,
    },
    /// An incomplete line.
    Torn {
        bytes: u64,
    },
}

impl Conversations {
    /// Opens the conversation for writing.
    pub fn writer(&self, id: &ConversationId, wait: Wait) -> Result<Writer, ConversationError> {
        let path = self.file(id);
        let unwritable = |source| ConversationError::Unwritable { path: path.clone(), source };
        // Check that the conversation exists before creating the `.use` file.
        drop(self.open_to_read(id)?);
        let in_use = InUse::mark(&path).map_err(unwritable)?;
        let file = open(&path, id)?;
        Ok(Writer { id: id.clone(), path, file, wait, known: None, _in_use: in_use })
    }

    /// Returns whether a process has the conversation open for writing.
    pub fn is_in_use(&self, id: &ConversationId) -> bool {
        in_use::is_in_use(&self.file(id))
    }
}

fn open(path: &Path, id: &ConversationId) -> Result<File, ConversationError> {
    // Without NONBLOCK, opening a fifo would wait for its reader.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).append(true).custom_flags(flags).open(path);
    let file = file.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ConversationError::NotFound { id: id.to_string() },
        _ => ConversationError::Unwritable { path: path.to_owned(), source },
    })?;
    coven_files::ensure_regular(&file, path).map_err(ConversationError::Refused)?;
    Ok(file)
}

impl Writer {
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Numbers the turns in `lines` and saves all lines, or none. The lines are on disk when this returns.
    pub fn append(&mut self, lines: &mut [Line]) -> Result<Vec<Notice>, ConversationError> {
        self.lock()?;
        let appended = self.append_locked(lines);
        if appended.is_err() {
            self.known = None;
        }
        // A failure is harmless: closing the file also releases the lock.
        let _ = self.file.unlock();
        appended.map_err(|source| ConversationError::Append { path: self.path.clone(), source })
    }

    /// Locks the file, reopening it if it was replaced.
    fn lock(&mut self) -> Result<(), ConversationError> {
        let unwritable = |source| ConversationError::Unwritable { path: self.path.clone(), source };
        loop {
            let is_held = match self.file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => wait(&self.file, &mut self.wait).map_err(unwritable)?,
                Err(TryLockError::Error(error)) => return Err(unwritable(error)),
            };
            if !is_held {
                return Err(ConversationError::Busy { id: self.id.to_string() });
            }
            // A recovery may have replaced the file.
            if is_still_at(&self.file, &self.path).map_err(unwritable)? {
                return Ok(());
            }
            self.file = open(&self.path, &self.id)?;
            self.known = None;
        }
    }

    fn append_locked(&mut self, lines: &mut [Line]) -> io::Result<Vec<Notice>> {
        fault::before("append", "look")?;
        let mut notices = Vec::new();
        let End { mut whole, rest, mut turns } = self.end()?;
        let mut bytes = Vec::new();
        match rest {
            Rest::Nothing => {}
            Rest::Unended { bytes: count } => {
                whole += count;
                bytes.push(b'\n');
            }
            Rest::Torn { bytes: count } => notices.push(self.cut_off(whole, count)?),
        }
        if whole == 0 {
            let since = modified_at(&self.file.metadata()?);
            Line::Metadata(Metadata::rebuilt(self.id.to_string(), since)).write_to(&mut bytes);
        }
        for line in lines {
            if let Line::Turn(turn) = line {
                turns += 1;
                turn.number = Some(turns);
            }
            let start = bytes.len();
            line.write_to(&mut bytes);
            // Readers would reject a longer line.
            if (bytes.len() - start) as u64 > CONVERSATION_LINE.bytes + 1 {
                return Err(ReadError::LongStream { limit: CONVERSATION_LINE }.into());
            }
        }
        write(&self.file, whole, &bytes)?;
        self.known = Some(Known { len: whole + bytes.len() as u64, turns });
        Ok(notices)
    }

    fn end(&self) -> io::Result<End> {
        let len = self.file.metadata()?.len();
        if let Some(known) = self.known.filter(|known| known.len == len) {
            return Ok(End { whole: len, rest: Rest::Nothing, turns: known.turns });
        }
        let mut tail = Tail::new(&self.file, len, PAGE)?;
        let rest = match tail.is_ended() {
            true => Rest::Nothing,
            false => match tail.next_line()? {
                None => Rest::Nothing,
                Some(TailLine::Whole(line)) if parsed(&line).is_ok() => Rest::Unended { bytes: line.len() as u64 },
                Some(TailLine::Whole(line)) => Rest::Torn { bytes: line.len() as u64 },
                Some(TailLine::TooLong { bytes }) => Rest::Torn { bytes },
            },
        };
        let whole = match rest {
            Rest::Nothing => len,
            Rest::Unended { bytes } | Rest::Torn { bytes } => len - bytes,
        };
        // Start at the end again: a turn that only lacks its line end counts too.
        let turns = TailState::of(Tail::new(&self.file, len, PAGE)?)?.turns;
        Ok(End { whole, rest, turns })
    }

    /// Moves an incomplete line from the end into a backup file.
    fn cut_off(&self, whole: u64, bytes: u64) -> io::Result<Notice> {
        fault::before("append", "keep")?;
        let kept_in = backup_path(&self.path, "torn", clock::now());
        let mut kept = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&kept_in)?;
        let mut file = &self.file;
        let copied = file.seek(SeekFrom::Start(whole)).and_then(|_| io::copy(&mut file.take(bytes), &mut kept));
        let written = copied.and_then(|_| kept.sync_all());
        written.inspect_err(|_| {
            let _ = fs::remove_file(&kept_in);
        })?;
        fault::before("append", "cut")?;
        self.file.set_len(whole)?;
        Ok(Notice::CutOff { bytes, kept_in })
    }
}

/// Waits for the lock. Returns false if it is still taken after the short wait of `Wait::NoWait`.
fn wait(file: &File, how: &mut Wait) -> io::Result<bool> {
    if let Wait::ForLock(notify) = how {
        notify();
        return file.lock().map(|()| true);
    }
    let until = Instant::now() + READER_TIMEOUT;
    while Instant::now() < until {
        thread::sleep(LOCK_POLL_INTERVAL);
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// Appends all bytes, or restores the previous length of the file.
fn write(mut file: &File, len: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = || -> io::Result<()> {
        fault::before("append", "write")?;
        let count = file.write(bytes)?;
        if count < bytes.len() {
            // The disk may be full; the next write reports it.
            fault::before("append", "rest")?;
            file.write_all(&bytes[count..])?;
        }
        fault::before("append", "sync")?;
        file.sync_data()?;
        fault::before("append", "unlock")
    };
    written().inspect_err(|_| {
        // If this fails too, an incomplete line remains, which readers can handle.
        let _ = file.set_len(len).and_then(|()| file.sync_data());
    })
}
