//! A session as subscribers see it in an event's payload.

use coven_domain::session::Session;
use coven_domain::{RepoId, SessionId, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

/// The public fields of a session; how it is launched stays inside.
#[derive(Debug, Serialize)]
pub struct SessionRecord<'a> {
    pub id: SessionId,
    pub harness: &'a str,
    pub channel: &'static str,
    pub title: &'a str,
    pub status: &'static str,
    pub exit_code: Option<i32>,
    pub pid: Option<u32>,
    pub project_root: &'a str,
    pub cwd: &'a str,
    pub repo_id: Option<RepoId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub archived_at: Option<Timestamp>,
    pub metadata: &'a Map<String, Value>,
}

impl<'a> From<&'a Session> for SessionRecord<'a> {
    fn from(session: &'a Session) -> Self {
        Self {
            id: session.id,
            harness: &session.harness,
            channel: session.channel.as_str(),
            title: &session.title,
            status: session.state.as_str(),
            exit_code: session.exit_code,
            pid: session.process.as_ref().map(|process| process.pid),
            project_root: &session.project_root,
            cwd: &session.cwd,
            repo_id: session.repo_id,
            created_at: session.created_at,
            updated_at: session.updated_at,
            archived_at: session.archived_at,
            metadata: &session.metadata,
        }
    }
}
