//! The board's connection to the daemon, on a thread of its own: the screen never waits for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::report::{Report, Request};
use super::{act, follow, lines};

/// Reports the screen has not taken yet. When it is full the feed waits, the daemon's event stream with it; the
/// daemon may then drop us or send a gap, and everything is read anew.
const REPORTS: usize = 256;
/// Requests not begun yet. When it is full the next one is refused with a message.
const REQUESTS: usize = 64;
const REQUESTS_AT_ONCE: usize = 16;
/// How long leaving the board waits for requests under way.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

pub struct Feed {
    // Options, because the thread ends once these are dropped and is then waited for.
    reports: Option<Receiver<Report>>,
    requests: Option<Sender<Request>>,
    watched: watch::Sender<BTreeSet<String>>,
    thread: Option<JoinHandle<()>>,
}

/// The feed's thread is gone, which only a defect can do.
#[derive(Debug)]
pub struct Ended;

impl Feed {
    pub fn start(socket: PathBuf, by: Option<String>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (report_sender, reports) = mpsc::channel(REPORTS);
        let (requests, request_receiver) = mpsc::channel(REQUESTS);
        let (watched, watched_receiver) = watch::channel(BTreeSet::new());
        let thread = std::thread::Builder::new().name("board-feed".to_owned()).spawn(move || {
            runtime.block_on(async {
                let looking = async {
                    tokio::join!(
                        follow::follow(&socket, &report_sender),
                        lines::watch(&socket, watched_receiver, &report_sender),
                    );
                    std::future::pending().await
                };
                // Looking ends with the board; what was asked for is still done.
                tokio::select! {
                    () = perform(&socket, by.as_deref(), request_receiver, &report_sender) => {}
                    () = looking => {}
                }
            });
        })?;
        Ok(Self { reports: Some(reports), requests: Some(requests), watched, thread: Some(thread) })
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

    /// Sends a request on its way; gives it back if too many are waiting.
    pub fn ask(&self, request: Request) -> Result<(), Request> {
        match &self.requests {
            Some(requests) => requests.try_send(request).map_err(|error| error.into_inner()),
            None => Err(request),
        }
    }

    /// The sessions whose last lines are on the screen.
    pub fn watch(&self, sessions: BTreeSet<String>) {
        self.watched.send_replace(sessions);
    }
}

#[cfg(test)]
impl Feed {
    /// Waits for the next report.
    pub fn next(&mut self) -> Report {
        self.reports.as_mut().and_then(Receiver::blocking_recv).expect("the feed goes on")
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

/// Performs requests, several at once, until no more can come; then gives those under way a moment.
async fn perform(socket: &Path, by: Option<&str>, mut requests: Receiver<Request>, reports: &Sender<Report>) {
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.recv(), if under_way.len() < REQUESTS_AT_ONCE => {
                let Some(request) = request else { break };
                let (socket, by, reports) = (socket.to_owned(), by.map(str::to_owned), reports.clone());
                under_way.spawn(async move {
                    let answer = act::perform(&socket, by.as_deref(), &request).await;
                    // Nobody is left to tell when the board has been left.
                    let _ = reports.send(Report::Answered { request: Box::new(request), answer }).await;
                });
            }
            Some(_) = under_way.join_next() => {}
        }
    }
    let _ = timeout(LAST_REQUESTS, under_way.join_all()).await;
}
