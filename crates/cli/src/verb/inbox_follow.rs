//! `coven inbox --follow`: prints items as they appear in the inbox and are closed.

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

/// Follows the inbox until the program is stopped, starting with the open connection `link`.
pub async fn follow(
    home: &Home,
    mut link: DaemonClient,
    session: Option<String>,
    as_json: bool,
    rings: bool,
) -> Result<(), Failure> {
    let mut shown = ShownItems { session, as_json, rings: false, shown: BTreeMap::new() };
    let mut follower = EventFollower::new(Address::from(home.socket()?), None);
    loop {
        // The subscription starts before the list is read, so no change falls in between.
        let changed = match follower.next().await? {
            Followed::Connected => None,
            Followed::Events(events) => changed(&events),
            Followed::Disconnected(error) if error.is_transient() => continue,
            Followed::Disconnected(error) => return Err(error.into()),
        };
        match shown.update(&mut link, changed).await {
            // The follower reconnects when the daemon is back; then the whole list is read again.
            Err(Failure::Client(error)) if error.is_transient() => follower.resubscribe(),
            updated => updated?,
        }
        // No bell for items that were already there at the start.
        shown.rings = rings;
    }
}

/// Returns the ids of the changed items, or `None` if events are missing and all items must be read.
fn changed(events: &[SseEvent]) -> Option<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for event in events {
        match event.kind.as_str() {
            "gap" => return None,
            // Lease renewals are frequent and never change the inbox.
            "task.lease_renewed" => {}
            kind if ["permission.", "question_set.", "agent_question.", "terminal_prompt.", "task."]
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

/// The items that were printed as pending.
struct ShownItems {
    session: Option<String>,
    as_json: bool,
    rings: bool,
    shown: BTreeMap<String, InboxItem>,
}

impl ShownItems {
    /// Reads the changed items, or all items if `changed` is `None`.
    async fn update(&mut self, client: &mut Client, changed: Option<BTreeSet<String>>) -> Result<(), Failure> {
        let Some(ids) = changed else { return self.update_all(client).await };
        for id in ids {
            let item = inbox_alerts::item(client, &id).await?;
            self.update_item(&id, item)?;
        }
        Ok(())
    }

    async fn update_all(&mut self, client: &mut Client) -> Result<(), Failure> {
        let query = InboxQuery { session: self.session.clone(), ..InboxQuery::default() };
        let items = listing::items(client, ListInbox::request().query(&query), Paging::default()).await?;
        let there: BTreeSet<String> = items.iter().map(|item| item.id.clone()).collect();
        let gone: Vec<String> = self.shown.keys().filter(|id| !there.contains(*id)).cloned().collect();
        for id in gone {
            let item = inbox_alerts::item(client, &id).await?;
            self.update_item(&id, item)?;
        }
        for item in items {
            self.update_item(&item.id.clone(), Some(item))?;
        }
        Ok(())
    }

    /// Prints an item that became pending or stopped being pending.
    fn update_item(&mut self, id: &str, item: Option<InboxItem>) -> Result<(), Failure> {
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
                // The item was deleted, with its folder or its session.
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
