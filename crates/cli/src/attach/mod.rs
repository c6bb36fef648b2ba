//! A real terminal on a session: paints its screen, follows it live, and leaves everything as it was.

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
use crate::{format, log_check, output, own_session};

/// A person waits no longer for the first picture.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(2);
/// Without a picture, so much of the log's end is shown.
const TAIL_BYTES: u64 = 64 << 10;

/// Where a viewing begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the screen as it is now; a pipe gets everything.
    Screen,
    /// With the first byte: the session has just been launched.
    Beginning,
    /// With what comes next.
    Now,
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub start: Start,
    pub is_read_only: bool,
}

/// How it ended, for the exit code of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachOutcome {
    /// The session goes on without us.
    Detached,
    /// It ended while it was watched.
    Exited(ExitStatus),
    /// It had ended before; its log was shown.
    Shown,
    /// A signal ended the viewing.
    Signalled(i32),
}

/// The session that is looked at.
struct Target {
    id: String,
    painted: Vec<u8>,
    from: Origin,
}

/// Where the log is followed from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Byte(u64),
    /// So many bytes before its end.
    End(u64),
}

impl Origin {
    /// The byte, for a log of this length.
    const fn byte(self, end: u64) -> u64 {
        match self {
            Self::Byte(byte) => byte,
            Self::End(before) => end.saturating_sub(before),
        }
    }
}

/// What there is to look at.
enum Found {
    Live(Target),
    /// It has ended; its log was shown.
    Shown,
    /// A session without a terminal: what is said in it can be followed.
    Conversation(String),
}

/// Attaches to a live session, or shows the log of one that has ended.
pub fn open(home: &Home, id: &str, options: Options) -> Result<AttachOutcome, Failure> {
    let keys = detach_keys(home)?;
    // Mostly there is a daemon and a session that runs: no runtime is needed to paint it.
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
    own_session::must_not_be(&target.id)?;
    let folder = home.session_dir(target.id.parse().map_err(|_| unexpected_id_error(&target.id))?);
    let holder = match HolderClient::connect(&folder) {
        Ok(holder) => holder,
        // A session that is over at once takes its holder along while we connect.
        Err(error @ (HolderError::Unreachable(_) | HolderError::Broken(_) | HolderError::Closed)) => {
            return runtime.block_on(ended(home, &mut link, &target, error));
        }
        Err(error @ (HolderError::Protocol(_) | HolderError::Refused(_))) => return Err(error.into()),
    };
    // The daemon may go from here on: only the holder is needed.
    drop(link);
    watch(home, target, holder, keys, options)
}

fn find_without_runtime(home: &Home, id: &str, options: Options) -> Result<Option<(Target, HolderClient)>, Failure> {
    if options.start != Start::Screen || !output::is_terminal() {
        return Ok(None);
    }
    let screen = screen::fetch_without_runtime(home, id, SCREEN_TIMEOUT).filter(|screen| screen.status == "running");
    let Some(screen) = screen else { return Ok(None) };
    own_session::must_not_be(&screen.id)?;
    let holder = screen.id.parse().ok().and_then(|id| HolderClient::connect(&home.session_dir(id)).ok());
    let from = Origin::Byte(screen.offset);
    Ok(holder.map(|holder| (Target { id: screen.id, painted: screen.ansi, from }, holder)))
}

