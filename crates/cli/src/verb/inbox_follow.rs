//! `coven inbox --follow`: what comes into the inbox and goes out of it, live.

use std::collections::{BTreeMap, BTreeSet};

use coven_api::event::EventRecord;
use coven_api::inbox::{InboxItem, InboxQuery, InboxStatus};
use coven_api::routes::{Endpoint, ListInbox};
use coven_client::{Address, Client, EventFollower, Followed, SseEvent};
use coven_host::home::Home;
use serde_json::json;

use super::inbox_text::answer_of;
use crate::daemon_client::DaemonClient;
use crate::failure::Failure;
use crate::listing::{self, Paging};
use crate::{format, inbox_alerts, output};

/// Follows until the program is ended; `link` is a first connection.
pub async fn follow(
    home: &Home,
    mut link: DaemonClient,
    session: Option<String>,
    as_json: bool,
    rings: bool,
) -> Result<(), Failure> {
    let mut board = Board { session, as_json, rings: false, shown: BTreeMap::new() };
    let mut follower = EventFollower::new(Address::from(home.socket()?), None);
    loop {
        // The subscription starts before the list is read, so no change falls in between.
        let changed = match follower.next().await? {
            Followed::Connected => None,
            Followed::Events(events) => changed(&events),
            Followed::Disconnected(error) if error.is_transient() => continue,
            Followed::Disconnected(error) => return Err(error.into()),
        };
        match board.update(&mut link, changed).await {
            // The follower notices that the daemon is away, and the list is read again when it is back.
            Err(Failure::Client(error)) if error.is_transient() => follower.resubscribe(),
            updated => updated?,
        }
        // Items that were there at the start are not new.
        board.rings = rings;
    }
}

/// The things that changed; none if some are not known.
fn changed(events: &[SseEvent]) -> Option<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for event in events {
        match event.kind.as_str() {
            "gap" => return None,
            // Claims are renewed all the time and make nobody wait.
            "task.renewed" => {}
            kind if ["permission.", "question_set.", "question.", "task."]
                .iter()
                .any(|noun| kind.starts_with(noun)) =>
            {
                ids.insert(serde_json::from_str::<EventRecord>(&event.data).ok()?.subject);
            }
            _ => {}
        }
    }
    Some(ids)
}

/// What has been printed as waiting.
struct Board {
    session: Option<String>,
    as_json: bool,
    rings: bool,
    shown: BTreeMap<String, InboxItem>,
}

impl Board {
    /// Reads the items that changed, or all.
    async fn update(&mut self, client: &mut Client, changed: Option<BTreeSet<String>>) -> Result<(), Failure> {
        let Some(ids) = changed else { return self.look_at_all(client).await };
        for id in ids {
            let item = inbox_alerts::item(client, &id).await?;
            self.look_at(&id, item)?;
        }
        Ok(())
    }

    async fn look_at_all(&mut self, client: &mut Client) -> Result<(), Failure> {
        let query = InboxQuery { session: self.session.clone(), ..InboxQuery::default() };
        let items = listing::items(client, ListInbox::request().query(&query), Paging::default()).await?;
        let there: BTreeSet<String> = items.iter().map(|item| item.id.clone()).collect();
        let gone: Vec<String> = self.shown.keys().filter(|id| !there.contains(*id)).cloned().collect();
        for id in gone {
            let item = inbox_alerts::item(client, &id).await?;
            self.look_at(&id, item)?;
        }
        for item in items {
            self.look_at(&item.id.clone(), Some(item))?;
        }
        Ok(())
    }

    /// Prints what is new about it: that it waits, or that it does no more.
    fn look_at(&mut self, id: &str, item: Option<InboxItem>) -> Result<(), Failure> {
        let waiting = item.as_ref().filter(|item| item.status == InboxStatus::Pending);
        let is_wanted =
            |item: &&InboxItem| self.session.is_none() || item.session_id.map(|id| id.to_string()) == self.session;
        match (waiting.filter(is_wanted), self.shown.contains_key(id)) {
            (Some(item), false) => {
                self.print("came", item)?;
                if self.rings {
                    inbox_alerts::ring().map_err(Failure::Output)?;
                }
                self.shown.insert(id.to_owned(), item.clone());
            }
            (None, true) => {
                let before = self.shown.remove(id).expect("it is shown");
                // Its folder has gone, or its session with all it had.
                let dismissed = || InboxItem { status: InboxStatus::Dismissed, ..before };
                self.print("went", &item.unwrap_or_else(dismissed))?;
            }
            (Some(_), true) | (None, false) => {}
        }
        Ok(())
    }

    fn print(&self, what: &str, item: &InboxItem) -> Result<(), Failure> {
        if self.as_json {
            return output::json(json!({"event": what, "item": item}).to_string().as_bytes());
        }
        let (short, title) = (format::short_id(&item.id), format::sanitize_line(&item.title));
        let asker = item.harness.as_deref().map_or_else(|| "-".to_owned(), format::sanitize_line);
        match (what, item.status) {
            ("came", _) => output::line(format_args!("+ {short}  {asker}  {title}")),
            (_, status) if status.is_answered() => {
                let answer = format::sanitize_line(&answer_of(item));
                output::line(format_args!("- {short}  {asker}  {title}  answered: {answer}"))
            }
            (_, status) => output::line(format_args!("- {short}  {asker}  {title}  {status}")),
        }
    }
}
