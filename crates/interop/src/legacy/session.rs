//! The session that the editor's extension had open: nothing of it is taken, for it ended with its process.

use crate::legacy::records::{Left, Legacy, Source};
use serde_json::Value;

use super::WHOLE;
use super::fields::Fields;

pub(super) fn take(value: &Value, source: &Source, _legacy: &mut Legacy, left: &mut Vec<Left>) {
    let Some(mut fields) = Fields::of(value, WHOLE, source, left) else { return };
    if fields.value(&["status", "sessionId", "session_id", "featureBranch", "feature_branch"]).is_none() {
        return fields.leave("its shape is unknown");
    }
    if let Some(id) = fields.text(&["sessionId", "session_id"]) {
        fields.call(format!("session {id}"));
    }
    let was = fields.text(&["status"]).map(|status| format!("; it was {status}")).unwrap_or_default();
    let branch = fields.text(&["featureBranch", "feature_branch"]);
    let base = branch.map(|branch| {
        format!("; its work went into the branch {branch}: give it to tasks with `coven task edit ID --base {branch}`")
    });
    fields.leave(format!("a session has ended with the process that had it open{was}{}", base.unwrap_or_default()));
}
