//! The fields of one object: what is of another sort than it should be is told, and the rest is taken.

use crate::legacy::records::{Left, Source};
use coven_domain::Timestamp;
use serde_json::{Map, Value};

pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    /// What the object is, for people.
    what: String,
    source: &'a Source,
    left: &'a mut Vec<Left>,
}

impl<'a> Fields<'a> {
    /// Something that is no object is told and left.
    pub fn of(value: &'a Value, what: &str, source: &'a Source, left: &'a mut Vec<Left>) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self { map, what: what.to_owned(), source, left }),
            other => {
                left.push(source.left(what, format!("expected an object, not {}", sort(other))));
                None
            }
        }
    }

    /// It has a name from here on.
    pub fn call(&mut self, what: String) {
        self.what = what;
    }

    pub fn source(&self) -> Source {
        self.source.clone()
    }

    /// Says why the whole object is left.
    pub fn leave(&mut self, why: impl Into<String>) {
        self.left.push(self.source.left(self.what.clone(), why));
    }

    /// The first of these names that has a value; the older coven had several spellings.
    pub fn value(&self, names: &[&'static str]) -> Option<(&'static str, &'a Value)> {
        let found = names.iter().filter_map(|name| Some((*name, self.map.get(*name)?)));
        found.into_iter().find(|(_, value)| !value.is_null())
    }

    fn complain(&mut self, name: &str, why: String) {
        self.left.push(self.source.left(format!("{}: {name}", self.what), why));
    }

    /// Text that is not blank. A number is taken for its digits: some trackers have such ids.
    pub fn text(&mut self, names: &[&'static str]) -> Option<String> {
        let (name, value) = self.value(names)?;
        match value {
            Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
            Value::Number(number) => Some(number.to_string()),
            other => {
                self.complain(name, format!("expected text, not {}", sort(other)));
                None
            }
        }
    }

    fn list(&mut self, names: &[&'static str]) -> Option<(&'static str, &'a [Value])> {
        match self.value(names)? {
            (name, Value::Array(values)) => Some((name, values)),
            (name, other) => {
                self.complain(name, format!("expected a list, not {}", sort(other)));
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
                other => self.complain(name, format!("expected texts in the list, not {}", sort(other))),
            }
        }
        texts
    }

    /// Every object of a list.
    pub fn each(&mut self, names: &[&'static str], mut take: impl FnMut(&mut Fields<'_>)) {
        let Some((name, values)) = self.list(names) else { return };
        let what = format!("{}: {name}", self.what);
        for value in values {
            if let Some(mut fields) = Fields::of(value, &what, self.source, self.left) {
                take(&mut fields);
            }
        }
    }

    pub fn whole(&mut self, names: &[&'static str]) -> Option<i64> {
        let (name, value) = self.value(names)?;
        let number = value.as_i64();
        if number.is_none() {
            self.complain(name, format!("expected a whole number, not {}", shown(value)));
        }
        number
    }

    pub fn pid(&mut self, names: &[&'static str]) -> Option<u32> {
        let number = self.whole(names)?;
        match u32::try_from(number) {
            // It had none yet.
            Ok(0) => None,
            Ok(pid) => Some(pid),
            Err(_) => {
                self.complain("pid", format!("{number} is no process"));
                None
            }
        }
    }

    /// RFC 3339, or a number since 1970 in whatever unit fits.
    pub fn moment(&mut self, names: &[&'static str]) -> Option<Timestamp> {
        let (name, value) = self.value(names)?;
        let read = match value {
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.as_f64().and_then(since_1970),
            _ => None,
        };
        match read {
            // How the older coven's language writes "never", and a field that was never set.
            Some(moment) if moment <= Timestamp::default() => None,
            Some(moment) => Some(moment),
            None => {
                self.complain(name, format!("expected a time, not {}", shown(value)));
                None
            }
        }
    }

    pub fn word<T: std::str::FromStr<Err: std::fmt::Display>>(&mut self, word: &str) -> Option<T> {
        match word.parse() {
            Ok(state) => Some(state),
            Err(error) => {
                self.leave(format!("status: {error}"));
                None
            }
        }
    }

    /// False also where it is not there.
    pub fn is_true(&mut self, names: &[&'static str]) -> bool {
        let Some((name, value)) = self.value(names) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.complain(name, format!("expected true or false, not {}", sort(value)));
            false
        })
    }

    pub fn names(&self) -> Vec<String> {
        self.map.keys().cloned().collect()
    }

    /// The object of that name among others of its sort.
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

/// Seconds until the year 5138, then thousandths, then millionths, then billionths.
fn since_1970(number: f64) -> Option<Timestamp> {
    let millis = match number.abs() {
        size if size < 1e11 => number * 1e3,
        size if size < 1e14 => number,
        size if size < 1e17 => number / 1e3,
        size if size < 1e20 => number / 1e6,
        _ => return None,
    };
    // Exact to the millisecond: far below 2^53.
    (millis >= 0.0).then(|| Timestamp::from_millis(millis.round() as i64))
}

pub(super) fn sort(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Short values as they are.
fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        other => sort(other).to_owned(),
    }
}
