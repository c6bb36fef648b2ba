//! Attaches a terminal to a session: paints its screen, follows its output and restores the terminal.

mod catch_up;
pub mod detach;
pub mod frame;
pub mod log_view;
pub mod modes;
pub mod screen;
pub mod signals;
pub mod terminal;
mod viewer;

use std::io::{self, IsTerminal};
use std::time::Duration;

use coven_api::{ErrorCode, SessionRecord};
use coven_domain::session::ExitStatus;
use coven_domain::session::{Channel, SessionState};
use coven_holder::client::{HolderClient, HolderError};
use coven_host::config::DetachKeys;
use coven_host::home::Home;

use self::catch_up::CatchUp;
use self::detach::DetachScanner;
use self::signals::Signals;
use self::terminal::RawMode;
use self::viewer::{Keyboard, Viewer, ViewerEnd};
use crate::chat;
use crate::chat::past::Extent;
use crate::chat::transcript::Detail;
use crate::daemon_client::{self, DaemonClient};
use crate::failure::Failure;
use crate::looking::Looking;
use crate::{format, log_check, output, own_session};

/// How long to wait for the first screen.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes shown from the end of the log if the daemon sends no screen in time.
const TAIL_BYTES: u64 = 64 << 10;

/// Where the output starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the current screen; a pipe gets the whole log.
    Screen,
    /// With the first byte: the session was just started.
    FirstByte,
    /// With new output only.
    Now,
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub start: Start,
    pub is_read_only: bool,
}

/// How attaching ended, for the exit code of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachOutcome {
    /// The user detached; the session keeps running.
    Detached,
    /// The session ended while attached.
    Exited(ExitStatus),
    /// The session had already ended; its log was shown.
    Shown,
    /// A signal ended this command.
    Signalled(i32),
}

/// A running session to attach to.
struct Target {
    id: String,
    painted: Vec<u8>,
    from: Origin,
}

/// Log position where following starts.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Byte(u64),
    /// This many bytes before the end.
    End(u64),
}

impl Origin {
    /// Returns the offset in a log of this length.
    const fn byte(self, end: u64) -> u64 {
        match self {
            Self::Byte(byte) => byte,
            Self::End(before) => end.saturating_sub(before),
        }
    }
}

/// A session, by how it can be shown.
enum Found {
    Live(Target),
    /// The session has ended and its log was shown.
    Shown,
    /// An ACP session: it has messages instead of a terminal.
    Conversation(String),
}

/// Attaches to a live session, or shows the log of one that has ended.
pub fn open(home: &Home, id: &str, options: Options) -> Result<AttachOutcome, Failure> {
    let keys = detach_keys(home)?;
    // Fast path: with a running daemon and session, painting needs no async runtime.
    if let Some((target, holder)) = find_without_runtime(home, id, options)? {
        return watch(home, target, holder, keys, options);
    }
    let runtime = daemon_client::runtime()?;
    let mut link = runtime.block_on(DaemonClient::open(home))?;
    let target = match runtime.block_on(find(home, &mut link, id, options))? {
        Found::Live(target) => target,
        Found::Shown => return Ok(AttachOutcome::Shown),
        Found::Conversation(id) => {
            drop((link, runtime));
            return open_chat(home, &id, options);
        }
    };
    own_session::ensure_other(&target.id)?;
    let folder = home.session_dir(target.id.parse().map_err(|_| unexpected_id_error(&target.id))?);
    let holder = match HolderClient::connect(&folder) {
        Ok(holder) => holder,
        // A short session can end, and its holder with it, while we connect.
        Err(error @ (HolderError::Unreachable(_) | HolderError::Broken(_) | HolderError::Closed)) => {
            return runtime.block_on(ended(home, &mut link, &target, error));
        }
        Err(error @ (HolderError::Protocol(_) | HolderError::Refused(_))) => return Err(error.into()),
    };
    // From here on only the holder is needed; the daemon may stop.
    drop(link);
    watch(home, target, holder, keys, options)
}

