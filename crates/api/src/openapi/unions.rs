//! Tagged unions as generators want them: each variant a named schema, and a discriminator that names the tag.

use serde_json::{Map, Value, json};

/// Rewrites every named schema that has `oneOf`: strings become one enum, and variants with a tag become named schemas.
pub fn name_variants(schemas: &mut Map<String, Value>) {
    let unions: Vec<String> =
        schemas.iter().filter(|(_, schema)| schema.get("oneOf").is_some()).map(|(name, _)| name.clone()).collect();
    for name in unions {
        let mut union = schemas[&name].take();
        if let Some(words) = words(&union["oneOf"]) {
            let rest = union.as_object_mut().expect("a schema with oneOf is an object");
            rest.remove("oneOf");
            rest.insert("type".to_owned(), json!("string"));
            rest.insert("enum".to_owned(), words.into());
        } else if let Some(tag) = tag(&union["oneOf"]) {
            let variants = split(&name, &mut union, &tag);
            for (variant, _) in &variants {
                assert!(!schemas.contains_key(variant), "two schemas are named {variant}");
            }
            schemas.extend(variants);
        }
        schemas[&name] = union;
    }
}

/// The values of a union that has strings only.
fn words(variants: &Value) -> Option<Vec<Value>> {
    let mut words = Vec::new();
    for variant in variants.as_array()? {
        match (variant["const"].is_string(), variant["enum"].as_array()) {
            (true, _) => words.push(variant["const"].clone()),
            (false, Some(several)) => words.extend(several.iter().cloned()),
            (false, None) => return None,
        }
    }
    Some(words)
}

/// The property that has another constant in every variant.
fn tag(variants: &Value) -> Option<String> {
    let variants = variants.as_array()?;
    let first = variants.first()?["properties"].as_object()?;
    let is_tag = |name: &&String| variants.iter().all(|it| it["properties"][name.as_str()]["const"].is_string());
    first.keys().find(is_tag).cloned()
}

/// Moves the variants out of the union, each with the fields that all of them share, and returns them with their names.
fn split(name: &str, union: &mut Value, tag: &str) -> Vec<(String, Value)> {
    let rest = union.as_object_mut().expect("a schema with oneOf is an object");
    let variants = rest.remove("oneOf").unwrap_or_default();
    let shared = rest.remove("properties").unwrap_or_else(|| json!({}));
    let required = rest.remove("required").unwrap_or_else(|| json!([]));
    rest.remove("type");
    let mut named = Vec::new();
    let mut mapping = Map::new();
    for mut variant in variants.as_array().cloned().unwrap_or_default() {
        let word = variant["properties"][tag]["const"].as_str().unwrap_or_default().to_owned();
        let variant_name = format!("{name}{}", pascal_case(&word));
        merge(&mut variant, &shared, &required);
        mapping.insert(word, json!(reference(&variant_name)));
        named.push((variant_name, variant));
    }
    let refs: Vec<Value> = named.iter().map(|(name, _)| json!({ "$ref": reference(name) })).collect();
    rest.insert("oneOf".to_owned(), refs.into());
    rest.insert("discriminator".to_owned(), json!({ "propertyName": tag, "mapping": mapping }));
    named
}

fn merge(variant: &mut Value, shared: &Value, required: &Value) {
    let fields = variant["properties"].as_object_mut().expect("a tagged variant has properties");
    fields.extend(shared.as_object().cloned().unwrap_or_default());
    let mut all = required.as_array().cloned().unwrap_or_default();
    all.extend(variant["required"].as_array().cloned().unwrap_or_default());
    variant["required"] = all.into();
}

fn reference(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// `session.output` → `SessionOutput`.
fn pascal_case(word: &str) -> String {
    let parts = word.split(|letter: char| !letter.is_ascii_alphanumeric());
    parts
        .map(|part| part.get(..1).unwrap_or_default().to_ascii_uppercase() + part.get(1..).unwrap_or_default())
        .collect()
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Serialize;

    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Body {
        text: String,
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(tag = "kind", content = "payload", rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Change {
        #[serde(rename = "note.added")]
        Added(Body),
        #[serde(rename = "note.gone")]
        Gone {},
    }

    #[derive(Serialize, JsonSchema)]
    struct Envelope {
        number: u64,
        #[serde(flatten)]
        change: Change,
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Colour {
        /// Warm.
        Red,
        Blue,
    }

    fn schemas<T: JsonSchema>() -> Map<String, Value> {
        let settings = schemars::generate::SchemaSettings::draft2020_12().with(|it| {
            it.definitions_path = "/components/schemas".into();
        });
        let mut generator = settings.for_serialize().into_generator();
        generator.subschema_for::<T>();
        let mut schemas = generator.take_definitions(true);
        name_variants(&mut schemas);
        schemas
    }

    #[test]
    fn each_variant_is_a_named_schema_with_the_shared_fields() {
        let schemas = schemas::<Envelope>();
        let mut names: Vec<&str> = schemas.keys().map(String::as_str).collect();
        // The order of keys depends on a feature of serde_json.
        names.sort_unstable();
        assert_eq!(names, ["Body", "Envelope", "EnvelopeNoteAdded", "EnvelopeNoteGone"]);
        assert_eq!(
            schemas["Envelope"],
            json!({
                "oneOf": [
                    { "$ref": "#/components/schemas/EnvelopeNoteAdded" },
                    { "$ref": "#/components/schemas/EnvelopeNoteGone" },
                ],
                "discriminator": {
                    "propertyName": "kind",
                    "mapping": {
                        "note.added": "#/components/schemas/EnvelopeNoteAdded",
                        "note.gone": "#/components/schemas/EnvelopeNoteGone",
                    },
                },
            })
        );
        let added = &schemas["EnvelopeNoteAdded"];
        assert_eq!(added["required"], json!(["number", "kind", "payload"]));
        assert_eq!(added["properties"]["kind"], json!({ "type": "string", "const": "note.added" }));
        assert_eq!(added["properties"]["payload"], json!({ "$ref": "#/components/schemas/Body" }));
    }

    #[test]
    fn strings_with_comments_become_one_enum() {
        assert_eq!(schemas::<Colour>()["Colour"], json!({ "type": "string", "enum": ["blue", "red"] }));
    }
}
