//! Tests of the built binary: one per scenario of `scenarios.tsv`, named after its number, and one per verb of the
//! command line.

mod activity;
mod activity_views;
mod advice;
mod agent;
mod agent_args;
mod app;
mod ask_verbs;
mod board;
mod chat;
mod chat_everywhere;
mod config_agent;
mod default_agent;
mod document;
mod inbox;
mod life;
mod limits;
mod live;
mod mcp;
mod names;
mod pages;
mod records;
mod store;
mod tasks;
mod verbs;
mod wire;
mod work;
