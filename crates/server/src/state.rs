//! `/state`: the whole state at one moment, as pages or as one streamed text.

use std::io;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use coven_api::list::ListKey;
use coven_api::routes::ReadState;
use coven_api::state::{StateQuery, StateResponse};
use coven_domain::query::StatePage;
use coven_engine::EngineError;
use coven_engine::feed::StatePages;
use futures_util::stream::unfold;
use serde::Serialize;

use super::App;
use super::reply::Params;
use super::rest::{Answer, page_size, place};

const DEFAULT_LIMIT: usize = 1000;

pub async fn state(State(app): State<App>, Params(query): Params<StateQuery>) -> Answer<Response> {
    if query != StateQuery::default() {
        let limit = page_size(query.limit, DEFAULT_LIMIT)?;
        let page =
            app.engine.state_page(place(ListKey::of::<ReadState>(&query), query.cursor.as_deref())?, limit).await?;
        return Ok(Json(StateResponse::from(page)).into_response());
    }
    let text = StateText::open(&app).await?;
    let pieces = unfold(text, |mut text| async {
        match text.next().await {
            Ok(piece) => piece.map(|piece| (Ok(piece), text)),
            Err(error) => Some((Err(io::Error::other(error)), text)),
        }
    });
    Ok(([("content-type", "application/json")], HttpBody::from_stream(pieces)).into_response())
}

/// A whole `StateResponse` as text, with one page at a time in memory.
pub struct StateText {
    pages: StatePages,
    /// The page to write next.
    page: Option<StatePage>,
    event_number: u64,
    /// The open list, and whether it has a row.
    list: Option<(usize, bool)>,
}

const LISTS: [&str; 5] = ["sessions", "tasks", "agents", "workflows", "questions"];

impl StateText {
    pub async fn open(app: &App) -> Result<Self, EngineError> {
        let mut pages = app.engine.state().await?;
        let page = pages.next().await?.ok_or(EngineError::Stopping)?;
        Ok(Self { event_number: page.event_number, pages, page: Some(page), list: None })
    }

    pub const fn event_number(&self) -> u64 {
        self.event_number
    }

    /// Returns the next piece, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        let Some(page) = self.page.take() else { return Ok(None) };
        let is_last = page.next.is_none();
        let mut text = Vec::new();
        self.write(StateResponse::from(page), &mut text);
        if is_last {
            self.open_list(LISTS.len() - 1, &mut text);
            text.extend_from_slice(b"],\"next\":null}");
        } else {
            self.page = Some(self.pages.next().await?.ok_or(EngineError::Stopping)?);
        }
        Ok(Some(Bytes::from(text)))
    }

    fn write(&mut self, rows: StateResponse, text: &mut Vec<u8>) {
        self.write_rows(0, &rows.sessions, text);
        self.write_rows(1, &rows.tasks, text);
        self.write_rows(2, &rows.agents, text);
        self.write_rows(3, &rows.workflows, text);
        self.write_rows(4, &rows.questions, text);
    }

    fn write_rows(&mut self, list: usize, rows: &[impl Serialize], text: &mut Vec<u8>) {
        for row in rows {
            self.open_list(list, text);
            if let Some((_, has_rows)) = &mut self.list
                && std::mem::replace(has_rows, true)
            {
                text.push(b',');
            }
            serde_json::to_writer(&mut *text, row).expect("plain data to memory");
        }
    }

    /// Closes the lists before this one and opens it.
    fn open_list(&mut self, list: usize, text: &mut Vec<u8>) {
        while self.list.is_none_or(|(open, _)| open < list) {
            let next = match self.list {
                None => {
                    text.extend_from_slice(format!("{{\"event_number\":{}", self.event_number).as_bytes());
                    0
                }
                Some((open, _)) => {
                    text.push(b']');
                    open + 1
                }
            };
            text.extend_from_slice(format!(",\"{}\":[", LISTS[next]).as_bytes());
            self.list = Some((next, false));
        }
    }
}
