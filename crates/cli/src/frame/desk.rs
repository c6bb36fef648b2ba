//! A screen's connection to the daemon, on a thread of its own: the screen never waits for it.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Reports the screen has not taken yet. When it is full the thread waits, the daemon's event stream with it; the
/// daemon may then drop us or send a gap, and everything is read anew.
const REPORTS: usize = 256;
/// Requests not started yet. When it is full the next one is refused with a message.
const REQUESTS: usize = 64;
const REQUESTS_AT_ONCE: usize = 16;
/// How long leaving the screen waits for requests under way.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

pub struct Desk<Report, Request> {
    // Options, because the thread ends once these are dropped and is then waited for.
    reports: Option<Receiver<Report>>,
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

/// The thread is gone, which only a defect can do.
#[derive(Debug)]
pub struct Ended;

impl<Report: Send + 'static, Request: Send + 'static> Desk<Report, Request> {
    /// `look` reports until the screen is left; each request is performed beside it, and still is when the screen is left.
    pub fn start<Answer>(
        name: &str,
        look: impl AsyncFnOnce(Sender<Report>) + Send + 'static,
        perform: impl Fn(Request) -> Answer + Send + 'static,
    ) -> std::io::Result<Self>
    where
        Answer: Future<Output = Report> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (report_sender, reports) = mpsc::channel(REPORTS);
        let (requests, request_receiver) = mpsc::channel(REQUESTS);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                let looking = async {
                    look(report_sender.clone()).await;
                    std::future::pending().await
                };
                tokio::select! {
                    () = perform_all(request_receiver, &report_sender, perform) => {}
                    () = looking => {}
                }
            });
        })?;
        Ok(Self { reports: Some(reports), requests: Some(requests), thread: Some(thread) })
    }
}

impl<Report, Request> Desk<Report, Request> {
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

    /// Waits for the next report.
    #[cfg(test)]
    pub fn next(&mut self) -> Report {
        self.reports.as_mut().and_then(Receiver::blocking_recv).expect("the thread goes on")
    }
}

impl<Report, Request> Drop for Desk<Report, Request> {
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
async fn perform_all<Report: Send + 'static, Request, Answer>(
    mut requests: Receiver<Request>,
    reports: &Sender<Report>,
    perform: impl Fn(Request) -> Answer,
) where
    Answer: Future<Output = Report> + Send + 'static,
{
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.recv(), if under_way.len() < REQUESTS_AT_ONCE => {
                let Some(request) = request else { break };
                let (answer, reports) = (perform(request), reports.clone());
                under_way.spawn(async move {
                    let report = answer.await;
                    // Nobody is left to tell when the screen has been left.
                    let _ = reports.send(report).await;
                });
            }
            Some(_) = under_way.join_next() => {}
        }
    }
    let _ = timeout(LAST_REQUESTS, under_way.join_all()).await;
}
