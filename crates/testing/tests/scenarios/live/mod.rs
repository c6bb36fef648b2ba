//! `/api/v1/live` with a real WebSocket client against the real daemon.

mod bytes;
mod client;
mod events;
mod input;
mod refusals;
mod restart;
mod rows;
mod unread;
mod viewers;
