//! Events on the wire: the stored payload of a change and the envelope around it.

use std::io::Write;
use std::ops::Range;

use coven_api::event::{
    AgentPayload, MessagePayload, OperationPayload, OutputPayload, PermissionPayload, QuestionPayload,
    QuestionSetPayload, RepoPayload, SessionPayload, TaskPayload, TaskRescuedPayload, WorkflowPayload,
};
use coven_domain::event::{Event, EventBody};
use coven_domain::request::RequestKind;
use serde::Serialize;

/// Renders the payload of an event, which is stored and sent as it is.
pub fn render(body: EventBody<'_>) -> String {
    match body {
        EventBody::Session(session) => json(&SessionPayload { session: session.into() }),
        EventBody::Output { session, offset } => json(&OutputPayload { session_id: session, offset }),
        EventBody::Message { session, message } => {
            json(&MessagePayload { session_id: session, message: message.into() })
        }
        EventBody::Request(request) => match request.kind() {
            RequestKind::Permission => json(&PermissionPayload { permission: request.into() }),
            RequestKind::Question | RequestKind::Input => json(&QuestionPayload { question: request.into() }),
        },
        EventBody::QuestionSet(set) => json(&QuestionSetPayload { question_set: set.into() }),
        EventBody::Repo(repo) => json(&RepoPayload { repo: repo.into() }),
        EventBody::Task { task, changes, by } => {
            let changes = changes.iter().map(Into::into).collect();
            json(&TaskPayload { task: task.into(), changes, by: by.to_owned() })
        }
        EventBody::TaskRescued { task, reference } => {
            json(&TaskRescuedPayload { task_id: task.id, task: task.into(), reference: reference.to_owned() })
        }
        EventBody::Agent(agent) => json(&AgentPayload { agent: agent.into() }),
        EventBody::Run(workflow) => json(&WorkflowPayload { workflow: workflow.into() }),
        EventBody::Operation(operation) => json(&OperationPayload { operation: operation.into() }),
        EventBody::Swept(part) => json(&part),
        EventBody::Payload(payload) => json(payload),
    }
}

fn json(payload: &impl Serialize) -> String {
    serde_json::to_string(payload).expect("records have text keys only")
}

/// Appends an event as JSON. The stored payload is copied, not parsed.
pub fn append_json(event: &Event, out: &mut Vec<u8>) {
    let text = |text: &str, out: &mut Vec<u8>| serde_json::to_writer(out, text).expect("text to memory");
    let _ = write!(out, "{{\"number\":{},\"kind\":", event.number);
    text(&event.kind, out);
    let _ = write!(out, ",\"at\":\"{}\",\"subject\":", event.at);
    text(&event.subject, out);
    out.extend_from_slice(b",\"payload\":");
    out.extend_from_slice(event.payload.as_bytes());
    out.push(b'}');
}

/// Appends an event as SSE sends it; returns the position of its JSON.
pub fn append_sse(event: &Event, out: &mut Vec<u8>) -> Range<usize> {
    let _ = write!(out, "id: {}\nevent: {}\ndata: ", event.number, event.kind);
    let start = out.len();
    append_json(event, out);
    let json = start..out.len();
    out.extend_from_slice(b"\n\n");
    json
}
