//! The session of the editor extension. It is not imported because it ended with its process.

use crate::legacy::records::{Legacy, SkippedItem, Source};
use serde_json::Value;

use super::WHOLE;
use super::fields::Fields;

pub(super) fn take(value: &Value, source: &Source, _legacy: &mut Legacy, left: &mut Vec<SkippedItem>) {
    let Some(mut fields) = Fields::of(value, WHOLE, source, left) else { return };
    if fields.value(&["status", "sessionId", "session_id", "featureBranch", "feature_branch"]).is_none() {
        return fields.report("unknown format");
    }
    if let Some(id) = fields.text(&["sessionId", "session_id"]) {
        fields.set_name(format!("session {id}"));
    }
    let was = fields.text(&["status"]).map(|status| format!("; its status was {status}")).unwrap_or_default();
    let branch = fields.text(&["featureBranch", "feature_branch"]);
    let base = branch.map(|branch| {
        format!("; its work is on branch {branch}: to base a task on it, run `coven task edit ID --base {branch}`")
    });
    let base = base.unwrap_or_default();
    fields.report(format!("sessions are not imported; this one ended with its process{was}{base}"));
}
