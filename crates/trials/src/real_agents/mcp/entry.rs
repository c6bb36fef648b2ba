//! The entry in an agent's settings, put in and taken out by `coven mcp install` and `uninstall`.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::super::Outcome;
use super::super::coven::Coven;

/// Where agents with settings in JSON keep their servers.
const PLACES: [&str; 2] = ["mcpServers", "mcp"];

pub struct Entry<'a> {
    pub coven: &'a Coven,
    pub agent: &'static str,
    /// The file that gets it.
    pub path: PathBuf,
    /// As it was before anything was put in.
    pub before: Option<String>,
}

impl<'a> Entry<'a> {
    pub fn new(coven: &'a Coven, agent: &'static str, path: PathBuf) -> Self {
        let before = fs::read_to_string(&path).ok();
        Self { coven, agent, path, before }
    }

    /// Puts it in, takes it out, by which the file must be as it was, and puts it in again.
    pub fn install(&self) -> Outcome<String> {
        self.call("install")?;
        let text = fs::read_to_string(&self.path)?;
        let program = self.coven.program.to_string_lossy().into_owned();
        if !text.contains(&program) {
            return Err(format!("no {program} in {}", self.path.display()).into());
        }
        self.call("uninstall")?;
        let after = fs::read_to_string(&self.path)?;
        if self.before.as_ref().is_some_and(|before| *before != after) {
            return Err(format!("taken out again it leaves {after:?}").into());
        }
        self.call("install")?;
        match fs::read_to_string(&self.path)? == text {
            true => Ok(if self.before.is_some() { "yes" } else { "new file" }.to_owned()),
            false => Err("the second time it writes something else".into()),
        }
    }

    /// Takes it out of what the agent may have made of the file meanwhile.
    pub fn uninstall(&self) -> Outcome<String> {
        let there = fs::read_to_string(&self.path)?;
        self.call("uninstall")?;
        let after = fs::read_to_string(&self.path)?;
        if after.contains(self.coven.program.to_string_lossy().as_ref()) {
            return Err(format!("something is left: {after}").into());
        }
        match &self.before {
            None => Ok("gone".to_owned()),
            Some(before) if *before == after => Ok("byte for byte".to_owned()),
            Some(_) if without_entry(&there)? == without_entry(&after)? => {
                Ok("gone, nothing else; the agent writes the file itself".to_owned())
            }
            Some(before) => Err(format!("it was {before:?} and is {after:?}").into()),
        }
    }

    fn call(&self, verb: &str) -> Outcome<()> {
        self.coven.call(&["mcp", verb, self.agent, "--yes"]).map(drop)
    }
}

/// What settings in JSON say besides the entry. An object that holds no server says nothing.
fn without_entry(text: &str) -> Outcome<Value> {
    let mut settings: Value = serde_json::from_str(text)?;
    for place in PLACES {
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
    fn only_the_entry_is_overlooked() {
        let text = r#"{"a": 1, "mcpServers": {"coven": {}, "x": {}}}"#;
        assert_eq!(without_entry(text).expect("JSON"), json!({"a": 1, "mcpServers": {"x": {}}}));
        assert_eq!(without_entry(r#"{"mcpServers": {"coven": {}}}"#).expect("JSON"), json!({}));
    }
}
