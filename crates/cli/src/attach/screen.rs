//! Fetches a session's screen from the daemon as terminal bytes.

use std::time::Duration;

use coven_api::header;
use coven_api::request::Request;
use coven_api::routes::{Endpoint, ReadScreen};
use coven_api::screen::ScreenQuery;
use coven_client::ClientError;

use coven_host::home::Home;

use crate::daemon_client::{DaemonClient, try_quick_get};
use crate::failure::Failure;

/// Size limit of a painted screen.
const MAX_SCREEN_BYTES: usize = 64 << 20;

/// Bytes that repaint a screen, and its log offset.
pub struct PaintedScreen {
    pub ansi: Vec<u8>,
    pub offset: u64,
    /// Rows and columns.
    pub size: Option<(u16, u16)>,
    /// The full session id.
    pub id: String,
    pub status: String,
}

/// Fetches the screen without an async runtime. Returns `None` if no daemon answers in time.
pub fn fetch_without_runtime(home: &Home, id: &str, timeout: Duration) -> Option<PaintedScreen> {
    let answer = try_quick_get(home, &painted(id, None), timeout).ok()??;
    let text = |name: &str| answer.header(name).map(str::to_owned);
    let (offset, id, status) = (text(header::OFFSET)?.parse().ok()?, text(header::SESSION)?, text(header::STATUS)?);
    let size = size(text);
    Some(PaintedScreen { ansi: answer.body, offset, size, id, status })
}

pub async fn fetch(link: &mut DaemonClient, id: &str) -> Result<PaintedScreen, Failure> {
    fetch_from(link, id, None).await
}

/// Fetches the screen at this log offset.
pub async fn fetch_at(link: &mut DaemonClient, id: &str, offset: u64) -> Result<PaintedScreen, Failure> {
    fetch_from(link, id, Some(offset)).await
}

fn painted(id: &str, at: Option<u64>) -> Request<ReadScreen> {
    ReadScreen::of(id).query(&ScreenQuery { format: Some("ansi".to_owned()), at, look: None })
}

async fn fetch_from(link: &mut DaemonClient, id: &str, at: Option<u64>) -> Result<PaintedScreen, Failure> {
    let pieces = link.stream(painted(id, at)).await?;
    let text = |name: &str| pieces.header(name).map(str::to_owned);
    let offset = text(header::OFFSET).and_then(|offset| offset.parse().ok());
    let (id, status) = (text(header::SESSION).unwrap_or_else(|| id.to_owned()), text(header::STATUS));
    match (offset, status) {
        (Some(offset), Some(status)) => {
            let size = size(text);
            Ok(PaintedScreen { offset, size, id, status, ansi: pieces.read_to_end(MAX_SCREEN_BYTES).await?.to_vec() })
        }
        // A daemon of another version does not send these headers.
        _ => Err(ClientError::Decode(serde::de::Error::custom("headers are missing")).into()),
    }
}

fn size(text: impl Fn(&str) -> Option<String>) -> Option<(u16, u16)> {
    let side = |name| text(name)?.parse().ok();
    Some((side(header::ROWS)?, side(header::COLS)?))
}
