//! Input, sizes and signals of a live connection: a connection to each session's holder that never carries output.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::ws::Message;
use coven_api::ErrorCode;
use coven_api::live::{LiveMessage, LiveSignal};
use coven_domain::SessionId;
use coven_engine::attach::{Shown, Typed, ViewerInput, ViewerOutput};
use coven_engine::{Engine, EngineError};
use rustix::process::Signal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::text;
use crate::reply::ApiError;

/// So many bytes wait for sessions that do not read their input; more is refused.
const MOST_WAITING: usize = 4 << 20;
/// What a message costs at least, so that their number is bounded too.
const LEAST_COST: usize = 1 << 10;
/// The most sessions that a connection types into.
const MOST_SESSIONS: usize = 256;
/// How long a session may take to receive what a client typed before it went away.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a client types, for any number of sessions.
pub(super) struct Typing {
    engine: Arc<Engine>,
    answers: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
    /// Bounded by `room`.
    lines: HashMap<SessionId, mpsc::UnboundedSender<Waiting>>,
    tasks: JoinSet<()>,
}

struct Waiting {
    typed: Typed,
    request: Option<u64>,
    /// The client shows the session's bytes on a terminal.
    is_terminal: bool,
    room: OwnedSemaphorePermit,
}

impl Typing {
    pub fn new(engine: Arc<Engine>, answers: mpsc::Sender<Message>) -> Self {
        let room = Arc::new(Semaphore::new(MOST_WAITING));
        Self { engine, answers, room, lines: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Passes on what was typed, in the order of one session's messages. Does not wait.
    pub fn send(
        &mut self,
        session: SessionId,
        request: Option<u64>,
        typed: Typed,
        is_terminal: bool,
    ) -> Result<(), ApiError> {
        let length = match &typed {
            Typed::Input(bytes) => bytes.len(),
            Typed::Resize { .. } => 0,
        };
        let waiting = Waiting { typed, request, is_terminal, room: self.reserve(length)? };
        if !self.lines.contains_key(&session) {
            if self.lines.len() >= MOST_SESSIONS {
                let why = format!("a connection types into at most {MOST_SESSIONS} sessions; open another one");
                return Err(ApiError::new(ErrorCode::TooManySubscriptions, why));
            }
            let (line, queue) = mpsc::unbounded_channel();
            self.tasks.spawn(type_into(self.engine.clone(), session, queue, self.answers.clone()));
            self.lines.insert(session, line);
        }
        if self.lines[&session].send(waiting).is_err() {
            return Err(ApiError::from(EngineError::HolderGone(session)));
        }
        Ok(())
    }

    /// Signals on a connection of its own: input that the session does not read cannot delay it.
    pub fn signal(&mut self, session: SessionId, request: Option<u64>, signal: LiveSignal) -> Result<(), ApiError> {
        while self.tasks.try_join_next().is_some() {}
        let room = self.reserve(0)?;
        let (engine, answers) = (self.engine.clone(), self.answers.clone());
        self.tasks.spawn(async move {
            let sent = engine.signal_session(session, number(signal)).await;
            drop(room);
            answer(&answers, request, sent).await;
        });
        Ok(())
    }

    fn reserve(&self, length: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let cost = u32::try_from(length.max(LEAST_COST)).unwrap_or(u32::MAX);
        self.room.clone().try_acquire_many_owned(cost).map_err(|_| {
            ApiError::new(
                ErrorCode::Unavailable,
                "too much input waits for sessions that do not read it; try again later",
            )
        })
    }

    /// Waits a while until everything typed so far has reached its session.
    pub async fn finish(mut self) {
        self.lines.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            tracing::info!("a session did not read what was typed before its client went away");
        }
    }
}

/// Types into one session until the client goes away. A session that ended and runs again is connected to again.
async fn type_into(
    engine: Arc<Engine>,
    session: SessionId,
    mut queue: mpsc::UnboundedReceiver<Waiting>,
    answers: mpsc::Sender<Message>,
) {
    while let Some(first) = queue.recv().await {
        match engine.attach(session).await {
            Ok((output, input)) => {
                let unanswered = type_on(first, output, input, &mut queue, &answers).await;
                for request in unanswered {
                    answer(&answers, Some(request), Err(EngineError::HolderGone(session))).await;
                }
            }
            Err(error) => answer(&answers, first.request, Err(error)).await,
        }
    }
}

/// Types until the client or the session goes away; returns the requests that were not answered.
async fn type_on(
    first: Waiting,
    mut output: ViewerOutput,
    mut input: ViewerInput,
    queue: &mut mpsc::UnboundedReceiver<Waiting>,
    answers: &mpsc::Sender<Message>,
) -> VecDeque<u64> {
    let asked = Mutex::new(VecDeque::new());
    let typing = async {
        let (mut next, mut is_following) = (Some(first), false);
        while let Some(Waiting { typed, request, is_terminal, room }) = next {
            // Noted first: if the session goes away meanwhile, the client is told.
            asked.lock().unwrap_or_else(PoisonError::into_inner).extend(request);
            let sent = async {
                input.send(typed).await?;
                // Counts as an attached terminal from now on: it answers the program's questions itself, and its size leaves
                // with it. No log has this byte, so no output comes on this connection.
                if is_terminal && !std::mem::replace(&mut is_following, true) {
                    input.follow(u64::MAX).await?;
                }
                match request {
                    Some(_) => input.ask_receipt().await,
                    None => Ok(()),
                }
            };
            if sent.await.is_err() {
                return;
            }
            drop(room);
            next = queue.recv().await;
        }
    };
    let hearing = async {
        while let Ok(shown) = output.next().await {
            match shown {
                Shown::Received => {
                    let request = asked.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    answer(answers, request, Ok(())).await;
                }
                Shown::Output(_) | Shown::Resized { .. } => {}
                Shown::Exited { .. } | Shown::Refused(_) | Shown::Gone => return,
            }
        }
    };
    tokio::select! {
        () = typing => {}
        () = hearing => {}
    }
    asked.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Answers a request that has a number; a failure is told in any case.
async fn answer(answers: &mpsc::Sender<Message>, request: Option<u64>, done: Result<(), EngineError>) {
    let message = match (done, request) {
        (Ok(()), Some(request)) => LiveMessage::Accepted { request },
        (Ok(()), None) => return,
        (Err(error), _) => LiveMessage::Error { id: None, request, error: ApiError::from(error).into_detail() },
    };
    let _ = answers.send(text(&message)).await;
}

const fn number(signal: LiveSignal) -> Signal {
    match signal {
        LiveSignal::Hup => Signal::HUP,
        LiveSignal::Int => Signal::INT,
        LiveSignal::Quit => Signal::QUIT,
        LiveSignal::Kill => Signal::KILL,
        LiveSignal::Usr1 => Signal::USR1,
        LiveSignal::Usr2 => Signal::USR2,
        LiveSignal::Term => Signal::TERM,
        LiveSignal::Cont => Signal::CONT,
        LiveSignal::Stop => Signal::STOP,
        LiveSignal::Tstp => Signal::TSTP,
        LiveSignal::Winch => Signal::WINCH,
    }
}
