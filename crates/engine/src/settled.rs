//! Notes in the ledger about the end of a request: who settled it, and from where.

use coven_domain::question::QuestionAnswer;
use coven_domain::request::{AnsweredBy, Request, RequestAnswer, SettledFrom};
use coven_domain::{RequestId, Timestamp};
use coven_holder::clock;
use coven_store::{Change, Tx};
use serde_json::{Value, json};

use super::Engine;
use crate::error::EngineError;

/// Returns the note for the ledger about a request that was just settled.
pub(crate) fn note_of(request: &Request, from: SettledFrom) -> Value {
    let is_answer = matches!(from, SettledFrom::Socket | SettledFrom::Tcp);
    let answer = match &request.answer {
        Some(RequestAnswer::Option(option)) => Some(option.clone()),
        Some(RequestAnswer::Answers(answers)) => Some(text_of(answers)),
        // A line of input can be a password. The entry of the input shows it if it may be recorded.
        Some(RequestAnswer::Line { .. }) | None => None,
    };
    json!({
        "note": if is_answer { "request answered" } else { "request settled" },
        "request": request.id,
        "title": request.title,
        "status": request.state,
        "answer": answer,
        "by": request.answered_by,
        "from": from,
    })
}

/// Returns the chosen labels and texts; one part per question.
fn text_of(answers: &[QuestionAnswer]) -> String {
    let parts = answers.iter().map(|answer| {
        answer
            .selected()
            .chain(answer.custom_text.as_deref())
            .filter(|it| !it.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    });
    parts.collect::<Vec<_>>().join("; ")
}

impl Engine {
    /// Adds a note to the ledger of the session that made a request.
    pub(crate) fn note_settled(&self, request: &Request, from: SettledFrom) {
        if let Some(live) = request.session.and_then(|id| self.live_session(id)) {
            live.note(note_of(request, from));
        }
    }

    /// Cancels a request that its agent no longer waits for; an answered one stays as it is.
    pub(crate) async fn withdraw_request(&self, id: RequestId, from: SettledFrom) -> Result<(), EngineError> {
        let mut tx = self.store.begin().await?;
        let Some(request) = record_cancelled(&mut *tx, id, clock::now()).await? else { return Ok(()) };
        self.commit(tx).await?;
        self.note_settled(&request, from);
        Ok(())
    }
}

/// Cancels a request in a transaction. Returns it if it was pending.
pub(crate) async fn record_cancelled(
    tx: &mut dyn Tx,
    id: RequestId,
    now: Timestamp,
) -> Result<Option<Request>, EngineError> {
    let Some(mut request) = tx.request(id).await? else { return Ok(None) };
    if !request.cancelled(AnsweredBy::Session, now) {
        return Ok(None);
    }
    tx.record(Change::RequestChanged { request: request.clone(), event: "cancelled" }, now).await?;
    Ok(Some(request))
}
