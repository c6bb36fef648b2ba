//! What an agent lets the user choose: its modes and its options, such as the model.

use coven_api::acp_state::AcpStateRecord;
use coven_domain::SessionId;

use crate::feed::Call;

/// One value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub setting: String,
    pub value: String,
    pub is_current: bool,
    /// The option; `None` for a mode.
    option: Option<String>,
    id: String,
}

impl Choice {
    pub fn call(&self, session: SessionId) -> Call {
        match &self.option {
            None => Call::Mode { session, mode: self.id.clone() },
            Some(option) => Call::Option { session, option: option.clone(), value: self.id.clone() },
        }
    }
}

/// Returns all values of all settings. An option for the mode repeats the modes, so it is left out if there are any.
pub fn choices(state: &AcpStateRecord) -> Vec<Choice> {
    let mut choices = Vec::new();
    let name_or_id = |name: &str, id: &str| if name.is_empty() { id.to_owned() } else { name.to_owned() };
    if let Some(modes) = &state.modes {
        choices.extend(modes.available_modes.iter().filter(|mode| !mode.id.is_empty()).map(|mode| Choice {
            setting: "mode".to_owned(),
            value: name_or_id(&mode.name, &mode.id),
            is_current: modes.current_mode_id.as_ref() == Some(&mode.id),
            option: None,
            id: mode.id.clone(),
        }));
    }
    let has_modes = !choices.is_empty();
    for option in state.config_options.iter().flatten() {
        if option.id.is_empty() || (has_modes && option.category.as_deref() == Some("mode")) {
            continue;
        }
        choices.extend(option.values.iter().filter(|it| !it.value.is_empty()).map(|it| Choice {
            setting: name_or_id(&option.name, &option.id).to_lowercase(),
            value: name_or_id(&it.name, &it.value),
            is_current: option.current_value.as_ref() == Some(&it.value),
            option: Some(option.id.clone()),
            id: it.value.clone(),
        }));
    }
    choices
}
