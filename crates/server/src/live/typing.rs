//! Input, sizes and signals of a live connection: a connection to each session's holder that never carries output.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coven_api::ErrorCode;
use coven_api::live::{LiveMessage, LiveSignal};
use coven_domain::SessionId;
use coven_engine::attach::{ViewerEvent, ViewerInput, ViewerOutput, ViewerRequest};
use coven_engine::{Engine, EngineError};
use rustix::process::Signal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::writing::Answer;
use super::{error_message, text};
use crate::reply::ApiError;

/// Bytes that may wait for sessions that do not read their input; more is refused.
const MAX_WAITING: usize = 4 << 20;
/// The least that a message counts, so that the number of messages is bounded too.
const MIN_COST: usize = 1 << 10;
/// The most sessions that a connection types into.
const MAX_SESSIONS: usize = 256;
/// How long a session may take to receive input whose client went away.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// What a client types, for any number of sessions.
pub(super) struct Typing {
    engine: Arc<Engine>,
    answers: mpsc::Sender<Answer>,
    room: Arc<Semaphore>,
    /// Bounded by `room`.
    lines: HashMap<SessionId, mpsc::UnboundedSender<Waiting>>,
    tasks: JoinSet<()>,
}

struct Waiting {
    typed: ViewerRequest,
    request: Option<u64>,
    /// The client shows the session's bytes on a terminal.
    is_terminal: bool,
    room: OwnedSemaphorePermit,
}

/// A request that waits for the holder's receipt, or for the client to read earlier answers.
struct Unanswered {
    request: u64,
    /// Bounds the number of these for a client that does not read its answers.
    _room: OwnedSemaphorePermit,
}

impl Typing {
    pub fn new(engine: Arc<Engine>, answers: mpsc::Sender<Answer>) -> Self {
        let room = Arc::new(Semaphore::new(MAX_WAITING));
        Self { engine, answers, room, lines: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Passes typed input on, in the order of one session's messages. Does not wait.
    pub fn send(
        &mut self,
        session: SessionId,
        request: Option<u64>,
        typed: ViewerRequest,
        is_terminal: bool,
    ) -> Result<(), ApiError> {
        let length = match &typed {
            ViewerRequest::Input(bytes) => bytes.len(),
            ViewerRequest::Resize { .. } => 0,
        };
        let waiting = Waiting { typed, request, is_terminal, room: self.reserve(length)? };
        if !self.lines.contains_key(&session) {
            if self.lines.len() >= MAX_SESSIONS {
                let why = format!("a connection types into at most {MAX_SESSIONS} sessions; open another one");
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

    /// Signals on a separate connection, so unread input cannot delay a signal.
    pub fn signal(&mut self, session: SessionId, request: Option<u64>, signal: LiveSignal) -> Result<(), ApiError> {
        while self.tasks.try_join_next().is_some() {}
        let room = self.reserve(0)?;
        let (engine, answers) = (self.engine.clone(), self.answers.clone());
        self.tasks.spawn(async move {
            let sent = engine.signal_session(session, number(signal)).await;
            answer(&answers, request, sent).await;
            // Kept until now: a client that does not read its answers gets no further signals through.
            drop(room);
        });
        Ok(())
    }

    fn reserve(&self, length: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let cost = u32::try_from(length.max(MIN_COST)).unwrap_or(u32::MAX);
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
        if tokio::time::timeout(DELIVERY_TIMEOUT, all).await.is_err() {
            tracing::info!("a session did not read its input before the client disconnected");
        }
    }
}

/// Types into one session until the client goes away. A session that ended and runs again is connected to again.
async fn type_into(
    engine: Arc<Engine>,
    session: SessionId,
    mut queue: mpsc::UnboundedReceiver<Waiting>,
    answers: mpsc::Sender<Answer>,
) {
    while let Some(first) = queue.recv().await {
        match engine.attach(session).await {
            Ok((output, input)) => {
                let unanswered = type_on(first, output, input, &mut queue, &answers).await;
                for Unanswered { request, _room } in unanswered {
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
    answers: &mpsc::Sender<Answer>,
) -> VecDeque<Unanswered> {
    let asked = Mutex::new(VecDeque::new());
    let typing = async {
        let (mut next, mut is_following) = (Some(first), false);
        while let Some(Waiting { typed, request, is_terminal, mut room }) = next {
            // Noted first: if the session goes away meanwhile, the client gets an error.
            if let Some(request) = request {
                let _room = room.split(MIN_COST).expect("every message has at least this much");
                asked.lock().unwrap_or_else(PoisonError::into_inner).push_back(Unanswered { request, _room });
            }
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
                ViewerEvent::Received => {
                    let answered = asked.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    answer(answers, answered.as_ref().map(|it| it.request), Ok(())).await;
                }
                ViewerEvent::Output(_) | ViewerEvent::Resized { .. } => {}
                ViewerEvent::Exited { .. } | ViewerEvent::Refused(_) | ViewerEvent::Gone => return,
            }
        }
    };
    tokio::select! {
        () = typing => {}
        () = hearing => {}
    }
    asked.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Answers a request that has a number; a failure is always reported.
async fn answer(answers: &mpsc::Sender<Answer>, request: Option<u64>, done: Result<(), EngineError>) {
    let message = match (done, request) {
        (Ok(()), Some(request)) => LiveMessage::Accepted { request },
        (Ok(()), None) => return,
        (Err(error), _) => error_message(None, request, ApiError::from(error)),
    };
    let _ = answers.send(Answer::Message(text(&message))).await;
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
