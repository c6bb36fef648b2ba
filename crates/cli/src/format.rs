//! Formats values for terminal output: ages, sizes, short ids, statuses.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use coven_api::SessionRecord;
use coven_domain::Timestamp;
use coven_domain::text::acts;

/// Replaces characters that act on a terminal, or that a reader cannot see, by visible ones.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_unseen(c) { stand_in(c) } else { c }).collect())
}

/// Reports whether a character acts on a terminal, or cannot be seen.
fn is_unseen(c: char) -> bool {
    // Marks that turn the reading direction could make a title look like another one.
    acts(c) || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
}

/// Returns the character that is shown in place of such a character.
fn stand_in(c: char) -> char {
    match u32::from(c) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).expect("every C0 control has a picture"),
        0x7f => '␡',
        _ => '\u{fffd}',
    }
}

/// Returns the first eight characters of an id.
pub fn short_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Formats how long ago an ISO 8601 time was, in its largest unit.
pub fn age(at: &str, now: Timestamp) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => format_duration(now.since(at)),
        Err(_) => "?".to_owned(),
    }
}

/// Formats a duration as `12s`, `5m`, `3h` or `2d`.
pub fn format_duration(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Formats a size as `512 B`, `4.0 KiB` or `1.5 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a count as `1 session` or `2 sessions`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// Formats a status with its exit code or its place in the launch queue: `failed, exit code 3`, `created, queued 2`.
pub fn status(session: &SessionRecord) -> String {
    match (session.exit_code, session.queued_launch()) {
        (Some(code), _) => format!("{}, exit code {code}", session.status),
        (None, Some(queued)) => format!("{}, queued {}", session.status, queued.place),
        (None, None) => session.status.to_string(),
    }
}

/// Replaces control characters by spaces, so that foreign text is one line and cannot act on the terminal.
pub fn sanitize_line(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// Replaces control characters other than newline and tab by visible ones, so that foreign text cannot act on the terminal.
pub fn readable(text: &str) -> String {
    let stays = |c: char| matches!(c, '\n' | '\t') || !is_unseen(c);
    text.chars().filter(|c| *c != '\r').map(|c| if stays(c) { c } else { stand_in(c) }).collect()
}

/// Returns the command for this program: `coven` if PATH leads to it, else its quoted path.
pub fn program() -> String {
    let this = std::env::current_exe().ok();
    let named = coven_host::program::find("coven", std::env::var_os("PATH").as_deref());
    let real = |path: PathBuf| std::fs::canonicalize(path).ok();
    match this {
        Some(path) if named.and_then(real) != real(path.clone()) => {
            let path = path.display().to_string();
            if path.contains([' ', '\'', '"', '$']) { format!("'{}'", path.replace('\'', "'\\''")) } else { path }
        }
        _ => "coven".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_use_their_largest_unit_and_are_never_negative() {
        let now = Timestamp::from_millis(1_763_238_189_007);
        assert_eq!(age("2025-11-15T20:23:05.000Z", now), "4s");
        assert_eq!(age("2025-11-15T20:03:05.000Z", now), "20m");
        assert_eq!(age("2025-11-12T20:03:05.000Z", now), "3d");
        assert_eq!(age("2026-11-12T20:03:05.000Z", now), "0s");
        assert_eq!(age("yesterday", now), "?");
    }

    #[test]
    fn sizes_use_their_largest_unit() {
        assert_eq!((size(0), size(1023), size(1024)), ("0 B".into(), "1023 B".into(), "1.0 KiB".into()));
        assert_eq!(size(3 << 30), "3.0 GiB");
    }

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!([0, 1, 2].map(|number| count(number, "session")), ["0 sessions", "1 session", "2 sessions"]);
    }

    #[test]
    fn control_characters_other_than_newline_and_tab_are_replaced() {
        assert_eq!(readable("a\tb\r\n\x1b[2Jc\n"), "a\tb\n␛[2Jc\n");
    }

    #[test]
    fn short_ids_are_never_longer_than_the_id() {
        assert_eq!(short_id("0c7e49a2-3b1d-4a87-9f06-000000000000"), "0c7e49a2");
        assert_eq!(short_id("abc"), "abc");
    }
}
