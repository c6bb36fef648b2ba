//! Follows a conversation on a thread of its own.

use std::io;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;

use super::report::Report;
use super::{asking, follow};
use crate::daemon_connector::DaemonConnector;

/// Reports that were not taken yet. When the queue is full the feed waits, and the daemon's stream with it.
const REPORTS: usize = 256;

pub struct Feed {
    // Options, because the thread ends once this is dropped and is then waited for.
    reports: Option<Receiver<Report>>,
    thread: Option<JoinHandle<()>>,
}

/// Where reports go.
pub struct Reports {
    sender: Sender<Report>,
}

impl Reports {
    /// Sends a report. Returns whether somebody still listens.
    pub async fn send(&self, report: Report) -> bool {
        self.sender.send(report).await.is_ok()
    }
}

impl Feed {
    /// Follows the session from the message after `after`.
    pub fn start(connector: DaemonConnector, id: String, after: u64) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, reports) = mpsc::channel(REPORTS);
        let thread = std::thread::Builder::new().name("chat-feed".to_owned()).spawn(move || {
            let reports = Reports { sender };
            let seen = AtomicU64::new(after);
            let (asks, asked) = watch::channel(false);
            runtime.block_on(async {
                let following = async {
                    tokio::join!(
                        follow::follow(&connector, &id, &seen, &asks, &reports),
                        asking::watch(&connector, &id, asked, &reports),
                    );
                    std::future::pending().await
                };
                tokio::select! {
                    () = reports.sender.closed() => {}
                    () = following => {}
                }
            });
            // A daemon that is just being started is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self { reports: Some(reports), thread: Some(thread) })
    }

    /// Waits for the next report. Returns `None` if the feed has ended.
    pub fn next(&mut self) -> Option<Report> {
        self.reports.as_mut().and_then(Receiver::blocking_recv)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.reports = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been shown already.
            let _ = thread.join();
        }
    }
}
