//! The board's connection to the daemon.

use std::collections::BTreeSet;

use tokio::sync::watch;

use super::report::{Report, Request};
use super::{act, follow, lines};
use crate::daemon_connector::DaemonConnector;
use crate::frame::desk::{Desk, Ended};

pub struct Feed {
    desk: Desk<Report, Request>,
    watched: watch::Sender<BTreeSet<String>>,
}

impl Feed {
    pub fn start(connector: DaemonConnector, by: Option<String>) -> std::io::Result<Self> {
        let (watched, watched_receiver) = watch::channel(BTreeSet::new());
        let here = connector.socket().to_owned();
        let look = async move |reports| {
            tokio::join!(follow::follow(&here, &reports), lines::watch(&here, watched_receiver, &reports));
        };
        let perform = move |request: Request| {
            let (connector, by) = (connector.clone(), by.clone());
            async move {
                let answer = act::perform(&connector, by.as_deref(), &request).await;
                Report::Answered { request: Box::new(request), answer }
            }
        };
        Ok(Self { desk: Desk::start("board-feed", look, perform)?, watched })
    }

    /// Everything that was reported since the last call.
    pub fn reports(&mut self) -> Result<Vec<Report>, Ended> {
        self.desk.reports()
    }

    /// Sends a request on its way; gives it back if too many are waiting.
    pub fn ask(&self, request: Request) -> Result<(), Request> {
        self.desk.ask(request)
    }

    /// The sessions whose last lines are on the screen.
    pub fn watch(&self, sessions: BTreeSet<String>) {
        self.watched.send_replace(sessions);
    }

    #[cfg(test)]
    pub fn next(&mut self) -> Report {
        self.desk.next()
    }
}
