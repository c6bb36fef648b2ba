//! The browser's connection to the daemon.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::report::{Report, Request, Watched};
use super::{follow, request, watching};
use crate::frame::desk::{Desk, Ended};

pub struct Feed {
    desk: Desk<Report, Request>,
    watched: watch::Sender<Option<Watched>>,
    include_archived: watch::Sender<bool>,
}

impl Feed {
    pub fn start(socket: PathBuf, include_archived: bool) -> std::io::Result<Self> {
        let (watched, watched_receiver) = watch::channel(None);
        let (include_archived, archived_receiver) = watch::channel(include_archived);
        let here = socket.clone();
        let look = async move |reports| {
            tokio::join!(
                follow::follow(&here, archived_receiver, &reports),
                watching::watch(&here, watched_receiver, &reports),
            );
        };
        // What is typed comes in the order that it was typed in.
        let typing = Arc::new(Mutex::new(()));
        let perform = move |request: Request| {
            let (socket, typing) = (socket.clone(), typing.clone());
            async move {
                let answer = request::perform(&socket, &request, &typing).await;
                Report::Answered { request, answer }
            }
        };
        Ok(Self { desk: Desk::start("browser-feed", look, perform)?, watched, include_archived })
    }

    /// Everything that was reported since the last call.
    pub fn reports(&mut self) -> Result<Vec<Report>, Ended> {
        self.desk.reports()
    }

    /// Sends a request on its way; gives it back if too many are waiting.
    pub fn ask(&self, request: Request) -> Result<(), Request> {
        self.desk.ask(request)
    }

    pub fn watch(&self, watched: Option<Watched>) {
        self.watched.send_replace(watched);
    }

    /// Reads the list anew.
    pub fn read(&self, include_archived: bool) {
        self.include_archived.send_replace(include_archived);
    }

    #[cfg(test)]
    pub fn next(&mut self) -> Report {
        self.desk.next()
    }
}
