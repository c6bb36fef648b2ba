//! Requests to the routes of the table: path and query filled in, the body as JSON.

use std::fmt::Write;
use std::marker::PhantomData;

use serde::Serialize;

use crate::list::PageQuery;
use crate::routes::Endpoint;

/// A request to the route `E`. `E::of(id)` or `E::request()` makes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<E> {
    target: String,
    body: Option<Vec<u8>>,
    route: PhantomData<fn() -> E>,
}

impl<E> Clone for Request<E> {
    fn clone(&self) -> Self {
        Self { target: self.target.clone(), body: self.body.clone(), route: PhantomData }
    }
}

impl<E: Endpoint> Request<E> {
    pub(crate) fn with_path(path: String) -> Self {
        Self { target: path, body: None, route: PhantomData }
    }

    /// Appends the parameters that have a value.
    pub fn query(mut self, query: &E::Query) -> Self {
        append(&mut self.target, query);
        self
    }

    /// Makes the request for one page of the list that this request asks for.
    pub fn page(&self, page: &PageQuery) -> Self {
        let mut target = self.target.clone();
        append(&mut target, page);
        Self { target, body: self.body.clone(), route: PhantomData }
    }

    pub fn body(mut self, body: &E::Request) -> Self {
        self.body = Some(serde_json::to_vec(body).expect("request bodies are plain data"));
        self
    }

    /// Path and query, as they appear in the request line.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The body as JSON, if the request has one.
    pub fn json(&self) -> Option<&[u8]> {
        self.body.as_deref()
    }

    /// Takes the target and the body out of the request.
    pub fn into_parts(self) -> (String, Option<Vec<u8>>) {
        (self.target, self.body)
    }
}

fn append(target: &mut String, query: &impl Serialize) {
    let query = serde_urlencoded::to_string(query).expect("queries are flat structs of plain values");
    if !query.is_empty() {
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&query);
    }
}

/// Puts an id into a path, so that no character of it can change the path.
pub(crate) fn fill(path: &str, id: &str) -> String {
    path.replacen("{id}", &escaped(id), 1)
}

pub(crate) const fn takes_id(path: &str) -> bool {
    let (path, mut at) = (path.as_bytes(), 0);
    while at < path.len() {
        if path[at] == b'{' {
            return true;
        }
        at += 1;
    }
    false
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("a string accepts every write"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{GetSession, KillSession, ListSessions, ListTasks};
    use crate::session::ListSessionsQuery;
    use crate::task::ListTasksQuery;

    #[test]
    fn an_id_cannot_leave_its_place_in_the_path() {
        assert_eq!(KillSession::of("ab12").target(), "/api/v1/sessions/ab12/kill");
        assert_eq!(GetSession::of("a/../b?x#é").target(), "/api/v1/sessions/a%2F..%2Fb%3Fx%23%C3%A9");
        assert_eq!(GetSession::of("{id}").target(), "/api/v1/sessions/%7Bid%7D");
    }

    #[test]
    fn a_query_has_the_given_values_under_their_names_on_the_wire() {
        assert_eq!(ListSessions::request().query(&ListSessionsQuery::default()).target(), "/api/v1/sessions");
        let query =
            ListSessionsQuery { status: Some("running,failed".into()), limit: Some(5), ..ListSessionsQuery::default() };
        assert_eq!(ListSessions::request().query(&query).target(), "/api/v1/sessions?status=running%2Cfailed&limit=5");
        let query = ListTasksQuery { kind: Some("a b&c".into()), ..ListTasksQuery::default() };
        assert_eq!(ListTasks::request().query(&query).target(), "/api/v1/tasks?type=a+b%26c");
        let page = PageQuery { limit: Some(2), cursor: None };
        assert_eq!(ListTasks::request().page(&page).target(), "/api/v1/tasks?limit=2");
        assert_eq!(ListTasks::request().query(&query).page(&page).target(), "/api/v1/tasks?type=a+b%26c&limit=2");
    }
}
