//! Reads lists of the daemon page by page.

use coven_api::list::{List, MAX_LIMIT, PageQuery};
use coven_api::request::Request;
use coven_api::routes::Endpoint;
use coven_client::{Client, ClientError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::output;

/// Part of a list
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Paging {
    /// Number of items to show [default: all]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Start after another page: its `next` value
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

/// Returns the items of a list; all of them without a limit.
pub async fn items<E, T>(client: &mut Client, request: Request<E>, paging: Paging) -> Result<Vec<T>, ClientError>
where
    E: Endpoint<Response = List<T>>,
    T: DeserializeOwned,
{
    let mut pages = Pages::new(request, paging);
    let mut items = Vec::new();
    while let Some(text) = pages.next(client).await? {
        let page: List<T> = serde_json::from_slice(&text)?;
        pages.took(page.items.len(), page.next);
        items.extend(page.items);
    }
    Ok(items)
}

/// Prints a list in the daemon's JSON form. Without a limit it prints all items, with one page at a time in memory.
pub async fn print_json<E: Endpoint>(client: &mut Client, request: Request<E>, paging: Paging) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Page<'a> {
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
        next: Option<String>,
        total: Option<u64>,
    }
    let mut pages = Pages::new(request, paging);
    let (mut is_first, mut total) = (true, None);
    while let Some(text) = pages.next(client).await? {
        let page: Page<'_> = serde_json::from_slice(&text).map_err(ClientError::from)?;
        pages.took(page.items.len(), page.next);
        total = total.or(page.total);
        let mut printed = Vec::with_capacity(text.len());
        for item in page.items {
            printed.extend_from_slice(if is_first { b"{\"items\":[" } else { b"," });
            printed.extend_from_slice(item.get().as_bytes());
            is_first = false;
        }
        output::bytes(&printed)?;
    }
    output::bytes(if is_first { b"{\"items\":[]" } else { b"]" })?;
    let next = serde_json::to_string(&pages.cursor).map_err(ClientError::from)?;
    let total = total.map_or_else(String::new, |total| format!(",\"total\":{total}"));
    output::json(format!(",\"next\":{next}{total}}}").as_bytes())
}

struct Pages<E> {
    request: Request<E>,
    left: usize,
    /// Cursor of the next page; `None` after the last page.
    cursor: Option<String>,
    is_started: bool,
}

impl<E: Endpoint> Pages<E> {
    fn new(request: Request<E>, paging: Paging) -> Self {
        Self { request, left: paging.limit.unwrap_or(usize::MAX), cursor: paging.cursor, is_started: false }
    }

    async fn next(&mut self, client: &mut Client) -> Result<Option<bytes::Bytes>, ClientError> {
        if self.is_started && (self.left == 0 || self.cursor.is_none()) {
            return Ok(None);
        }
        self.is_started = true;
        let page = PageQuery { limit: Some(self.left.min(MAX_LIMIT)), cursor: self.cursor.clone() };
        client.bytes(self.request.page(&page)).await.map(Some)
    }

    fn took(&mut self, count: usize, next: Option<String>) {
        self.left = self.left.saturating_sub(count);
        self.cursor = next;
    }
}
