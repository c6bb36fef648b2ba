//! A JSON object that keeps its keys in order and the values of keys that we do not know: other tools have their own.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Replaces the value where it stands, or adds the key at the end.
    pub(super) fn set(&mut self, key: &str, value: impl Serialize) {
        let text = serde_json::to_string_pretty(&value).expect("plain data has a JSON form");
        // One level deeper than by itself; line ends inside of strings are escaped.
        let value = RawValue::from_string(text.replace('\n', "\n  ")).expect("JSON stays JSON");
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// As the files have it: two blanks of indent, no line end after the last line.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data has a JSON form")
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    fields.push(entry);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_their_order_and_their_very_text_survive() {
        let text = "{\n  \"z\": [1.50, {\"b\":1,\"a\":2}],\n  \"status\": \"pending\",\n  \"a\": null\n}";
        let mut fields: Fields = serde_json::from_str(text).expect("an object");
        assert_eq!(fields.to_text(), text);
        fields.set("status", "rejected");
        fields.set("rejectionReason", None::<&str>);
        let changed = text.replace("pending", "rejected").replace("null\n", "null,\n  \"rejectionReason\": null\n");
        assert_eq!(fields.to_text(), changed);
        let mut fields = Fields::default();
        fields.set("list", serde_json::json!([{"text": "a\nb"}]));
        assert_eq!(fields.to_text(), "{\n  \"list\": [\n    {\n      \"text\": \"a\\nb\"\n    }\n  ]\n}");
        assert!(serde_json::from_str::<Fields>("[]").is_err());
    }
}
