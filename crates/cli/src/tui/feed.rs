//! The browser's connection to the daemon, on a thread of its own: the screen never waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::report::{Report, Request, Watched};
use super::{follow, request, watching};

/// Reports the screen has not taken yet. When it is full the feed waits, the daemon's event stream with it; the
/// daemon may then drop us or send a gap, and the list is read anew.
const REPORTS: usize = 256;
/// Requests not begun yet. When it is full the next one is refused with a message.
const REQUESTS: usize = 64;
const REQUESTS_AT_ONCE: usize = 16;
/// How long leaving the browser waits for requests under way.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

pub struct Feed {
    // Options, because the thread ends once these are dropped and is then waited for.
    reports: Option<Receiver<Report>>,
    requests: Option<Sender<Request>>,
    watched: watch::Sender<Option<Watched>>,
    include_archived: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The feed's thread is gone, which only a defect can do.
#[derive(Debug)]
pub struct Ended;

impl Feed {
    pub fn start(socket: PathBuf, include_archived: bool) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (report_sender, reports) = mpsc::channel(REPORTS);
        let (requests, request_receiver) = mpsc::channel(REQUESTS);
        let (watched, watched_receiver) = watch::channel(None);
        let (include_archived, archived_receiver) = watch::channel(include_archived);
        let thread = std::thread::Builder::new().name("browser-feed".to_owned()).spawn(move || {
            runtime.block_on(async {
                let looking = async {
                    tokio::join!(
                        follow::follow(&socket, archived_receiver, &report_sender),
                        watching::watch(&socket, watched_receiver, &report_sender),
                    );
                    std::future::pending().await
                };
                // Looking ends with the browser; what was asked for is still done.
                tokio::select! {
                    () = perform(&socket, request_receiver, &report_sender) => {}
                    () = looking => {}
                }
            });
        })?;
        Ok(Self { reports: Some(reports), requests: Some(requests), watched, include_archived, thread: Some(thread) })
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

    pub fn watch(&self, watched: Option<Watched>) {
        self.watched.send_replace(watched);
    }

    /// Reads the list anew.
    pub fn read(&self, include_archived: bool) {
        self.include_archived.send_replace(include_archived);
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
async fn perform(socket: &Path, mut requests: Receiver<Request>, reports: &Sender<Report>) {
    let typing = Arc::new(Mutex::new(()));
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.recv(), if under_way.len() < REQUESTS_AT_ONCE => {
                let Some(request) = request else { break };
                let (socket, reports, typing) = (socket.to_owned(), reports.clone(), typing.clone());
                under_way.spawn(async move {
                    let answer = request::perform(&socket, &request, &typing).await;
                    // Nobody is left to tell when the browser has been left.
                    let _ = reports.send(Report::Answered { request, answer }).await;
                });
            }
            Some(_) = under_way.join_next() => {}
        }
    }
    let _ = timeout(LAST_REQUESTS, under_way.join_all()).await;
}
