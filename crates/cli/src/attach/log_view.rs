//! Shows the log of an ended session.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use coven_api::routes::{Endpoint, ReadLog};
use coven_api::session::LogQuery;
use coven_host::home::Home;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::modes::ModeWatch;
use super::terminal::RawMode;
use crate::daemon_client::DaemonClient;
use crate::failure::Failure;
use crate::{log_check, output};

/// How long to wait for a terminal's reply to a query.
const REPLY_TIMEOUT: Duration = Duration::from_millis(300);

/// Writes the log from byte `from` to standard output.
pub async fn show(home: &Home, link: &mut DaemonClient, id: &str, from: u64) -> Result<(), Failure> {
    let query = LogQuery { from: Some(from), ..LogQuery::default() };
    let mut pieces = match link.stream(ReadLog::of(id).query(&query)).await {
        Ok(pieces) => pieces,
        Err(error) => return Err(log_check::explain(home, id, error.into()).await),
    };
    let terminal = LogTerminal::open()?;
    let mut watch = ModeWatch::default();
    let (mut is_stopped, mut broken) = (false, None);
    while !is_stopped {
        match pieces.next().await {
            Ok(Some(piece)) => {
                watch.feed(&piece);
                output::bytes(&piece)?;
                is_stopped = terminal.as_ref().is_some_and(LogTerminal::wants_to_stop);
            }
            Ok(None) => break,
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    if let Some(terminal) = terminal {
        terminal.close(&watch)?;
    }
    match broken {
        Some(error) => Err(log_check::explain(home, id, error.into()).await),
        None => Ok(()),
    }
}

/// A terminal that shows recorded output. The recording may contain terminal queries; this terminal's replies must not
/// end up in the shell.
pub struct LogTerminal {
    raw: Option<RawMode>,
}

impl LogTerminal {
    /// Returns `None` if standard output is not a terminal.
    pub fn open() -> Result<Option<Self>, Failure> {
        if !output::is_terminal() {
            return Ok(None);
        }
        let raw = match io::stdin().is_terminal() {
            true => Some(RawMode::enter(io::stdin()).map_err(Failure::Terminal)?),
            false => None,
        };
        Ok(Some(Self { raw }))
    }

    /// Returns whether `q` or Ctrl-C was typed.
    fn wants_to_stop(&self) -> bool {
        let mut typed = [0; 256];
        self.raw.is_some() && read_typed(&mut typed, Duration::ZERO).iter().any(|byte| matches!(byte, b'q' | 3))
    }

    pub fn close(self, watch: &ModeWatch) -> Result<(), Failure> {
        let mut last = watch.leave();
        if watch.is_mid_line() {
            last.extend_from_slice(b"\r\n");
        }
        output::bytes(&last)?;
        if let Some(raw) = self.raw {
            // Terminals reply in order: after the reply to this query, no other reply is outstanding.
            output::bytes(b"\x1b[c")?;
            let deadline = Instant::now() + REPLY_TIMEOUT;
            let mut typed = [0; 256];
            let is_reply = |bytes: &[u8]| bytes.ends_with(b"c");
            while let left = deadline.saturating_duration_since(Instant::now())
                && !left.is_zero()
                && !is_reply(read_typed(&mut typed, left))
            {}
            raw.leave_flushed();
        }
        Ok(())
    }
}

/// Returns typed bytes, or an empty slice after the timeout.
pub fn read_typed(buffer: &mut [u8], within: Duration) -> &[u8] {
    let stdin = io::stdin();
    let mut places = [PollFd::new(&stdin, PollFlags::IN)];
    let within = Timespec::try_from(within).ok();
    match poll(&mut places, within.as_ref()) {
        Ok(count) if count > 0 => match rustix::io::read(&stdin, &mut *buffer) {
            Ok(count) => &buffer[..count],
            Err(_) => &[],
        },
        _ => &[],
    }
}
