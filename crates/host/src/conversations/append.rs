//! Appends to a conversation: whole lines, in one write, under the file's lock; all of them or none.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use coven_domain::conversation::{ConversationId, Line, Metadata};

use super::in_use::{self, InUse};
use super::last::{Standing, Tail};
use super::load::parsed;
use super::{ConversationError, Conversations, Notice, aside, is_still_at, modified_at, opened};
use crate::{clock, fault};

const PAGE: usize = 4 << 10;
/// Who will not wait still lets a reader finish that looks at half a line.
const MOMENT: Duration = Duration::from_millis(100);
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// What to do while another process writes.
pub enum Wait {
    /// Wait, after saying so: this is called once for each wait.
    ForLock(Box<dyn FnMut() + Send>),
    NoWait,
}

/// A conversation that is open for writing. While this lives it is in use: neither cleaned up nor deleted.
pub struct Writer {
    id: ConversationId,
    path: PathBuf,
    file: File,
    wait: Wait,
    known: Option<Known>,
    _in_use: InUse,
}

/// How our last append left the file; true as long as it has that length.
#[derive(Debug, Clone, Copy)]
struct Known {
    len: u64,
    turns: u64,
}

/// The end of a file as an append meets it.
struct End {
    /// Where the last whole line ends.
    whole: u64,
    /// Half a line, or one that lacks its line end only.
    rest: Vec<u8>,
    turns: u64,
}

impl Conversations {
    /// Opens the conversation for writing.
    pub fn writer(&self, id: &ConversationId, wait: Wait) -> Result<Writer, ConversationError> {
        let path = self.file(id);
        let unwritable = |source| ConversationError::Unwritable { path: path.clone(), source };
        // Where there is no conversation, no mark is left either.
        drop(self.open_to_read(id)?);
        let in_use = InUse::mark(&path).map_err(unwritable)?;
        let file = open(&path, id)?;
        Ok(Writer { id: id.clone(), path, file, wait, known: None, _in_use: in_use })
    }

    /// Whether some process has it open for writing.
    pub fn is_in_use(&self, id: &ConversationId) -> bool {
        in_use::is_in_use(&self.file(id))
    }
}

fn open(path: &Path, id: &ConversationId) -> Result<File, ConversationError> {
    opened(OpenOptions::new().read(true).append(true), path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ConversationError::NotFound { id: id.to_string() },
        _ => ConversationError::Unwritable { path: path.to_owned(), source },
    })
}

impl Writer {
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Numbers the turns among these lines and saves all lines, or none. When it returns, they are on the disk.
    pub fn append(&mut self, lines: &mut [Line]) -> Result<Vec<Notice>, ConversationError> {
        self.lock()?;
        let appended = self.append_locked(lines);
        if appended.is_err() {
            self.known = None;
        }
        // Closing the file would do as well.
        let _ = self.file.unlock();
        appended.map_err(|source| ConversationError::Append { path: self.path.clone(), source })
    }

    /// Waits for the lock on the file that is at its place now.
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
            // A recovery replaces the file.
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
        match rest.is_empty() {
            true => {}
            // Complete, as other tools leave it: only its end is missing.
            false if parsed(&rest).is_ok() => {
                whole += rest.len() as u64;
                bytes.push(b'\n');
            }
            false => notices.push(self.cut_off(whole, &rest)?),
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
            line.write_to(&mut bytes);
        }
        write(&self.file, whole, &bytes)?;
        self.known = Some(Known { len: whole + bytes.len() as u64, turns });
        Ok(notices)
    }

    fn end(&self) -> io::Result<End> {
        let len = self.file.metadata()?.len();
        if let Some(known) = self.known.filter(|known| known.len == len) {
            return Ok(End { whole: len, rest: Vec::new(), turns: known.turns });
        }
        let mut tail = Tail::new(&self.file, len, PAGE)?;
        let rest = if tail.is_ended() { Vec::new() } else { tail.next_line()?.unwrap_or_default() };
        let whole = len - rest.len() as u64;
        // From the very end again: a turn that lacks its line end only counts, too.
        let turns = Standing::of(Tail::new(&self.file, len, PAGE)?)?.turns;
        Ok(End { whole, rest, turns })
    }

    /// Takes half a line off the end and keeps it beside the file.
    fn cut_off(&self, whole: u64, rest: &[u8]) -> io::Result<Notice> {
        fault::before("append", "keep")?;
        let kept_in = aside(&self.path, "torn", clock::now());
        let mut kept = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&kept_in)?;
        let written = kept.write_all(rest).and_then(|()| kept.sync_all());
        written.inspect_err(|_| {
            let _ = fs::remove_file(&kept_in);
        })?;
        fault::before("append", "cut")?;
        self.file.set_len(whole)?;
        Ok(Notice::CutOff { bytes: rest.len(), kept_in })
    }
}

/// False if it is still taken and nobody wants to wait for it.
fn wait(file: &File, how: &mut Wait) -> io::Result<bool> {
    if let Wait::ForLock(told) = how {
        told();
        return file.lock().map(|()| true);
    }
    let until = Instant::now() + MOMENT;
    while Instant::now() < until {
        thread::sleep(BETWEEN_TRIES);
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// Appends all of it or leaves the file as long as it was.
fn write(mut file: &File, len: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = || -> io::Result<()> {
        fault::before("append", "write")?;
        let count = file.write(bytes)?;
        if count < bytes.len() {
            // The disk is full, or nearly: the next write tells which.
            fault::before("append", "rest")?;
            file.write_all(&bytes[count..])?;
        }
        fault::before("append", "sync")?;
        file.sync_data()?;
        fault::before("append", "unlock")
    };
    written().inspect_err(|_| {
        // If even this fails, what is left is half a line, which readers know.
        let _ = file.set_len(len).and_then(|()| file.sync_data());
    })
}
