//! Keeps the live connection, opens it again when it is lost, and starts requests beside it.

use std::time::Duration;

use coven_api::live::{LiveMessage, LiveRequest, LiveTopic};
use coven_client::{Live, LiveFrame};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Command, Report, call, lists};
use crate::setup::Connect;

/// The subscription of events; panes have higher ids.
pub const EVENTS: u32 = 0;

const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long an accepted connection may stay silent before its `welcome`.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// Changes of the inbox within this time are read once.
const INBOX_DELAY: Duration = Duration::from_millis(30);

/// Runs until the app drops the feed.
pub async fn run(connect: Connect, mut commands: Receiver<Command>, reports: Sender<Report>) {
    let mut calls = JoinSet::new();
    let mut delay = FIRST_RETRY_DELAY;
    loop {
        let why = match open(&connect).await {
            Ok((live, event_number)) => {
                delay = FIRST_RETRY_DELAY;
                follow(live, event_number, &connect, &mut commands, &reports, &mut calls).await
            }
            Err(why) => why,
        };
        if reports.send(Report::Lost(why)).await.is_err() {
            return;
        }
        let retry = sleep(delay);
        tokio::pin!(retry);
        // Requests are tried without a live connection too.
        loop {
            tokio::select! {
                () = &mut retry => break,
                command = commands.recv() => match command {
                    Some(Command::Call(wanted)) => call::start(&mut calls, &connect, wanted, &reports),
                    Some(Command::Live(request)) => {
                        let _ = reports.send(Report::Unsent(Box::new(request))).await;
                    }
                    None => return,
                },
                Some(_) = calls.join_next() => {}
            }
        }
        delay = (delay * 2).min(MAX_RETRY_DELAY);
    }
}

/// Opens a live connection. Returns it with the number of the newest event.
async fn open(connect: &Connect) -> Result<(Live, u64), String> {
    let client = connect().await?;
    let opening = async {
        let mut live = client.live().await.map_err(|error| error.to_string())?;
        match live.next().await.map_err(|error| error.to_string())? {
            Some(LiveFrame::Message(message)) => match *message {
                LiveMessage::Welcome { event_number, .. } => Ok((live, event_number)),
                other => Err(format!("unexpected first message from the daemon: {other:?}")),
            },
            Some(LiveFrame::Output { .. }) => Err("unexpected first message from the daemon".to_owned()),
            None => Err("the daemon closed the connection".to_owned()),
        }
    };
    timeout(WELCOME_TIMEOUT, opening).await.unwrap_or_else(|_| Err("the daemon does not answer".to_owned()))
}

/// Follows the connection until it is lost. Returns the reason.
async fn follow(
    live: Live,
    event_number: u64,
    connect: &Connect,
    commands: &mut Receiver<Command>,
    reports: &Sender<Report>,
    calls: &mut JoinSet<()>,
) -> String {
    let (mut sender, mut receiver) = live.split();
    let subscribe = LiveRequest::Subscribe {
        id: EVENTS,
        request: None,
        topic: LiveTopic::Events,
        since: Some(event_number),
        session_id: None,
        mode: None,
        from: None,
        window: None,
        on_lag: None,
    };
    if let Err(error) = sender.send(&subscribe).await {
        return error.to_string();
    }
    // What the app sent before it knew that the last connection was lost.
    while let Ok(command) = commands.try_recv() {
        match command {
            Command::Call(wanted) => call::start(calls, connect, wanted, reports),
            Command::Live(request) => {
                let _ = reports.send(Report::Unsent(Box::new(request))).await;
            }
        }
    }
    if reports.send(Report::Connected).await.is_err() {
        return String::new();
    }
    let mut reading = JoinSet::new();
    reading.spawn(lists::read_all(connect.clone(), reports.clone()));
    let mut inbox_due: Option<Instant> = None;
    loop {
        let inbox_at = inbox_due.unwrap_or_else(Instant::now);
        tokio::select! {
            frame = receiver.next() => {
                let report = match frame {
                    Ok(Some(LiveFrame::Output { id, offset, data })) => Report::Output { id, offset, data },
                    Ok(Some(LiveFrame::Message(message))) => match *message {
                        // Terminals announce their output by themselves.
                        LiveMessage::Event { event, .. } if event.kind == "session.output" => continue,
                        LiveMessage::Event { event, .. } => {
                            if changes_inbox(&event.kind) {
                                inbox_due = inbox_due.or_else(|| Some(Instant::now() + INBOX_DELAY));
                            }
                            Report::Event(Box::new(event))
                        }
                        LiveMessage::Gap { .. } => {
                            reading.abort_all();
                            reading.spawn(lists::read_all(connect.clone(), reports.clone()));
                            continue;
                        }
                        LiveMessage::Stopping {} => return "the daemon is stopping".to_owned(),
                        other => Report::Live(Box::new(other)),
                    },
                    Ok(None) => return "the daemon closed the connection".to_owned(),
                    Err(error) => return error.to_string(),
                };
                if reports.send(report).await.is_err() {
                    return String::new();
                }
            }
            command = commands.recv() => match command {
                Some(Command::Live(request)) => if let Err(error) = sender.send(&request).await {
                    let _ = reports.send(Report::Unsent(Box::new(request))).await;
                    return error.to_string();
                },
                Some(Command::Call(wanted)) => call::start(calls, connect, wanted, reports),
                None => return String::new(),
            },
            () = sleep_until(inbox_at), if inbox_due.is_some() => {
                inbox_due = None;
                reading.spawn(lists::read_inbox(connect.clone(), reports.clone()));
            }
            Some(_) = reading.join_next() => {}
            Some(_) = calls.join_next() => {}
        }
    }
}

/// Reports whether an event of this kind can change what waits for the user.
fn changes_inbox(kind: &str) -> bool {
    ["permission.", "agent_question.", "terminal_prompt.", "question_set.", "task.", "workflow."]
        .iter()
        .any(|noun| kind.starts_with(noun))
}