fn find_without_runtime(home: &Home, id: &str, options: Options) -> Result<Option<(Target, HolderClient)>, Failure> {
    if options.start != Start::Screen || !output::is_terminal() {
        return Ok(None);
    }
    let screen = screen::fetch_without_runtime(home, id, SCREEN_TIMEOUT).filter(|screen| screen.status == "running");
    let Some(screen) = screen else { return Ok(None) };
    own_session::ensure_other(&screen.id)?;
    let holder = screen.id.parse().ok().and_then(|id| HolderClient::connect(&home.session_dir(id)).ok());
    let from = Origin::Byte(screen.offset);
    Ok(holder.map(|holder| (Target { id: screen.id, painted: screen.ansi, from }, holder)))
}

/// Follows a session until the user detaches, the session ends or a signal arrives.
fn watch(
    home: &Home,
    target: Target,
    holder: HolderClient,
    keys: DetachKeys,
    options: Options,
) -> Result<AttachOutcome, Failure> {
    let id = target.id.clone();
    let looking = output::is_terminal().then(|| Looking::start(home, &id));
    let catch_up = CatchUp::new(home.clone(), id.clone());
    let (ending, shown) = view(holder, target, keys, catch_up, options.is_read_only)?;
    drop(looking);
    match ending {
        ViewerEnd::Detached => {
            print_detached(home, &id);
            Ok(AttachOutcome::Detached)
        }
        ViewerEnd::Exited { status, end } => {
            if shown < end {
                // The session ended before it received our request; the log has the missing output.
                daemon_client::block_on(async {
                    log_view::show(home, &mut DaemonClient::open(home).await?, &id, shown).await
                })?;
            }
            let is_killed = record_in_time(home, &id).is_ok_and(|record| record.status == SessionState::Killed);
            print_ended(status, is_killed);
            Ok(AttachOutcome::Exited(status))
        }
        ViewerEnd::Signalled(signal) => Ok(AttachOutcome::Signalled(signal)),
        ViewerEnd::HolderGone => daemon_client::block_on(holder_gone(home, &id, shown)),
    }
}

/// Shows the remaining output from the log if the holder exited before this viewer had read everything.
async fn holder_gone(home: &Home, id: &str, shown: u64) -> Result<AttachOutcome, Failure> {
    if let Some(mut link) = DaemonClient::running(home).await?
        && let Ok(Ok(record)) = tokio::time::timeout(Duration::from_secs(2), link.ended_session(id)).await
        && let Some(code) = record.exit_code
    {
        log_view::show(home, &mut link, id, shown).await?;
        print_ended(ExitStatus::Code(code), record.status == SessionState::Killed);
        return Ok(AttachOutcome::Exited(ExitStatus::Code(code)));
    }
    Err(Failure::failed(
        format!("the holder of session {} exited without recording an exit status", format::short_id(id)),
        format!("See its record with `coven show {}`", format::short_id(id)),
    ))
}

fn unexpected_id_error(id: &str) -> Failure {
    Failure::failed(
        format!("the daemon returned an invalid session id {id:?}"),
        "Restart it with `coven daemon restart`",
    )
}

/// Returns the detach keys from the config, as text.
pub fn leave_keys(home: &Home) -> String {
    coven_host::config::read(home).map_or_else(|_| "ctrl-\\".to_owned(), |config| config.sessions.detach_keys)
}

fn detach_keys(home: &Home) -> Result<DetachKeys, Failure> {
    let config = coven_host::config::read(home)?;
    let keys = DetachKeys::parse(&config.sessions.detach_keys);
    keys.map_err(|problem| Failure::usage(format!("sessions.detachKeys: {problem}"), "Fix it in the config"))
}

