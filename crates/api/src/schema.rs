//! Schemas of types that have none themselves: those of `domain`, and JSON from outside.

use std::borrow::Cow;
use std::marker::PhantomData;

use coven_domain::lifecycle::StringEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// How many arrays that lie directly in each other `JsonValue` describes.
const ARRAY_DEPTH: usize = 4;

macro_rules! inline {
    ($(#[doc = $about:literal])+ $name:ident, $schema:tt) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        pub enum $name {}

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

inline! {
    /// An id of `domain`.
    Id, { "type": "string", "format": "uuid" }
}

inline! {
    /// The id of a conversation, which is the name of its file.
    FileId, { "type": "string", "pattern": "^[A-Za-z0-9._-]+$" }
}

inline! {
    /// A `Timestamp`.
    DateTime, { "type": "string", "format": "date-time" }
}

/// An enum that `string_enum!` declares, under its own name.
#[derive(Debug)]
pub struct StringEnumSchema<E>(PhantomData<E>);

impl<E: StringEnum> JsonSchema for StringEnumSchema<E> {
    fn schema_name() -> Cow<'static, str> {
        E::NAME.into()
    }

    fn schema_id() -> Cow<'static, str> {
        std::any::type_name::<E>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": E::VALUES })
    }
}

/// Any JSON.
#[derive(Debug)]
pub enum JsonValue {}

impl JsonSchema for JsonValue {
    fn schema_name() -> Cow<'static, str> {
        "JsonValue".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<JsonObject>().to_value();
        // Generators follow a recursion only through a named object, so arrays end at some depth.
        let any = (0..ARRAY_DEPTH).fold(any_of(&object, None), |items, _| any_of(&object, Some(items)));
        let mut schema = Schema::try_from(any).expect("an object is a schema");
        schema.insert("description".to_owned(), "Any JSON.".into());
        schema
    }
}

fn any_of(object: &Value, items: Option<Value>) -> Value {
    let scalars = ["null", "boolean", "number", "string"].map(|name| json!({ "type": name }));
    let array = items.map(|items| json!({ "type": "array", "items": items }));
    json!({ "anyOf": scalars.into_iter().chain(array).chain([object.clone()]).collect::<Vec<_>>() })
}

/// Any JSON object.
#[derive(Debug)]
pub enum JsonObject {}

impl JsonSchema for JsonObject {
    fn schema_name() -> Cow<'static, str> {
        "JsonObject".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<JsonValue>();
        json_schema!({ "type": "object", "description": "Any JSON object.", "additionalProperties": value })
    }
}
