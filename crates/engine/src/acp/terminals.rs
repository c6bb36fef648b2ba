//! Terminals that an agent opens. Each has its own holder and outlives the daemon, like any session.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coven_acp::RpcError;
use coven_domain::SessionId;
use coven_domain::session::ExitStatus;
use coven_files::{Limit, Links};
use coven_holder::journal::{JournalReader, Record};
use coven_holder::log::LogReader;
use coven_holder::wire::{Decoder, EndMode, Reply, Request, VERSION};
use coven_holder::{SOCKET, Spec, StdioMode};
use coven_host::program;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::super::spawn::{Bounds, reap};
use super::super::{Engine, holder_requests};
use super::{AcpSession, files};

/// Maximum bytes of a terminal's output on disk.
const KEPT_BYTES: u64 = 16 << 20;
/// Maximum bytes of output in a response; an agent may request less. Longer output is `truncated`.
const MAX_SHOWN_BYTES: u64 = 1 << 20;
const GRACE_MS: u32 = 2000;
const LIMIT_FILE: &str = "output-limit";
pub const NUMBER_FILE: Limit = Limit::new("a file that holds one number", 64);
/// Marks a terminal that its agent has released; its output stays with the session.
const RELEASED: &str = "released";
/// Maximum number of running terminals per agent.
const MAX_TERMINALS: usize = 32;
const RETRY_DELAY: Duration = Duration::from_millis(500);

impl Engine {
    fn terminal_dir(&self, id: SessionId, terminal: &str) -> Result<PathBuf, RpcError> {
        let is_ours = terminal.strip_prefix('t').is_some_and(|digits| {
            !digits.is_empty() && digits.len() < 20 && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        match is_ours {
            true => Ok(self.home.session_dir(id).join("terminals").join(terminal)),
            false => Err(RpcError::invalid_params(format!("unknown terminal {terminal:?}"))),
        }
    }

    fn known_terminal(&self, id: SessionId, terminal: &str) -> Result<PathBuf, RpcError> {
        let dir = self.terminal_dir(id, terminal)?;
        match dir.join(coven_holder::JOURNAL).exists() && !dir.join(RELEASED).exists() {
            true => Ok(dir),
            false => Err(RpcError::invalid_params(format!("unknown terminal {terminal:?}"))),
        }
    }

    pub(super) async fn create_terminal(
        self: &Arc<Self>,
        acp: &AcpSession,
        terminal: &str,
        mut argv: Vec<String>,
        env: &[(String, String)],
        cwd: Option<&str>,
        output_limit: Option<u64>,
    ) -> Result<(), RpcError> {
        let dir = self.terminal_dir(acp.id, terminal)?;
        if dir.join(coven_holder::JOURNAL).exists() {
            // An earlier daemon created it and stopped before it answered.
            return Ok(());
        }
        if self.running_terminals(acp.id) >= MAX_TERMINALS {
            let error = format!("{MAX_TERMINALS} terminals are open; release some first");
            return Err(RpcError::internal(error));
        }
        let _ = std::fs::remove_dir_all(&dir);
        let cwd = match cwd {
            Some(cwd) => files::inside(&acp.root, cwd)?,
            None => acp.cwd.clone(),
        };
        if !cwd.is_dir() {
            return Err(RpcError::invalid_params(format!("{} is not a folder", cwd.display())));
        }
        let mut variables = self.agents_environment(acp.id).await;
        variables.extend(env.iter().filter(|(name, _)| !name.starts_with("LD_")).cloned());
        // Many agents send a command line instead of a program; run it in a shell.
        let path = variables.get("PATH").map(OsStr::new);
        match program::find(&argv[0], path) {
            Some(found) => argv[0] = found.to_string_lossy().into_owned(),
            None if argv.len() == 1 => argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), argv.remove(0)],
            None => return Err(RpcError::not_found(&argv[0])),
        }
        std::fs::create_dir_all(dir.parent().expect("the folder is in the session's folder"))
            .map_err(|error| RpcError::internal(format!("cannot create the terminal's folder: {error}")))?;
        let spec = Spec {
            dir: dir.clone(),
            stdio: StdioMode::Terminal,
            argv,
            env: variables.into_iter().collect(),
            cwd,
            rows: 40,
            cols: 120,
            typed: String::new(),
            max_output_bytes: KEPT_BYTES,
            open_files: None,
            record_input: self.config.sessions.record_input,
            segment_bytes: KEPT_BYTES / 8,
        };
        let holder = self.prepare_holder_at(&format!("{}/{terminal}", acp.id), dir.clone());
        let bounds = Bounds { limit: self.launch_limit(), cancelled: &Notify::new() };
        let (holder, _) = holder.launch_with(spec, &bounds).await.map_err(RpcError::internal)?;
        let limit = output_limit.unwrap_or(MAX_SHOWN_BYTES).min(MAX_SHOWN_BYTES);
        let _ = std::fs::write(dir.join(LIMIT_FILE), limit.to_string());
        reap(holder);
        Ok(())
    }

    fn running_terminals(&self, id: SessionId) -> usize {
        let Ok(entries) = std::fs::read_dir(self.home.session_dir(id).join("terminals")) else { return 0 };
        entries.flatten().filter(|entry| entry.path().join(SOCKET).exists()).count()
    }

