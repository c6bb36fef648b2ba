//! The body of an answer, read as it arrives.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body as _, Incoming};

use crate::ClientError;

/// Limit for memory that is reserved because of an announced length.
const MAX_RESERVED_BYTES: u64 = 64 << 20;

pub struct StreamingBody {
    response: Response<Incoming>,
}

impl StreamingBody {
    pub(crate) fn new(response: Response<Incoming>) -> Self {
        Self { response }
    }

    pub(crate) fn into_response(self) -> Response<Incoming> {
        self.response
    }

    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Returns the next bytes, or nothing at the end. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(frame) = self.response.body_mut().frame().await {
            // Trailers carry nothing for us.
            if let Ok(bytes) = frame?.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Reads the rest, at most `limit` bytes.
    pub async fn read_to_end(mut self, limit: usize) -> Result<Bytes, ClientError> {
        // Appended piece by piece: keeping all pieces beside the whole would need twice the memory.
        let size = self.response.body().size_hint().lower().min(MAX_RESERVED_BYTES);
        let mut whole = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        while let Some(piece) = self.next().await? {
            if whole.len() + piece.len() > limit {
                return Err(ClientError::TooLarge { limit });
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.into())
    }
}
