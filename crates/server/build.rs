//! Writes the OpenAPI document without its indentation: the program serves it to generators and need not carry it twice as long.

use std::path::Path;

const DOCUMENT: &str = "../../docs/generated/openapi.json";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={DOCUMENT}");
    let indented = std::fs::read_to_string(DOCUMENT).expect("the generated document is part of the checkout");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&out).join("openapi.json"), compact(&indented))
        .expect("the build's own folder is writable");
}

/// Removes the white space outside of strings.
fn compact(json: &str) -> String {
    let (mut in_string, mut is_escaped) = (false, false);
    let mut kept = String::with_capacity(json.len());
    for character in json.chars() {
        if !in_string && character.is_ascii_whitespace() {
            continue;
        }
        if character == '"' && !is_escaped {
            in_string = !in_string;
        }
        is_escaped = character == '\\' && !is_escaped;
        kept.push(character);
    }
    kept
}
