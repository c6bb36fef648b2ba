//! Reports to the daemon that a terminal shows a session, so that it sends no notifications about it meanwhile.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use coven_api::activity::LookRequest;
use coven_api::routes::{Endpoint, LookAtSession};
use coven_client::blocking::post_blocking;
use coven_host::home::Home;

/// How long a report counts. If this program is killed, notifications start again after that.
const LEASE: Duration = Duration::from_secs(30);
const REPORT_INTERVAL: Duration = Duration::from_secs(20);
/// A daemon that does not answer must not delay a detach.
const REPORT_TIMEOUT: Duration = Duration::from_millis(300);

/// Reports from a thread until it is dropped.
pub struct Looking {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Looking {
    pub fn start(home: &Home, id: &str) -> Self {
        let (stop, stopped) = channel();
        // Without a socket or a thread the session is shown all the same.
        let Ok(socket) = home.socket() else { return Self { stop: None, thread: None } };
        let id = id.to_owned();
        let run = move || loop {
            report(&socket, &id, LEASE);
            if stopped.recv_timeout(REPORT_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return report(&socket, &id, Duration::ZERO);
            }
        };
        Self { stop: Some(stop), thread: Builder::new().name("looking".to_owned()).spawn(run).ok() }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends one report. A daemon that is away gets the next one.
fn report(socket: &Path, id: &str, shown: Duration) {
    let body = LookRequest { seconds: Some(shown.as_secs()) };
    let body = serde_json::to_vec(&body).expect("plain data");
    let _ = post_blocking(socket, &LookAtSession::of(id), &body, Some(REPORT_TIMEOUT));
}
