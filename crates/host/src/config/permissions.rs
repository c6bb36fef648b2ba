//! Rules that answer an agent's permission requests without asking the user.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer to a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    Allow,
    #[default]
    Ask,
    Deny,
}

/// Rules for agents' permission requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PermissionsConfig {
    /// Rule for requests that no other rule matches.
    pub default: Rule,
    /// Rules by harness id.
    pub harnesses: BTreeMap<String, Rule>,
    /// Rules by the name or path of the repository.
    pub repos: BTreeMap<String, Rule>,
    /// Allow processes of a session to answer the session's own questions and permission requests.
    pub allow_self_answer: bool,
}

impl PermissionsConfig {
    /// Returns the rule for a request. If a harness rule and a repository rule both match, the stricter one wins.
    pub fn rule(&self, harness: &str, repo_name: &str, repo_path: &str) -> Rule {
        let repo = self.repos.get(repo_path).or_else(|| self.repos.get(repo_name));
        self.harnesses.get(harness).into_iter().chain(repo).max().copied().unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_of_two_rules_wins() {
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
