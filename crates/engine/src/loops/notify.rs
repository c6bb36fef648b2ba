//! Shows desktop notifications for new inbox items.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::text::one_line;
use coven_host::program;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::Engine;
use crate::notification::InboxNotification;

/// Minimum time between two notifications; items that arrive in between are combined.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of the program that shows a notification.
const SHOW_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_CHARS: usize = 200;
/// The program that shows notifications.
const NOTIFY_SEND: &str = "notify-send";

/// Runs until the daemon stops, which also ends the programs that show notifications.
pub async fn run(engine: Arc<Engine>, mut received: Receiver<InboxNotification>) {
    if !engine.config.notifications.desktop {
        return;
    }
    let mut shown = JoinSet::new();
    let mut next_at = Instant::now();
    loop {
        let first = tokio::select! {
            notification = received.recv() => notification,
            Some(_) = shown.join_next() => continue,
            () = engine.stopped() => return,
        };
        let Some(first) = first else { return };
        let mut waiting = vec![first];
        loop {
            tokio::select! {
                () = sleep_until(next_at) => break,
                Some(more) = received.recv() => waiting.push(more),
                () = engine.stopped() => return,
            }
        }
        while let Ok(more) = received.try_recv() {
            waiting.push(more);
        }
        if let Some((title, body)) = words(&engine, waiting).await {
            next_at = Instant::now() + MIN_INTERVAL;
            shown.spawn(show(title, body));
        }
    }
}

/// Returns title and body, or `None` if all items have been answered.
async fn words(engine: &Engine, notifications: Vec<InboxNotification>) -> Option<(String, String)> {
    let mut waiting = Vec::new();
    for notification in notifications {
        // The client that shows the session shows the request too.
        let is_watched = notification.session.is_some_and(|session| engine.is_watched(session));
        if !is_watched && engine.is_still_pending(&notification).await {
            waiting.push(notification);
        }
    }
    match waiting.as_slice() {
        [] => None,
        [only] => Some((engine.notification_title(only).await, only.title.clone())),
        several => Some((format!("{} items need your attention", several.len()), "See `coven inbox`".to_owned())),
    }
}

/// Shows it if there is a program that can; `coven doctor` says so if there is none.
async fn show(title: String, body: String) {
    let Some(notify_send) = program::find(NOTIFY_SEND, std::env::var_os("PATH").as_deref()) else { return };
    let child = Command::new(notify_send)
        .args(["--app-name=coven", "--"])
        .args([one_line(&title, MAX_CHARS), one_line(&body, MAX_CHARS)])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In its own process group, so that a timeout also ends its children.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(%error, "cannot show a notification");
            return;
        }
    };
    let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if timeout(SHOW_TIMEOUT, child.wait()).await.is_err() {
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.wait().await;
    }
}
