//! Reads a whole conversation line by line and distinguishes a line cut off by a crash from other damage.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Seek};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use coven_domain::Timestamp;
use coven_domain::conversation::{BadLine, ConversationId, Line, Metadata, Transcript};
use coven_files::{BoundedLine, Lines};

use super::{CONVERSATION, CONVERSATION_LINE, ConversationError, Conversations, Damage, modified_at};

const BUFFER: usize = 128 << 10;
/// A save takes milliseconds; a process that holds the lock for longer is not saving.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// In a file that is not a conversation, every line is damaged: only the first ones are kept.
const MAX_DAMAGE_KEPT: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    pub id: ConversationId,
    pub transcript: Transcript,
    pub notices: Vec<Notice>,
}

/// A repair or problem to report to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The last line is incomplete. It stays in the file until the next turn is saved.
    Torn { bytes: u64 },
    /// An incomplete line was removed from the end of the file.
    CutOff { bytes: u64, kept_in: PathBuf },
    /// The file has no metadata line.
    NoMetadata,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { bytes } => {
                write!(
                    f,
                    "The last turn is incomplete and was left out ({bytes} bytes); all earlier turns were loaded."
                )
            }
            Self::CutOff { bytes, kept_in } => {
                write!(
                    f,
                    "Removed an incomplete line ({bytes} bytes) from the end and kept it in {}",
                    kept_in.display()
                )
            }
            Self::NoMetadata => {
                f.write_str("The metadata line with agent and date is missing; the conversation continues without it.")
            }
        }
    }
}

impl Conversations {
    /// Loads the whole conversation. Takes no lock unless the file looks damaged.
    pub fn load(&self, id: &ConversationId) -> Result<Loaded, ConversationError> {
        let (transcript, notices) = self.read_consistent(id, transcript)?;
        Ok(Loaded { id: id.clone(), transcript, notices })
    }

    /// Returns the result of `read`. If the file looks damaged, takes its lock and reads it again.
    pub(super) fn read_consistent<T: From<Metadata>>(
        &self,
        id: &ConversationId,
        read: impl Fn(&File) -> io::Result<Read<T>>,
    ) -> Result<(T, Vec<Notice>), ConversationError> {
        let unreadable = |source| ConversationError::reading(self.file(id), source);
        let mut file = self.open_to_read(id)?;
        let mut found = read(&file).map_err(unreadable)?;
        if !found.is_sound() {
            // A process may be writing to the file: read it again when none is.
            file = self.open_to_read(id)?;
            let is_locked = lock_shared(&file).map_err(unreadable)?;
            found = read(&file).map_err(unreadable)?;
            if !is_locked {
                // A writer still holds the lock and may be about to complete the line.
                found.torn = None;
            }
        }
        if !found.damage.is_empty() {
            return Err(ConversationError::Damaged { path: self.file(id), damage: found.damage, count: found.damaged });
        }
        let mut notices: Vec<Notice> = found.torn.map(|bytes| Notice::Torn { bytes }).into_iter().collect();
        let content = match found.content {
            Some(content) => content,
            None => {
                notices.push(Notice::NoMetadata);
                let since = modified_at(&file.metadata().map_err(unreadable)?);
                T::from(Metadata::rebuilt(id.to_string(), since))
            }
        };
        Ok((content, notices))
    }
}

/// Returns false if another process keeps the exclusive lock past the timeout.
fn lock_shared(file: &File) -> io::Result<bool> {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock_shared() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() > until => return Ok(false),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_POLL_INTERVAL),
            // The file system has no locks: read without one.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Content of a file, and its damage.
#[derive(Debug)]
pub(super) struct Read<T> {
    /// `None` if the file has no readable metadata line.
    pub(super) content: Option<T>,
    /// The first damaged lines.
    damage: Vec<Damage>,
    damaged: usize,
    /// Length of an incomplete last line.
    torn: Option<u64>,
}

impl<T> Read<T> {
    fn is_sound(&self) -> bool {
        self.content.is_some() && self.damage.is_empty() && self.torn.is_none()
    }

    fn record_damage(&mut self, line: u64, bad: BadLine) {
        self.damaged += 1;
        if self.damage.len() < MAX_DAMAGE_KEPT {
            self.damage.push(Damage { line, column: bad.column, why: bad.why });
        }
    }
}

/// Reads the whole conversation into memory.
fn transcript(file: &File) -> io::Result<Read<Transcript>> {
    let mut held = 0;
    read(file, |transcript: &mut Transcript, line, bytes| {
        held += bytes;
        if held > CONVERSATION.bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        transcript.apply(line);
        Ok(())
    })
}

/// Reads the file line by line, with one line in memory at a time. Calls `apply` with each line after the metadata and
/// its length.
pub(super) fn read<T: From<Metadata>>(
    mut file: &File,
    mut apply: impl FnMut(&mut T, Line, u64) -> io::Result<()>,
) -> io::Result<Read<T>> {
    file.rewind()?;
    let mut read = Read { content: None, damage: Vec::new(), damaged: 0, torn: None };
    each_line(file, |number, line| {
        let (line, bytes, has_end) = match line {
            BoundedLine::Whole(bytes) => (parsed(bytes), bytes.len() as u64, bytes.ends_with(b"\n")),
            BoundedLine::TooLong { bytes, has_end } => (Err(too_long()), bytes, has_end),
        };
        match line {
            Err(_) if !has_end => read.torn = Some(bytes),
            Ok(Some(Line::Metadata(metadata))) if number == 1 => read.content = Some(T::from(metadata)),
            line => {
                if number == 1 {
                    let why = line.as_ref().err().cloned().unwrap_or_else(no_metadata);
                    read.record_damage(number, why);
                }
                let content = read.content.get_or_insert_with(placeholder);
                match line {
                    Ok(Some(line)) => apply(content, line, bytes)?,
                    Ok(None) => {}
                    Err(_) if number == 1 => {}
                    Err(bad) => read.record_damage(number, bad),
                }
            }
        }
        Ok(())
    })?;
    Ok(read)
}

pub(super) fn too_long() -> BadLine {
    BadLine { column: None, why: format!("longer than {CONVERSATION_LINE}, the limit for {}", CONVERSATION_LINE.what) }
}

fn no_metadata() -> BadLine {
    BadLine { column: None, why: "expected the metadata line".to_owned() }
}

/// Placeholder metadata, so that the lines after a bad first line are read too.
fn placeholder<T: From<Metadata>>() -> T {
    T::from(Metadata::rebuilt(String::new(), Timestamp::default()))
}

/// Calls `visit` with the number of each line, starting at 1, and the line.
pub(super) fn each_line(file: &File, mut visit: impl FnMut(u64, BoundedLine<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut lines = Lines::new(BufReader::with_capacity(BUFFER, file), CONVERSATION_LINE);
    for number in 1.. {
        let Some(line) = lines.next_line()? else { break };
        visit(number, line)?;
    }
    Ok(())
}

/// Parses a line. Returns `None` for an empty line and for one of an unknown type.
pub(super) fn parsed(bytes: &[u8]) -> Result<Option<Line>, BadLine> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.ends_with('\n') && text.trim_ascii().is_empty() => Ok(None),
        Ok(text) => Line::parse(text.strip_suffix('\n').unwrap_or(text)),
        Err(error) => Err(BadLine { column: Some(error.valid_up_to() + 1), why: "not valid UTF-8".to_owned() }),
    }
}
