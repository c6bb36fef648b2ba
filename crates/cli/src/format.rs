//! How things are put into words for people: ages, sizes, short ids, ends of sessions.

use std::path::PathBuf;
use std::time::Duration;

use coven_api::SessionRecord;
use coven_domain::Timestamp;

use crate::tui::text::{is_unseen, stand_in};

/// Enough of an id for a person to tell sessions apart.
pub fn short_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// How long ago an ISO 8601 time was, in its largest unit.
pub fn age(at: &str, now: Timestamp) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => format_duration(now.since(at)),
        Err(_) => "?".to_owned(),
    }
}

/// `12s`, `5m`, `3h`, `2d`.
pub fn format_duration(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// `512 B`, `4.0 KiB`, `1.5 GiB`.
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

/// `1 session`, `2 sessions`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// The status with what made it so: `failed, exit code 3`.
pub fn status(session: &SessionRecord) -> String {
    match session.exit_code {
        Some(code) => format!("{}, exit code {code}", session.status),
        None => session.status.to_string(),
    }
}

/// Text from outside on one line: control characters would act on the reader's terminal.
pub fn sanitize_line(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// Text from outside with its lines and tabs; every other control character would act on the reader's terminal.
pub fn readable(text: &str) -> String {
    let stays = |c: char| matches!(c, '\n' | '\t') || !is_unseen(c);
    text.chars().filter(|c| *c != '\r').map(|c| if stays(c) { c } else { stand_in(c) }).collect()
}

/// How a shell finds this program: by its name if that is on PATH, else by its path.
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
    fn ages_are_told_in_their_largest_unit_and_never_negative() {
        let now = Timestamp::from_millis(1_763_238_189_007);
        assert_eq!(age("2025-11-15T20:23:05.000Z", now), "4s");
        assert_eq!(age("2025-11-15T20:03:05.000Z", now), "20m");
        assert_eq!(age("2025-11-12T20:03:05.000Z", now), "3d");
        assert_eq!(age("2026-11-12T20:03:05.000Z", now), "0s");
        assert_eq!(age("yesterday", now), "?");
    }

    #[test]
    fn sizes_are_told_in_their_largest_unit() {
        assert_eq!((size(0), size(1023), size(1024)), ("0 B".into(), "1023 B".into(), "1.0 KiB".into()));
        assert_eq!(size(3 << 30), "3.0 GiB");
    }

    #[test]
    fn one_thing_is_counted_in_the_singular() {
        assert_eq!([0, 1, 2].map(|number| count(number, "session")), ["0 sessions", "1 session", "2 sessions"]);
    }

    #[test]
    fn lines_and_tabs_stay_and_nothing_else_acts_on_a_terminal() {
        assert_eq!(readable("a\tb\r\n\x1b[2Jc\n"), "a\tb\n␛[2Jc\n");
    }

    #[test]
    fn short_ids_are_never_longer_than_the_id() {
        assert_eq!(short_id("0c7e49a2-3b1d-4a87-9f06-000000000000"), "0c7e49a2");
        assert_eq!(short_id("abc"), "abc");
    }
}
