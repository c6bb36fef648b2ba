//! The daemon's answers match the OpenAPI document.

use coven_api::routes::{ALL, Endpoint, ReadDocument};
use coven_testing::TestHome;
use coven_testing::agents::agent_with_traits;
use serde_json::{Value, json};

/// Finds the parts of a value that do not match its schema, as paths into the value.
pub fn misfits(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("there is no {name}"));
        return misfits(document, schema, value, at, found);
    }
    if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let fits = |choice: &Value| {
            let mut found = Vec::new();
            misfits(document, choice, value, at, &mut found);
            found.is_empty()
        };
        if !choices.iter().any(fits) {
            found.push(format!("{at}: {value} is none of the choices"));
        }
        return;
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        misfits(document, part, value, at, found);
    }
    if schema.get("const").is_some_and(|it| it != value) {
        return found.push(format!("{at}: {value}, documented as {}", schema["const"]));
    }
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value) && !value.is_null()) {
        return found.push(format!("{at}: {value} is none of {words:?}"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        // No type: any value matches.
        _ => return,
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_documented = kinds.contains(&kind) || (kind == "integer" && kinds.contains(&"number"));
    if !is_documented {
        return found.push(format!("{at}: {kind}, documented as {}", kinds.join(" or ")));
    }
    for (nth, item) in value.as_array().into_iter().flatten().enumerate() {
        misfits(document, &schema["items"], item, &format!("{at}[{nth}]"), found);
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(schema) => misfits(document, schema, field, &format!("{at}.{name}"), found),
            None if schema["additionalProperties"].is_object() => {
                misfits(document, &schema["additionalProperties"], field, &format!("{at}.{name}"), found);
            }
            None => found.push(format!("{at}.{name}: not documented")),
        }
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            found.push(format!("{at}.{name}: missing"));
        }
    }
}

/// Reads a route and asserts that the answer matches the document.
#[track_caller]
fn assert_documented(home: &TestHome, document: &Value, route: &str, path: &str) -> Value {
    let schema = &document["paths"][route]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{route} is documented");
    let answer: Value = home.read(path);
    let mut found = Vec::new();
    misfits(document, schema, &answer, path, &mut found);
    assert_eq!(found, [""; 0], "{answer}");
    answer
}

#[test]
fn the_state_of_an_agent_matches_the_document() {
    let config =
        json!({ "harnesses": { "mute": agent_with_traits("silent"), "odd": agent_with_traits("modes_list") } });
    let home = TestHome::started_with_agent(config);
    let repo = home.make_repo("app");
    let document: Value = home.read("/api/openapi.json");
    let read_state = |id: &str| {
        assert_documented(&home, &document, "/api/v1/sessions/{id}/agent", &format!("/api/v1/sessions/{id}/agent"))
    };

    // The agent has not sent its state yet.
    let mute = read_state(&home.open_as(&repo, "mute").id);
    assert_eq!((&mute["modes"], &mute["config_options"]), (&Value::Null, &Value::Null));
    let odd = home.open_as(&repo, "odd").id;
    home.wait_for_rest(&odd);
    assert_eq!(read_state(&odd)["modes"], Value::Null);
    let usual = home.open(&repo).id;
    home.turn(&usual, "usage 1234 ;; commands web,test");
    let usual = read_state(&usual);
    assert!(
        usual["modes"].is_object() && usual["config_options"].is_array() && usual["commands"].is_array(),
        "{usual}"
    );
}

#[test]
fn the_document_is_a_route_of_the_table() {
    let home = TestHome::started();
    let document: Value = home.read(ReadDocument::ROUTE.path);
    let paths = document["paths"].as_object().expect("paths");
    for route in ALL {
        assert!(paths[route.path][route.method.as_str().to_lowercase()].is_object(), "{}", route.name);
    }
    let documented: usize = paths.values().map(|it| it.as_object().expect("methods").len()).sum();
    assert_eq!(documented, ALL.len());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/generated/openapi.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(file).expect("the document")).expect("JSON");
    assert_eq!(document, file);
}

#[test]
fn the_history_of_a_task_matches_the_document() {
    let home = TestHome::started();
    let document: Value = home.read("/api/openapi.json");
    let task: Value = home.post("/api/v1/tasks", &json!({ "title": "first", "tags": ["a"] })).json();
    let id = task["id"].as_str().expect("an id");
    home.coven(&["task", "edit", id, "--title", "second", "--priority", "1"]).expect_success();

    let path = format!("/api/v1/tasks/{id}/history");
    let history = assert_documented(&home, &document, "/api/v1/tasks/{id}/history", &path);

    assert!(history["items"].as_array().is_some_and(|it| it.iter().any(|it| it["old"] == "first")), "{history}");
}
