//! A readable view of an ACP session: `coven chat`.
//!
//! `transcript` turns messages into rows, `state` and `control` decide, `view` and `painter` draw, `feed` talks to the
//! daemon on a thread of its own; this file joins them.

mod asking;
mod command;
mod content;
mod control;
mod diff;
pub mod editor;
#[cfg(test)]
mod editor_tests;
mod feed;
#[cfg(test)]
mod feed_tests;
#[cfg(test)]
pub(crate) mod fixtures;
mod follow;
mod painter;
pub mod past;
pub mod plain;
mod question;
mod report;
pub mod request;
pub mod row;
#[cfg(test)]
mod scripted_daemon;
mod settings;
mod state;
mod stream;
mod terminal;
#[cfg(test)]
mod tests;
mod tool;
pub mod transcript;
#[cfg(test)]
mod transcript_tests;
pub mod turn;
mod view;
mod waiting;
pub mod wrap;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, Health};
use coven_domain::message::Activity;
use coven_domain::session::{Channel, SessionState};
use coven_host::home::Home;
use crossterm::event::Event;
use signal_hook::low_level::raise;

use self::feed::Feed;
use self::painter::Painter;
use self::past::{Extent, Past};
use self::report::Report;
use self::row::{Row, Style};
use self::state::{App, Effect, Leaving, Message};
use self::terminal::Terminal;
use self::transcript::Detail;
use crate::attach::terminal::Sink;
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::looking::Looking;
use crate::tui::input::Input;
use crate::{daemon_client, format, inbox_alerts, output};

/// How long the screen waits when nothing moves on it.
const REST: Duration = Duration::from_secs(1);
/// While something moves on it.
const FRAME: Duration = Duration::from_millis(120);
/// While the terminal takes nothing.
const STALLED: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub extent: Extent,
    pub detail: Detail,
    pub is_read_only: bool,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The session goes on without us.
    Left,
    /// The session is over.
    Over(Box<SessionRecord>),
    /// A signal ended the chat.
    Signalled(i32),
}

/// Shows a session and talks to it until it is left or over.
pub fn open(home: &Home, id: &str, options: Options) -> Result<Ending, Failure> {
    let connector = DaemonConnector::to(home)?;
    let runtime = daemon_client::runtime()?;
    // The usual way first: it says so if the daemon had to be started.
    let record = runtime.block_on(async { daemon_client::DaemonClient::open(home).await?.session(id).await })?;
    let short = record.id.short();
    if record.channel != Channel::Acp {
        let hint = format!("Open it with `coven attach {short}`");
        return Err(Failure::refused("it is a terminal session, not a conversation", hint));
    }
    if record.metadata.get("detached").is_some_and(|detached| detached == true)
        && record.status == SessionState::Created
    {
        return Err(Failure::refused(
            "the session has not been started",
            format!("Launch it with `coven start {short}`"),
        ));
    }
    let is_typed_on = io::stdin().is_terminal();
    if !output::has_screen() {
        let extent = if output::is_terminal() { options.extent } else { Extent::All };
        plain::show(&connector, &record, extent, options.detail, !is_typed_on)?;
        return Ok(Ending::Left);
    }
    let (rows, columns) = output::terminal_size().unwrap_or((24, 80));
    let mut shown = vec![header(&record).cut(usize::from(columns)), Row::default()];
    if options.extent == Extent::All {
        // The history follows page by page.
        print(&std::mem::take(&mut shown))?;
    }
    let (since, past) = runtime.block_on(async {
        let mut client = connector.open().await?;
        let health = client.call(Health::request()).await?;
        let id = record.id.to_string();
        let past = Past::read(&mut client, &id, options.extent, Some(usize::from(columns)), options.detail, print);
        Ok::<_, Failure>((health.last_event, past.await?))
    })?;
    drop(runtime);
    shown.extend(past.rows);
    let mut app = App::new(record.clone(), past.transcript, usize::from(rows), Instant::now());
    app.is_read_only = options.is_read_only;
    past.prompts.iter().for_each(|prompt| app.editor.remember(prompt));
    if is_over(&record) {
        shown.extend(app.transcript.end_turn());
        print(&shown)?;
        say_over(&record);
        return Ok(Ending::Over(Box::new(record)));
    }
    let (feed, bell) =
        Feed::start(connector, record.id.to_string(), past.after, Some(since)).map_err(Failure::Runtime)?;
    // Before the terminal is changed, so that no signal finds it changed and unguarded.
    let input = Input::listen().map_err(Failure::Terminal)?.with_bell(bell);
    let terminal = Terminal::take().map_err(Failure::Terminal)?;
    let painter = Painter::new(usize::from(columns), has_colour());
    let rings = inbox_alerts::is_bell_enabled(home);
    let _looking = Looking::start(home, &record.id.to_string());
    let mut chat =
        Chat { app, feed, input, terminal, painter, sink: Sink::stdout(), printed: shown, rings, has_retaken: false };
    let ending = chat.run();
    let Chat { app, feed, terminal, mut painter, .. } = chat;
    // The last picture may not have been written whole; what is below it goes all the same.
    let _ = crate::attach::terminal::write_within(&painter.clear(), Duration::from_millis(200));
    drop(terminal);
    drop(feed);
    finish(&app, ending?)
}

