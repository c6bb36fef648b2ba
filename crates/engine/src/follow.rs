//! Follows one holder: stores its journal in the ledger, feeds its log to the screen and records its end.

use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::SessionId;
use coven_domain::activity::ActivityCheckpoint;
use coven_domain::query::RequestQuery;
use coven_domain::request::{RequestSource, RequestState, SettledFrom};
use coven_domain::session::{Channel, ExitStatus, Session, SessionState};
use coven_holder::clock;
use coven_holder::wire::{Decoder, NOTE_VERSION, Reply, Request, VERSION};
use coven_store::{Change, Keyframe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, sleep_until};

use super::Engine;
use super::acp::FinalOutput;
use super::activity::SessionActivity;
use super::evidence::TerminalReader;
use super::live::{LiveSession, UnstoredEntries};
use super::model::{KEYFRAME_BYTES, Model};
use super::settled::{note_of, record_cancelled};
use super::spawn::reap;
use crate::blocking::blocking;
use crate::error::EngineError;
use crate::runtime;
use coven_holder::fault;

/// Delay before new journal entries are stored. The journal already has them.
const LEDGER_DELAY: Duration = Duration::from_millis(100);
/// Minimum time between two transactions of a session that writes all the time: each costs more than its few entries. Reading
/// the ledger stores pending entries first.
const BUSY_LEDGER_INTERVAL: Duration = Duration::from_millis(300);
/// The same for sessions without a screen model. Reading the ledger stores pending entries first.
const UNSEEN_LEDGER_DELAY: Duration = Duration::from_secs(1);
const STORE_RETRY: Duration = Duration::from_secs(1);
/// Delay of a ledger whose output led to observations that are not stored yet, and how often it is delayed.
const OBSERVATION_DELAY: Duration = Duration::from_millis(20);
const MAX_OBSERVATION_DELAYS: u32 = 5;
pub(crate) const HOLDER_GONE: &str = "the session's holder ended without an exit status";

impl Engine {
    /// Starts following a running session.
    pub(crate) async fn adopt(
        self: &Arc<Self>,
        session: &Session,
        stream: std::os::unix::net::UnixStream,
        holder: Option<Child>,
        is_new: bool,
    ) -> Result<Arc<LiveSession>, EngineError> {
        let (id, dir) = (session.id, self.home.session_dir(session.id));
        let unreadable = |source| EngineError::Log { id, source };
        let stored = if is_new { 0 } else { self.store.last_entry(id).await? };
        let mut unstored = UnstoredEntries::open(&dir.join(coven_holder::JOURNAL), stored).map_err(unreadable)?;
        let is_acp = session.channel == Channel::Acp;
        let acp = if is_acp { self.restore_session(session).await? } else { None };
        let model = match self.config.sessions.screen_model && !is_acp {
            false => None,
            true => {
                let keyframe = if is_new { None } else { self.store.keyframe_before(id, u64::MAX).await? };
                let (rows, cols) = (session.launch.rows, session.launch.cols);
                let start = keyframe.unwrap_or(Keyframe { offset: 0, rows, cols, screen: Vec::new() });
                let answers_from = match is_new {
                    true => 0,
                    false => coven_holder::log::LogReader::new(&dir).range().map_err(unreadable)?.end,
                };
                Some(Arc::new(Model::new(&dir, start, answers_from)))
            }
        };
        unstored.read(model.as_deref()).map_err(unreadable)?;
        stream.set_nonblocking(true).map_err(unreadable)?;
        let stream = {
            let _there = self.background.enter();
            UnixStream::from_std(stream).map_err(unreadable)?
        };
        let reader = TerminalReader::of(self, session).filter(|_| model.is_some());
        if let (Some(_), Some(model)) = (&reader, &model) {
            // Signals of output that is in the ledger were judged by the daemon that stored it.
            unstored.read(Some(model)).map_err(unreadable)?;
            model.keep_signals_from(unstored.stored_end);
        }
        let observations = if is_new { Vec::new() } else { self.store.observations(id).await? };
        let checkpoint =
            if is_new { ActivityCheckpoint::default() } else { self.store.activity_checkpoint(id).await? };
        let mut activity = SessionActivity::new(session.activity.clone(), &observations, checkpoint);
        let hooks = self.hooks_of(session, &mut activity);
        let live = Arc::new(LiveSession::new(id, dir, unstored, model, acp, activity, hooks));
        self.forget_lost_screen_rules(&live, reader.as_ref());
        self.add_live(live.clone());
        if !is_new && let Err(error) = self.recover_activity(&live).await {
            tracing::warn!(session = %id, %error, "cannot complete the activity of an adopted session");
        }
        if hooks.is_some() {
            self.follow_stored_hook_calls(&live);
            self.follow_hook_files(&live);
        }
        if hooks.is_some() && !is_new {
            self.expect_waiting_hooks(&live);
        }
        if let Some(acp) = &live.acp {
            self.spawn_session_tasks(&live, acp);
        }
        let (engine, followed) = (self.clone(), live.clone());
        self.followers.send_modify(|count| *count += 1);
        // Owned by the live session: it ends with its holder or with the daemon.
        self.background.spawn(async move {
            engine.follow(&followed, stream, reader).await;
            engine.followers.send_modify(|count| *count -= 1);
            if let Some(acp) = followed.acp.as_ref().filter(|_| !engine.is_stopping()) {
                // Its remaining output is stored in the transaction that ends the session.
                acp.close().await;
            }
            if !engine.is_stopping() {
                engine.store_last_activity(&followed).await;
                engine.end_killed(&followed).await;
                engine.record_end_with_retry(&followed).await;
                engine.live_map().remove(&id);
                followed.end();
                if let Some(acp) = &followed.acp {
                    acp.notify_changed();
                }
                engine.run_end_effects(&followed).await;
            }
            if let Some(holder) = holder.filter(|_| !engine.is_stopping()) {
                reap(holder);
            }
        });
        Ok(live)
    }