/// Finds the session. Shows the log of one that has ended.
async fn find(home: &Home, link: &mut DaemonClient, id: &str, options: Options) -> Result<Found, Failure> {
    let mut from = match options.start {
        Start::FirstByte => {
            return Ok(Found::Live(Target { id: id.to_owned(), painted: Vec::new(), from: Origin::Byte(0) }));
        }
        Start::Screen => Origin::Byte(0),
        Start::Now => Origin::End(0),
    };
    if options.start == Start::Screen && output::is_terminal() {
        match tokio::time::timeout(SCREEN_TIMEOUT, screen::fetch(link, id)).await {
            Ok(Ok(screen)) if screen.status == "running" => {
                let from = Origin::Byte(screen.offset);
                return Ok(Found::Live(Target { id: screen.id, painted: screen.ansi, from }));
            }
            // The session has ended or has no screen; its record says which.
            Ok(Ok(_)) => {}
            Ok(Err(Failure::Client(error))) if !error.is(ErrorCode::SessionNotFound) && error.exit_code() != 5 => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                // The daemon is busy with this session's output; start with the end of the log instead.
                *link = DaemonClient::open(home).await?;
                from = Origin::End(TAIL_BYTES);
            }
        }
    }
    let record = link.session(id).await?;
    match record.status {
        _ if record.channel == Channel::Acp => Ok(Found::Conversation(record.id.to_string())),
        SessionState::Running => Ok(Found::Live(Target { id: record.id.to_string(), painted: Vec::new(), from })),
        _ => {
            let from = if options.start == Start::Now { Origin::End(0) } else { Origin::Byte(0) };
            show_ended(home, link, &record, from).await?;
            Ok(Found::Shown)
        }
    }
}

fn open_chat(home: &Home, id: &str, options: Options) -> Result<AttachOutcome, Failure> {
    let extent = match options.start {
        Start::Now => Extent::Nothing,
        Start::Screen | Start::FirstByte => Extent::Recent,
    };
    chat::open(home, id, chat::Options { extent, detail: Detail::default(), wants_text: options.is_read_only })?;
    Ok(AttachOutcome::Detached)
}

/// Returns bytes that scroll the terminal's content into its scrollback, so that painting does not overwrite it.
fn push_to_scrollback() -> Vec<u8> {
    let rows = output::terminal_size().map_or(0, |(rows, _)| usize::from(rows));
    let mut out = format!("\x1b[{rows};1H").into_bytes();
    out.extend(std::iter::repeat_n(b'\n', rows));
    out
}

/// Shows the log of an ended session from `from`, and how the session ended.
async fn show_ended(home: &Home, link: &mut DaemonClient, record: &SessionRecord, from: Origin) -> Result<(), Failure> {
    if record.status == SessionState::Created {
        let short = record.id.short();
        let hint = format!("Start it with `coven start {short}`");
        return Err(Failure::refused(format!("session {short} has not started"), hint));
    }
    let id = record.id.to_string();
    let from = match from {
        Origin::Byte(byte) => Some(byte),
        Origin::End(0) => None,
        Origin::End(before) => Some(log_check::end(link, &id).await?.saturating_sub(before)),
    };
    if let Some(from) = from {
        log_view::show(home, link, &id, from).await?;
    }
    if output::is_terminal() {
        let (status, short) = (format::status(record), record.id.short());
        output::note(format_args!("[session {short} has ended: {status}]"));
    }
    match from {
        Some(_) => log_check::ensure_complete(link, &id).await,
        None => Ok(()),
    }
}

/// Shows the log of a session that was running a moment ago but whose holder no longer answers.
async fn ended(
    home: &Home,
    link: &mut DaemonClient,
    target: &Target,
    error: HolderError,
) -> Result<AttachOutcome, Failure> {
    // The daemon records the end shortly after the holder exits.
    let wait = tokio::time::timeout(Duration::from_secs(5), link.ended_session(&target.id)).await;
    let Ok(record) = wait else { return Err(error.into()) };
    let record = record?;
    show_ended(home, link, &record, target.from).await?;
    Ok(record.exit_code.map_or(AttachOutcome::Shown, |code| AttachOutcome::Exited(ExitStatus::Code(code))))
}

