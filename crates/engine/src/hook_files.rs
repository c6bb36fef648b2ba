//! Follows the file to which an agent reports requests, and appends the answers to the file that the agent reads.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coven_domain::request::SettledFrom;
use coven_domain::{RequestId, SessionId};
use coven_files::{Limit, Links};
use coven_harness::hooks::{ANSWER_FILE, HookMeaning, Hooks, REPORT_FILE};
use coven_holder::clock;
use serde_json::Value;
use uuid::Uuid;

use super::Engine;
use super::hook::{HOOK_FILES, HookCall};
use super::live::LiveSession;
use crate::blocking::blocking;
use crate::error::EngineError;
use crate::runtime;

const POLL_INTERVAL: Duration = Duration::from_millis(150);
const READ_BYTES: usize = 256 << 10;
/// A longer line is skipped.
const MAX_LINE_BYTES: usize = 4 << 20;
/// File with the position from which the next daemon reads the reports.
const POSITION_FILE: &str = "position";
const POSITION: Limit = Limit::new("the position in an agent's reports", 64);
/// How many bytes are read between two releases of disk space.
const RELEASE_BYTES: u64 = 4 << 20;

impl Engine {
    /// Follows the reports of a session's agent until the session ends or the daemon stops. Without a report file it does
    /// nothing.
    pub(super) fn follow_hook_files(self: &Arc<Self>, live: &Arc<LiveSession>) {
        let (Some(hooks), folder) = (live.hooks, live.dir.join(HOOK_FILES)) else { return };
        let Ok(mut reports) = Reports::open(&folder) else { return };
        let (engine, live) = (self.clone(), live.clone());
        // Owned by the live session: it ends with it or with the daemon.
        runtime::spawn(async move {
            loop {
                match engine.read_reports(&live, hooks, reports).await {
                    Ok(read) => reports = read,
                    Err(error) => {
                        tracing::warn!(session = %live.id, %error, "stopped reading an agent's reports");
                        return;
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                    () = live.ended() => return,
                    () = engine.stopped() => return,
                }
            }
        });
    }

    /// Handles the lines that were added since the last call.
    async fn read_reports(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        hooks: &'static Hooks,
        mut reports: Reports,
    ) -> Result<Reports, EngineError> {
        loop {
            let (read, lines) = blocking(move || {
                let lines = reports.read_lines();
                (reports, lines)
            })
            .await;
            reports = read;
            let lines = lines.map_err(|source| EngineError::Log { id: live.id, source })?;
            if lines.is_empty() {
                return Ok(reports);
            }
            let calls = meaningful(live.id, hooks, &lines);
            for (index, call) in calls.iter().enumerate() {
                if calls[index + 1..].iter().any(|later| later.settles(call)) {
                    // Settled while no daemon was running: a notification would ask for nothing.
                    continue;
                }
                self.handle_report(live, hooks, call, &reports.open).await?;
            }
            if !calls.is_empty() || reports.is_release_due() {
                reports = blocking(move || {
                    reports.finish_lines();
                    reports
                })
                .await;
            }
        }
    }

    async fn handle_report(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        hooks: &'static Hooks,
        report: &Report,
        open: &OpenRequests,
    ) -> Result<(), EngineError> {
        if let Some(key) = &report.settled {
            self.settled_in_terminal(live, Some(key), clock::now()).await?;
            // The agent may have waited for something that coven shows but cannot answer.
            self.after_settling(live).await?;
        }
        let Some(request) = self.handle_hook(live, hooks, &report.call).await? else { return Ok(()) };
        open.add(report.at);
        let (engine, live, call) = (self.clone(), live.clone(), report.call.clone());
        let (open, at) = (open.clone(), report.at);
        // Ends with the request, the session or the daemon.
        runtime::spawn(async move {
            match engine.answer_report(&live, hooks, &call, request).await {
                Ok(()) if engine.is_stopping() => {}
                Ok(()) => open.remove(at),
                Err(error) => {
                    tracing::warn!(session = %live.id, %request, %error, "cannot pass an answer to an agent");
                }
            }
        });
        Ok(())
    }

    /// Waits until a request is settled, and writes the answer for the agent.
    async fn answer_report(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        hooks: &Hooks,
        call: &HookCall,
        request: RequestId,
    ) -> Result<(), EngineError> {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let known = self.known_request(request).await?;
            if !known.is_pending() {
                coven_holder::fault::point("before_answer_file");
                let Some(answer) = self.hook_answered(live, hooks, call, &known).await else { return Ok(()) };
                let file = live.dir.join(HOOK_FILES).join(ANSWER_FILE);
                let written = blocking(move || append_line(&file, &answer)).await;
                return written.map_err(|source| EngineError::Log { id: live.id, source });
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
                () = live.ended() => return self.withdraw_request(request, SettledFrom::Session).await,
                () = self.stopped() => return Ok(()),
            }
        }
    }
}

