//! Sessions of the fake agent: launching, waiting, reading.

use crate::records::SessionRecord;
use coven_api::List;
use coven_api::entry::{EntriesQuery, EntryRecord};
use coven_api::event::{EventsQuery, EventsResponse};
use coven_api::routes::{
    CreateSession, Endpoint, GetSession, ListEntries, ListEvents, ListSessions, ReadLog, SacrificeSession, WaitSession,
};
use coven_api::screen::ScreenResponse;
use coven_api::session::ListSessionsQuery;
use hyper::Method;
use serde_json::{Value, json};

use crate::{HttpResponse, TestHome, eventually, wait_until};

pub fn path(id: &str, rest: &str) -> String {
    format!("{}{rest}", GetSession::of(id).target())
}

impl TestHome {
    /// Launches the fake agent, under the name `claude`, with a script.
    #[track_caller]
    pub fn launch(&self, script: &str) -> SessionRecord {
        self.launch_with(json!({ "harness": "claude", "prompt": script }))
    }

    /// Launches a session with this request.
    #[track_caller]
    pub fn launch_with(&self, request: Value) -> SessionRecord {
        let answer = self.post(CreateSession::ROUTE.path, &request);
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Launches the fake agent and waits until it exits.
    #[track_caller]
    pub fn run_to_end(&self, script: &str) -> SessionRecord {
        let id = self.launch(script).id;
        self.wait_for_end(&id)
    }

    #[track_caller]
    pub fn session(&self, id: &str) -> SessionRecord {
        self.read(GetSession::of(id).target())
    }

    #[track_caller]
    pub fn sessions(&self) -> Vec<SessionRecord> {
        let mut all = Vec::new();
        let mut query = ListSessionsQuery { all: Some(true), limit: Some(1000), ..ListSessionsQuery::default() };
        loop {
            let page: List<SessionRecord> = self.read(ListSessions::request().query(&query).target());
            all.extend(page.items);
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return all,
            }
        }
    }

    /// Waits until the session has ended.
    #[track_caller]
    pub fn wait_for_end(&self, id: &str) -> SessionRecord {
        self.read(WaitSession::of(id).target())
    }

    #[track_caller]
    pub fn wait_for_status(&self, id: &str, status: &str) -> SessionRecord {
        eventually(&format!("{id} is {status}"), || Some(self.session(id)).filter(|it| it.status == status))
    }

    #[track_caller]
    pub fn act(&self, id: &str, verb: &str) -> HttpResponse {
        self.post(&path(id, &format!("/{verb}")), &json!({}))
    }

    #[track_caller]
    pub fn type_in(&self, id: &str, text: &str) {
        let answer = self.post(&path(id, "/input"), &json!({ "data": text }));
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// Kills a session and waits until it has ended.
    #[track_caller]
    pub fn kill(&self, id: &str) -> SessionRecord {
        assert_eq!(self.act(id, "kill").status, 202);
        self.wait_for_end(id)
    }

    #[track_caller]
    pub fn sacrifice(&self, id: &str) -> HttpResponse {
        self.request(Method::DELETE, SacrificeSession::of(id).target(), None)
    }

    /// Returns the session's log from the daemon.
    #[track_caller]
    pub fn log(&self, id: &str) -> Vec<u8> {
        let answer = self.get(ReadLog::of(id).target());
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.body
    }

    #[track_caller]
    pub fn log_text(&self, id: &str) -> String {
        String::from_utf8_lossy(&self.log(id)).into_owned()
    }

    /// Waits until the log contains `text` and returns the log.
    #[track_caller]
    pub fn wait_for_output(&self, id: &str, text: &str) -> String {
        eventually(&format!("{text:?} in the log of {id}"), || Some(self.log_text(id)).filter(|log| log.contains(text)))
    }

    /// Waits until the daemon's screen contains everything in the log: the screen may lag behind.
    #[track_caller]
    pub fn wait_for_screen(&self, id: &str) {
        wait_until(&format!("the screen of {id} contains the log"), || {
            let screen: ScreenResponse = self.read(&path(id, "/screen"));
            screen.offset == self.log(id).len() as u64
        });
    }

    /// Returns all entries of the ledger.
    #[track_caller]
    pub fn entries(&self, id: &str) -> Vec<EntryRecord> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let query = EntriesQuery { after: Some(after), limit: Some(1000), cursor: None };
            let page = self.call(ListEntries::of(id).query(&query));
            if page.entries.is_empty() {
                return all;
            }
            after = page.next;
            all.extend(page.entries);
        }
    }

    /// Returns the kinds of the entries; adjacent output entries count as one.
    #[track_caller]
    pub fn entry_kinds(&self, id: &str) -> Vec<String> {
        let mut kinds: Vec<String> = self.entries(id).into_iter().map(|entry| entry.kind.to_string()).collect();
        kinds.dedup_by(|next, before| next == "output" && before == "output");
        kinds
    }

    /// Returns the events after a number or time.
    #[track_caller]
    pub fn events_since(&self, since: &str) -> EventsResponse {
        let query = EventsQuery { since: Some(since.to_owned()), ..EventsQuery::default() };
        self.call(ListEvents::request().query(&query))
    }
}
