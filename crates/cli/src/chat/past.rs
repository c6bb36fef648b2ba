//! What was said before: a session's messages, page by page.

use std::collections::VecDeque;

use coven_api::message::{MessageRecord, MessagesQuery};
use coven_api::request::Request;
use coven_api::routes::{Endpoint, ListMessages};
use coven_client::Client;

use super::row::{Row, Style};
use super::transcript::{Detail, Transcript};
use crate::failure::Failure;

/// Messages asked for at once.
const PAGE: usize = 1000;
/// So many of the last messages are the recent ones.
const RECENT: usize = 40;

/// How much of what was said is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Nothing,
    Recent,
    All,
}

/// A request for the messages after a number.
pub fn page_after(id: &str, after: u64) -> Request<ListMessages> {
    ListMessages::of(id).query(&MessagesQuery { after: Some(after), limit: Some(PAGE) })
}

/// Hands over every message after a number; returns the number to go on after.
pub async fn read(
    client: &mut Client,
    id: &str,
    mut after: u64,
    mut take: impl FnMut(MessageRecord) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    loop {
        let page = client.call(page_after(id, after)).await?;
        let last = page.messages.iter().map(|message| message.number).max().unwrap_or(after);
        let is_last = page.messages.is_empty() || page.next.max(last) <= after;
        after = after.max(page.next).max(last);
        for message in page.messages {
            take(message)?;
        }
        if is_last {
            return Ok(after);
        }
    }
}

/// What was said up to now, as rows.
pub struct Past {
    pub rows: Vec<Row>,
    /// The transcript that goes on from here.
    pub transcript: Transcript,
    /// The number of the last message.
    pub after: u64,
    /// What people asked for, the oldest first.
    pub prompts: Vec<String>,
}

impl Past {
    pub async fn read(
        client: &mut Client,
        id: &str,
        extent: Extent,
        columns: Option<usize>,
        detail: Detail,
    ) -> Result<Self, Failure> {
        let mut kept = VecDeque::new();
        let mut prompts = Vec::new();
        let mut dropped = 0usize;
        let most = match extent {
            // Pieces of a message that is being written are needed to go on with it.
            Extent::Nothing | Extent::Recent => RECENT,
            Extent::All => usize::MAX,
        };
        let after = read(client, id, 0, |message| {
            if let ("user", Some(text)) = (message.role.as_str(), message.content["text"].as_str()) {
                prompts.push(text.trim().to_owned());
            }
            kept.push_back(message);
            if kept.len() > most {
                kept.pop_front();
                dropped += 1;
            }
            Ok(())
        })
        .await?;
        if dropped > 0 {
            // It begins with what somebody asked for, if that is among the last ones.
            let begin = kept.iter().position(|message| message.role == "user").unwrap_or(0);
            dropped += begin;
            kept.drain(..begin);
        }
        let mut transcript = Transcript::new(columns, Detail { folds_thoughts: columns.is_some(), ..detail });
        let mut rows = Vec::new();
        if dropped > 0 && extent == Extent::Recent {
            let short = crate::wording::short_id(id);
            let what = format!("… {dropped} earlier messages: coven chat {short} --all");
            rows.push(Row::new(Style::Dim, &what).cut(columns.unwrap_or(usize::MAX)));
            rows.push(Row::default());
        }
        rows.extend(kept.iter().flat_map(|message| transcript.take(message)));
        if extent == Extent::Nothing {
            rows.clear();
        }
        transcript.detail = detail;
        Ok(Self { rows, transcript, after, prompts })
    }
}
