//! Unknown keys in a workflow file.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_saphyr::Spanned;

use crate::check::Problem;

const FILE: [&str; 4] = ["name", "description", "timeout", "steps"];
const STEP: [&str; 19] = [
    "name",
    "type",
    "when",
    "timeout",
    "on_fail",
    "on_success",
    "harness",
    "channel",
    "ends_on",
    "args",
    "prompt",
    "spell",
    "command",
    "steps",
    "max_iterations",
    "on_max_iterations",
    "until",
    "require_review",
    "checks",
];
/// Minimum similarity for a suggestion; 1 means equal.
const MIN_SIMILARITY: f64 = 0.8;

pub(super) fn unknown(text: &str) -> Result<Vec<Problem>, serde_saphyr::Error> {
    let mut problems = Vec::new();
    serde_saphyr::from_str::<Keys>(text)?.check(&FILE, &mut problems);
    Ok(problems)
}

/// The keys of a file or a step, with their lines. Values are ignored, except nested steps.
struct Keys {
    own: Vec<Spanned<String>>,
    steps: Vec<Keys>,
}

impl Keys {
    fn check(&self, known: &[&str], problems: &mut Vec<Problem>) {
        for key in self.own.iter().filter(|key| !known.contains(&key.value.as_str())) {
            let similarity = |word: &&&str| strsim::jaro_winkler(&key.value, word);
            let nearest = known
                .iter()
                .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
                .filter(|word| similarity(word) >= MIN_SIMILARITY);
            let hint = match nearest {
                Some(word) => format!("did you mean {word}?"),
                None => format!("known: {}", known.join(", ")),
            };
            problems.push(Problem { line: key.referenced.line(), text: format!("unknown key {}; {hint}", key.value) });
        }
        self.steps.iter().for_each(|step| step.check(&STEP, problems));
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap;
        impl<'de> Visitor<'de> for OfMap {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Keys { own: Vec::new(), steps: Vec::new() };
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    match key.value.as_str() {
                        "steps" => keys.steps = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                    keys.own.push(key);
                }
                Ok(keys)
            }
        }
        deserializer.deserialize_map(OfMap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unknown_key_is_reported_with_a_suggestion() {
        let text = "
steps:
  - name: a
    type: script
    comand: x
  - name: b
    typ: loop
    steps:
      - { name: c, type: script, command: x, on_sucess: exit_loop }
colour: red
";
        let problems: Vec<String> = unknown(text).expect("valid YAML").iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "line 10: unknown key colour; known: name, description, timeout, steps",
                "line 5: unknown key comand; did you mean command?",
                "line 7: unknown key typ; did you mean type?",
                "line 9: unknown key on_sucess; did you mean on_success?",
            ]
        );
        assert!(unknown("- a\n").is_err());
    }
}
