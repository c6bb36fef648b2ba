//! Stable names for values that differ between runs: ids, times, paths, process ids, commits.

use std::fs;
use std::path::PathBuf;

use coven_testing::{TestHome, program};

use super::json::Json;

/// An id that no record has. Snapshots show it unchanged.
pub const MISSING: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff";

/// Keys of numbers that differ between runs, with the replacement.
const NUMBERS: [(&str, &str); 2] = [("pid", "<pid>"), ("size_bytes", "<size>")];
const NUMBER: &str = "<number>";
/// Keys whose values depend on when a source reported what the agent does; the tests in `activity` check the values.
const ACTIVITY: [&str; 5] = ["activity", "activity_since", "activity_source", "activity_detail", "unseen"];
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Replaces values that differ between runs. An id is replaced by the number of its first appearance.
pub struct Names {
    places: Vec<(String, &'static str)>,
    numbers: Vec<(&'static str, &'static str)>,
    ids: Vec<String>,
}

impl Names {
    pub fn of(home: &TestHome) -> Self {
        let programs = program::coven().parent().expect("a folder").to_owned();
        let folders: [(PathBuf, &str); 6] = [
            (home.path(), "<home>"),
            (home.project(), "<project>"),
            (home.user(), "<user>"),
            (home.agents(), "<bin>"),
            (home.folder().to_owned(), "<folder>"),
            (programs, "<programs>"),
        ];
        let mut places = Vec::new();
        for (folder, name) in folders {
            let real = fs::canonicalize(&folder).expect("exists");
            places.extend([folder, real].map(|folder| (folder.display().to_string(), name)));
        }
        Self { places, numbers: NUMBERS.into(), ids: Vec::new() }
    }

    /// Replaces the numbers of these keys too.
    pub fn hide(&mut self, keys: &[&'static str]) {
        self.numbers.extend(keys.iter().map(|key| (*key, NUMBER)));
    }

    pub fn replace(&mut self, value: Json) -> Json {
        match value {
            Json::Text(text) => Json::Text(self.replace_in(&text)),
            Json::List(items) => Json::List(items.into_iter().map(|item| self.replace(item)).collect()),
            Json::Object(fields) => {
                let field = |(key, value): (String, Json)| {
                    if ACTIVITY.contains(&key.as_str()) {
                        return (key, Json::text("<activity>"));
                    }
                    let value = match value {
                        Json::Text(cursor) if key == "next" => Json::Text(without_list_key(&cursor)),
                        other => other,
                    };
                    let value = match self.numbers.iter().find(|(name, _)| *name == key) {
                        Some((_, name)) if matches!(value, Json::Number(_)) => Json::text(*name),
                        _ => self.replace(value),
                    };
                    (self.replace_in(&key), value)
                };
                Json::Object(fields.into_iter().map(field).collect())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => value,
        }
    }

    pub fn replace_in(&mut self, text: &str) -> String {
        if text == VERSION {
            return "<version>".to_owned();
        }
        // The version is followed by the commit of the build.
        if text.strip_prefix("coven ").is_some_and(|rest| rest.starts_with(VERSION)) {
            return "coven <version>".to_owned();
        }
        let text = self.places.iter().fold(text.to_owned(), |text, (place, name)| text.replace(place, name));
        let (mut out, mut rest, mut is_inside_word) = (String::new(), text.as_str(), false);
        while let Some(first) = rest.chars().next() {
            let found = if is_inside_word { None } else { self.name(rest) };
            let length = match found {
                Some((length, name)) => {
                    out.push_str(&name);
                    length
                }
                None => {
                    out.push(first);
                    first.len_utf8()
                }
            };
            is_inside_word = rest[..length].ends_with(|last: char| last.is_ascii_alphanumeric());
            rest = &rest[length..];
        }
        out
    }

    /// Returns the length of the value at the start of a text, and its replacement.
    fn name(&mut self, text: &str) -> Option<(usize, String)> {
        if let Some(id) = start(text, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") {
            return Some((id.len(), self.id(id)));
        }
        let named = |found: &str, name: &str| Some((found.len(), name.to_owned()));
        for form in ["dddd-dd-ddTdd:dd:dd.dddZ", "dddd-dd-ddTdd:dd:ddZ", "dddd-dd-ddTdd-dd-dd-dddZ"] {
            if let Some(time) = start(text, form) {
                return named(time, "<time>");
            }
        }
        if let Some(commit) = start(text, &"h".repeat(40)) {
            return named(commit, "<commit>");
        }
        if let Some(millis) = start(text, &"d".repeat(13)) {
            return named(millis, "<millis>");
        }
        let prefix = start(text, "hhhhhhhh")?;
        let nth = self.ids.iter().position(|id| id.starts_with(prefix))?;
        Some((prefix.len(), format!("<uuid-{}:8>", nth + 1)))
    }

    fn id(&mut self, id: &str) -> String {
        if id == MISSING {
            return id.to_owned();
        }
        let known = self.ids.iter().position(|known| known == id);
        let nth = known.unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        });
        format!("<uuid-{}>", nth + 1)
    }
}

/// Returns a cursor without the key of its list, which differs for each id.
fn without_list_key(cursor: &str) -> String {
    match cursor.split_once('.') {
        Some((key, place)) if key.len() == 8 && key.bytes().all(|it| it.is_ascii_hexdigit()) => {
            format!("<list>.{place}")
        }
        _ => cursor.to_owned(),
    }
}

/// Returns the start of a text if it has this form and is a whole word: `h` is a hexadecimal digit, `d` a decimal one.
fn start<'a>(text: &'a str, form: &str) -> Option<&'a str> {
    let found = text.get(..form.len())?;
    let fits = |(byte, form): (u8, u8)| match form {
        b'h' => byte.is_ascii_hexdigit(),
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    };
    let is_whole = !text[form.len()..].starts_with(|next: char| next.is_ascii_alphanumeric());
    (is_whole && found.bytes().zip(form.bytes()).all(fits)).then_some(found)
}