/// A line that means something.
struct Report {
    call: HookCall,
    /// Position of the line.
    at: u64,
    /// The keys of the request that the line makes or settles.
    asked: Option<String>,
    settled: Option<String>,
}

impl Report {
    fn settles(&self, earlier: &Self) -> bool {
        self.settled.is_some() && self.settled == earlier.asked
    }
}

/// Returns the lines that mean something to the agent's hooks.
fn meaningful(session: SessionId, hooks: &Hooks, lines: &[(u64, Vec<u8>)]) -> Vec<Report> {
    let mut reports = Vec::new();
    for (at, line) in lines {
        let Ok(payload) = serde_json::from_slice::<Value>(line) else { continue };
        let Some(event) = payload.get("type").and_then(Value::as_str).map(str::to_owned) else { continue };
        let meanings = (hooks.read)(&event, &payload);
        if meanings.is_empty() {
            continue;
        }
        let asked = meanings.iter().find_map(|meaning| match meaning {
            HookMeaning::Asked(request) => request.key.clone(),
            _ => None,
        });
        let settled = meanings.iter().find_map(|meaning| match meaning {
            HookMeaning::Settled { key } => key.clone(),
            _ => None,
        });
        let id = call_id(session, *at, asked.as_deref());
        reports.push(Report { call: HookCall { id, event, payload, called_at: None }, at: *at, asked, settled });
    }
    reports
}

/// Returns the id of a line, which is also the id of its request. The next daemon derives the same one.
fn call_id(session: SessionId, at: u64, key: Option<&str>) -> RequestId {
    let name = match key {
        Some(key) => format!("{session} asked {key}"),
        None => format!("{session} {at}"),
    };
    RequestId::from_uuid(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()))
}

fn append_line(file: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Positions of the lines with requests that another daemon would have to answer.
#[derive(Clone, Default)]
struct OpenRequests(Arc<Mutex<Vec<u64>>>);

impl OpenRequests {
    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: u64) {
        self.lock().push(at);
    }

    fn remove(&self, at: u64) {
        self.lock().retain(|open| *open != at);
    }

    fn oldest(&self) -> Option<u64> {
        self.lock().iter().min().copied()
    }
}

/// Reads a report file from a position on.
struct Reports {
    file: File,
    folder: PathBuf,
    /// Everything before it was read.
    position: u64,
    /// Start of a line whose end was not written yet.
    partial: Vec<u8>,
    /// The line is too long; its rest is skipped.
    is_skipping: bool,
    open: OpenRequests,
    /// Disk space before it was released.
    released: u64,
}

impl Reports {
    fn open(folder: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(folder.join(REPORT_FILE))?;
        let stored = coven_files::read_text(&folder.join(POSITION_FILE), POSITION, Links::Refuse).unwrap_or_default();
        let stored = stored.trim().parse().unwrap_or(0);
        // The agent started again with an empty file.
        let position = if stored > file.metadata()?.len() { 0 } else { stored };
        let (folder, partial, open) = (folder.to_owned(), Vec::new(), OpenRequests::default());
        Ok(Self { file, folder, position, partial, is_skipping: false, open, released: position })
    }

    /// Returns new complete lines with their positions.
    fn read_lines(&mut self) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut buffer = vec![0; READ_BYTES];
        let mut lines = Vec::new();
        loop {
            let count = self.file.read_at(&mut buffer, self.position)?;
            for piece in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
                let start = self.position - self.partial.len() as u64;
                self.position += piece.len() as u64;
                let has_end = piece.ends_with(b"\n");
                if !self.is_skipping {
                    self.partial.extend_from_slice(piece);
                    if has_end {
                        lines.push((start, std::mem::take(&mut self.partial)));
                    } else if self.partial.len() > MAX_LINE_BYTES {
                        self.partial = Vec::new();
                        self.is_skipping = true;
                    }
                } else if has_end {
                    self.is_skipping = false;
                }
            }
            // Enough for one round if there are lines.
            if count < buffer.len() || !lines.is_empty() {
                return Ok(lines);
            }
        }
    }

    /// Returns the position from which another daemon must read: the oldest open request, or the first unread line.
    fn restart_position(&self) -> u64 {
        let unread = self.position - self.partial.len() as u64;
        self.open.oldest().map_or(unread, |oldest| oldest.min(unread))
    }

    fn is_release_due(&self) -> bool {
        self.restart_position() >= self.released + RELEASE_BYTES
    }

    /// Stores the position and releases the disk space of lines that no daemon needs again. A failure only costs time or
    /// space later.
    fn finish_lines(&mut self) {
        let position = self.restart_position();
        let (file, unfinished) = (self.folder.join(POSITION_FILE), self.folder.join(".position"));
        let stored = fs::write(&unfinished, position.to_string()).and_then(|()| fs::rename(&unfinished, &file));
        if stored.is_ok() && self.is_release_due() {
            release(&self.file, self.released, position);
            self.released = position;
        }
    }
}