    /// Follows the holder until the harness exits, the connection breaks or the daemon stops.
    async fn follow(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        mut stream: UnixStream,
        mut reader: Option<TerminalReader>,
    ) {
        let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 4096].into_boxed_slice());
        let (mut store_at, mut announce_at): (Option<Instant>, Option<Instant>) = (None, None);
        let delay = if live.model.is_some() { LEDGER_DELAY } else { UNSEEN_LEDGER_DELAY };
        let mut stored_at: Option<Instant> = None;
        let hello = [Request::Hello { version: VERSION }.encode(), Request::Watch.encode()].concat();
        if stream.write_all(&hello).await.is_err() {
            return;
        }
        self.journal_moved(live).await;
        if live.unstored.lock().await.announcer.has_news() {
            store_at = Some(Instant::now() + delay);
        }
        let mut notes = live.unsent_notes.lock().await;
        let (mut can_note, mut delays) = (false, 0);
        loop {
            let write_at = store_at.into_iter().chain(announce_at).min();
            let evaluate_at = reader.as_ref().and_then(TerminalReader::next_evaluation);
            tokio::select! {
                read = stream.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(count) => {
                        decoder.feed(&buffer[..count]);
                        let mut has_moved = false;
                        loop {
                            match decoder.reply() {
                                Ok(Some(Reply::Progress { end, .. })) => {
                                    live.advance(end);
                                    has_moved = true;
                                }
                                Ok(Some(Reply::Exited { .. })) => return,
                                Ok(Some(Reply::Refused(why))) => {
                                    tracing::warn!(session = %live.id, why, "the holder refused the connection");
                                    return;
                                }
                                Ok(Some(Reply::Welcome(welcome))) => can_note = welcome.version >= NOTE_VERSION,
                                Ok(Some(
                                    Reply::Data { .. } | Reply::Resized { .. } | Reply::Accepted,
                                )) => {}
                                Ok(None) => break,
                                Err(error) => {
                                    tracing::error!(session = %live.id, %error, "invalid frame from the holder");
                                    return;
                                }
                            }
                        }
                        if has_moved {
                            if live.model.is_some() {
                                self.journal_moved(live).await;
                            }
                            store_at.get_or_insert_with(|| ledger_time(delay, stored_at));
                        }
                    }
                },
                Some(note) = notes.recv(), if can_note => {
                    let _ = stream.write_all(&Request::Note(note).encode()).await;
                }
                () = live.model_moved.notified() => {
                    let replies = live.model.as_ref().map(|model| model.take_replies()).unwrap_or_default();
                    if !replies.is_empty() {
                        let _ = stream.write_all(&Request::TerminalReply(replies).encode()).await;
                    }
                    store_at.get_or_insert_with(|| ledger_time(delay, stored_at));
                    if let Some(reader) = &mut reader {
                        self.read_signals(live, reader);
                        reader.plan_evaluation(Instant::now());
                    }
                }
                () = sleep_until(evaluate_at.unwrap_or_else(Instant::now)), if evaluate_at.is_some() => {
                    if let Some(reader) = &mut reader {
                        self.read_screen(live, reader);
                    }
                }
                () = sleep_until(write_at.unwrap_or_else(Instant::now)), if write_at.is_some() => {
                    // Output in the ledger counts as judged after a restart.
                    if reader.is_some() && delays < MAX_OBSERVATION_DELAYS && live.has_unstored_activity() {
                        (store_at, delays) = (Some(Instant::now() + OBSERVATION_DELAY), delays + 1);
                        announce_at = None;
                        continue;
                    }
                    (store_at, announce_at, delays) = (None, None, 0);
                    self.journal_moved(live).await;
                    match self.store_ledger(live).await {
                        Ok(due) => (announce_at, stored_at) = (due, Some(Instant::now())),
                        Err(error) => {
                            tracing::warn!(session = %live.id, %error, "cannot store the ledger; retrying");
                            store_at = Some(Instant::now() + STORE_RETRY);
                        }
                    }
                }
                () = self.stopped() => {
                    self.journal_moved(live).await;
                    if let Some(reader) = &reader {
                        self.read_last_signals(live, reader).await;
                    }
                    self.store_last_activity(live).await;
                    let _ = self.store_ledger(live).await;
                    return;
                }
            }
        }
    }

    /// Judges the signals of all output before the daemon stops: the next one does not judge them again.
    async fn read_last_signals(self: &Arc<Self>, live: &Arc<LiveSession>, reader: &TerminalReader) {
        if let Some(model) = live.model.clone().filter(|model| model.lag() <= KEYFRAME_BYTES) {
            let _ = blocking(move || model.catch_up()).await;
        }
        self.read_signals(live, reader);
    }

    /// Stores the activity before the daemon or the session ends.
    async fn store_last_activity(self: &Arc<Self>, live: &Arc<LiveSession>) {
        if let Err(error) = self.flush_activity(live).await {
            tracing::warn!(session = %live.id, %error, "cannot store the activity of a session");
        }
    }

    /// Reads new records of the journal and advances the screen.
    async fn journal_moved(&self, live: &Arc<LiveSession>) {
        let mut unstored = live.unstored.lock().await;
        if let Err(error) = unstored.read(live.model.as_deref()) {
            tracing::error!(session = %live.id, %error, "the journal cannot be read");
        }
        let end = unstored.end;
        drop(unstored);
        if let Some(model) = &live.model {
            let notified = live.clone();
            self.screens.advance(model, end, Arc::new(move || notified.model_moved.notify_one()));
        }
    }

    /// Stores all entries that the journal has now.
    pub(crate) async fn sync_ledger(self: &Arc<Self>, live: &Arc<LiveSession>) -> Result<(), EngineError> {
        let (engine, live) = (self.clone(), live.clone());
        // In a separate task, because the caller may be cancelled.
        let written = runtime::spawn(async move {
            engine.journal_moved(&live).await;
            // The session's follower announces later what this call does not.
            engine.store_ledger(&live).await.map(drop)
        });
        written.await.expect("writing the ledger does not panic")
    }

    /// Stores pending entries and keyframes. Announces them if that is due, else returns when it is due.
    async fn store_ledger(&self, live: &LiveSession) -> Result<Option<Instant>, EngineError> {
        let mut unstored = live.unstored.lock().await;
        let keyframes = live.model.as_ref().map(|model| model.take_keyframes()).unwrap_or_default();
        let now = Instant::now();
        let due = unstored.announcer.due(now);
        let is_due = due == Some(now);
        if unstored.pending.is_empty() && keyframes.is_empty() && !is_due {
            return Ok(due);
        }
        match self.write_ledger(live.id, &unstored, &keyframes, is_due).await {
            Ok(()) => {
                unstored.mark_stored();
                if is_due {
                    unstored.announcer.announced(now);
                }
                Ok(due.filter(|_| !is_due))
            }
            Err(error) => {
                if let Some(model) = &live.model {
                    model.requeue_keyframes(keyframes);
                }
                Err(error)
            }
        }
    }

    async fn write_ledger(
        &self,
        id: SessionId,
        unstored: &UnstoredEntries,
        keyframes: &[Keyframe],
        announces: bool,
    ) -> Result<(), EngineError> {
        // Unsynced: after a power failure the ledger is read from the journal again.
        let mut tx = self.store.begin_unsynced().await?;
        tx.append_entries(id, &unstored.pending).await?;
        for it in keyframes {
            tx.put_keyframe(id, it.offset, it.rows, it.cols, &it.screen).await?;
        }
        if announces {
            tx.record(Change::OutputAdded { session: id, offset: unstored.end }, clock::now()).await?;
        }
        Ok(self.commit_output(tx).await?)
    }

    /// Ends the processes of a killed session whose holder died without an exit status, before the end is recorded.
    async fn end_killed(&self, live: &LiveSession) {
        let mut unstored = live.unstored.lock().await;
        let _ = unstored.read(live.model.as_deref());
        let has_exit = unstored.exit.is_some();
        drop(unstored);
        if !has_exit
            && let Ok(Some(session)) = self.store.session(live.id).await
            && session.state == SessionState::Killed
        {
            self.end_processes(&session).await;
        }
    }

    /// Records the end of a session whose holder is gone. Retries until the commit succeeds or the daemon stops.
    async fn record_end_with_retry(self: &Arc<Self>, live: &Arc<LiveSession>) {
        const PROBLEM: &str = "cannot store the end of a session; free some disk space";
        loop {
            let mut unstored = live.unstored.lock().await;
            if let Err(error) = unstored.read(live.model.as_deref()) {
                tracing::error!(session = %live.id, %error, "the journal cannot be read");
            }
            match self.record_end(live.id, &mut unstored, HOLDER_GONE).await {
                Ok(()) => return self.clear_problem(PROBLEM),
                Err(EngineError::Store(error)) => {
                    tracing::error!(session = %live.id, %error, "cannot store the end of a session");
                    self.report_problem(PROBLEM);
                }
                // A retry would fail again.
                Err(error) => {
                    tracing::error!(session = %live.id, %error, "the end of a session is not valid");
                    return;
                }
            }
            drop(unstored);
            tokio::select! {
                () = sleep(STORE_RETRY) => {}
                // The next daemon finds the end in the journal.
                () = self.stopped() => return,
            }
        }
    }

    /// Stores entries and the record's final state in one transaction.
    pub(crate) async fn record_end(
        &self,
        id: SessionId,
        unstored: &mut UnstoredEntries,
        orphaned: &str,
    ) -> Result<(), EngineError> {
        fault::point("before_end");
        let now = clock::now();
        // Reads remaining ACP output before the transaction, because there may be much of it.
        let mut final_output = self.read_final_output(id).await?;
        let pending = RequestQuery { session: Some(id), ..RequestQuery::default() };
        let requests = self.store.requests(&pending).await?;
        let mut tx = self.store.begin().await?;
        let Some(mut session) = tx.session(id).await? else { return Ok(()) };
        if let Some(reason) = final_output.as_mut().and_then(FinalOutput::take_failure)
            && session.state == SessionState::Running
        {
            session.open_failed(&reason, now);
        }
        if unstored.exit.is_none() && orphaned == HOLDER_GONE {
            unstored.append_unjournaled_output(&self.home.session_dir(id), now);
        }
        tx.append_entries(id, &unstored.pending).await?;
        if unstored.announcer.has_news() {
            tx.record(Change::OutputAdded { session: id, offset: unstored.end }, now).await?;
        }
        if let Some(event) = apply_final_state(&mut session, unstored, orphaned, now)? {
            if let Some(final_output) = final_output {
                final_output.write(&mut tx, &session, unstored.exit, &unstored.stderr, now).await?;
            }
            let mut notes = Vec::new();
            for request in requests {
                let settled = match request.source {
                    RequestSource::Hook => record_cancelled(&mut *tx, request.id, now).await?,
                    // The final output has cancelled it, or has its answer.
                    RequestSource::Acp => {
                        tx.request(request.id).await?.filter(|it| it.state == RequestState::Cancelled)
                    }
                    // The loop that types the answers abandons it.
                    RequestSource::Terminal => None,
                };
                notes.extend(settled.map(|request| note_of(&request, SettledFrom::Session)));
            }
            tx.append_entries(id, &unstored.final_notes(notes, now)).await?;
            tx.record(Change::SessionChanged { session, event }, now).await?;
        }
        self.commit(tx).await?;
        unstored.mark_stored();
        unstored.announcer.announced(Instant::now());
        Ok(())
    }

    /// Runs the effects of a stored end: kills remaining processes, stores the last keyframes, compresses the log.
    async fn run_end_effects(self: &Arc<Self>, live: &Arc<LiveSession>) {
        if let Ok(Some(session)) = self.store.session(live.id).await
            && session.state == SessionState::Orphaned
        {
            self.end_processes(&session).await;
        }
        if live.acp.is_some() {
            self.end_terminals(live.id).await;
        }
        let _ = self.store_ledger(live).await;
        self.compress_later(live.id);
    }
}

