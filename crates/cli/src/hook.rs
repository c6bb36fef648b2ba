//! `coven hook AGENT EVENT [wait]`: hands a call of an agent's hook to the daemon. It never fails the agent, reads no config
//! and starts no runtime, because agents call it before and after every tool.

use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use coven_api::activity::{HookCallRequest, HookCallResponse};
use coven_api::routes::{CallHook, Endpoint};
use coven_client::blocking::{PostError, post_blocking};
use coven_domain::{RequestId, SessionId};
use coven_holder::clock;
use serde_json::Value;
use uuid::Uuid;

/// A larger payload is not sent; the event still is.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// How long a hook that does not wait for an answer may take.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a hook that waits tries to reach the daemon again.
const RECONNECT_TIME: Duration = Duration::from_secs(60);
const RECONNECT_DELAY: Duration = Duration::from_millis(100);
/// Number of calls that are kept for the next daemon.
const MAX_STORED_CALLS: usize = 1000;

pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = args.filter_map(|word| word.into_string().ok()).collect();
    if words.len() < 2 {
        // Only a person calls it like this: an agent gets a fixed command.
        eprintln!("usage: coven hook AGENT EVENT [wait]   (called by the hooks of agents in a session)");
        return ExitCode::from(2);
    }
    deliver(&words[1], words.get(2).is_some_and(|word| word == "wait"));
    ExitCode::SUCCESS
}

/// Delivers the call and prints the answer. Without a session there is nothing to report.
fn deliver(event: &str, waits: bool) -> Option<()> {
    let home = PathBuf::from(std::env::var_os("COVEN_HOME")?);
    let session: SessionId = std::env::var("COVEN_SESSION_ID").ok()?.parse().ok()?;
    // Calls are delivered in any order, so a stored one has the time at which the agent made it.
    let called_at = clock::now();
    let payload = read_payload();
    let mut call =
        HookCallRequest { id: RequestId::from_uuid(Uuid::new_v4()), event: event.to_owned(), payload, called_at: None };
    let request = CallHook::of(&session.to_string());
    let socket = home.join("coven.sock");
    let timeout = (!waits).then_some(DELIVERY_TIMEOUT);
    let mut lost_at: Option<Instant> = None;
    loop {
        let body = serde_json::to_vec(&call).ok()?;
        match post_blocking(&socket, &request, &body, timeout) {
            Ok(answer) => {
                let answer: HookCallResponse = serde_json::from_slice(&answer).unwrap_or_default();
                if let Some(output) = answer.output {
                    let _ = writeln!(io::stdout(), "{output}");
                }
                return Some(());
            }
            // The daemon does not accept the call; the agent continues without a decision.
            Err(PostError::Refused(_)) => return Some(()),
            // The daemon ended while this hook waited: the next one knows the request by the id of the call.
            Err(PostError::Lost) if waits => lost_at = lost_at.or_else(|| Some(Instant::now())),
            Err(PostError::Unreachable | PostError::Lost) => {}
        }
        if lost_at.is_none_or(|lost| lost.elapsed() > RECONNECT_TIME) {
            call.called_at = Some(called_at);
            let _ = store(&home.join("sessions").join(session.to_string()), &call);
            return Some(());
        }
        std::thread::sleep(RECONNECT_DELAY);
    }
}

/// Reads the agent's JSON; null if it is not valid or too large.
fn read_payload() -> Value {
    let mut text = Vec::new();
    let mut input = io::stdin().lock();
    let limit = MAX_PAYLOAD_BYTES as u64 + 1;
    if input.by_ref().take(limit).read_to_end(&mut text).is_err() || text.len() > MAX_PAYLOAD_BYTES {
        // Read the rest, so that the agent does not get an error for writing it.
        let _ = io::copy(&mut input, &mut io::sink());
        return Value::Null;
    }
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Keeps the call for the next daemon, in the session's folder.
fn store(session: &Path, call: &HookCallRequest) -> io::Result<()> {
    // The daemon makes the session's folder; without it the session is gone.
    if !session.is_dir() {
        return Ok(());
    }
    let folder = session.join("hook-calls");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    if folder.read_dir()?.count() >= MAX_STORED_CALLS {
        return Ok(());
    }
    let name = format!("{:013}-{}.json", call.called_at.map_or(0, |at| at.as_millis()), call.id);
    let unfinished = folder.join(format!(".{name}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(&serde_json::to_vec(call)?)?;
    std::fs::rename(unfinished, folder.join(name))
}
