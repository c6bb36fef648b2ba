//! Rules that answer an agent's request for permission before anybody is asked.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to do with a request before anybody is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    Allow,
    #[default]
    Ask,
    Deny,
}

/// Rules for agents' requests for permission.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PermissionsConfig {
    /// Where no other rule holds.
    pub default: Rule,
    /// By harness id.
    pub harnesses: BTreeMap<String, Rule>,
    /// By the repo's name or path.
    pub repos: BTreeMap<String, Rule>,
    /// A session's own processes may answer its questions and permission requests; otherwise such answers are refused.
    pub allow_self_answer: bool,
}

impl PermissionsConfig {
    /// The rule for a request. Where a harness's and a repo's rule both hold, the stricter one does.
    pub fn rule(&self, harness: &str, repo_name: &str, repo_path: &str) -> Rule {
        let repo = self.repos.get(repo_path).or_else(|| self.repos.get(repo_name));
        self.harnesses.get(harness).into_iter().chain(repo).max().copied().unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_of_two_rules_holds() {
        let rules: PermissionsConfig = serde_json::from_value(serde_json::json!({
            "harnesses": { "goose": "allow", "kimi": "ask" },
            "repos": { "secret": "deny", "/play": "allow" }
        }))
        .expect("rules");
        assert_eq!(rules.rule("goose", "x", "/x"), Rule::Allow);
        assert_eq!(rules.rule("goose", "secret", "/s"), Rule::Deny);
        assert_eq!(rules.rule("kimi", "play", "/play"), Rule::Ask);
        assert_eq!(rules.rule("pi", "play", "/play"), Rule::Allow);
        assert_eq!(rules.rule("pi", "x", "/x"), Rule::Ask);
    }
}
