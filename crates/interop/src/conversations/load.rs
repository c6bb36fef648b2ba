//! Reads a whole conversation, line by line, and tells a line that a crash cut off from other damage.

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
/// A save takes milliseconds; who holds the lock for longer is not saving.
const PATIENCE: Duration = Duration::from_secs(1);
const BETWEEN_TRIES: Duration = Duration::from_millis(2);
/// A file that is no conversation at all is damaged in every line.
const DAMAGE_KEPT: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    pub id: ConversationId,
    pub transcript: Transcript,
    pub notices: Vec<Notice>,
}

/// What was put right; worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The last line is half a line. It stays where it is until the next turn is saved.
    Torn { bytes: u64 },
    /// Half a line was taken off the end of the file.
    CutOff { bytes: u64, kept_in: PathBuf },
    /// The file has no first line that says what it is.
    NoMetadata,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { bytes } => {
                write!(
                    f,
                    "The last turn was not saved whole and is left out ({bytes} bytes); everything before it is here."
                )
            }
            Self::CutOff { bytes, kept_in } => {
                write!(f, "Half a line at the end ({bytes} bytes) was taken out; it is kept in {}", kept_in.display())
            }
            Self::NoMetadata => {
                f.write_str("The first line, which tells agent and date, is lost; the session goes on without.")
            }
        }
    }
}

impl Conversations {
    /// The whole conversation. Takes no lock unless something looks damaged.
    pub fn load(&self, id: &ConversationId) -> Result<Loaded, ConversationError> {
        let (transcript, notices) = self.settled(id, transcript)?;
        Ok(Loaded { id: id.clone(), transcript, notices })
    }

    /// Returns what `read` makes of the file; reads again under its lock if something looks damaged.
    pub(super) fn settled<T: From<Metadata>>(
        &self,
        id: &ConversationId,
        read: impl Fn(&File) -> io::Result<Read<T>>,
    ) -> Result<(T, Vec<Notice>), ConversationError> {
        let unreadable = |source| ConversationError::reading(self.file(id), source);
        let mut file = self.open_to_read(id)?;
        let mut found = read(&file).map_err(unreadable)?;
        if !found.is_sound() {
            // Somebody may be writing just now: looked at again when nobody is.
            file = self.open_to_read(id)?;
            let is_locked = lock_shared(&file).map_err(unreadable)?;
            found = read(&file).map_err(unreadable)?;
            if !is_locked {
                // Still being written, for all that is known.
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

/// False if somebody holds on to it.
fn lock_shared(file: &File) -> io::Result<bool> {
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock_shared() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() > until => return Ok(false),
            Err(TryLockError::WouldBlock) => thread::sleep(BETWEEN_TRIES),
            // A file system without locks: as good as it gets.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// What a file holds.
#[derive(Debug)]
pub(super) struct Read<T> {
    /// None if there is no first line that could be read.
    pub(super) content: Option<T>,
    /// The first lines that cannot be read.
    damage: Vec<Damage>,
    damaged: usize,
    /// The length of half a line at the end.
    torn: Option<u64>,
}

impl<T> Read<T> {
    fn is_sound(&self) -> bool {
        self.content.is_some() && self.damage.is_empty() && self.torn.is_none()
    }

    fn damaged_at(&mut self, line: u64, bad: BadLine) {
        self.damaged += 1;
        if self.damage.len() < DAMAGE_KEPT {
            self.damage.push(Damage { line, column: bad.column, why: bad.why });
        }
    }
}

/// The whole conversation in memory.
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

/// Passes over all lines and holds one at a time. `apply` gets every line after the first, and its length.
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
                    read.damaged_at(number, why);
                }
                let content = read.content.get_or_insert_with(nameless);
                match line {
                    Ok(Some(line)) => apply(content, line, bytes)?,
                    Ok(None) => {}
                    Err(_) if number == 1 => {}
                    Err(bad) => read.damaged_at(number, bad),
                }
            }
        }
        Ok(())
    })?;
    Ok(read)
}

pub(super) fn too_long() -> BadLine {
    BadLine {
        column: None,
        why: format!("it is longer than {CONVERSATION_LINE}, the limit for {}", CONVERSATION_LINE.what),
    }
}

fn no_metadata() -> BadLine {
    BadLine { column: None, why: "it is not the metadata, which come first".to_owned() }
}

/// So that what follows a bad first line is looked at as well.
fn nameless<T: From<Metadata>>() -> T {
    T::from(Metadata::rebuilt(String::new(), Timestamp::default()))
}

/// Every line with its number, from 1.
pub(super) fn each_line(file: &File, mut see: impl FnMut(u64, BoundedLine<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut lines = Lines::new(BufReader::with_capacity(BUFFER, file), CONVERSATION_LINE);
    for number in 1.. {
        let Some(line) = lines.next_line()? else { break };
        see(number, line)?;
    }
    Ok(())
}

/// None for a line of another type, and for an empty one.
pub(super) fn parsed(bytes: &[u8]) -> Result<Option<Line>, BadLine> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.ends_with('\n') && text.trim_ascii().is_empty() => Ok(None),
        Ok(text) => Line::parse(text.strip_suffix('\n').unwrap_or(text)),
        Err(error) => Err(BadLine { column: Some(error.valid_up_to() + 1), why: "it is not UTF-8".to_owned() }),
    }
}
