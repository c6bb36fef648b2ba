//! Adds or removes an entry in a TOML file, preserving all other content, including comments.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

use super::Edited;

/// Adds or replaces the entry as a table under `place`, or removes it if `entry` is `None`.
pub(super) fn edit(text: &str, place: &str, name: &str, entry: Option<&Value>) -> Result<Edited, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let mut edited = Edited::default();
    match entry {
        Some(entry) => {
            let fields = table(entry)?;
            let place_at = document.entry(place).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
            let servers = place_at.as_table_like_mut().ok_or_else(|| format!("{place} is not a table"))?;
            let old = servers.get(name).map(|old| old.to_string());
            let new = Item::Table(fields.clone());
            let is_same = old.as_deref().is_some_and(|old| old.trim() == new.to_string().trim());
            if !is_same {
                edited.replaced = old.map(|old| old.trim().to_owned());
                servers.insert(name, new);
            }
            edited.entry = Some(format!("[{place}.{name}]\n{}", fields.to_string().trim_end()));
        }
        None => {
            let servers: Option<&mut dyn TableLike> = document.get_mut(place).and_then(Item::as_table_like_mut);
            if let Some(servers) = servers {
                edited.replaced = servers.remove(name).map(|old| old.to_string().trim().to_owned());
            }
        }
    }
    edited.text = document.to_string();
    // If the file did not end with a line break, do not add one: removing the entry must restore the file.
    if !text.is_empty() && !text.ends_with('\n') {
        edited.text.truncate(edited.text.trim_end_matches('\n').len());
    }
    Ok(edited)
}

fn table(entry: &Value) -> Result<Table, String> {
    let mut table = Table::new();
    for (key, field) in entry.as_object().ok_or("the entry must be an object")? {
        table.insert(key, item(field)?);
    }
    Ok(table)
}

fn item(field: &Value) -> Result<Item, String> {
    Ok(match field {
        Value::String(text) => value(text),
        Value::Bool(flag) => value(*flag),
        Value::Number(number) => value(number.as_i64().ok_or("a number must be an integer")?),
        Value::Array(items) => {
            let texts = items.iter().map(|item| item.as_str().ok_or("a list may contain only strings"));
            value(texts.collect::<Result<Array, _>>()?)
        }
        Value::Null | Value::Object(_) => return Err("a value must be a string, boolean, integer or list".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_other_tables_are_preserved() {
        let text = "# mine\nmodel = \"x\"\n\n[mcp_servers.other] # theirs\ncommand = \"y\"\n";
        let entry = json!({"command": "coven", "args": ["mcp"], "tool_timeout_sec": 86400});
        let put = edit(text, "mcp_servers", "coven", Some(&entry)).expect("valid TOML");
        assert!(put.text.starts_with(text), "{}", put.text);
        assert!(put.text.contains("[mcp_servers.coven]\n"), "{}", put.text);
        assert!(put.text.contains("tool_timeout_sec = 86400"), "{}", put.text);
        let out = edit(&put.text, "mcp_servers", "coven", None).expect("valid TOML");
        assert_eq!(out.text, text);
    }

    #[test]
    fn removing_the_entry_restores_the_file() {
        let entry = json!({"command": "coven"});
        for text in ["", "a = 1\n", "a = 1", "[b]\nc = 1\n\n\n", "[mcp_servers]\n", "[mcp_servers.x]\nc = 1\n[d]\n"] {
            let put = edit(text, "mcp_servers", "coven", Some(&entry)).expect("valid TOML");
            let out = edit(&put.text, "mcp_servers", "coven", None).expect("valid TOML");
            assert_eq!(out.text, text, "with the entry: {}", put.text);
        }
    }
}
