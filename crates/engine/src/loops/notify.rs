//! Sends notifications of needs: combined on the desktop, one by one to a command.

use std::sync::Arc;
use std::time::Duration;

use coven_host::config::QuietHours;
use tokio::process::Command;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::notify_channels::{NotificationCommand, show};
use crate::Engine;
use crate::notification::{InboxNotification, NOTIFICATION_QUEUE, Need, NotificationRecord};

/// Minimum time between two notifications; items that arrive in between are combined.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// An activity must hold for so long: an inbox item that announces the same is stored by then.
const SETTLE_TIME: Duration = Duration::from_secs(1);
const CLOCK_TIMEOUT: Duration = Duration::from_secs(5);

struct WaitingNotification {
    at: Instant,
    notification: InboxNotification,
}

/// Runs until the daemon stops, which also ends the programs that show notifications.
pub async fn run(engine: Arc<Engine>, mut received: Receiver<InboxNotification>) {
    let config = &engine.config.notifications;
    let command = NotificationCommand::new(&config.command, engine.home.path());
    if !config.desktop && command.is_none() {
        return;
    }
    let mut waiting: Vec<WaitingNotification> = Vec::new();
    let mut sent = JoinSet::new();
    let mut next_at = Instant::now();
    loop {
        let due = waiting.iter().map(|it| it.at).min().map(|at| at.max(next_at));
        tokio::select! {
            Some(notification) = received.recv() => {
                if waiting.len() < NOTIFICATION_QUEUE {
                    waiting.push(WaitingNotification { at: ready_at(&notification), notification });
                }
                continue;
            }
            Some(_) = sent.join_next() => continue,
            () = sleep_until(due.unwrap_or(next_at)), if due.is_some() => {}
            () = engine.stopped() => return,
        }
        let now = Instant::now();
        let mut ready: Vec<WaitingNotification> = waiting.extract_if(.., |it| it.at <= now).collect();
        if let Some(left) = quiet_time_left(config.quiet_hours.as_ref()).await {
            ready.iter_mut().for_each(|it| it.at = Instant::now() + left);
            waiting.append(&mut ready);
            continue;
        }
        let records = records(&engine, ready).await;
        if records.is_empty() {
            continue;
        }
        next_at = Instant::now() + MIN_INTERVAL;
        if let Some(command) = &command {
            for record in &records {
                sent.spawn(command.clone().run(record));
            }
        }
        if config.desktop {
            let (title, body) = words(&records);
            sent.spawn(show(title, body));
        }
    }
}

fn ready_at(notification: &InboxNotification) -> Instant {
    let now = Instant::now();
    match notification.need {
        Need::Activity(..) => now + SETTLE_TIME,
        Need::Request(_) | Need::QuestionSet(_) | Need::Task(_) => now,
    }
}

/// Describes the needs that still exist and that no client shows.
async fn records(engine: &Engine, ready: Vec<WaitingNotification>) -> Vec<NotificationRecord> {
    let mut records = Vec::new();
    for WaitingNotification { notification, .. } in ready {
        // The client that shows the session shows the need too.
        let is_watched = notification.session.is_some_and(|session| engine.is_watched(session));
        if !is_watched && engine.is_still_pending(&notification).await {
            records.push(engine.describe_notification(&notification).await);
        }
    }
    records
}

/// Returns the title and the body of the desktop notification for all needs.
fn words(records: &[NotificationRecord]) -> (String, Vec<String>) {
    match records {
        [only] => (only.title.clone(), vec![only.detail.clone(), only.answer_command.clone()]),
        several => (format!("{} items need your attention", several.len()), vec!["See `coven inbox`".to_owned()]),
    }
}

/// Returns how long the quiet hours last; `None` outside of them, and if the local time is not known.
async fn quiet_time_left(hours: Option<&QuietHours>) -> Option<Duration> {
    let hours = hours?;
    // The program knows the rules of the time zone, also after they change.
    let date = Command::new("date").arg("+%H:%M:%S").kill_on_drop(true).output();
    let output = match timeout(CLOCK_TIMEOUT, date).await {
        Ok(Ok(output)) if output.status.success() => output.stdout,
        _ => {
            tracing::warn!("cannot read the local time with `date`; quiet hours do not apply");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output);
    let (minute, second) = text.trim().rsplit_once(':')?;
    let left = Duration::from_secs(u64::from(hours.minutes_left(minute)?) * 60);
    Some(left.saturating_sub(Duration::from_secs(second.parse().unwrap_or(0))))
}
