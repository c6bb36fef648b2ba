//! Reports every mistake in a config file with its line, as `coven workflow lint` does for workflow files.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_path_to_error::Segment;

use super::{BadValue, Config};
use crate::suggest::closest;

/// A mistake in the config file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigMistake {
    /// Line number, starting at 1; 0 if the mistake concerns the whole file.
    pub line: usize,
    pub text: String,
}

/// Path of a value: its keys and `[index]`es.
type Path = Vec<String>;

/// Returns the mistakes sorted by line; empty for a valid config.
pub fn mistakes(text: &str) -> Vec<ConfigMistake> {
    let mut config: Value = match serde_json::from_str(text) {
        Ok(config) => config,
        Err(error) => {
            let what = without_place(&error.to_string());
            let text = format!("column {}: this is not valid JSON: {what}", error.column());
            return vec![ConfigMistake { line: error.line(), text }];
        }
    };
    let places = Places::of(text);
    let twice =
        |(path, line): &(Path, usize)| ConfigMistake { line: *line, text: format!("{}: appears twice", shown(path)) };
    let mut found: Vec<ConfigMistake> = places.twice.iter().map(twice).collect();
    let mut removed: Vec<Path> = Vec::new();
    // Remove each invalid value and check again, so that no mistake hides another.
    while let Err((path, problem)) = check(&config) {
        let follows = problem.starts_with("missing field") && removed.iter().any(|it| it.starts_with(&path));
        if !follows {
            let key = if path.is_empty() { String::new() } else { format!("{}: ", shown(&path)) };
            found.push(ConfigMistake { line: places.line_of(&path), text: format!("{key}{problem}") });
        }
        if !remove(&mut config, &path) {
            break;
        }
        removed.push(path);
    }
    found.sort();
    found
}

/// Returns the path and the text of the first mistake.
fn check(config: &Value) -> Result<(), (Path, String)> {
    let config: Config = serde_path_to_error::deserialize(config).map_err(|error| {
        let mut path: Path = error.path().iter().filter_map(segment).collect();
        let problem = without_place(&error.inner().to_string());
        match unknown_key(&problem) {
            Some((key, advice)) => {
                if path.last() != Some(&key) {
                    path.push(key);
                }
                (path, advice)
            }
            None => (path, problem),
        }
    })?;
    config.check().map_err(|BadValue { key, problem }| {
        let path = match key.split_once('.') {
            // The name of a harness may contain dots.
            Some(("harnesses", name)) => vec!["harnesses".to_owned(), name.to_owned()],
            _ => key.split('.').map(str::to_owned).collect(),
        };
        (path, problem)
    })
}

fn segment(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Map { key } => Some(key.clone()),
        Segment::Seq { index } => Some(format!("[{index}]")),
        Segment::Enum { .. } | Segment::Unknown => None,
    }
}

/// Parses "unknown field `x`, expected one of `a`, `b`" into the key and coven's own message about it.
fn unknown_key(problem: &str) -> Option<(String, String)> {
    let mut words = problem.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let key = words.next()?;
    let known: Vec<&str> = words.collect();
    let advice = match closest(key, known.iter().copied()).first() {
        Some(close) => format!("unknown key; did you mean {close}?"),
        None => format!("unknown key; known keys: {}", known.join(", ")),
    };
    Some((key.to_owned(), advice))
}

fn without_place(problem: &str) -> String {
    problem.rfind(" at line ").map_or(problem, |at| &problem[..at]).to_owned()
}

fn shown(path: &[String]) -> String {
    path.join(".").replace(".[", "[")
}

fn remove(config: &mut Value, path: &[String]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let mut at = config;
    for name in parents {
        let inner = match at {
            Value::Object(map) => map.get_mut(name),
            Value::Array(list) => index(name).and_then(|index| list.get_mut(index)),
            _ => None,
        };
        let Some(inner) = inner else { return false };
        at = inner;
    }
    match at {
        Value::Object(map) => map.remove(last).is_some(),
        // Replaced by null so that the other elements keep their indexes.
        Value::Array(list) => match index(last).and_then(|index| list.get_mut(index)) {
            Some(element) if !element.is_null() => {
                *element = Value::Null;
                true
            }
            _ => false,
        },
        _ => false,
    }
}

