//! Inbox items and the terminal bell that announces them.

use std::io::{self, Write, stdout};

use coven_api::ErrorCode;
use coven_api::inbox::InboxItem;
use coven_api::routes::{Endpoint, GetInboxItem};
use coven_client::{Client, ClientError};
use coven_host::config;
use coven_host::home::Home;

/// Returns an inbox item, or `None` if it no longer exists.
pub async fn item(client: &mut Client, id: &str) -> Result<Option<InboxItem>, ClientError> {
    match client.call(GetInboxItem::of(id)).await {
        Ok(item) => Ok(Some(item)),
        Err(error) if error.is(ErrorCode::InboxItemNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the config allows the terminal bell. The verbs that load the config report an invalid one.
pub fn is_bell_enabled(home: &Home) -> bool {
    config::read(home).unwrap_or_default().notifications.bell
}

/// Rings the terminal's bell.
pub fn ring() -> io::Result<()> {
    let mut out = stdout();
    out.write_all(b"\x07").and_then(|()| out.flush())
}
