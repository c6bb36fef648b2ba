//! Checks that a session's recorded output is complete and unchanged.

use coven_api::routes::{CheckLog, Endpoint};
use coven_api::session::{ByteRange, LogCheckQuery, LogCheckResponse};
use coven_host::home::Home;

use crate::daemon_client::DaemonClient;
use crate::failure::Failure;

/// Number of ranges that a message lists.
const MAX_LISTED_RANGES: usize = 3;

/// Fails if bytes of a session's output are missing or changed, and lists them.
pub async fn ensure_complete(link: &mut DaemonClient, id: &str) -> Result<(), Failure> {
    let check = link.call(CheckLog::of(id)).await?;
    problem(&check).map_or(Ok(()), |problem| {
        let hint =
            format!("The remaining output was shown; the files are in sessions/{} in the home", check.session_id);
        Err(Failure::failed(problem, hint))
    })
}

/// Explains why the log could not be read to its end: returns the damage if there is any, else `failure`.
pub async fn explain(home: &Home, id: &str, failure: Failure) -> Failure {
    // The daemon closes the connection at bytes that it cannot read.
    let check = async { ensure_complete(&mut DaemonClient::open(home).await?, id).await };
    match check.await {
        Err(damage @ Failure::Failed { .. }) => damage,
        Ok(()) | Err(_) => failure,
    }
}

/// Describes missing bytes of a session's output, without comparing contents.
pub async fn missing(link: &mut DaemonClient, id: &str) -> Result<Option<String>, Failure> {
    let query = LogCheckQuery { content: Some(false) };
    Ok(problem(&link.call(CheckLog::of(id).query(&query)).await?))
}

/// Returns the length of a session's recorded output.
pub async fn end(link: &mut DaemonClient, id: &str) -> Result<u64, Failure> {
    let query = LogCheckQuery { content: Some(false) };
    Ok(link.call(CheckLog::of(id).query(&query)).await?.end)
}

fn problem(check: &LogCheckResponse) -> Option<String> {
    let parts = [(&check.missing, "missing"), (&check.changed, "changed")];
    let parts: Vec<String> =
        parts.iter().filter(|(ranges, _)| !ranges.is_empty()).map(|(ranges, what)| named(ranges, what)).collect();
    let (short, of) = (check.session_id.short(), check.end);
    (!parts.is_empty())
        .then(|| format!("the output of session {short} is damaged: {} (of {of} bytes)", parts.join(", ")))
}

fn named(ranges: &[ByteRange], what: &str) -> String {
    let shown: Vec<String> = ranges.iter().take(MAX_LISTED_RANGES).map(ToString::to_string).collect();
    let more = match ranges.len().saturating_sub(MAX_LISTED_RANGES) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    format!("{}{more} are {what}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_log_is_described_by_its_ranges() {
        let range = |from, to| ByteRange { from, to };
        let sound = LogCheckResponse {
            session_id: "1a2b3c4d-0000-4000-8000-000000000000".parse().expect("an id"),
            first: 0,
            end: 100,
            missing: Vec::new(),
            changed: Vec::new(),
        };
        assert_eq!(problem(&sound), None);
        let missing = vec![range(0, 10), range(20, 21), range(30, 40), range(50, 60), range(70, 80)];
        let damaged = LogCheckResponse { missing, changed: vec![range(90, 95)], ..sound };
        assert_eq!(
            problem(&damaged).as_deref(),
            Some(
                "the output of session 1a2b3c4d is damaged: bytes 0 to 9, bytes 20 to 20, bytes 30 to 39 and 2 more \
                 ranges are missing, bytes 90 to 94 are changed (of 100 bytes)"
            )
        );
    }
}