fn index(name: &str) -> Option<usize> {
    name.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// The line of every key and element of a JSON text.
#[derive(Debug, Default)]
struct Places {
    lines: BTreeMap<Path, usize>,
    twice: Vec<(Path, usize)>,
}

impl Places {
    /// Scans a text that is known to be valid JSON.
    fn of(text: &str) -> Self {
        let mut scan = Scan { bytes: text.as_bytes(), at: 0, line: 1, path: Vec::new(), places: Self::default() };
        scan.value();
        scan.places
    }

    /// Returns the line of the value, or else of the nearest enclosing one.
    fn line_of(&self, path: &[String]) -> usize {
        (0..=path.len()).rev().find_map(|length| self.lines.get(&path[..length])).copied().unwrap_or(0)
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
    path: Path,
    places: Places,
}

impl Scan<'_> {
    fn value(&mut self) {
        match self.peek() {
            Some(b'{') => self.list(b'}'),
            Some(b'[') => self.list(b']'),
            Some(b'"') => drop(self.string()),
            _ => {
                while self.bytes.get(self.at).is_some_and(|byte| !matches!(byte, b',' | b'}' | b']')) {
                    self.step();
                }
            }
        }
    }

    /// Scans an object or an array, including its brackets.
    fn list(&mut self, end: u8) {
        self.step();
        let mut index = 0;
        while self.peek().is_some_and(|byte| byte != end) {
            let line = self.line;
            let name = match end {
                b'}' => self.string(),
                _ => format!("[{index}]"),
            };
            self.path.push(name);
            if self.places.lines.insert(self.path.clone(), line).is_some() {
                self.places.twice.push((self.path.clone(), line));
            }
            if end == b'}' && self.peek() == Some(b':') {
                self.step();
            }
            self.value();
            self.path.pop();
            index += 1;
            if self.peek() == Some(b',') {
                self.step();
            }
        }
        self.step();
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.step();
        while self.bytes.get(self.at).is_some_and(|byte| *byte != b'"') {
            if self.bytes[self.at] == b'\\' {
                self.step();
            }
            self.step();
        }
        self.step();
        serde_json::from_slice(&self.bytes[start..self.at.min(self.bytes.len())]).unwrap_or_default()
    }

    /// Returns the next byte that is not whitespace.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.step();
        }
        self.bytes.get(self.at).copied()
    }

    fn step(&mut self) {
        if self.bytes.get(self.at) == Some(&b'\n') {
            self.line += 1;
        }
        self.at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        mistakes(text).into_iter().map(|it| (it.line, it.text)).collect()
    }

    #[test]
    fn every_mistake_is_reported_with_its_line() {
        let text = r#"{
  "sesions": {},
  "store": {
    "eventRetentionHour": 1,
    "taskRetentionDays": -1,
    "taskSoftDeleteDays": "7"
  },
  "http": {
    "allowRemote": "yes", "listen": "localhost"
  },
  "harnesses": {
    "mine": { "program": "x", "programm": "y" }
  }
}"#;
        let lines: Vec<usize> = found(text).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 4, 5, 6, 9, 9, 12], "{:#?}", found(text));
        let texts: Vec<String> = found(text).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts[0], "sesions: unknown key; did you mean sessions?");
        assert_eq!(texts[1], "store.eventRetentionHour: unknown key; did you mean eventRetentionHours?");
        assert_eq!(texts[2], "store.taskRetentionDays: must be between 0 and 1000000000");
        assert!(texts[3].starts_with("store.taskSoftDeleteDays: invalid type: string"), "{}", texts[3]);
        assert!(texts[6].contains("did you mean program?"), "{}", texts[6]);
    }

    #[test]
    fn duplicate_keys_and_invalid_json_are_reported() {
        assert_eq!(found("{\n\"store\": {},\n\"store\": {}\n}"), [(3, "store: appears twice".to_owned())]);
        let broken = found("{\n  \"store\": {,}\n}");
        assert!(broken.len() == 1 && broken[0].0 == 2 && broken[0].1.contains("not valid JSON"), "{broken:?}");
    }

    #[test]
    fn a_valid_config_has_no_mistakes() {
        assert_eq!(found("{\"http\": {\"listen\": \"127.0.0.1:1\"}, \"sessions\": {\"rows\": 3}}"), []);
    }
}
