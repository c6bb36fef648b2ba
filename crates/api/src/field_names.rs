//! The names under which a struct's fields are read, as serde knows them.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

/// The names of `T`'s fields; empty if it is not a struct.
pub fn field_names<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // Always fails: only the names that `T` passes along are wanted.
    let _ = T::deserialize(Listener(&mut names));
    names
}

struct Listener<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Listener<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Error::custom("nothing is read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