struct Chat {
    app: App,
    feed: Feed,
    input: Input,
    terminal: Terminal,
    painter: Painter,
    sink: Sink,
    /// Rows that wait to be written into the history.
    printed: Vec<Row>,
    /// Whether the bell rings when something new waits.
    rings: bool,
    /// The terminal was taken again after we stopped ourselves; the signal that tells so is still to come.
    has_retaken: bool,
}

enum Stop {
    Left(Leaving),
    Signalled(i32),
}

impl Chat {
    fn run(&mut self) -> Result<Stop, Failure> {
        loop {
            self.draw()?;
            let news = self.input.wait(self.patience()).map_err(Failure::Terminal)?;
            if let Some(signal) = news.ending {
                return Ok(Stop::Signalled(signal));
            }
            if news.is_continued && !std::mem::take(&mut self.has_retaken) {
                self.retake()?;
            }
            let mut messages: Vec<Message> = news.events.into_iter().filter_map(message).collect();
            // A terminal that takes nothing stops the daemon's stream too: nothing is gathered without end.
            if !self.sink.is_waiting() {
                let reports = self.feed.reports().map_err(|_| feed_ended())?;
                messages.extend(reports.into_iter().map(Message::Report));
            }
            if messages.is_empty() {
                messages.push(Message::Tick);
            }
            for message in messages {
                if let Message::Resized { columns, .. } = message {
                    let bytes = self.painter.resize(columns);
                    self.sink.write(&bytes).map_err(Failure::Output)?;
                }
                for effect in self.app.update(message, Instant::now()) {
                    if let Some(leaving) = self.perform(effect)? {
                        self.draw()?;
                        return Ok(Stop::Left(leaving));
                    }
                }
            }
        }
    }

    fn patience(&self) -> Duration {
        match (self.sink.is_waiting(), self.app.is_turn_running() || self.app.agent.activity == Activity::Opening) {
            (true, _) => STALLED,
            (false, true) => FRAME,
            (false, false) => REST,
        }
    }

    fn draw(&mut self) -> Result<(), Failure> {
        if self.sink.is_waiting() {
            self.sink.flush().map_err(Failure::Output)?;
        }
        if !self.sink.is_waiting() {
            let (rows, cursor) = view::draw(&self.app);
            let bytes = self.painter.paint(&std::mem::take(&mut self.printed), rows, cursor);
            self.sink.write(&bytes).map_err(Failure::Output)?;
        }
        Ok(())
    }

