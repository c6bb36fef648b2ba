//! The document has no hole: every schema is named and typed, so that generators need not guess.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::routes::ALL;

/// Ids that an agent, its tools or a config file choose: any text.
const FOREIGN_IDS: [&str; 12] = [
    "AcpMode.id",
    "AcpModes.current_mode_id",
    "AcpOption.id",
    "ConfigOptionRequest.config_id",
    "Harness.id",
    "InboxOption.id",
    "MessageContentTool.tool_call_id",
    "ModeRequest.mode_id",
    "QuestionSetRecord.call_id",
    "AcpState.agent_session_id",
    "ToolContentTerminal.terminal_id",
    "ToolTerminal.terminal_id",
];

struct Checker<'a> {
    document: &'a Value,
    problems: Vec<String>,
}

impl Checker<'_> {
    fn problem(&mut self, at: &str, what: &str) {
        self.problems.push(format!("{at}: {what}"));
    }

    fn schema(&mut self, at: &str, schema: &Value) {
        let Some(fields) = schema.as_object().filter(|it| it.keys().any(|key| key != "description")) else {
            return self.problem(at, "the schema is empty");
        };
        if let Some(name) = schema["$ref"].as_str() {
            if self.document.pointer(name.trim_start_matches('#')).is_none() {
                self.problem(at, &format!("there is no {name}"));
            }
            return;
        }
        match schema["type"].as_str() {
            Some("object") if !schema["properties"].is_object() && !schema["additionalProperties"].is_object() => {
                self.problem(at, "an object without properties");
            }
            Some("array") if !schema["items"].is_object() => self.problem(at, "an array without items"),
            None if !["type", "oneOf", "anyOf", "const", "enum"].iter().any(|key| fields.contains_key(*key)) => {
                self.problem(at, "no type");
            }
            _ => {}
        }
        if fields.contains_key("allOf") {
            self.problem(at, "allOf, which generators render in different ways");
        }
        if let Some(variants) = schema["oneOf"].as_array() {
            self.union(at, variants, &schema["discriminator"]);
        }
        for key in ["oneOf", "anyOf"] {
            for (nth, part) in schema[key].as_array().into_iter().flatten().enumerate() {
                self.part(&format!("{at}/{key}[{nth}]"), part);
            }
        }
        for key in ["items", "additionalProperties"] {
            match &schema[key] {
                Value::Null | Value::Bool(false) => {}
                part => self.part(&format!("{at}/{key}"), part),
            }
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            self.part(&at, field);
            self.field(&at, name, field);
        }
    }

    /// A schema inside another one: an object must have a name.
    fn part(&mut self, at: &str, schema: &Value) {
        if schema["properties"].is_object() {
            self.problem(at, "an object without a name");
        }
        self.schema(at, schema);
    }

    fn union(&mut self, at: &str, variants: &[Value], discriminator: &Value) {
        let mapped: BTreeSet<&str> =
            discriminator["mapping"].as_object().into_iter().flatten().filter_map(|(_, to)| to.as_str()).collect();
        let named: BTreeSet<&str> = variants.iter().filter_map(|it| it["$ref"].as_str()).collect();
        if !discriminator["propertyName"].is_string() || named.len() != variants.len() || mapped != named {
            self.problem(at, "oneOf without a discriminator that maps each variant");
        }
    }

    /// Ids, times and words are not plain text.
    fn field(&mut self, at: &str, name: &str, schema: &Value) {
        if schema["default"] == "" {
            self.problem(at, "an empty text as default");
        }
        let schema = self.target(schema);
        let is_text = schema["type"] == "string" || schema["type"][0] == "string";
        let has = |keys: &[&str]| keys.iter().any(|key| schema.get(*key).is_some());
        let is_id = name == "id" || name.ends_with("_id") || name.ends_with("Id");
        if is_text && is_id && !has(&["format", "pattern"]) && !FOREIGN_IDS.contains(&at) {
            self.problem(at, "an id without a format or pattern");
        }
        if is_text && (name == "at" || name.ends_with("_at") || name.ends_with("At")) && schema["format"] != "date-time"
        {
            self.problem(at, "a time without the format date-time");
        }
        let is_word = ["activity", "channel", "code", "kind", "role", "signal", "status", "type"].contains(&name);
        // What an agent calls its permission options, and how a process ended, are words of others.
        let is_foreign = ["InboxOption.kind", "ToolExit.signal"].contains(&at);
        if is_text && is_word && !is_foreign && !has(&["enum", "const"]) {
            self.problem(at, "a word without an enum");
        }
    }

    /// The schema behind a reference, and behind the choice of a value or null.
    fn target(&self, schema: &Value) -> Value {
        let choices = schema["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
        let schema = match choices {
            [it, null] | [null, it] if null["type"] == "null" => it,
            _ => schema,
        };
        let name = schema["$ref"].as_str().unwrap_or_default();
        self.document.pointer(name.trim_start_matches('#')).filter(|_| !name.is_empty()).unwrap_or(schema).clone()
    }

    fn operation(&mut self, at: &str, operation: &Value) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            self.schema(&format!("{at}?{}", parameter["name"]), &parameter["schema"]);
        }
        let body = &operation["requestBody"];
        if !body.is_null() {
            self.content(&format!("{at} body"), &body["content"]);
        }
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let at = format!("{at} {status}");
            let response = self.target(response);
            if response["description"].as_str().is_none_or(str::is_empty) {
                self.problem(&at, "no description");
            }
            self.content(&at, &response["content"]);
        }
    }

    fn content(&mut self, at: &str, content: &Value) {
        match content.as_object() {
            Some(kinds) if !kinds.is_empty() => {
                for kind in kinds.values() {
                    // A page of an older interface may be a bare array.
                    self.part(at, &kind["schema"]);
                }
            }
            _ => self.problem(at, "no content"),
        }
    }
}

