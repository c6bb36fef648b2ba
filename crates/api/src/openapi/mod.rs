//! The OpenAPI document, made from the table of routes and the types that it names.

#[cfg(test)]
mod tests;
mod unions;

use std::borrow::Cow;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};

use crate::ErrorBody;
use crate::live::{LiveMessage, LiveRequest};
use crate::routes::{ALL, Binary, Document, Endpoint, Route, WebSocket};
use crate::schema;

type Make = fn(&mut SchemaGenerator) -> Schema;

/// How the schemas of a route are made.
#[derive(Debug, Clone, Copy)]
pub struct Schemas {
    query: Make,
    request: Make,
    response: Make,
}

impl Schemas {
    pub(crate) const fn of<E>() -> Self
    where
        E: Endpoint<Query: JsonSchema, Request: JsonSchema, Response: JsonSchema>,
    {
        Self {
            query: E::Query::json_schema,
            request: SchemaGenerator::subschema_for::<E::Request>,
            response: SchemaGenerator::subschema_for::<E::Response>,
        }
    }
}

impl JsonSchema for Binary {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Binary".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "binary" })
    }
}

impl JsonSchema for Document {
    fn schema_name() -> Cow<'static, str> {
        schema::JsonObject::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        schema::JsonObject::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema::JsonObject::json_schema(generator)
    }
}

/// A WebSocket is described by the messages that the daemon sends on it.
impl<M: JsonSchema> JsonSchema for WebSocket<M> {
    fn inline_schema() -> bool {
        M::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        M::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        M::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        M::json_schema(generator)
    }
}

/// The whole document as JSON text.
pub fn document() -> String {
    let settings = SchemaSettings::draft2020_12().with(|it| {
        it.definitions_path = "/components/schemas".into();
        it.meta_schema = None;
    });
    let mut given = settings.clone().for_deserialize().into_generator();
    let mut answered = settings.for_serialize().into_generator();
    let failure = answered.subschema_for::<ErrorBody>();
    given.subschema_for::<LiveRequest>();
    answered.subschema_for::<LiveMessage>();
    let mut paths = Map::new();
    for route in ALL {
        let method = route.method.as_str().to_lowercase();
        let operation = operation(route, &mut given, &mut answered, &failure);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path.as_object_mut().expect("just made").insert(method, operation);
    }
    // A type that goes both ways is described as it is answered.
    let mut schemas = given.take_definitions(true);
    schemas.extend(answered.take_definitions(true));
    unions::name_variants(&mut schemas);
    schemas.values_mut().for_each(remove_empty_defaults);
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "coven",
            "description": "Sessions of AI coding agents: launch, attach, replay, answer, control. On the home's Unix socket \
                            without a token; on TCP with `Authorization: Bearer`.",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "paths": paths,
        "components": { "schemas": schemas, "responses": shared_responses(&failure) },
    });
    let mut text = serde_json::to_string_pretty(&document).expect("a document is plain data");
    text.push('\n');
    text
}

fn operation(route: &Route, given: &mut SchemaGenerator, answered: &mut SchemaGenerator, failure: &Schema) -> Value {
    let about: Vec<&str> = route.about.iter().map(|line| line.trim()).collect();
    let mut operation = json!({
        "operationId": snake_case(route.name),
        "summary": about.join(" "),
        "x-coven-scope": format!("{:?}", route.scope).to_lowercase(),
        "responses": responses(route, answered, failure),
    });
    let parameters = parameters(route, given);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if route.has_body {
        let schema = (route.schemas.request)(given);
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

fn parameters(route: &Route, given: &mut SchemaGenerator) -> Vec<Value> {
    let mut parameters = Vec::new();
    if route.path.contains("{id}") {
        parameters.push(json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }));
    }
    let mut query = (route.schemas.query)(given).to_value();
    for name in (route.parameters)() {
        let mut schema = query["properties"][name].take();
        let mut parameter = json!({ "name": name, "in": "query", "required": false });
        if let Some(text) = schema.as_object_mut().and_then(|schema| schema.remove("description")) {
            parameter["description"] = text;
        }
        parameter["schema"] = never_null(schema);
        parameters.push(parameter);
    }
    parameters
}

/// The schema of a parameter: one that is left out is not null.
fn never_null(mut schema: Value) -> Value {
    if let Some(either) = schema["anyOf"].as_array() {
        return either.iter().find(|it| it["type"] != "null").cloned().unwrap_or_default();
    }
    if let Some(types) = schema["type"].as_array() {
        schema["type"] = types[0].clone();
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("default");
    }
    schema
}

/// Failures that mean the same on every route, by name.
const SHARED: [(u16, &str, &str); 4] = [
    (400, "BadRequest", "A parameter or the body is not valid; `message` names it."),
    (404, "NotFound", "No record has this id."),
    (409, "Conflict", "The state of the record does not allow this."),
    (500, "InternalError", "The daemon failed; its log says more."),
];

fn shared_responses(failure: &Schema) -> Map<String, Value> {
    SHARED.iter().map(|(_, name, about)| ((*name).to_owned(), described(about, "application/json", failure))).collect()
}

fn responses(route: &Route, answered: &mut SchemaGenerator, failure: &Schema) -> Value {
    let schema = (route.schemas.response)(answered);
    let is_binary = schema.get("format").is_some_and(|format| format == "binary");
    let kind = if is_binary { "application/octet-stream" } else { "application/json" };
    let about = match route.status {
        101 => "A WebSocket that carries these messages.",
        201 => "Created.",
        202 => "Accepted; the work continues.",
        _ => "Done.",
    };
    let mut responses = json!({ route.status.to_string(): described(about, kind, &schema) });
    // A query parameter or body that the route does not know.
    let bad_request = Some(&(400, None)).filter(|_| route.failures.iter().all(|(it, _)| *it != 400));
    for (status, reason) in route.failures.iter().chain(bad_request) {
        responses[status.to_string()] = match (reason, SHARED.iter().find(|(it, ..)| it == status)) {
            (None, Some((_, name, _))) => json!({ "$ref": format!("#/components/responses/{name}") }),
            (reason, _) => {
                let reason = reason.expect("a status that routes do not share has a reason");
                match status {
                    200..300 => described(reason, kind, &schema),
                    _ => described(reason, "application/json", failure),
                }
            }
        };
    }
    responses
}

fn described(about: &str, kind: &str, schema: &Schema) -> Value {
    json!({ "description": about, "content": { kind: { "schema": schema } } })
}

/// Removes defaults that are an empty text: the field has to be given, and generators refuse an empty id.
fn remove_empty_defaults(schema: &mut Value) {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        if field.get("default").is_some_and(|default| default == "") {
            field.remove("default");
        }
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}