    /// Why the chat is to be left, if it is.
    fn perform(&mut self, effect: Effect) -> Result<Option<Leaving>, Failure> {
        match effect {
            Effect::Print(rows) => self.printed.extend(rows),
            Effect::Ask(request) => {
                if let Err(request) = self.feed.ask(request) {
                    let answer = Err("too much is under way; try again in a moment".to_owned());
                    let report = Report::Answered { request, answer };
                    for effect in self.app.update(Message::Report(report), Instant::now()) {
                        self.perform(effect)?;
                    }
                }
            }
            Effect::Leave(leaving) => return Ok(Some(leaving)),
            Effect::Bell if self.rings => self.sink.write(b"\x07").map_err(Failure::Output)?,
            Effect::Bell => {}
            Effect::Redraw => {
                self.painter.forget();
                self.sink.write(b"\x1b[H\x1b[2J").map_err(Failure::Output)?;
            }
            Effect::Suspend => {
                let bytes = self.painter.clear();
                self.sink.write(&bytes).map_err(Failure::Output)?;
                self.terminal.lend();
                // Returns when the shell continues us.
                raise(signal_hook::consts::SIGTSTP).map_err(Failure::Terminal)?;
                self.retake()?;
                self.has_retaken = true;
            }
        }
        Ok(None)
    }

    fn retake(&mut self) -> Result<(), Failure> {
        self.terminal.retake().map_err(Failure::Terminal)?;
        self.painter.forget();
        Ok(())
    }
}

fn message(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) => Some(Message::Key(key)),
        Event::Paste(text) => Some(Message::Paste(text)),
        Event::Resize(columns, rows) => Some(Message::Resized { columns: columns.into(), rows: rows.into() }),
        Event::Mouse(_) | Event::FocusGained | Event::FocusLost => None,
    }
}

/// What is said on the way out, once the terminal is the shell's again.
fn finish(app: &App, stop: Stop) -> Result<Ending, Failure> {
    if !app.editor.is_empty() {
        output::note(format_args!("[not sent: {}]", format::sanitize_line(app.editor.text())));
    }
    match stop {
        Stop::Left(Leaving::Left) => {
            output::note(format_args!("{}", App::way_back(&app.record)));
            Ok(Ending::Left)
        }
        Stop::Left(Leaving::Over(record)) => {
            say_over(&record);
            Ok(Ending::Over(record))
        }
        Stop::Left(Leaving::Refused(why)) => Err(Failure::refused(why, "")),
        Stop::Signalled(signal) => Ok(Ending::Signalled(signal)),
    }
}

fn header(record: &SessionRecord) -> Row {
    let short = record.id.short();
    Row::new(Style::Bold, &record.title).with(Style::Dim, &format!(" · {} · {short} · {}", record.harness, record.cwd))
}

fn is_over(record: &SessionRecord) -> bool {
    !matches!(record.status.as_str(), "created" | "running")
}

fn say_over(record: &SessionRecord) {
    let (status, short) = (format::status(record), record.id.short());
    let why = match record.metadata.get("reason").and_then(serde_json::Value::as_str) {
        Some(reason) => format!(" ({})", format::sanitize_line(reason).replace('_', " ")),
        None => String::new(),
    };
    let again = format!("coven run {} --acp --resume {short}", format::sanitize_line(&record.harness));
    output::note(format_args!("[session over: {status}{why} — {again}]"));
}

fn print(rows: &[Row]) -> Result<(), Failure> {
    let has_colour = has_colour();
    let text: String = rows.iter().map(|row| format!("{}\n", row.ansi(has_colour))).collect();
    output::bytes(text.as_bytes())
}

/// What an agent wants to do, as far as a request for permission tells it.
pub fn request_rows(detail: &serde_json::Value) -> Vec<Row> {
    let call = tool::ToolCall::of_request(detail);
    let mut rows = vec![Row::new(Style::Plain, &format!("{:<10}{}", "wants", call.label()))];
    rows.extend(call.content_rows());
    rows
}

fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn feed_ended() -> Failure {
    Failure::failed("the chat's connection ended unexpectedly", "Run `coven chat` again")
}