/// Runs the viewer. Returns how it ended and the log offset that was shown.
fn view(
    holder: HolderClient,
    target: Target,
    keys: DetachKeys,
    catch_up: CatchUp,
    is_read_only: bool,
) -> Result<(ViewerEnd, u64), Failure> {
    let (typed_on, shown_on) = (io::stdin().is_terminal(), output::is_terminal());
    let keyboard = match (typed_on, shown_on) {
        (true, true) => Keyboard::Terminal(DetachScanner::new(keys)),
        // The user cannot see the session, and the terminal may belong to a pager.
        (true, false) => Keyboard::None,
        (false, _) if is_read_only => Keyboard::None,
        (false, _) => Keyboard::Stream,
    };
    // Before changing the terminal, so that a signal always restores it.
    let mut signals = Signals::listen().map_err(Failure::Terminal)?;
    let raw = match (typed_on, shown_on) {
        (true, true) => Some(RawMode::enter(io::stdin()).map_err(Failure::Terminal)?),
        (false, true) => Some(RawMode::enter_for_output(io::stdout()).map_err(Failure::Terminal)?),
        (_, false) => None,
    };
    let mut viewer = Viewer::new(holder, keyboard, raw.as_ref(), is_read_only);
    let from = target.from.byte(viewer.holder.welcome.end);
    if shown_on {
        viewer.catch_up = Some(catch_up);
        viewer.show_on_terminal();
    }
    if !target.painted.is_empty() {
        viewer.put(&push_to_scrollback())?;
    }
    let ending = viewer.paint(&target.painted, from).and_then(|()| viewer.run(&mut signals));
    if shown_on {
        leave(&viewer, &ending);
    }
    let shown = viewer.position;
    drop(raw);
    ending.map(|ending| (ending, shown))
}

/// Resets the modes that the session set, and moves the cursor to a free line.
fn leave(viewer: &Viewer<'_>, ending: &Result<ViewerEnd, Failure>) {
    let mut last = viewer.watch.leave();
    match ending {
        Ok(ViewerEnd::Exited { .. }) if !viewer.is_framed() && !viewer.watch.is_mid_line() => {}
        Ok(ViewerEnd::Exited { .. }) if !viewer.is_framed() => last.extend_from_slice(b"\r\n"),
        // The session may have painted below its cursor.
        _ => last.extend_from_slice(b"\x1b[999;1H\r\n"),
    }
    // A stalled terminal must not keep the command from exiting.
    let _ = terminal::write_within(&last, Duration::from_millis(200));
}

fn print_ended(status: ExitStatus, is_killed: bool) {
    if !output::is_terminal() {
        return;
    }
    match status {
        // "killed" is more useful than the exit status.
        _ if is_killed => output::note(format_args!("[session ended: killed]")),
        ExitStatus::Code(code) => output::note(format_args!("[session ended: exit code {code}]")),
        ExitStatus::Signal(signal) => output::note(format_args!("[session ended: signal {signal}]")),
    }
}

fn print_detached(home: &Home, id: &str) {
    let short = format::short_id(id);
    let title = record_in_time(home, id).map(|record| format::sanitize_line(&record.title));
    let title = title.unwrap_or_else(|_| format!("session {short}"));
    output::note(format_args!("[detached from {title} — coven attach {short}, or coven for all sessions]"));
}

/// Returns the session's record with a short timeout: it only improves a message, so exiting must not wait for it.
fn record_in_time(home: &Home, id: &str) -> Result<SessionRecord, Failure> {
    daemon_client::block_on(async {
        let mut link = DaemonClient::running(home).await?.ok_or_else(daemon_client::not_running)?;
        match tokio::time::timeout(Duration::from_millis(300), link.session(id)).await {
            Ok(record) => record,
            Err(_) => Err(daemon_client::not_running()),
        }
    })
}
