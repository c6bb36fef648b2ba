//! Lines queued for an agent. They are stored before they are sent, and each byte is sent once even after a crash.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coven_holder::journal::{JournalReader, Record};
use coven_holder::wire::{Decoder, MAX_BODY, Reply, Request, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::super::live::LiveSession;
use super::super::{Engine, holder_requests};
use super::AcpSession;

/// Maximum bytes per frame, without the offset.
const MAX_CHUNK: usize = MAX_BODY - 8;
/// If the agent has not read this much, its client calls wait.
const MAX_QUEUED_BYTES: usize = 16 << 20;
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Returns each line with its offset in the agent's input, and the offset of the next line.
pub(super) fn with_offsets(lines: &[String], mut from: u64) -> (Vec<(u64, String)>, u64) {
    let placed = lines
        .iter()
        .map(|line| {
            let (offset, line) = (from, format!("{line}\n"));
            from += line.len() as u64;
            (offset, line)
        })
        .collect();
    (placed, from)
}

/// Input that the holder may not have yet. The journal counts the input that it has.
pub(super) struct Outbox {
    waiting: Mutex<VecDeque<(u64, String)>>,
    delivered_to: AtomicU64,
    has_more: Notify,
    has_delivered: Notify,
}

impl Outbox {
    pub fn new(waiting: Vec<(u64, String)>) -> Self {
        Self {
            waiting: Mutex::new(waiting.into()),
            delivered_to: AtomicU64::new(0),
            has_more: Notify::new(),
            has_delivered: Notify::new(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, String)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn push(&self, lines: Vec<(u64, String)>) {
        if !lines.is_empty() {
            self.waiting().extend(lines);
            self.has_more.notify_one();
        }
    }

    pub fn delivered_to(&self) -> u64 {
        self.delivered_to.load(Ordering::Relaxed)
    }

    fn deliver_to(&self, offset: u64) {
        self.delivered_to.store(offset, Ordering::Relaxed);
        self.waiting().retain(|(start, line)| start + line.len() as u64 > offset);
        self.has_delivered.notify_waiters();
    }

    /// Returns the next bytes to send with their offset.
    fn next(&self) -> Option<(u64, Vec<u8>)> {
        let delivered = self.delivered_to();
        let waiting = self.waiting();
        let (start, line) = waiting.front()?;
        let done = usize::try_from(delivered.saturating_sub(*start)).unwrap_or(0).min(line.len());
        let rest = &line.as_bytes()[done..];
        Some((start + done as u64, rest[..rest.len().min(MAX_CHUNK)].to_vec()))
    }

    /// Waits until less than `MAX_QUEUED_BYTES` are queued.
    pub async fn has_room(&self) {
        loop {
            let delivered = self.has_delivered.notified();
            if self.waiting().iter().map(|(_, line)| line.len()).sum::<usize>() < MAX_QUEUED_BYTES {
                return;
            }
            delivered.await;
        }
    }

    /// Waits until the holder has everything that was pushed.
    pub async fn wait_until_drained(&self) {
        loop {
            let delivered = self.has_delivered.notified();
            if self.waiting().is_empty() {
                return;
            }
            delivered.await;
        }
    }
}

impl Engine {
    /// Sends queued lines in order until the session or the daemon ends.
    pub(super) async fn deliver(&self, live: &LiveSession, acp: &AcpSession) {
        let (dir, outbox) = (self.home.session_dir(acp.id), &acp.outbox);
        loop {
            tokio::select! {
                sent = send_all(&dir, outbox) => match sent {
                    Ok(()) => return,
                    Err(error) => tracing::debug!(session = %acp.id, %error, "cannot reach an agent's holder"),
                },
                () = live.ended() => return,
                () = self.stopped() => return,
            }
            // The session ends if its holder is gone.
            if acp.connection().await.is_over {
                return;
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }
}

/// Sends queued lines until the agent exits.
async fn send_all(dir: &Path, outbox: &Outbox) -> io::Result<()> {
    let mut stream = holder_requests::connect(dir).await?;
    stream.write_all(&Request::Hello { version: VERSION }.encode()).await?;
    // The journal has everything that an earlier connection delivered.
    outbox.deliver_to(input_bytes(dir)?);
    let (mut decoder, mut buffer) = (Decoder::default(), [0; 1024]);
    loop {
        let Some((offset, bytes)) = outbox.next() else {
            outbox.has_more.notified().await;
            continue;
        };
        let end = offset + bytes.len() as u64;
        stream.write_all(&[Request::InputAt { offset, bytes }.encode(), Request::Sync.encode()].concat()).await?;
        loop {
            match decoder.reply().map_err(io::Error::other)? {
                Some(Reply::Accepted) => break,
                Some(Reply::Exited { .. }) => return Ok(()),
                Some(Reply::Refused(why)) => return Err(io::Error::other(why)),
                Some(Reply::Welcome(_) | Reply::Data { .. } | Reply::Progress { .. } | Reply::Resized { .. }) => {}
                None => match stream.read(&mut buffer).await? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => decoder.feed(&buffer[..count]),
                },
            }
        }
        outbox.deliver_to(end);
    }
}

/// Returns the number of input bytes in the journal.
fn input_bytes(dir: &Path) -> io::Result<u64> {
    let mut journal = JournalReader::open(&dir.join(coven_holder::JOURNAL))?;
    let mut total = 0;
    loop {
        let records = journal.read_more(1 << 20)?;
        if records.is_empty() {
            return Ok(total);
        }
        for (_, stamped) in records {
            total += match stamped.record {
                Record::Input(bytes) => bytes.len() as u64,
                Record::HiddenInput { bytes, .. } => bytes,
                _ => 0,
            };
        }
    }
}