/// Returns when new entries are stored.
fn ledger_time(delay: Duration, stored_at: Option<Instant>) -> Instant {
    let soonest = Instant::now() + delay;
    stored_at.map_or(soonest, |stored| soonest.max(stored + BUSY_LEDGER_INTERVAL))
}

/// Moves the record to its final state. Returns the event's name if the state changed.
fn apply_final_state(
    session: &mut Session,
    unstored: &UnstoredEntries,
    orphaned: &str,
    now: coven_domain::Timestamp,
) -> Result<Option<&'static str>, EngineError> {
    if session.state == SessionState::Created {
        if let Some(reason) = &unstored.launch_failure {
            session.launch_failed(reason, now)?;
            return Ok(Some("failed"));
        }
        // The harness ran, but the daemon stopped before it recorded that.
        let Some((pid, started_ticks, boot_id)) = unstored.started.clone() else {
            session.launch_failed("the daemon stopped before the harness was launched", now)?;
            return Ok(Some("failed"));
        };
        session.spawned(coven_domain::session::ProcessIdentity { pid, started_ticks, boot_id }, now)?;
    }
    match (session.state, unstored.exit) {
        (SessionState::Running, Some(status)) => session.exited(status, now)?,
        (SessionState::Killed, Some(status)) if session.exit_code.is_none() => session.exited(status, now)?,
        (SessionState::Running, None) => {
            session.orphaned(orphaned, now)?;
            return Ok(Some("orphaned"));
        }
        (SessionState::Killed, None) if session.exit_code.is_none() => {
            // The exit status is unknown; the kill is the likely cause.
            session.exited(ExitStatus::Signal(9), now)?;
        }
        _ => return Ok(None),
    }
    Ok(Some(match session.state {
        SessionState::Completed => "completed",
        SessionState::Failed => "failed",
        SessionState::Killed => "exited",
        SessionState::Created | SessionState::Running | SessionState::Orphaned => "changed",
    }))
}