fn document() -> Value {
    serde_json::from_str(&super::document()).expect("the document is JSON")
}

fn check(document: &Value) -> Vec<String> {
    let mut checker = Checker { document, problems: Vec::new() };
    let object = |value: &Value| value.as_object().cloned().unwrap_or_else(Map::new);
    for (name, schema) in object(&document["components"]["schemas"]) {
        checker.schema(&name, &schema);
    }
    for (path, operations) in object(&document["paths"]) {
        for (method, operation) in object(&operations) {
            checker.operation(&format!("{method} {path}"), &operation);
        }
    }
    checker.problems
}

#[test]
fn every_schema_and_answer_is_described() {
    assert_eq!(check(&document()), [""; 0]);
}

#[test]
fn every_route_has_its_operation_with_body_and_success() {
    let document = document();
    for route in ALL {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        assert_eq!(operation["requestBody"].is_object(), route.has_body, "{}", route.name);
        for status in route.failures.iter().map(|(status, _)| *status).chain([route.status, 400]) {
            assert!(operation["responses"][status.to_string()].is_object(), "{} {status}", route.name);
        }
    }
}

#[test]
fn a_hole_is_found() {
    let mut document = document();
    let schemas = &mut document["components"]["schemas"];
    schemas["Hole"] = serde_json::json!({ "type": "object", "properties": {
        "anything": {}, "map": { "type": "object" }, "list": { "type": "array" }, "repo_id": { "type": "string" },
        "created_at": { "type": ["string", "null"] }, "status": { "type": "string" },
        "nested": { "type": "object", "properties": { "x": { "type": "string" } } },
        "either": { "oneOf": [{ "type": "string" }, { "type": "integer" }] },
    } });
    let problems = check(&document);
    let fields: BTreeSet<&str> = problems.iter().filter_map(|it| it.strip_prefix("Hole.")?.split(':').next()).collect();
    let expected = ["anything", "created_at", "either", "list", "map", "nested", "repo_id", "status"];
    assert_eq!(fields, BTreeSet::from(expected), "{problems:?}");
}
