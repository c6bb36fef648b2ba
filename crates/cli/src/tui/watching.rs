//! Shows the screen of the selected session: again and again while it runs, else once.

use std::future::pending;
use std::path::Path;
use std::time::Duration;

use coven_api::routes::{Endpoint, ReadScreen};
use coven_api::screen::ScreenResponse;
use coven_client::{Client, ClientError};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::preview::Picture;
use super::report::{Report, Watched};
use super::request::sentence;

/// Someone who holds an arrow key down does not want every screen on the way.
const SETTLED: Duration = Duration::from_millis(40);
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(10);

/// Runs until the browser is left.
pub async fn watch(socket: &Path, mut watched: watch::Receiver<Option<Watched>>, reports: &Sender<Report>) {
    loop {
        let session = watched.borrow_and_update().clone();
        let showing = async {
            match session {
                Some(session) => show(socket, &session, reports).await,
                None => pending().await,
            }
        };
        // Another selection drops the request under way, with its connection.
        tokio::select! {
            () = showing => return,
            changed = watched.changed() => if changed.is_err() {
                return pending().await;
            },
        }
    }
}

/// Ends only when nobody listens any more.
async fn show(socket: &Path, session: &Watched, reports: &Sender<Report>) {
    sleep(SETTLED).await;
    let mut client = None;
    let mut last = None;
    loop {
        let (screen, is_final) = match look(socket, &mut client, &session.id).await {
            Ok(screen) => (Ok(Picture::from(screen)), !session.is_live),
            Err(error) => {
                client = None;
                // What the daemon refuses once it refuses again; what failed on the way is worth another try.
                let is_final = matches!(error, ClientError::Api { .. }) && !session.is_live;
                (Err(sentence(error)), is_final)
            }
        };
        let pause = if screen.is_ok() { BETWEEN_LOOKS } else { AFTER_A_FAILURE };
        if last.as_ref() != Some(&screen) {
            let report = Report::Screen { id: session.id.clone(), screen: screen.clone() };
            if reports.send(report).await.is_err() {
                return;
            }
            last = Some(screen);
        }
        if is_final {
            return pending().await;
        }
        sleep(pause).await;
    }
}

async fn look(socket: &Path, client: &mut Option<Client>, id: &str) -> Result<ScreenResponse, ClientError> {
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::connect(socket).await?),
    };
    let unanswered =
        || ClientError::Unreachable { address: socket.into(), source: std::io::ErrorKind::TimedOut.into() };
    timeout(DEADLINE, client.call(ReadScreen::of(id))).await.map_err(|_| unanswered())?
}
