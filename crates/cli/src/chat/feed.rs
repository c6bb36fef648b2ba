//! The chat's connection to the daemon, on a thread of its own: the screen never waits for it.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::timeout;

use super::report::{Report, Request};
use super::{asking, follow, request, waiting};
use crate::daemon_connector::DaemonConnector;

/// Reports the screen has not taken yet. When it is full the feed waits, and the daemon's stream with it.
const REPORTS: usize = 256;
/// Requests not begun yet. When it is full the next one is refused with a message.
const REQUESTS: usize = 64;
/// How long leaving the chat waits for requests under way.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

pub struct Feed {
    // Options, because the thread ends once these are dropped and is then waited for.
    reports: Option<Receiver<Report>>,
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

/// The feed's thread is gone, which only a defect can do.
#[derive(Debug)]
pub struct Ended;

/// The way of reports to the screen, with a bell for who waits for them.
pub struct Reports {
    sender: Sender<Report>,
    bell: UnixStream,
}

impl Reports {
    /// Whether somebody still listens.
    pub async fn send(&self, report: Report) -> bool {
        let is_heard = self.sender.send(report).await.is_ok();
        // A bell that rings already says it too.
        let _ = (&self.bell).write(b"!");
        is_heard
    }
}

impl Feed {
    /// Follows the session from the message after `after`, and the inbox, if it is wanted, from the event after
    /// `since`. Returns what becomes readable with every report.
    pub fn start(
        connector: DaemonConnector,
        id: String,
        after: u64,
        since: Option<u64>,
    ) -> io::Result<(Self, UnixStream)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (wake, bell) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let (sender, reports) = mpsc::channel(REPORTS);
        let (requests, request_receiver) = mpsc::channel(REQUESTS);
        let thread = std::thread::Builder::new().name("chat-feed".to_owned()).spawn(move || {
            let reports = Reports { sender, bell };
            let seen = AtomicU64::new(after);
            let (asks, asked) = watch::channel(false);
            runtime.block_on(async {
                let looking = async {
                    tokio::join!(
                        follow::follow(&connector, &id, &seen, &asks, &reports),
                        asking::watch(&connector, &id, asked, &reports),
                        async {
                            if let Some(since) = since {
                                waiting::watch(&connector, since, &reports).await;
                            }
                        },
                    );
                    std::future::pending().await
                };
                // Looking ends with the chat; what was asked for is still done.
                tokio::select! {
                    () = perform(&connector, &id, &seen, request_receiver, &reports) => {}
                    () = looking => {}
                }
            });
            // A daemon that is just being started is not waited for.
            runtime.shutdown_background();
        })?;
        Ok((Self { reports: Some(reports), requests: Some(requests), thread: Some(thread) }, wake))
    }

    /// Everything that was reported since the last call.
    pub fn reports(&mut self) -> Result<Vec<Report>, Ended> {
        let reports = self.reports.as_mut().ok_or(Ended)?;
        let mut taken = Vec::new();
        while taken.len() < REPORTS {
            match reports.try_recv() {
                Ok(report) => taken.push(report),
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return Err(Ended),
            }
        }
        Ok(taken)
    }

    /// Waits for the next report; nothing if the feed is gone.
    pub fn next(&mut self) -> Option<Report> {
        self.reports.as_mut().and_then(Receiver::blocking_recv)
    }

    /// Sends a request on its way; gives it back if too many are waiting.
    pub fn ask(&self, request: Request) -> Result<(), Request> {
        match &self.requests {
            Some(requests) => requests.try_send(request).map_err(|error| error.into_inner()),
            None => Err(request),
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.reports = None;
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been shown already.
            let _ = thread.join();
        }
    }
}

/// Performs requests one after the other, in the order they were typed; once no more can come, those left get a moment.
async fn perform(
    connector: &DaemonConnector,
    id: &str,
    seen: &AtomicU64,
    mut requests: Receiver<Request>,
    reports: &Reports,
) {
    loop {
        let Some(request) = requests.recv().await else { return };
        let performing = request::perform(connector, id, &request, seen);
        let answer = match requests.is_closed() {
            false => performing.await,
            true => match timeout(LAST_REQUESTS, performing).await {
                Ok(answer) => answer,
                Err(_) => return,
            },
        };
        // Nobody is left to tell when the chat has been left.
        reports.send(Report::Answered { request, answer }).await;
    }
}
