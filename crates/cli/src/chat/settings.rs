//! What an agent lets people choose, and what it tells of its use: read from its state.

use coven_api::acp_state::AcpStateRecord;

/// Something with a value out of several: the mode, the model, …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub id: String,
    pub name: String,
    pub category: String,
    pub current: String,
    pub choices: Vec<Choice>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub id: String,
    pub name: String,
}

impl Choice {
    /// A choice without an id cannot be set.
    fn new(id: &str, name: &str) -> Option<Self> {
        (!id.is_empty()).then(|| Self { id: id.to_owned(), name: name.to_owned() })
    }
}

impl Setting {
    /// The choice that a word names: its id, or its name in any case.
    pub fn choice(&self, word: &str) -> Option<&Choice> {
        let by_name = || self.choices.iter().find(|choice| choice.name.eq_ignore_ascii_case(word));
        self.choices.iter().find(|choice| choice.id == word).or_else(by_name)
    }

    pub fn current_name(&self) -> &str {
        self.choices.iter().find(|choice| choice.id == self.current).map_or(&self.current, |choice| &choice.name)
    }
}

/// The agent's modes, if it has any.
pub fn mode(state: &AcpStateRecord) -> Option<Setting> {
    let modes = state.modes.as_ref()?;
    let choices: Vec<Choice> = modes.available_modes.iter().filter_map(|it| Choice::new(&it.id, &it.name)).collect();
    let current = modes.current_mode_id.clone().unwrap_or_default();
    let (id, name) = ("mode".to_owned(), "mode".to_owned());
    (!choices.is_empty()).then_some(Setting { category: id.clone(), id, name, current, choices })
}

/// Everything else that can be set; modes may be among it again.
pub fn options(state: &AcpStateRecord) -> Vec<Setting> {
    let options = state.config_options.iter().flatten().filter(|option| !option.id.is_empty());
    options
        .map(|option| Setting {
            id: option.id.clone(),
            name: option.name.clone(),
            category: option.category.clone().unwrap_or_default(),
            current: option.current_value.clone().unwrap_or_default(),
            choices: option.values.iter().filter_map(|it| Choice::new(&it.value, &it.name)).collect(),
        })
        .collect()
}

/// The names of the agent's own commands, without the slash, each with what it does.
pub fn commands(state: &AcpStateRecord) -> Vec<(String, String)> {
    let commands = state.commands.iter().flatten().filter(|command| !command.name.is_empty());
    commands.map(|command| (command.name.clone(), command.description.clone())).collect()
}

/// `12.3k of 200k tokens, 0.02 USD`, if the agent tells.
pub fn usage(state: &AcpStateRecord) -> Option<String> {
    let usage = state.usage.as_ref()?;
    let used = usage.used.or(usage.total_tokens).filter(|used| *used > 0)?;
    let of = usage.size.map_or_else(String::new, |size| format!(" of {}", thousands(size)));
    let cost = usage.cost.as_ref().map_or_else(String::new, |cost| format!(", {:.2} {}", cost.amount, cost.currency));
    Some(format!("{}{of} tokens{cost}", thousands(used)))
}

/// What changed between two states, as notes.
pub fn changes(before: &AcpStateRecord, after: &AcpStateRecord) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(old), Some(new)) = (mode(before), mode(after))
        && old.current != new.current
    {
        notes.push(format!("mode: {}", new.current_name()));
    }
    let old = options(before);
    for new in options(after).iter().filter(|setting| setting.category != "mode") {
        if old.iter().any(|old| old.id == new.id && old.current != new.current) {
            let name = if new.name.is_empty() { &new.id } else { &new.name };
            notes.push(format!("{}: {}", name.to_lowercase(), new.current_name()));
        }
    }
    notes
}

fn thousands(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3).replace(".0k", "k"),
        _ => format!("{:.1}M", count as f64 / 1e6).replace(".0M", "M"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_api::acp_state::{AcpModes, AcpOption, AcpUsage};
    use coven_domain::message::Activity;
    use serde_json::{Value, json};

    fn state(mode: &str, model: &str) -> AcpStateRecord {
        let modes = json!({"currentModeId": mode, "availableModes": [{"id": "plan", "name": "Plan"}, {"id": "auto", "name": "Auto"}]});
        let values = json!([{"group": "g", "name": "G", "options": [{"value": "a1", "name": "Fast"}]}, {"value": "b2", "name": "Deep"}]);
        let options =
            json!([{"id": "model", "name": "Model", "category": "model", "currentValue": model, "options": values}]);
        let (modes, config_options) = (AcpModes::read(&modes), AcpOption::read_all(&options));
        AcpStateRecord { modes, config_options, ..empty() }
    }

    fn empty() -> AcpStateRecord {
        AcpStateRecord::new(Activity::Idle)
    }

    #[test]
    fn choices_are_found_by_id_and_by_name_also_in_groups() {
        let state = state("plan", "a1");
        let mode = mode(&state).expect("it has modes");
        assert_eq!((mode.current_name(), mode.choice("AUTO").map(|choice| choice.id.as_str())), ("Plan", Some("auto")));
        let model = &options(&state)[0];
        assert_eq!(
            (model.current_name(), model.choice("b2").map(|choice| choice.name.as_str())),
            ("Fast", Some("Deep"))
        );
        assert_eq!(super::mode(&empty()), None);
    }

    #[test]
    fn changes_are_told_by_name() {
        assert_eq!(changes(&state("plan", "a1"), &state("auto", "b2")), ["mode: Auto", "model: Deep"]);
        assert!(changes(&empty(), &state("auto", "b2")).is_empty(), "the first state is no change");
    }

    #[test]
    fn usage_is_told_in_thousands() {
        let used = |usage| usage_of(usage).expect("it tells");
        assert_eq!(used(json!({"used": 110, "size": 258_400})), "110 of 258.4k tokens");
        let cost = json!({"used": 12_345, "size": 1_000_000, "cost": {"amount": 0.0234, "currency": "USD"}});
        assert_eq!(used(cost), "12.3k of 1M tokens, 0.02 USD");
        assert_eq!(usage_of(json!(null)), None);
        assert_eq!(usage_of(json!({"used": 0, "size": 5})), None);
    }

    fn usage_of(usage: Value) -> Option<String> {
        super::usage(&AcpStateRecord { usage: AcpUsage::read(&usage), ..empty() })
    }
}
