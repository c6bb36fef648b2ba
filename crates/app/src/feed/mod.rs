//! The app's connection to the daemon: reads the lists, follows events and terminals, and performs requests. The app never
//! waits for it.

mod call;
mod connection;
mod lists;

use coven_api::event::EventRecord;
use coven_api::inbox::InboxItem;
use coven_api::live::{LiveMessage, LiveRequest};
use coven_api::session::SessionRecord;
use coven_api::task::TaskRecord;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use self::call::{Answer, Call, SessionAction, TaskAction, stop_looking};
pub use self::lists::{ENDED, MAX_FINISHED};
use crate::setup::Connect;

/// Reports that the app has not read. When the queue is full the connection waits, and the daemon's windows with it.
const MAX_REPORTS: usize = 256;
/// Commands that the connection has not taken. When the queue is full a command is refused.
const MAX_COMMANDS: usize = 1024;

/// What the app wants from the daemon.
#[derive(Debug)]
pub enum Command {
    /// A message on the live connection.
    Live(LiveRequest),
    Call(Box<Call>),
}

/// What the daemon reported.
#[derive(Debug)]
pub enum Report {
    Connected,
    /// The connection is lost, for this reason. It is tried again.
    Lost(String),
    /// The lists are read again from their start.
    ReadStarted,
    Sessions(Vec<SessionRecord>),
    /// How many ended sessions exist that are not archived.
    FinishedTotal(u64),
    Inbox(Vec<InboxItem>),
    Tasks(Vec<TaskRecord>),
    ReadEnded,
    Event(Box<EventRecord>),
    Live(Box<LiveMessage>),
    /// The connection was lost before this was sent.
    Unsent(Box<LiveRequest>),
    Output {
        id: u32,
        offset: u64,
        data: bytes::Bytes,
    },
    Answered {
        call: Box<Call>,
        result: Result<Answer, String>,
    },
}

pub struct Feed {
    commands: mpsc::Sender<Command>,
    reports: mpsc::Receiver<Report>,
    task: JoinHandle<()>,
}

impl Feed {
    /// Starts to connect. Needs a tokio runtime.
    pub fn start(connect: Connect) -> Self {
        let (report_sender, reports) = mpsc::channel(MAX_REPORTS);
        let (commands, command_receiver) = mpsc::channel(MAX_COMMANDS);
        let task = tokio::spawn(connection::run(connect, command_receiver, report_sender));
        Self { commands, reports, task }
    }

    /// Returns the next report. Cancel-safe.
    pub async fn next(&mut self) -> Option<Report> {
        self.reports.recv().await
    }

    /// Returns a report that is waiting already.
    pub fn try_next(&mut self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    /// Sends a command on its way. Returns it if too many are waiting.
    pub fn send(&self, command: Command) -> Result<(), Command> {
        self.commands.try_send(command).map_err(|error| error.into_inner())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}
