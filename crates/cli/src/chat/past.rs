//! What was said before: a session's messages, page by page.

use coven_api::message::{MessageRecord, MessagesQuery};
use coven_api::routes::{Endpoint, ListMessages};
use coven_client::Client;
use coven_domain::message::Role;

use super::row::{Row, Style};
use super::transcript::{Detail, Transcript};
use crate::failure::Failure;

/// Messages asked for in one request.
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

/// Hands over every message after a number; returns the number to go on after.
pub async fn read(
    client: &mut Client,
    id: &str,
    mut after: u64,
    mut take: impl FnMut(MessageRecord) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    loop {
        let query = MessagesQuery { after: Some(after), limit: Some(PAGE), ..MessagesQuery::default() };
        let page = client.call(ListMessages::of(id).query(&query)).await?;
        let last = page.items.iter().map(|message| message.number).max().unwrap_or(after);
        let is_last = page.items.is_empty() || page.next.max(last) <= after;
        after = after.max(page.next).max(last);
        for message in page.items {
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
}

impl Past {
    /// With `Extent::All` the rows go to `print` page by page, so that a long history is never in memory.
    pub async fn read(
        client: &mut Client,
        id: &str,
        extent: Extent,
        columns: Option<usize>,
        detail: Detail,
        mut print: impl FnMut(&[Row]) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut transcript = Transcript::new(columns, Detail { folds_thoughts: columns.is_some(), ..detail });
        if extent == Extent::All {
            let after = read(client, id, 0, |message| print(&transcript.take(&message)));
            let after = after.await?;
            transcript.detail = detail;
            return Ok(Self { rows: Vec::new(), transcript, after });
        }
        // The pieces of a message that is being written are needed to continue it.
        let page = client.call(ListMessages::of(id).query(&MessagesQuery::last(PAGE, None))).await?;
        let after = page.items.last().map_or(0, |message| message.number);
        let mut kept = page.items;
        let is_cut = kept.len() == PAGE;
        let mut dropped = kept.len().saturating_sub(RECENT);
        if dropped > 0 {
            // The first message shown is a prompt, if there is one among the recent messages.
            dropped += kept[dropped..].iter().position(|message| message.role == Role::User).unwrap_or(0);
            kept.drain(..dropped);
        }
        let mut rows = Vec::new();
        if dropped > 0 && extent == Extent::Recent {
            let short = crate::format::short_id(id);
            let what = format!(
                "… {}{dropped} earlier messages: coven chat {short} --all",
                if is_cut { "at least " } else { "" }
            );
            rows.push(Row::new(Style::Dim, &what).cut(columns.unwrap_or(usize::MAX)));
            rows.push(Row::default());
        }
        rows.extend(kept.iter().flat_map(|message| transcript.take(message)));
        if extent == Extent::Nothing {
            rows.clear();
        }
        transcript.detail = detail;
        Ok(Self { rows, transcript, after })
    }
}
