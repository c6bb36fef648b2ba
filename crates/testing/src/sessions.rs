//! Sessions of the fake agent, and ways to look at them.

use coven_api::SessionRecord;
use coven_api::event::EventsResponse;
use coven_api::session::{EntriesResponse, EntryRecord, SessionListResponse};
use hyper::Method;
use serde_json::{Value, json};

use crate::{Answer, TestHome, eventually};

pub fn path(id: &str, rest: &str) -> String {
    format!("/api/v1/sessions/{id}{rest}")
}

impl TestHome {
    /// Launches the fake agent, under the name `claude`, with a script.
    #[track_caller]
    pub fn launch(&self, script: &str) -> SessionRecord {
        self.launch_with(json!({ "harness": "claude", "prompt": script }))
    }

    /// Launches what the request says.
    #[track_caller]
    pub fn launch_with(&self, request: Value) -> SessionRecord {
        let answer = self.post("/api/v1/sessions", &request);
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Launches the fake agent and waits for its end.
    #[track_caller]
    pub fn run_to_end(&self, script: &str) -> SessionRecord {
        let id = self.launch(script).id;
        self.wait_for_end(&id)
    }

    #[track_caller]
    pub fn session(&self, id: &str) -> SessionRecord {
        self.read(&path(id, ""))
    }

    #[track_caller]
    pub fn sessions(&self) -> Vec<SessionRecord> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page: SessionListResponse = self.read(&format!("/api/v1/sessions?all=true&limit=1000{cursor}"));
            all.extend(page.sessions);
            match page.next {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    /// Waits until nothing of the session runs any more.
    #[track_caller]
    pub fn wait_for_end(&self, id: &str) -> SessionRecord {
        self.read(&path(id, "/wait"))
    }

    #[track_caller]
    pub fn wait_for_status(&self, id: &str, status: &str) -> SessionRecord {
        eventually(&format!("{id} is {status}"), || Some(self.session(id)).filter(|it| it.status == status))
    }

    #[track_caller]
    pub fn act(&self, id: &str, verb: &str) -> Answer {
        self.post(&path(id, &format!("/{verb}")), &json!({}))
    }

    #[track_caller]
    pub fn type_in(&self, id: &str, text: &str) {
        let answer = self.post(&path(id, "/input"), &json!({ "data": text }));
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// Kills a session and waits until it is gone.
    #[track_caller]
    pub fn kill(&self, id: &str) -> SessionRecord {
        assert_eq!(self.act(id, "kill").status, 202);
        self.wait_for_end(id)
    }

    #[track_caller]
    pub fn sacrifice(&self, id: &str) -> Answer {
        self.request(Method::DELETE, &path(id, ""), None)
    }

    /// The session's bytes, as the daemon serves them.
    #[track_caller]
    pub fn log(&self, id: &str) -> Vec<u8> {
        let answer = self.get(&path(id, "/log"));
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.body
    }

    #[track_caller]
    pub fn log_text(&self, id: &str) -> String {
        String::from_utf8_lossy(&self.log(id)).into_owned()
    }

    /// Waits until the session wrote `text`; gives everything it wrote.
    #[track_caller]
    pub fn wait_for_output(&self, id: &str, text: &str) -> String {
        eventually(&format!("{text:?} in the log of {id}"), || Some(self.log_text(id)).filter(|log| log.contains(text)))
    }

    /// The whole ledger.
    #[track_caller]
    pub fn entries(&self, id: &str) -> Vec<EntryRecord> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let page: EntriesResponse = self.read(&path(id, &format!("/entries?after={after}&limit=1000")));
            if page.entries.is_empty() {
                return all;
            }
            after = page.next;
            all.extend(page.entries);
        }
    }

    /// The kinds of the ledger's entries, with runs of output as one.
    #[track_caller]
    pub fn entry_kinds(&self, id: &str) -> Vec<String> {
        let mut kinds: Vec<String> = self.entries(id).into_iter().map(|entry| entry.kind).collect();
        kinds.dedup_by(|next, before| next == "output" && before == "output");
        kinds
    }

    /// Events after a number, as JSON gives them.
    #[track_caller]
    pub fn events_since(&self, since: &str) -> EventsResponse {
        let answer = crate::http::runtime().block_on(async {
            let mut client = coven_client::Client::connect(&self.socket()).await.expect("the daemon answers");
            let headers = [("accept", "application/json")];
            let path = format!("/events?since={since}");
            let response = client.send(Method::GET, &path, &headers, None).await.expect("an answer");
            let (parts, body) = response.into_parts();
            let body = http_body_util::BodyExt::collect(body).await.expect("a whole answer").to_bytes().to_vec();
            Answer { status: parts.status.as_u16(), headers: parts.headers, body }
        });
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }
}
