//! A JSON object that preserves the order of its keys and the exact values of unknown keys, which other tools may use.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Replaces the value in place, or appends the key.
    pub(super) fn set(&mut self, key: &str, value: impl Serialize) {
        let text = serde_json::to_string_pretty(&value).expect("plain data serializes");
        // Indent by one level. This is safe because line ends inside strings are escaped.
        let value = RawValue::from_string(text.replace('\n', "\n  ")).expect("indented JSON stays valid");
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Formats the object as AUQ does: two spaces of indentation, no final line end.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data serializes")
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
    fn unknown_keys_keep_their_order_and_exact_text() {
        let text = "{\n  \"z\": [1.50, {\"b\":1,\"a\":2}],\n  \"status\": \"pending\",\n  \"a\": null\n}";
        let mut fields: Fields = serde_json::from_str(text).expect("JSON object");
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
