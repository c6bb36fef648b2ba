//! The entry in an agent's settings, added and removed by `coven mcp install` and `uninstall`.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::super::TrialResult;
use super::super::coven::Coven;

/// Keys under which agents with JSON settings store their servers.
const SERVER_KEYS: [&str; 2] = ["mcpServers", "mcp"];

pub struct Entry<'a> {
    pub coven: &'a Coven,
    pub agent: &'static str,
    /// The settings file.
    pub path: PathBuf,
    /// Content of the file before the installation.
    pub before: Option<String>,
}

impl<'a> Entry<'a> {
    pub fn new(coven: &'a Coven, agent: &'static str, path: PathBuf) -> Self {
        let before = fs::read_to_string(&path).ok();
        Self { coven, agent, path, before }
    }

    /// Installs, uninstalls, checks that the file has its old content, and installs again.
    pub fn install(&self) -> TrialResult<String> {
        self.call("install")?;
        let text = fs::read_to_string(&self.path)?;
        let program = self.coven.program.to_string_lossy().into_owned();
        if !text.contains(&program) {
            return Err(format!("no {program} in {}", self.path.display()).into());
        }
        self.call("uninstall")?;
        let after = fs::read_to_string(&self.path)?;
        if self.before.as_ref().is_some_and(|before| *before != after) {
            return Err(format!("uninstall leaves {after:?}").into());
        }
        self.call("install")?;
        match fs::read_to_string(&self.path)? == text {
            true => Ok(if self.before.is_some() { "yes" } else { "new file" }.to_owned()),
            false => Err("the second install writes other content".into()),
        }
    }

    /// Uninstalls after the agent has run, because the agent may have rewritten the file.
    pub fn uninstall(&self) -> TrialResult<String> {
        let there = fs::read_to_string(&self.path)?;
        self.call("uninstall")?;
        let after = fs::read_to_string(&self.path)?;
        if after.contains(self.coven.program.to_string_lossy().as_ref()) {
            return Err(format!("the entry is still in the file: {after}").into());
        }
        match &self.before {
            None => Ok("gone".to_owned()),
            Some(before) if *before == after => Ok("byte for byte".to_owned()),
            Some(_) if without_entry(&there)? == without_entry(&after)? => {
                Ok("only the entry; the agent rewrites the file".to_owned())
            }
            Some(before) => Err(format!("the file was {before:?} and is {after:?}").into()),
        }
    }

    fn call(&self, verb: &str) -> TrialResult<()> {
        self.coven.call(&["mcp", verb, self.agent, "--yes"]).map(drop)
    }
}

/// Returns JSON settings without the entry and without an empty object of servers.
fn without_entry(text: &str) -> TrialResult<Value> {
    let mut settings: Value = serde_json::from_str(text)?;
    for place in SERVER_KEYS {
        if let Some(servers) = settings.get_mut(place).and_then(Value::as_object_mut) {
            servers.remove("coven");
            if servers.is_empty() {
                settings.as_object_mut().and_then(|root| root.remove(place));
            }
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_entry_is_removed() {
        let text = r#"{"a": 1, "mcpServers": {"coven": {}, "x": {}}}"#;
        assert_eq!(without_entry(text).expect("JSON"), json!({"a": 1, "mcpServers": {"x": {}}}));
        assert_eq!(without_entry(r#"{"mcpServers": {"coven": {}}}"#).expect("JSON"), json!({}));
    }
}