/// Follows a session until something ends the viewing.
fn watch(
    home: &Home,
    target: Target,
    holder: HolderClient,
    keys: DetachKeys,
    options: Options,
) -> Result<AttachOutcome, Failure> {
    let id = target.id.clone();
    let catch_up = CatchUp::new(home.clone(), id.clone());
    let (ending, shown) = view(holder, target, keys, catch_up, options.is_read_only)?;
    match ending {
        ViewerEnd::Detached => {
            print_detached(home, &id);
            Ok(AttachOutcome::Detached)
        }
        ViewerEnd::Exited { status, end } => {
            if shown < end {
                // It ended before it heard that we follow: the log has what is missing.
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

/// The holder waits a little for viewers when the session ends; for one that was slower the log has the rest.
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
        "the session's holder went away without telling how the session ended",
        format!("See what is left of it with `coven show {}`", format::short_id(id)),
    ))
}

fn unexpected_id_error(id: &str) -> Failure {
    Failure::failed(format!("the daemon gave the id {id:?}"), "Restart it with `coven daemon restart`")
}

/// The keys that leave, as the config has them.
pub fn leave_keys(home: &Home) -> String {
    coven_host::config::read(home).map_or_else(|_| "ctrl-\\".to_owned(), |config| config.sessions.detach_keys)
}

fn detach_keys(home: &Home) -> Result<DetachKeys, Failure> {
    let config = coven_host::config::read(home)?;
    let keys = DetachKeys::parse(&config.sessions.detach_keys);
    keys.map_err(|problem| Failure::usage(format!("sessions.detachKeys: {problem}"), "Correct it in the config"))
}

/// The live session to watch; for one that is not live the log is shown and nothing is left to do.
async fn find(home: &Home, link: &mut DaemonClient, id: &str, options: Options) -> Result<Found, Failure> {
    let mut from = match options.start {
        Start::Beginning => {
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
            // It has ended, or has no screen: its record says what there is.
            Ok(Ok(_)) => {}
            Ok(Err(Failure::Client(error))) if !error.is(ErrorCode::SessionNotFound) && error.exit_code() != 5 => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                // A daemon that is busy with this session's output: the newest of it will do for a start.
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
            show_ended(home, link, &record, 0).await?;
            Ok(Found::Shown)
        }
    }
}

fn open_chat(home: &Home, id: &str, options: Options) -> Result<AttachOutcome, Failure> {
    let extent = match options.start {
        Start::Now => Extent::Nothing,
        Start::Screen | Start::Beginning => Extent::Recent,
    };
    let options = chat::Options { extent, detail: Detail::default(), is_read_only: options.is_read_only };
    Ok(match chat::open(home, id, options)? {
        chat::Ending::Left => AttachOutcome::Detached,
        chat::Ending::Over(_) => AttachOutcome::Shown,
        chat::Ending::Signalled(signal) => AttachOutcome::Signalled(signal),
    })
}

/// Moves what the terminal shows into its history before a screen is painted over it.
fn push_to_scrollback() -> Vec<u8> {
    let rows = output::terminal_size().map_or(0, |(rows, _)| usize::from(rows));
    let mut out = format!("\x1b[{rows};1H").into_bytes();
    out.extend(std::iter::repeat_n(b'\n', rows));
    out
}

async fn show_ended(home: &Home, link: &mut DaemonClient, record: &SessionRecord, from: u64) -> Result<(), Failure> {
    if record.status == SessionState::Created {
        let hint = format!("Launch it with `coven start {}`", record.id.short());
        return Err(Failure::refused("the session has not been started", hint));
    }
    log_view::show(home, link, &record.id.to_string(), from).await?;
    if output::is_terminal() {
        let (status, short) = (format::status(record), record.id.short());
        output::note(format_args!("[session {short} is over: {status}]"));
    }
    log_check::must_be_whole(link, &record.id.to_string()).await
}

/// The session was live a moment ago and its holder does not answer any more.
async fn ended(
    home: &Home,
    link: &mut DaemonClient,
    target: &Target,
    error: HolderError,
) -> Result<AttachOutcome, Failure> {
    // The daemon hears of the end a moment after the holder is gone.
    let wait = tokio::time::timeout(Duration::from_secs(5), link.ended_session(&target.id)).await;
    let Ok(record) = wait else { return Err(error.into()) };
    let record = record?;
    show_ended(home, link, &record, target.from.byte(0)).await?;
    Ok(record.exit_code.map_or(AttachOutcome::Shown, |code| AttachOutcome::Exited(ExitStatus::Code(code))))
}

/// How the viewing ended, and how far the log was shown.
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
        // Typing blindly helps nobody, and the terminal may belong to a pager.
        (true, false) => Keyboard::None,
        (false, _) if is_read_only => Keyboard::None,
        (false, _) => Keyboard::Stream,
    };
    // Before the terminal is changed, so that no signal finds it changed and unguarded.
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

/// Switches off what the session switched on, and finds a free line for what follows.
fn leave(viewer: &Viewer<'_>, ending: &Result<ViewerEnd, Failure>) {
    let mut last = viewer.watch.leave();
    match ending {
        Ok(ViewerEnd::Exited { .. }) if !viewer.is_framed() && !viewer.watch.is_mid_line() => {}
        Ok(ViewerEnd::Exited { .. }) if !viewer.is_framed() => last.extend_from_slice(b"\r\n"),
        // The session may have painted below its cursor.
        _ => last.extend_from_slice(b"\x1b[999;1H\r\n"),
    }
    // A terminal that takes nothing any more must not keep us from leaving it.
    let _ = terminal::write_within(&last, Duration::from_millis(200));
}

fn print_ended(status: ExitStatus, is_killed: bool) {
    if !output::is_terminal() {
        return;
    }
    match status {
        // That the session was killed says more than its exit status.
        _ if is_killed => output::note(format_args!("[session ended: killed]")),
        ExitStatus::Code(code) => output::note(format_args!("[session ended: exit code {code}]")),
        ExitStatus::Signal(signal) => output::note(format_args!("[session ended: signal {signal}]")),
    }
}

fn print_detached(home: &Home, id: &str) {
    let short = format::short_id(id);
    let title = record_in_time(home, id).map(|record| format::sanitize_line(&record.title));
    let title = title.unwrap_or_else(|_| format!("session {short}"));
    output::note(format_args!("[detached from {title} — coven attach {short}]"));
}

/// The session's record. It is a courtesy to the reader: leaving must not wait for it.
fn record_in_time(home: &Home, id: &str) -> Result<SessionRecord, Failure> {
    daemon_client::block_on(async {
        let mut link = DaemonClient::running(home).await?.ok_or_else(daemon_client::not_running)?;
        match tokio::time::timeout(Duration::from_millis(300), link.session(id)).await {
            Ok(record) => record,
            Err(_) => Err(daemon_client::not_running()),
        }
    })
}
