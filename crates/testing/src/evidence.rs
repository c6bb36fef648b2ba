//! The activity of sessions whose harness has rules and hooks, with the evidence for it.

use coven_api::activity::{ActivityResponse, ObservationRecord};
use coven_api::entry::EntryDetail;
use coven_domain::activity::Activity;
use serde_json::{Value, json};

use crate::records::SessionRecord;
use crate::{TestHome, eventually, sessions};

/// Returns a config with the fake agent as the harness `fake`, with hooks and these rules.
pub fn with_rules(rules: &Value) -> Value {
    json!({ "harnesses": { "fake": {
        "program": "fake", "prompt": "afterDashes", "identity": "fake", "hooks": true, "rules": rules,
    } } })
}

impl TestHome {
    /// Creates a home with a running daemon and the harness of [`with_rules`].
    pub fn started_with_rules(rules: &Value) -> Self {
        let home = Self::new();
        home.install("fake");
        home.configure(with_rules(rules));
        home.start();
        home
    }

    /// Launches the fake agent with hooks and rules.
    #[track_caller]
    pub fn launch_fake(&self, script: &str) -> SessionRecord {
        self.launch_with(json!({ "harness": "fake", "prompt": script }))
    }

    /// Returns the activity of a session with its observations.
    #[track_caller]
    pub fn evidence(&self, id: &str) -> ActivityResponse {
        self.read(&sessions::path(id, "/activity"))
    }

    /// Waits until the session has this activity.
    #[track_caller]
    pub fn wait_for_evidence(&self, id: &str, activity: Activity) -> ActivityResponse {
        eventually(&format!("{id} is {activity}"), || {
            Some(self.evidence(id)).filter(|it| it.activity == Some(activity))
        })
    }

    /// Waits until the ledger has one note of this kind about a request, and returns it.
    #[track_caller]
    pub fn wait_for_note(&self, id: &str, note: &str, request: &str) -> EntryDetail {
        let request = request.parse().expect("the id of a request");
        let is_wanted = |it: &EntryDetail| it.note.as_deref() == Some(note) && it.request == Some(request);
        let found = eventually(&format!("{id}: {note}"), || {
            let notes = self.entries(id).into_iter().map(|it| it.detail).filter(is_wanted);
            Some(notes.collect::<Vec<_>>()).filter(|notes| !notes.is_empty())
        });
        let [only] = found.as_slice() else { panic!("{note} more than once: {found:?}") };
        only.clone()
    }

    /// Waits until an observation of the session matches.
    #[track_caller]
    pub fn wait_for_observation(
        &self,
        id: &str,
        what: &str,
        is_wanted: impl Fn(&ObservationRecord) -> bool,
    ) -> ObservationRecord {
        eventually(&format!("{id}: {what}"), || self.evidence(id).observations.into_iter().find(&is_wanted))
    }
}