    /// Reads the agent's environment from /proc: it is stored nowhere else.
    async fn agents_environment(&self, id: SessionId) -> BTreeMap<String, String> {
        let pid = self.session(id).await.ok().and_then(|session| session.process).map(|process| process.pid);
        let bytes = pid.and_then(|pid| std::fs::read(format!("/proc/{pid}/environ")).ok()).unwrap_or_default();
        bytes
            .split(|byte| *byte == 0)
            .filter_map(|pair| {
                let (name, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            })
            .collect()
    }

    pub(super) async fn terminal_output(&self, id: SessionId, terminal: &str) -> Result<Value, RpcError> {
        let dir = self.known_terminal(id, terminal)?;
        let read = move || -> std::io::Result<Value> {
            let limit = coven_files::read_text(&dir.join(LIMIT_FILE), NUMBER_FILE, Links::Refuse);
            let limit = limit.ok().and_then(|text| text.parse::<u64>().ok());
            let mut reader = LogReader::new(&dir);
            let range = reader.range()?;
            let from = range.end.saturating_sub(limit.unwrap_or(MAX_SHOWN_BYTES).min(MAX_SHOWN_BYTES)).max(range.start);
            let mut bytes = vec![0; usize::try_from(range.end - from).unwrap_or(0)];
            let mut filled = 0;
            while filled < bytes.len() {
                match reader.read_at(from + filled as u64, &mut bytes[filled..])? {
                    0 => break,
                    count => filled += count,
                }
            }
            // Skip a character that was cut at the start.
            let cut = if from > 0 { bytes.iter().take(4).take_while(|byte| **byte & 0xc0 == 0x80).count() } else { 0 };
            let text = String::from_utf8_lossy(&bytes[cut..filled]).replace("\r\n", "\n");
            let mut answer = json!({ "output": text, "truncated": from > 0 });
            if let Some(status) = exit_of(&dir) {
                answer["exitStatus"] = exit_json(status);
            }
            Ok(answer)
        };
        let output = tokio::task::spawn_blocking(read).await;
        match output {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(error)) => Err(RpcError::internal(error.to_string())),
            Err(error) => Err(RpcError::internal(error.to_string())),
        }
    }

    pub(super) async fn terminal_exit(&self, id: SessionId, terminal: &str) -> Result<Value, RpcError> {
        let dir = self.known_terminal(id, terminal)?;
        loop {
            if let Some(status) = wait_for_exit(&dir).await.or_else(|| exit_of(&dir)) {
                return Ok(exit_json(status));
            }
            if !dir.join(SOCKET).exists() {
                // The holder died without an exit status: it was killed, together with its program.
                return Ok(exit_json(exit_of(&dir).unwrap_or(ExitStatus::Signal(9))));
            }
            // The holder is running but too busy to answer.
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    pub(super) async fn kill_terminal(&self, id: SessionId, terminal: &str) -> Result<(), RpcError> {
        end_terminal(&self.known_terminal(id, terminal)?).await;
        Ok(())
    }

    /// Ends the terminal if it is running and invalidates its id.
    pub(super) async fn release_terminal(&self, id: SessionId, terminal: &str) -> Result<(), RpcError> {
        let dir = self.known_terminal(id, terminal)?;
        end_terminal(&dir).await;
        let _ = std::fs::write(dir.join(RELEASED), "");
        Ok(())
    }

    /// Ends all terminals of an agent that is gone.
    pub(crate) async fn end_terminals(&self, id: SessionId) {
        let Ok(entries) = std::fs::read_dir(self.home.session_dir(id).join("terminals")) else { return };
        for dir in entries.flatten().map(|entry| entry.path()) {
            end_terminal(&dir).await;
        }
    }
}

async fn end_terminal(dir: &Path) {
    if dir.join(SOCKET).exists() {
        let end = Request::End { how: EndMode::Kill, grace_ms: GRACE_MS };
        if let Err(error) = holder_requests::send_requests(dir, &[end]).await {
            tracing::debug!(dir = %dir.display(), %error, "a terminal ended by itself");
        }
    }
}

/// Waits for the exit status. Returns `None` if the holder cannot be reached.
async fn wait_for_exit(dir: &Path) -> Option<ExitStatus> {
    let mut stream = holder_requests::connect(dir).await.ok()?;
    let hello = [Request::Hello { version: VERSION }.encode(), Request::Watch.encode()].concat();
    stream.write_all(&hello).await.ok()?;
    let (mut decoder, mut buffer) = (Decoder::default(), [0; 1024]);
    loop {
        while let Some(reply) = decoder.reply().ok()? {
            if let Reply::Exited { status, .. } = reply {
                return Some(status);
            }
        }
        match stream.read(&mut buffer).await.ok()? {
            0 => return None,
            count => decoder.feed(&buffer[..count]),
        }
    }
}

fn exit_of(dir: &Path) -> Option<ExitStatus> {
    let mut journal = JournalReader::open(&dir.join(coven_holder::JOURNAL)).ok()?;
    let mut exit = None;
    loop {
        let records = journal.read_more(1 << 20).ok()?;
        if records.is_empty() {
            return exit;
        }
        exit = records.iter().find_map(|(_, stamped)| match stamped.record {
            Record::Exit(status) => Some(status),
            _ => None,
        });
    }
}

fn exit_json(status: ExitStatus) -> Value {
    match status {
        ExitStatus::Code(code) => json!({ "exitCode": code, "signal": null }),
        ExitStatus::Signal(signal) => {
            json!({ "exitCode": null, "signal": signal_name(signal) })
        }
    }
}

/// Returns the signal's name.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        other => return format!("SIG{other}"),
    };
    name.to_owned()
}
