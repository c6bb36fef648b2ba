//! Entities, lifecycles and policies of coven: pure, no I/O, no clock, no randomness.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod activity;
pub mod agent;
pub mod conversation;
pub mod entry;
pub mod event;
pub mod ids;
pub mod launch_queue;
pub mod lifecycle;
pub mod message;
pub mod operation;
pub mod query;
pub mod question;
pub mod question_set;
pub mod recovery;
pub mod repo;
pub mod request;
pub mod retention;
pub mod session;
pub mod task;
pub mod text;
pub mod time;
pub mod workflow;

pub use ids::{
    AgentId, MessageId, OperationId, QuestionId, QuestionSetId, RepoId, RequestId, SessionId, TaskId, WorkflowId,
};
pub use lifecycle::{Lifecycle, Refused};
pub use time::Timestamp;