/// Releases the disk space of a range. The file keeps its size, because the agent continues to write at its position.
#[cfg(target_os = "linux")]
fn release(file: &File, from: u64, to: u64) {
    use rustix::fs::{FallocateFlags, fallocate};
    let _ = fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, to - from);
}

#[cfg(not(target_os = "linux"))]
fn release(_: &File, _: u64, _: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(folder: &Path, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(folder.join(REPORT_FILE)).expect("a file");
        file.write_all(text.as_bytes()).expect("disk has space");
    }

    fn lines(reports: &mut Reports) -> Vec<(u64, String)> {
        let lines = reports.read_lines().expect("a readable file");
        lines.into_iter().map(|(at, line)| (at, String::from_utf8(line).expect("text"))).collect()
    }

    #[test]
    fn lines_are_read_once_and_only_when_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        append(folder.path(), "one\ntw");
        let mut reports = Reports::open(folder.path()).expect("a file");
        assert_eq!(lines(&mut reports), [(0, "one\n".to_owned())]);
        assert_eq!(lines(&mut reports), []);
        append(folder.path(), "o\n");
        assert_eq!(lines(&mut reports), [(4, "two\n".to_owned())]);
    }

    #[test]
    fn the_next_daemon_reads_from_the_oldest_open_request() {
        let folder = tempfile::tempdir().expect("a folder");
        append(folder.path(), "one\ntwo\nthree\nfo");
        let mut reports = Reports::open(folder.path()).expect("a file");
        assert_eq!(lines(&mut reports).len(), 3);
        reports.open.add(8);
        reports.open.add(4);
        reports.finish_lines();
        let mut next = Reports::open(folder.path()).expect("a file");
        assert_eq!(lines(&mut next), [(4, "two\n".to_owned()), (8, "three\n".to_owned())]);
        reports.open.remove(4);
        reports.open.remove(8);
        reports.finish_lines();
        append(folder.path(), "ur\n");
        let mut next = Reports::open(folder.path()).expect("a file");
        assert_eq!(lines(&mut next), [(14, "four\n".to_owned())]);
    }

    #[test]
    fn an_endless_line_is_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        append(folder.path(), "one\n");
        append(folder.path(), &"x".repeat(MAX_LINE_BYTES + READ_BYTES * 3));
        let mut reports = Reports::open(folder.path()).expect("a file");
        assert_eq!(lines(&mut reports).len(), 1);
        assert_eq!(lines(&mut reports), []);
        assert!(reports.partial.is_empty());
        append(folder.path(), "x\ntwo\n");
        assert_eq!(lines(&mut reports).into_iter().map(|(_, line)| line).collect::<Vec<_>>(), ["two\n"]);
    }

    #[test]
    fn an_agent_that_starts_again_is_read_from_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        append(folder.path(), "a\n");
        fs::write(folder.path().join(POSITION_FILE), "900").expect("disk has space");
        let mut reports = Reports::open(folder.path()).expect("a file");
        assert_eq!(lines(&mut reports), [(0, "a\n".to_owned())]);
    }

    #[test]
    fn the_space_of_read_lines_is_released() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().expect("a folder");
        let line = format!("{}\n", "x".repeat(1023));
        append(folder.path(), &line.repeat(5 << 10));
        let mut reports = Reports::open(folder.path()).expect("a file");
        while !lines(&mut reports).is_empty() {}
        let before = reports.file.metadata().expect("a file");
        reports.finish_lines();
        let after = reports.file.metadata().expect("a file");
        assert_eq!(before.size(), after.size());
        assert!(cfg!(not(target_os = "linux")) || after.blocks() < before.blocks());
        append(folder.path(), "last\n");
        assert_eq!(lines(&mut reports), [(5 << 20, "last\n".to_owned())]);
    }

    #[test]
    fn a_request_has_the_same_id_wherever_its_line_is() {
        let session = SessionId::from_uuid(Uuid::from_u128(1));
        assert_eq!(call_id(session, 1, Some("k")), call_id(session, 9, Some("k")));
        assert_ne!(call_id(session, 1, None), call_id(session, 9, None));
        assert_ne!(call_id(SessionId::from_uuid(Uuid::from_u128(2)), 1, Some("k")), call_id(session, 1, Some("k")));
    }
}
