//! The fields of a JSON object. Fields of the wrong type are reported; the others are used.

use crate::legacy::records::{SkippedItem, Source};
use coven_domain::Timestamp;
use serde_json::{Map, Value};

pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// Name of the object in messages.
    what: String,
    source: &'a Source,
    left: &'a mut Vec<SkippedItem>,
}

impl<'a> Fields<'a> {
    /// Returns the fields of an object. Reports any other value.
    pub fn of(value: &'a Value, what: &str, source: &'a Source, left: &'a mut Vec<SkippedItem>) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self { map, what: what.to_owned(), source, left }),
            other => {
                left.push(source.left(what, format!("expected an object, not {}", json_type(other))));
                None
            }
        }
    }

    /// Sets the name of the object in messages.
    pub fn set_name(&mut self, what: String) {
        self.what = what;
    }

    pub fn source(&self) -> Source {
        self.source.clone()
    }

    /// Reports a problem with the object.
    pub fn report(&mut self, why: impl Into<String>) {
        self.left.push(self.source.left(self.what.clone(), why));
    }

    /// Returns the first of these keys that has a value; the older coven had several spellings.
    pub fn value(&self, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        let found = names.iter().filter_map(|name| Some((*name, self.map.get(*name)?)));
        found.into_iter().find(|(_, value)| !value.is_null())
    }

    fn report_field(&mut self, name: &str, why: String) {
        self.left.push(self.source.left(format!("{}: {name}", self.what), why));
    }

    /// Returns text that is not blank. Converts a number to text: some trackers have numeric ids.
    pub fn text(&mut self, names: &[&'static str]) -> Option<String> {
        let (name, value) = self.value(names)?;
        match value {
            Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            Value::Number(number) => Some(number.to_string()),
            other => {
                self.report_field(name, format!("expected text, not {}", json_type(other)));
                None
            }
        }
    }

    fn list(&mut self, names: &[&'static str]) -> Option<(&'static str, &'a [Value])> {
        match self.value(names)? {
            (name, Value::Array(values)) => Some((name, values)),
            (name, other) => {
                self.report_field(name, format!("expected a list, not {}", json_type(other)));
                None
            }
        }
    }

    pub fn texts(&mut self, names: &[&'static str]) -> Vec<String> {
        let Some((name, values)) = self.list(names) else { return Vec::new() };
        let mut texts = Vec::new();
        for value in values {
            match value {
                Value::String(text) => texts.push(text.clone()),
                Value::Number(number) => texts.push(number.to_string()),
                other => self.report_field(name, format!("expected texts in the list, not {}", json_type(other))),
            }
        }
        texts
    }

    /// Calls `take` with each object of a list.
    pub fn each(&mut self, names: &[&'static str], mut take: impl FnMut(&mut Fields<'_>)) {
        let Some((name, values)) = self.list(names) else { return };
        let what = format!("{}: {name}", self.what);
        for value in values {
            if let Some(mut fields) = Fields::of(value, &what, self.source, self.left) {
                take(&mut fields);
            }
        }
    }

    pub fn integer(&mut self, names: &[&'static str]) -> Option<i64> {
        let (name, value) = self.value(names)?;
        let number = value.as_i64();
        if number.is_none() {
            self.report_field(name, format!("expected a whole number, not {}", display_value(value)));
        }
        number
    }

    pub fn pid(&mut self, names: &[&'static str]) -> Option<u32> {
        let number = self.integer(names)?;
        match u32::try_from(number) {
            // The process had not started yet.
            Ok(0) => None,
            Ok(pid) => Some(pid),
            Err(_) => {
                self.report_field("pid", format!("{number} is not a process id"));
                None
            }
        }
    }

    /// Parses an RFC 3339 time, or a Unix time whose unit is derived from its size.
    pub fn moment(&mut self, names: &[&'static str]) -> Option<Timestamp> {
        let (name, value) = self.value(names)?;
        let read = match value {
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.as_f64().and_then(unix_time),
            _ => None,
        };
        match read {
            // Go's zero time, or an unset field.
            Some(moment) if moment <= Timestamp::default() => None,
            Some(moment) => Some(moment),
            None => {
                self.report_field(name, format!("expected a time, not {}", display_value(value)));
                None
            }
        }
    }

    pub fn parse_status<T: std::str::FromStr<Err: std::fmt::Display>>(&mut self, status: &str) -> Option<T> {
        match status.parse() {
            Ok(state) => Some(state),
            Err(error) => {
                self.report(format!("status: {error}"));
                None
            }
        }
    }

    /// Returns false if the field is missing.
    pub fn is_true(&mut self, names: &[&'static str]) -> bool {
        let Some((name, value)) = self.value(names) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.report_field(name, format!("expected true or false, not {}", json_type(value)));
            false
        })
    }

    pub fn names(&self) -> Vec<String> {
        self.map.keys().cloned().collect()
    }

    /// Returns the object under this key.
    pub fn member(&mut self, name: &str) -> Option<Fields<'_>> {
        let what = format!("{}: {name}", self.what);
        Fields::of(self.map.get(name)?, &what, self.source, self.left)
    }

    pub fn nested(&mut self, names: &[&'static str]) -> Option<Fields<'_>> {
        let (name, value) = self.value(names)?;
        let what = format!("{}: {name}", self.what);
        Fields::of(value, &what, self.source, self.left)
    }
}

/// Interprets numbers by size: seconds (up to the year 5138), milliseconds, microseconds or nanoseconds.
fn unix_time(number: f64) -> Option<Timestamp> {
    let millis = match number.abs() {
        size if size < 1e11 => number * 1e3,
        size if size < 1e14 => number,
        size if size < 1e17 => number / 1e3,
        size if size < 1e20 => number / 1e6,
        _ => return None,
    };
    // The cast is exact: the value is far below 2^53.
    (millis >= 0.0).then(|| Timestamp::from_millis(millis.round() as i64))
}

pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Formats a short value for a message, or returns its type.
fn display_value(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        other => json_type(other).to_owned(),
    }
}
